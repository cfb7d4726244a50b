"""What `POST /apply` answers."""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field, WithJsonSchema

from jobauto_prefect.facade.apply.kinds import KINDS
from jobauto_prefect.facade.openapi.shapes import Fault

Kind = Annotated[str, WithJsonSchema({"type": "string", "enum": [*KINDS]})]


def _said(text: str) -> Any:
    return Field(description=text)


class Changed(BaseModel):
    """A member that changes."""

    before: Annotated[Any, _said("What the record says; null: nothing.")]
    after: Annotated[Any, _said("What the file says; null: nothing.")]


class Differing(BaseModel):
    """A member of Prefect's that is restored."""

    prefect: Annotated[Any, _said("What Prefect has; null: nothing.")]
    record: Annotated[Any, _said("What it should have, as the records say.")]


class PlannedChange(BaseModel):
    """What becomes of one record."""

    kind: Annotated[Kind, _said("The kind of the record; app is an application.")]
    title: Annotated[str, _said("How people call it.")]
    action: Annotated[
        Literal["create", "update", "restore", "delete", "unchanged"],
        _said("`restore`: the record stays, and Prefect is told anew what it says."),
    ]
    id: Annotated[int | None, _said("Its id; null: it is new.")]
    fields: Annotated[dict[str, Changed], _said("Of updates: what changes, by member.")]
    drift: Annotated[dict[str, Differing], _said("Where Prefect has something else, by member.")]
    file: Annotated[str | None, _said("The file that says so; null: no file names it.")]


class PlannedWarning(Fault):
    """What is allowed and surely wrong."""

    kind: Annotated[Kind, _said("The kind of the record.")]
    title: Annotated[str, _said("How people call it.")]


class Counts(BaseModel):
    """How many records there are of each action."""

    create: Annotated[int, _said("Created.")]
    update: Annotated[int, _said("Updated.")]
    restore: Annotated[int, _said("Restored in Prefect.")]
    delete: Annotated[int, _said("Deleted.")]
    unchanged: Annotated[int, _said("Unchanged.")]


class ApplyPlan(BaseModel):
    """What applying files would change, or has changed."""

    digest: Annotated[str, _said("Of the plan and of the records it is about; carries it out.")]
    applied: Annotated[bool, _said("Whether it has been carried out.")]
    changes: Annotated[list[PlannedChange], _said("In the order of making them.")]
    counts: Annotated[Counts, _said("How many of each action.")]
    warnings: Annotated[list[PlannedWarning], _said("What is allowed and surely wrong.")]
    forbidden: Annotated[
        list[Fault], _said("What of it who asks may not do; then it is not carried out.")
    ]
    prefect_compared: Annotated[bool, _said("Whether it was compared with Prefect.")]
    prefect_away: Annotated[str | None, _said("Why it was not; null: it was.")]


class StalePlan(BaseModel):
    """The records are not those of the digest; nothing was changed."""

    error: str
    message: str
    details: Annotated[ApplyPlan, _said("The plan as it is now.")]
    request_id: str


SHAPES: tuple[type[BaseModel], ...] = (ApplyPlan, StalePlan)
