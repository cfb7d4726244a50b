"""What the models of several records share."""

from collections.abc import Collection
from datetime import datetime

from pydantic import BaseModel, Field


class Record(BaseModel):
    """What has an address of its own, and a list.

    The `title` of a field is what pages call it, where that is not its name in words.
    """

    id: int = Field(description="The number of the record.")
    created_at: datetime = Field(title="Created", description="When it was made.")

    @classmethod
    def field_names(cls) -> Collection[str]:
        """Return the names of all fields that answers have."""
        return cls.model_fields

    @classmethod
    def field_titles(cls) -> dict[str, str]:
        """Return the titles of the fields that have one."""
        return {name: field.title for name, field in cls.model_fields.items() if field.title}


class Timed(Record):
    """What changes over time."""

    updated_at: datetime = Field(title="Changed", description="When it was last changed.")


class Labelled(Timed):
    """What files can own."""

    labels: list[str] = Field(
        description="The sets of files that own the record; see `jobauto apply --prune`."
    )


class ErrorSummary(BaseModel):
    """What every error says, whatever its details."""

    error: str = Field(description="The name of the status.")
    message: str = Field(description="One line for people.")
    request_id: str = Field(
        description="The request, as the service's log and the audit log name it."
    )


class Fault(BaseModel):
    """One thing wrong: with a request, or with what a job produced."""

    pointer: str = Field(description="JSON pointer to the error; empty: the request as a whole.")
    rule: str = Field(description="Short name of the rule that is broken.")
    message: str = Field(description="One line for people.")
    line: int | None = Field(default=None, description="Line in the body, from 1.")
    column: int | None = Field(default=None, description="Column in the body, from 1.")
