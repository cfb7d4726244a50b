"""The base of all records: types, names of constraints, and markers for the audit trail."""

import json
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from typing import Any, ClassVar, TypeVar
from uuid import UUID

from psycopg.types.json import Json
from sqlalchemy import (
    JSON,
    BigInteger,
    ColumnElement,
    DateTime,
    Dialect,
    Index,
    Integer,
    MetaData,
    String,
    Text,
    TypeDecorator,
    Uuid,
    cast,
    text,
    type_coerce,
)
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column

from jobauto_prefect.definitions.storable import read_exact, write_exact
from jobauto_prefect.kinds import KINDS

UNAUDITED = {"audit": False}
"""Column info: bookkeeping; a change of it does not count as a change of the entity."""

SECRET = {"secret": True}
"""Column info: the audit trail records that it changed, never its value."""

SEALED = {"secret": True, "sealed": True}
"""As `SECRET`, for values encrypted with the key of the secret values, which can be decrypted."""

BIGGEST_ID = 2**63 - 1
"""The largest integer that databases can store."""

BigId = BigInteger().with_variant(Integer, "sqlite")  # SQLite autoincrements INTEGER keys only


def can_hold(column: Any, number: int) -> bool:
    """Whether an integer column can hold a number: databases refuse to compare larger ones."""
    limit = 2**63 if isinstance(column.type, BigInteger) else 2**31
    return -limit <= number < limit


def noun_of(kind: Any) -> str:
    """Return what messages call a record of a kind, or one of its records: `event rule`."""
    return noun_of_table(kind.__tablename__)


def noun_of_table(table: str) -> str:
    """Return the same for a table's name: messages name records, not tables."""
    known = KINDS.get(table) or KINDS.get(table.replace("_", ""))
    return known.noun if known else table.replace("_", " ")


Found = TypeVar("Found")


class LedgerSession(Session):
    """A session that knows which ids no record can have."""

    def get(self, entity: type[Found], ident: Any, **options: Any) -> Found | None:  # type: ignore[override]
        """Return a record by its key, like any session; None for a number no column can hold."""
        key = entity.__mapper__.primary_key[0]  # type: ignore[attr-defined]
        beyond = type(ident) is int and not can_hold(key, ident)
        return None if beyond else super().get(entity, ident, **options)


class OrderedJson(JSON):
    """JSON that counts as changed even if only the order of keys changed, or `1` became `true`."""

    cache_ok = True

    def compare_values(self, x: Any, y: Any) -> bool:
        """Compare values as text: Python considers such values equal."""
        return json.dumps(x) == json.dumps(y)


class ExactJson(TypeDecorator[Any]):
    """JSON whose numbers keep their digits."""

    impl = JSON
    cache_ok = True

    def bind_processor(self, dialect: Dialect) -> Callable[[Any], Any]:
        """Return the function that converts a value to a parameter."""
        return partial(Json, dumps=write_exact) if dialect.name == "postgresql" else write_exact

    def column_expression(self, column: ColumnElement[Any]) -> ColumnElement[Any]:
        """Read the text, because drivers convert numbers to float."""
        return type_coerce(cast(column, Text), self)

    def result_processor(self, dialect: Dialect, coltype: object) -> Callable[[Any], Any]:  # noqa: ARG002
        """Return the function that parses a value from the database."""
        return read_exact


class UtcDateTime(TypeDecorator[datetime]):
    """An instant. Always zone-aware in Python, UTC in the database."""

    impl = DateTime(timezone=True)
    cache_ok = True

    @property
    def python_type(self) -> type[datetime]:
        """The type of its values."""
        return datetime

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> datetime | None:  # noqa: ARG002
        """Return the time in UTC, None for None; refuse naive times, which are ambiguous."""
        if value is None:
            return None
        if value.tzinfo is None:
            raise ValueError("a time without a zone can't be stored")
        return value.astimezone(UTC)

    def process_result_value(self, value: Any | None, dialect: Dialect) -> datetime | None:  # noqa: ARG002
        """Return the time in UTC; None stays None. SQLite stores no zone: its times are UTC."""
        if value is None:
            return None
        read: datetime = value
        return read.replace(tzinfo=UTC) if read.tzinfo is None else read.astimezone(UTC)


class Base(DeclarativeBase):
    """Base of all tables."""

    metadata = MetaData(
        naming_convention={
            "ix": "ix_%(table_name)s_%(column_0_N_name)s",
            "uq": "uq_%(table_name)s_%(column_0_N_name)s",
            "ck": "ck_%(table_name)s_%(constraint_name)s",
            "fk": "fk_%(table_name)s_%(column_0_name)s_%(referred_table_name)s",
            "pk": "pk_%(table_name)s",
        }
    )
    type_annotation_map: ClassVar[dict[Any, Any]] = {
        datetime: UtcDateTime(),
        dict[str, Any]: JSON(),
        dict[str, str]: JSON(),
        dict[str, int]: JSON(),
        list[str]: JSON(),
        UUID: Uuid(),
        str: String(),
    }


class Audited:
    """Marks records whose every create, update and delete has an audit entry."""

    entity_name: ClassVar[str]


class Retirable:
    """Records that stay for history when deleted: gone from lists, their name free."""

    retired_at: Mapped[datetime | None] = mapped_column(default=None)


class Labelled:
    """Records that files can own: the labels name the sets of files that own them."""

    labels: Mapped[list[str]] = mapped_column(default=list)


def ordered_by(table: str, *columns: str) -> tuple[Index, ...]:
    """Return indexes for reading a large list in each of these orders; ties are broken by id.

    Not for text of unlimited length: PostgreSQL refuses rows that do not fit into an index.
    """
    return tuple(Index(f"ix_{table}_{column}", column, "id") for column in columns)


def unique_while_active(table: str, *columns: str) -> Index:
    """Return a key that is unique among the records that are not retired."""
    return _unique(f"uq_{table}_{'_'.join(columns)}", columns, "retired_at IS NULL")


def unique_while_shared(table: str, *columns: str) -> Index:
    """Return a unique key among active shared records: in databases every NULL is distinct."""
    where = "retired_at IS NULL AND company_id IS NULL"
    return _unique(f"uq_{table}_shared_{'_'.join(columns)}", columns, where)


def _unique(name: str, columns: tuple[str, ...], where: str) -> Index:
    condition = text(where)
    return Index(name, *columns, unique=True, sqlite_where=condition, postgresql_where=condition)
