"""What a kind of records is to the contract: names, permissions, lists and writes."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from fastapi import params

from jobauto_prefect.errors import JobautoError
from jobauto_prefect.facade.answers import JsonObject, Record
from jobauto_prefect.facade.auth.identity import Identity
from jobauto_prefect.facade.http.field_types import (
    SCHEMAS,
    Convert,
    parse_bool,
    parse_datetime,
    parse_enum,
    parse_enums,
    parse_int,
    parse_text,
)
from jobauto_prefect.facade.http.parameters import Json, number_or_name, query
from jobauto_prefect.facade.http.requests import Body, BodyFields
from jobauto_prefect.facade.writes.base import WriteRequest, WriteResult
from jobauto_prefect.kinds import KINDS, Kind
from jobauto_prefect.ledger.queries import lists
from jobauto_prefect.ledger.queries.lists import Condition
from jobauto_prefect.ledger.store import ReadingSession
from jobauto_prefect.settings import Settings


@dataclass(frozen=True, slots=True)
class Filter:
    """A query parameter of a list: the column it looks at, and how.

    `refers_to` is the kind of record whose id or name it is ("": none). `several`: it may be some
    of the choices, with commas between them. `shown` is what the document calls the column where
    it is no single field.
    """

    column: str
    convert: Convert
    how: str = "eq"
    choices: Sequence[str] = ()
    refers_to: str = ""
    several: bool = False
    shown: str = ""

    def parameter(self, name: str) -> Any:
        """Return the type of the parameter, for the document."""
        column = self.shown or f"`{self.column}`"
        texts = {
            "ge": f"Only those whose {column} is not before this time.",
            "lt": f"Only those whose {column} is before this time.",
            "le": f"Only those whose {column} is not after this time.",
            "contains": f"Only those with this in their {column}, in whatever case.",
            "has": f"Only those with this among their {column}.",
        }
        text = texts.get(self.how, f"Only those with this `{self.column}`.")
        if self.several:
            text = f"Only those with this `{self.column}`, or with some of them, with commas."
        return query(name, self._schema, text, allowEmptyValue=True)

    @property
    def _schema(self) -> Json:
        if self.refers_to:
            return number_or_name(KINDS[self.refers_to], lowest=0)
        if self.several:
            words = "|".join(self.choices)
            return {"type": "string", "pattern": f"^({words})(,({words}))*$"}
        if self.choices:
            return {"type": "string", "enum": list(self.choices)}
        return SCHEMAS[self.convert]

    def condition(self, name: str, given: str) -> Condition:
        """Return the condition a request asks for. Raises InvalidInput."""
        value = self.convert(name, given)
        if self.several and len(value) > 1:
            return Condition(self.column, value, "in")
        return Condition(self.column, value[0] if self.several else value, self.how)


NAME = Filter("name", parse_text, "contains")
ENABLED = Filter("enabled", parse_bool)
TEMPLATE_NAME = Filter("runtemplate_id", parse_text, "template")


def reference(kind: str, column: str = "") -> Filter:
    """Return a filter by the id, or the name, of a record of a kind; `column` as `company_id`."""
    return Filter(column or f"{kind}_id", parse_int, refers_to=kind)


def choice(column: str, choices: Sequence[str]) -> Filter:
    """Return a filter by one of some values."""
    return Filter(column, parse_enum(choices), choices=choices)


def choices(column: str, among: Sequence[str]) -> Filter:
    """Return a filter by some of some values, with commas between them."""
    return Filter(column, parse_enums(among), choices=among, several=True)


def period(column: str, prefix: str = "") -> Mapping[str, Filter]:
    """Return the filters by a time from which on, and before which, a record's is."""
    return {
        f"{prefix}from": Filter(column, parse_datetime, "ge"),
        f"{prefix}to": Filter(column, parse_datetime, "lt"),
    }


def _no_details(_session: ReadingSession, _record: Any, _settings: Settings) -> JsonObject:
    return {}


