"""A kind of records in the contract: names, permissions, lists and writes."""

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
from jobauto_prefect.facade.service import Service
from jobauto_prefect.facade.writes.base import WriteRequest, WriteResult
from jobauto_prefect.kinds import KINDS, Kind
from jobauto_prefect.ledger.queries import lists
from jobauto_prefect.ledger.queries.lists import Condition
from jobauto_prefect.ledger.store import ReadingSession
from jobauto_prefect.settings import Settings


@dataclass(frozen=True, slots=True)
class Filter:
    """A query parameter of a list: the column it filters by, and how.

    `refers_to` is the kind of record whose id or name it takes ("": none). `several`: it takes
    comma-separated choices. `shown` is the column's name in the document if it is not a single
    field.
    """

    column: str
    convert: Convert
    how: str = "eq"
    choices: Sequence[str] = ()
    refers_to: str = ""
    several: bool = False
    shown: str = ""

    def parameter(self, name: str) -> Any:
        """Return the type of the parameter for the document."""
        column = self.shown or f"`{self.column}`"
        texts = {
            "ge": f"Only records whose {column} is not before this time.",
            "lt": f"Only records whose {column} is before this time.",
            "le": f"Only records whose {column} is not after this time.",
            "contains": f"Only records whose {column} contains this text, ignoring case.",
            "has": f"Only records that have this among their {column}.",
        }
        text = texts.get(self.how, f"Only records with this `{self.column}`.")
        if self.several:
            text = f"Only records with this `{self.column}`; several are separated by commas."
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
        """Return the SQL condition for a request's value. Raises InvalidInput."""
        value = self.convert(name, given)
        if self.several and len(value) > 1:
            return Condition(self.column, value, "in")
        return Condition(self.column, value[0] if self.several else value, self.how)


NAME = Filter("name", parse_text, "contains")
ENABLED = Filter("enabled", parse_bool)
TEMPLATE_NAME = Filter("runtemplate_id", parse_text, "template")


def reference(kind: str, column: str = "") -> Filter:
    """Return a filter by a record's id or name; `column` is like `company_id`."""
    return Filter(column or f"{kind}_id", parse_int, refers_to=kind)


def choice(column: str, choices: Sequence[str]) -> Filter:
    """Return a filter by one of the choices."""
    return Filter(column, parse_enum(choices), choices=choices)


def choices(column: str, among: Sequence[str]) -> Filter:
    """Return a filter by several of the choices, comma-separated."""
    return Filter(column, parse_enums(among), choices=among, several=True)


def period(column: str, prefix: str = "") -> Mapping[str, Filter]:
    """Return the filters for a time from (inclusive) and before (exclusive) an instant."""
    return {
        f"{prefix}from": Filter(column, parse_datetime, "ge"),
        f"{prefix}to": Filter(column, parse_datetime, "lt"),
    }


def _unchanged(*_: Any) -> None:
    pass


Rows = Sequence[JsonObject]
Annotate = Callable[[ReadingSession, Sequence[Any], Rows, Settings, datetime], None]


@dataclass(frozen=True, slots=True)
class BodyReader:
    """How the write routes of a kind read requests.

    `fields` is the dependency that returns the body's fields, `names` are those allowed in the
    query, and `parameters` are further query parameters; `dependencies` run first.
    """

    fields: Any = BodyFields
    names: Callable[[type[Body]], Iterable[str]] = lambda body: body.model_fields
    parameters: Sequence[Any] = ()
    dependencies: Sequence[params.Depends] = ()


DELETION = (
    "Deletes the record: it disappears from lists and from Prefect, but is kept for history. Its "
    "name can be used again. If active records depend on it, the answer is 409 and names them."
)


def link(operation: str, parameter: str) -> Json:
    """Describe a link that passes a record's id as a parameter of an operation."""
    return {
        "operationId": operation,
        "parameters": {parameter: "$response.body#/id"},
        "description": f"The id is the `{parameter}`.",
    }


def body_link(operation: str, field: str) -> Json:
    """Describe a link that passes a record's id as a body field of an operation."""
    return {
        "operationId": operation,
        "requestBody": {field: "$response.body#/id"},
        "description": f"The id is the body's `{field}`.",
    }


@dataclass(frozen=True, slots=True)
class Resource:
    """One kind of records in REST: its nouns, its record class, how records are shown and written.

    `answer` is a record's model in lists, `detail` at its own address (None: the same): `details`
    reads what is shown beyond a list's row. `written` adds fields to the answer of a write. `body`
    is what clients write; `change` derives the schema for changes from it, if fewer fields may
    change. In the document `note` describes writes, `deletion` deletions; `links` are further
    operations that take a written record's id, and `repeated` are additional fields in the answer
    of a write.

    `reader` reads the body. `own` returns the id of the record that a user may see and change
    without a permission. `unresolved` makes the error for a name in a body that is not found (None:
    it is one of the body's faults, like an unknown id). `before_deletion` refuses deletions that
    only this kind forbids. `annotate` adds data read for all rows of a list at once, `count_work`
    the counts in lists and answers of the published dialect.

    `put`: PUT does what POST does to a record's path;
    `listed_at_item`: GET at the path for new records is the list. Both exist for one client.
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
    details: Callable[[ReadingSession, Any, Settings], JsonObject] = lambda *_: {}
    written: Callable[[Any], JsonObject] = lambda _: {}
    reader: BodyReader = BodyReader()
    own: Callable[[Identity], int | None] | None = None
    unresolved: Callable[[str], JobautoError] | None = None
    before_deletion: Callable[[Identity, Any, datetime], None] = _unchanged
    annotate: Annotate | None = None
    count_work: Callable[[ReadingSession, Sequence[Any], Rows], None] = _unchanged
    put: bool = False
    listed_at_item: bool = False

    def is_own(self, who: Identity, record: Any) -> bool:
        """Whether the user may see and change this record without a permission."""
        return self.own is not None and self.own(who) == record.id

    def complete(
        self,
        session: ReadingSession,
        records: Sequence[Any],
        shown: Rows,
        service: Service,
        *,
        counts_work: bool,
    ) -> None:
        """Add to records as they are shown what is read for all of them at once."""
        if self.annotate is not None:
            now = service.ledger.clock()
            self.annotate(session, records, shown, service.settings, now)
        if counts_work:
            self.count_work(session, records, shown)

    @property
    def orders(self) -> Sequence[str]:
        """The fields by which a list can be ordered: stored ones, except texts for people."""
        shown = self.answer.field_names()
        return [name for name in lists.orderable(self.record) if name in shown]
