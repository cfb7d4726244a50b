"""The records of applications, as responses show them."""

from collections.abc import Collection
from datetime import datetime
from typing import Any

from pydantic import BaseModel, Field

from jobauto_prefect.definitions import schema
from jobauto_prefect.facade.models.common import Labelled


class OfferedSelector(BaseModel):
    """A selector; `type` is that of a field, the format of a whole value, or `file`."""

    selector: str = Field(description="As `env_mapping` takes it.")
    type: str = Field(description="The type of the value.")
    description: str = Field(description="What it is for.")


class Application(Labelled):
    """An application: the fields of its definition, and ours."""

    company_id: int | None = Field(
        description="The company it belongs to, and whose run templates alone use it; null: it is "
        "shared."
    )
    enabled: bool = Field(description="Whether it may be used.")
    topics: list[str] = Field(
        default_factory=list,
        description="The names of the topics attached to it; left out where it bears none. "
        "Written: names or ids; a name means the company's own topic first, then the shared one.",
    )
    prefect_url: str | None = Field(
        description="Its page in Prefect's UI; null: Prefect does not know of it yet."
    )
    rule_selectors: list[OfferedSelector] = Field(
        default_factory=list,
        description="What event rules can name of the ends of its jobs; only in the record itself.",
    )

    @classmethod
    def field_names(cls) -> Collection[str]:
        """Return also the fields of definitions."""
        return {*schema()["properties"], *cls.model_fields}

    @classmethod
    def field_titles(cls) -> dict[str, str]:
        """Return also the titles that the schema of definitions has, of what they hold, too."""
        parts = [schema(), *schema()["definitions"].values()]
        of_definition = {
            name: declared["title"]
            for part in parts
            for name, declared in part.get("properties", {}).items()
            if "title" in declared
        }
        return of_definition | super().field_titles()


class ApplicationVersion(BaseModel):
    """A definition that a later one replaced."""

    number: int = Field(description="Counts the definitions of one application, from 1.")
    version: str | None = Field(description="Its version.")
    replaced_at: datetime = Field(description="When the next one came.")
    replaced_by: str = Field(description="Who brought the next one.")
    definition: dict[str, Any] = Field(description="The definition as it was.")
