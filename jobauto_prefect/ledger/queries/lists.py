"""Lists of records: visibility, filters, order, and pages.

The next page is found by a cursor (the order's value and the id of the last record), so that it
costs the same at any depth and neither repeats nor skips a row.
"""

import base64
import binascii
import json
import operator
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from typing import Any
from uuid import UUID

from sqlalchemy import (
    JSON,
    Column,
    ColumnElement,
    LargeBinary,
    Select,
    Text,
    and_,
    cast,
    false,
    func,
    inspect,
    literal,
    or_,
    select,
)
from sqlalchemy.orm import Session, defer, joinedload, undefer
from sqlalchemy.orm.interfaces import ORMOption

from jobauto_prefect.definitions.storable import is_storable
from jobauto_prefect.errors import Fault, InvalidInput
from jobauto_prefect.ledger.access.ownership import usable
from jobauto_prefect.ledger.base import Base, Retirable, can_hold
from jobauto_prefect.ledger.records import (
    App,
    Company,
    CredentialType,
    Event,
    EventRule,
    EventSource,
    Job,
    RunTemplate,
    Task,
    TemplateCredential,
    Topic,
)
from jobauto_prefect.ledger.tallies import TALLIES

BATCH = 500  # records read at once for a complete list


def _of_templates(column: Any) -> Callable[[Collection[int]], ColumnElement[bool]]:
    def in_companies(companies: Collection[int]) -> ColumnElement[bool]:
        templates = select(RunTemplate.id).where(RunTemplate.company_id.in_(companies))
        condition: ColumnElement[bool] = column.in_(templates)
        return condition

    return in_companies


SHARED: Mapping[type[Base], Callable[[Collection[int]], ColumnElement[bool]]] = {
    App: partial(usable, App),
    CredentialType: partial(usable, CredentialType),
    Topic: partial(usable, Topic),
}
"""The condition for kinds whose records everybody sees if they belong to no company."""

IN_COMPANIES: Mapping[type[Base], Callable[[Collection[int]], ColumnElement[bool]]] = {
    **{
        mapper.class_: mapper.class_.company_id.in_
        for mapper in Base.registry.mappers
        if "company_id" in mapper.columns and mapper.class_ not in SHARED
    },
    Company: Company.id.in_,
    Task: _of_templates(Task.runtemplate_id),
    EventRule: lambda companies: or_(
        _of_templates(EventRule.runtemplate_id)(companies),
        _of_templates(EventRule.runtemplate_source_id)(companies),
        EventRule.event_source_id.in_(
            select(EventSource.id).where(EventSource.company_id.in_(companies))
        ),
    ),
}
"""The condition for other kinds whose records belong to companies: a record without one is seen by
those who may read the kind everywhere."""

NEEDED: Mapping[type[Base], tuple[ORMOption, ...]] = {
    Job: (defer(Job.policy), defer(Job.overrides), defer(Job.override_secrets)),
    EventRule: (joinedload(EventRule.runtemplate),),
    Event: (undefer(Event.state), defer(Event.data)),
    Task: (joinedload(Task.runtemplate),),
}
"""Loader options for lists: the relations that decide visibility, without unused columns."""


@dataclass(frozen=True, slots=True)
class Condition:
    """A filter on a column: it equals the value, or as `how` says.

    `ge` is at least, `lt` below, `in` one of the values, `contains` a part of the text in any case,
    `has` a list with the value. `company`: the record belongs to that company, by whatever column.
    `template`: it refers to a run template with the value in its name. `credential`: it is the id
    of a run template that has the credential.
    """

    column: str
    value: Any
    how: str = "eq"


@dataclass(frozen=True, slots=True)
class Selection:
    """Which records to list, and in what order.

    `companies` None: of all companies. `order` is a column, with `-` for descending. `limit` None:
    all.
    """

    companies: frozenset[int] | None = None
    conditions: Sequence[Condition] = ()
    order: str = "-id"
    limit: int | None = None
    offset: int = 0
    cursor: str | None = None
    count: bool = True


@dataclass(frozen=True, slots=True)
class Page:
    """Records, their total number (None: not counted), and the next cursor (None: the end)."""

    records: Sequence[Any] = field(default_factory=list)
    total: int | None = None
    next_cursor: str | None = None


