"""What a kind of records is to the contract: names, permissions, lists and writes."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from jobauto_prefect.definitions.kinds import Kind
from jobauto_prefect.facade.answers import JsonObject
from jobauto_prefect.facade.http.field_types import (
    Convert,
)
from jobauto_prefect.facade.http.requests import Body
from jobauto_prefect.facade.models.catalog import RECORD_MODELS
from jobauto_prefect.facade.writes.base import WriteRequest, WriteResult
from jobauto_prefect.ledger.queries import lists
from jobauto_prefect.ledger.queries.lists import Condition


@dataclass(frozen=True, slots=True)
class Filter:
    """A query parameter of a list: the column it looks at, and how.

    `refers_to` is the kind of record whose id or name it is. `several`: it may be some of the
    choices, with commas between them.
    """

    column: str
    convert: Convert
    how: str = "eq"
    choices: Sequence[str] = ()
    refers_to: type[Any] | None = None
    several: bool = False

    def condition(self, name: str, given: str) -> Condition:
        """Return the condition a request asks for. Raises InvalidInput."""
        value = self.convert(name, given)
        if self.several and len(value) > 1:
            return Condition(self.column, value, "in")
        return Condition(self.column, value[0] if self.several else value, self.how)


@dataclass(frozen=True, slots=True)
class Resource:
    """One kind of records: its words, the class of its records, how they are shown and written.

    `body` is what clients write, None for definitions. `put`: PUT does what POST does to a record's
    path; `listed_at_item`: GET at the path for new records is the list. Both are there for one
    client.
    """

    kind: Kind
    record: type[Any]
    show: Callable[..., JsonObject]
    write: Callable[[WriteRequest], WriteResult] | None = None
    filters: Mapping[str, Filter] = field(default_factory=dict)
    body: type[Body] | None = None
    put: bool = False
    listed_at_item: bool = False

    @property
    def orders(self) -> Sequence[str]:
        """The fields a list can be ordered by: the stored ones that are no text for people."""
        shown = RECORD_MODELS[self.kind.item].field_names()
        return [name for name in lists.orderable(self.record) if name in shown]
