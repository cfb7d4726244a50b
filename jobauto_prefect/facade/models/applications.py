"""The records of applications, as responses show them."""

from datetime import datetime
from typing import Any

from pydantic import BaseModel, Field

from jobauto_prefect.facade.models.common import RecordKind


class ApplicationVersion(BaseModel):
    """A definition that a later one replaced."""

    number: int = Field(description="Counts the definitions of one application, from 1.")
    version: str | None = Field(description="Its version.")
    replaced_at: datetime = Field(description="When the next one came.")
    replaced_by: str = Field(description="Who brought the next one.")
    definition: dict[str, Any] = Field(description="The definition as it was.")


APPLICATION_KIND = RecordKind(
    item="app",
    collection="apps",
    one="Application",
    many="Applications",
    columns=(
        "id",
        "name",
        "version",
        "description",
        "category",
        "enabled",
        "company_id",
        "updated_at",
    ),
)
"""Of applications, whose fields are those of their definition and some of the service."""
