"""What `POST /apply` answers."""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field, WithJsonSchema

from jobauto_prefect.definitions.kinds import FILE_KINDS
from jobauto_prefect.facade.answers import ErrorSummary, Fault
from jobauto_prefect.facade.openapi.service_models import Difference

Kind = Annotated[str, WithJsonSchema({"type": "string", "enum": [*FILE_KINDS]})]


class Changed(BaseModel):
    """A field that changes."""

    before: Any = Field(description="What the record says; null: nothing.")
    after: Any = Field(description="What the file says; null: nothing.")


class PlannedChange(BaseModel):
    """What becomes of one record."""

    kind: Kind = Field(description="The kind of the record; app is an application.")
    title: str = Field(description="How people call it.")
    action: Literal["create", "update", "restore", "delete", "unchanged"] = Field(
        description="`restore`: the record stays, and Prefect is told anew what it says."
    )
    id: int | None = Field(description="Its id; null: it is new.")
    fields: dict[str, Changed] = Field(description="Of updates: what changes, by field.")
    drift: dict[str, Difference] = Field(description="Where Prefect has something else, by field.")
    file: str | None = Field(description="The file that says so; null: no file names it.")


class PlannedWarning(Fault):
    """What is allowed and surely wrong."""

    kind: Kind = Field(description="The kind of the record.")
    title: str = Field(description="How people call it.")


class Counts(BaseModel):
    """How many records there are of each action."""

    create: int = Field(description="Created.")
    update: int = Field(description="Updated.")
    restore: int = Field(description="Restored in Prefect.")
    delete: int = Field(description="Deleted.")
    unchanged: int = Field(description="Unchanged.")


class ApplyPlan(BaseModel):
    """What applying files would change, or has changed."""

    digest: str = Field(description="Of the plan and of the records it is about; carries it out.")
    applied: bool = Field(description="Whether it has been carried out.")
    changes: list[PlannedChange] = Field(description="In the order of making them.")
    counts: Counts = Field(description="How many of each action.")
    warnings: list[PlannedWarning] = Field(description="What is allowed and surely wrong.")
    forbidden: list[Fault] = Field(
        description="What of it who asks may not do; then it is not carried out."
    )
    prefect_compared: bool = Field(description="Whether it was compared with Prefect.")
    prefect_away: str | None = Field(description="Why it was not; null: it was.")


class StalePlan(ErrorSummary):
    """The records are not those of the digest; nothing was changed."""

    details: ApplyPlan = Field(description="The plan as it is now.")


SHAPES: tuple[type[BaseModel], ...] = (ApplyPlan, StalePlan)