def orderable(kind: type[Base]) -> list[str]:
    """Return the columns of a kind by which its lists can be ordered, the key first.

    They hold words, numbers, times and ids, no secrets, objects or prose.
    """
    columns = [
        (prop.key, column)
        for prop in inspect(kind).column_attrs
        if isinstance(column := prop.columns[0], Column)
        and not column.info.get("secret")
        and not isinstance(column.type, JSON | Text | LargeBinary)
    ]
    return sorted((name for name, _ in columns), key=lambda name: name != _key(kind).key)


def page(session: Session, kind: type[Base], selection: Selection) -> Page:
    """Return one page of a list.

    Raises:
        InvalidInput: the cursor is not from this list.
    """
    after = _after(session, kind, _chosen(kind, selection), selection)
    query = _ordered(kind, after, selection).offset(selection.offset)
    if selection.limit is not None:
        query = query.limit(selection.limit + 1)
    records = session.scalars(query).unique().all()
    kept = records[: selection.limit]
    more = len(records) > len(kept)
    total = None
    if selection.count:  # the last page tells it without a query
        is_last = not more and selection.cursor is None and (kept or selection.offset == 0)
        total = selection.offset + len(kept) if is_last else count(session, kind, selection)
    return Page(kept, total, _cursor_of(kept[-1], selection.order) if more and kept else None)


def batches(session: Session, kind: type[Base], selection: Selection) -> Iterator[Sequence[Any]]:
    """Yield all records of a list in batches."""
    query = _ordered(kind, _chosen(kind, selection), selection).offset(selection.offset)
    yield from session.scalars(query.execution_options(yield_per=BATCH)).partitions()


def count(session: Session, kind: type[Base], selection: Selection) -> int:
    """Return the number of records in a list; a suitable tally avoids reading them."""
    tally = TALLIES.get(kind)
    if tally is not None and all(
        wanted.column in tally.groups and wanted.how in ("eq", "in", "company")
        for wanted in selection.conditions
    ):
        query = select(func.sum(tally.rows.number)).where(*_chosen(tally.rows, selection))
    else:
        query = select(func.count()).select_from(kind).where(*_chosen(kind, selection))
    return int(session.scalar(query) or 0)


def names(
    session: Session, kind: type[Any], selection: Selection
) -> list[tuple[int, Any, str | None]]:
    """Return ids and names of a complete list, with the name of the company, if any.

    A name is a text, or texts by language.
    """
    several = IN_LANGUAGES.get(kind, kind.name)
    has_owner = hasattr(kind, "company_id")
    query = select(kind.id, kind.name, several, Company.name if has_owner else literal(None))
    if has_owner:
        query = query.outerjoin(Company, Company.id == kind.company_id)
    query = query.where(*_chosen(kind, selection)).order_by(kind.name, kind.id)
    return [(row[0], row[2] or row[1], row[3]) for row in session.execute(query)]


IN_LANGUAGES: Mapping[type[Base], Any] = {
    App: App.document["name"],
    CredentialType: CredentialType.translations["name"],
}
"""Columns whose names may be in several languages."""


def _chosen(kind: type[Base], selection: Selection) -> list[ColumnElement[bool]]:
    wanted = [_expression(kind, condition) for condition in selection.conditions]
    if issubclass(kind, Retirable):
        wanted.append(kind.retired_at.is_(None))
    if selection.companies is not None and kind in IN_COMPANIES:
        wanted.append(IN_COMPANIES[kind](selection.companies) if selection.companies else false())
    if selection.companies is not None and kind in SHARED:
        wanted.append(SHARED[kind](selection.companies))
    return wanted


def _expression(kind: type[Base], condition: Condition) -> ColumnElement[bool]:
    column = Company.id if condition.how == "company" else getattr(kind, condition.column)
    if type(condition.value) is int and not can_hold(column, condition.value):
        return false()
    if condition.how == "company":
        return IN_COMPANIES[kind]([condition.value])
    compare = _COMPARISONS.get(condition.how) or getattr(operator, condition.how)
    compared: ColumnElement[bool] = compare(column, condition.value)
    return compared