def _nothing(_record: Any) -> JsonObject:
    return {}


def _unchanged(*_: Any) -> None:
    pass


Rows = Sequence[JsonObject]
Annotate = Callable[[ReadingSession, Sequence[Any], Rows, Settings, datetime], None]


@dataclass(frozen=True, slots=True)
class BodyReader:
    """How the routes that write a kind read what they are sent.

    `fields` is the dependency that returns it, `names` are those it may have in the query, and
    `parameters` what else the query may say; `dependencies` are judged before.
    """

    fields: Any = BodyFields
    names: Callable[[type[Body]], Iterable[str]] = lambda body: body.model_fields
    parameters: Sequence[Any] = ()
    dependencies: Sequence[params.Depends] = ()


DELETION = (
    "Takes the record away: it is gone from lists and from Prefect, is kept for history, and "
    "its name is free again. Where active records depend on it: 409, naming them."
)


def link(operation: str, parameter: str) -> Json:
    """Describe that the id of a record is a parameter of an operation."""
    return {
        "operationId": operation,
        "parameters": {parameter: "$response.body#/id"},
        "description": f"The id is the `{parameter}`.",
    }


def body_link(operation: str, field: str) -> Json:
    """Describe that the id of a record is a field of what an operation is sent."""
    return {
        "operationId": operation,
        "requestBody": {field: "$response.body#/id"},
        "description": f"The id is the body's `{field}`.",
    }


@dataclass(frozen=True, slots=True)
class Resource:
    """One kind of records in REST: its words, the class of its records, how they are shown and
    written.

    `answer` is what lists show of a record, `detail` what its own address shows (None: the same):
    `details` reads what is shown beyond a list's row. `written` adds to the answer of a write.
    `body` is what clients write; `change` makes of its schema that of what may change of a record,
    where that is less. In the document `note` is said of writes, `deletion` of deletions; `links`
    are where the id of a written record leads beside its own operations, and `repeated` are fields
    that the answer of a write has besides.

    `reader` reads the body. `own` returns the id of the record that somebody may see and change
    without a permission. `unresolved` makes the error for a reference of a body to nothing (None:
    it is one of the body's faults, as is an id that nothing has). `before_deletion` refuses
    deletions that only this kind forbids. `annotate` adds what is read for all rows of a list at
    once, `count_work` what lists and answers of the published dialect count.

    `put`: PUT does what POST does to a record's path;
    `listed_at_item`: GET at the path for new records is the list. Both are there for one client.
    """

    kind: Kind
    record: type[Any]
    answer: type[Record]
    show: Callable[..., JsonObject]
    write: Callable[[WriteRequest], WriteResult] | None = None
    filters: Mapping[str, Filter] = field(default_factory=dict)
    body: type[Body] | None = None
    change: Callable[[Json], Json] | None = None
    note: str = ""
    deletion: str = DELETION
    links: Mapping[str, Json] = field(default_factory=dict)
    repeated: Json = field(default_factory=dict)
    detail: type[Record] | None = None
    details: Callable[[ReadingSession, Any, Settings], JsonObject] = _no_details
    written: Callable[[Any], JsonObject] = _nothing
    reader: BodyReader = BodyReader()
    own: Callable[[Identity], int | None] | None = None
    unresolved: Callable[[str], JobautoError] | None = None
    before_deletion: Callable[[Identity, Any, datetime], None] = _unchanged
    annotate: Annotate | None = None
    count_work: Callable[[ReadingSession, Sequence[Any], Rows], None] = _unchanged
    put: bool = False
    listed_at_item: bool = False

    def is_own(self, who: Identity, record: Any) -> bool:
        """Whether it is the record that they may see and change without a permission."""
        return self.own is not None and self.own(who) == record.id

    @property
    def orders(self) -> Sequence[str]:
        """The fields a list can be ordered by: the stored ones that are no text for people."""
        shown = self.answer.field_names()
        return [name for name in lists.orderable(self.record) if name in shown]
