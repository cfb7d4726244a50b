"""What the models of several records share."""

from dataclasses import dataclass
from datetime import datetime
from typing import ClassVar

from pydantic import BaseModel, Field


@dataclass(frozen=True, slots=True)
class RecordKind:
    """A kind of record: its names in paths, its names for people, the columns of its list.

    HTML lists, CSV and tables of related records show the `columns`. `pages` are the sub-pages of
    one record: what people call them, and their path below it.
    """

    item: str
    collection: str
    one: str
    many: str
    columns: tuple[str, ...]
    pages: tuple[tuple[str, str], ...] = ()


class Record(BaseModel):
    """What has an address of its own, and a list."""

    record_kind: ClassVar[RecordKind]


class Timed(Record):
    """What changes over time."""

    created_at: datetime = Field(description="When it was made.")
    updated_at: datetime = Field(description="When it was last changed.")


class Labelled(Timed):
    """What files can own."""

    labels: list[str] = Field(
        description="The sets of files that own the record; see `jobauto apply --prune`."
    )


class Fault(BaseModel):
    """One thing wrong: with a request, or with what a job produced."""

    pointer: str = Field(description="JSON pointer to the error; empty: the request as a whole.")
    rule: str = Field(description="Short name of the rule that is broken.")
    message: str = Field(description="One line for people.")
    line: int | None = Field(default=None, description="Line in the body, from 1.")
    column: int | None = Field(default=None, description="Column in the body, from 1.")