_COMPARISONS: Mapping[str, Callable[[Any, Any], ColumnElement[bool]]] = {
    "in": lambda column, values: column.in_(values),
    "contains": lambda column, part: column.icontains(part, autoescape=True),
    # Names in a list have no unescaped quote, so what is between two quotes is one name.
    "has": lambda column, name: cast(column, Text).contains(json.dumps(name), autoescape=True),
    "template": lambda column, part: column.in_(
        select(RunTemplate.id).where(RunTemplate.name.icontains(part, autoescape=True))
    ),
    "credential": lambda column, credential_id: column.in_(
        select(TemplateCredential.runtemplate_id).where(
            TemplateCredential.credential_id == credential_id
        )
    ),
}
"""Comparisons that are no operators of Python."""


def _ordered(
    kind: type[Base], chosen: Sequence[ColumnElement[bool]], selection: Selection
) -> Select[Any]:
    key = _key(kind)
    column, descending = _column(kind, selection.order)
    by = [column] if column is key else [column, key]
    order = [part.desc() if descending else part.asc() for part in by]
    return select(kind).where(*chosen).order_by(*order).options(*NEEDED.get(kind, ()))


def _key(kind: type[Base]) -> Any:
    return getattr(kind, inspect(kind).primary_key[0].key or "id")


def _column(kind: type[Base], order: str) -> tuple[Any, bool]:
    return getattr(kind, order.removeprefix("-")), order.startswith("-")


def _after(
    session: Session,
    kind: type[Base],
    chosen: list[ColumnElement[bool]],
    selection: Selection,
) -> list[ColumnElement[bool]]:
    if selection.cursor is None:
        return chosen
    value, record_id = _read_cursor(kind, selection)
    key = _key(kind)
    column, descending = _column(kind, selection.order)
    beyond = key < record_id if descending else key > record_id
    if column is key:
        return [*chosen, beyond]
    if value is not None:
        value = literal(value, column.type)  # booleans are compared, too
    # Records without a value come first on SQLite, and last on PostgreSQL.
    none_last = (session.get_bind().dialect.name == "postgresql") is not descending
    if value is None:
        here = and_(column.is_(None), beyond)
        return [*chosen, here if none_last else or_(here, column.is_not(None))]
    # The first comparison lets an index find the position; the second breaks ties.
    beyond_first, far = (
        (column <= value, column < value) if descending else (column >= value, column > value)
    )
    later = [beyond_first, or_(far, and_(column == value, beyond))]
    if none_last and column.nullable:
        return [*chosen, or_(and_(*later), column.is_(None))]
    return [*chosen, *later]


READERS: Mapping[str, Callable[[str], Any]] = {"t": datetime.fromisoformat, "u": UUID}
"""Parsers of cursor values of types that JSON does not have."""


def _cursor_of(record: Any, order: str) -> str:
    value = getattr(record, order.removeprefix("-"))
    shown: Any = value
    if isinstance(value, datetime):
        shown = {"t": value.isoformat()}
    elif isinstance(value, UUID):
        shown = {"u": value.hex}
    text = json.dumps([order, shown, record.id])
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


def _read_cursor(kind: type[Base], selection: Selection) -> tuple[Any, int]:
    text = selection.cursor or ""
    try:
        padded = text + "=" * (-len(text) % 4)
        order, value, record_id = json.loads(base64.urlsafe_b64decode(padded.encode()))
        if isinstance(value, dict):
            (kept,) = value.items()
            value = READERS[kept[0]](kept[1])
    except (ValueError, TypeError, KeyError, AttributeError, binascii.Error, RecursionError):
        order, value, record_id = None, None, None
    column, _ = _column(kind, selection.order)
    if order != selection.order or not (_fits(column, value) and _fits(_key(kind), record_id)):
        fault = Fault("/cursor", "cursor", "the cursor is not of this list; start without one")
        raise InvalidInput([fault])
    return value, record_id


def _fits(column: Any, value: Any) -> bool:
    """Whether an external value can be compared with a column's."""
    if value is None:
        return bool(column.nullable)
    if type(value) is not column.type.python_type:
        return False
    if type(value) is int:
        return can_hold(column, value)
    if isinstance(value, datetime):
        return value.tzinfo is not None
    return not isinstance(value, str) or is_storable(value)
