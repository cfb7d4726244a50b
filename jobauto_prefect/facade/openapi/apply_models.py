"""What `POST /apply` answers."""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field, WithJsonSchema

from jobauto_prefect.facade.apply.record_kinds import KINDS
from jobauto_prefect.facade.models.common import Fault

Kind = Annotated[str, WithJsonSchema({"type": "string", "enum": [*KINDS]})]


def _described(text: str) -> Any:
    return Field(description=text)


class Changed(BaseModel):
    """A field that changes."""

    before: Annotated[Any, _described("What the record says; null: nothing.")]
    after: Annotated[Any, _described("What the file says; null: nothing.")]


class Differing(BaseModel):
    """A field of Prefect's that is restored."""

    prefect: Annotated[Any, _described("What Prefect has; null: nothing.")]
    record: Annotated[Any, _described("What it should have, as the records say.")]


class PlannedChange(BaseModel):
    """What becomes of one record."""

    kind: Annotated[Kind, _described("The kind of the record; app is an application.")]
    title: Annotated[str, _described("How people call it.")]
    action: Annotated[
        Literal["create", "update", "restore", "delete", "unchanged"],
        _described("`restore`: the record stays, and Prefect is told anew what it says."),
    ]
    id: Annotated[int | None, _described("Its id; null: it is new.")]
    fields: Annotated[dict[str, Changed], _described("Of updates: what changes, by field.")]
    drift: Annotated[
        dict[str, Differing], _described("Where Prefect has something else, by field.")
    ]
    file: Annotated[str | None, _described("The file that says so; null: no file names it.")]


class PlannedWarning(Fault):
    """What is allowed and surely wrong."""

    kind: Annotated[Kind, _described("The kind of the record.")]
    title: Annotated[str, _described("How people call it.")]


class Counts(BaseModel):
    """How many records there are of each action."""

    create: Annotated[int, _described("Created.")]
    update: Annotated[int, _described("Updated.")]
    restore: Annotated[int, _described("Restored in Prefect.")]
    delete: Annotated[int, _described("Deleted.")]
    unchanged: Annotated[int, _described("Unchanged.")]


class ApplyPlan(BaseModel):
    """What applying files would change, or has changed."""

    digest: Annotated[
        str, _described("Of the plan and of the records it is about; carries it out.")
    ]
    applied: Annotated[bool, _described("Whether it has been carried out.")]
    changes: Annotated[list[PlannedChange], _described("In the order of making them.")]
    counts: Annotated[Counts, _described("How many of each action.")]
    warnings: Annotated[list[PlannedWarning], _described("What is allowed and surely wrong.")]
    forbidden: Annotated[
        list[Fault], _described("What of it who asks may not do; then it is not carried out.")
    ]
    prefect_compared: Annotated[bool, _described("Whether it was compared with Prefect.")]
    prefect_away: Annotated[str | None, _described("Why it was not; null: it was.")]


class StalePlan(BaseModel):
    """The records are not those of the digest; nothing was changed."""

    error: str
    message: str
    details: Annotated[ApplyPlan, _described("The plan as it is now.")]
    request_id: str


SHAPES: tuple[type[BaseModel], ...] = (ApplyPlan, StalePlan)
