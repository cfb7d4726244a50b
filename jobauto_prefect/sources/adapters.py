"""Reading changes from an adapter database in order, and removing them from it.

The schema belongs to the adapters: a table `changes_cache` with at least `inversion` (the key,
ascending), `recordid`, `evidence` and `operation`.
"""

import contextlib
import math
import operator
import sqlite3
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from functools import reduce
from itertools import accumulate
from typing import Any, Self
from urllib.parse import quote

from psycopg.adapt import Buffer, Loader
from sqlalchemy import (
    URL,
    BigInteger,
    ColumnElement,
    Connection,
    Engine,
    LargeBinary,
    NullPool,
    RowMapping,
    Select,
    String,
    Text,
    cast,
    column,
    create_engine,
    delete,
    event,
    false,
    func,
    inspect,
    select,
    table,
)
from sqlalchemy.exc import DBAPIError, OperationalError, SQLAlchemyError

from jobauto_prefect.compiler.events.selectors import FIELDS
from jobauto_prefect.definitions.storable import (
    MAX_VALUES,
    UNFIT,
    TooDeep,
    has_many_values,
    is_storable,
    read_exact,
    storable_text,
    unstorable,
)
from jobauto_prefect.errors import SourceUnavailable
from jobauto_prefect.ledger.base import BIGGEST_ID
from jobauto_prefect.ledger.database.postgresql import Limits, timed_engine
from jobauto_prefect.sources.targets import Target, TargetRules, address_of, file_of

TABLE = "changes_cache"
REQUIRED = ("inversion", "recordid", "evidence", "operation")
NO_FILE = f"there is no SQLite database with a readable table {TABLE} at that path"
"""The same message whether the file is missing or of another kind: sources must not reveal that."""

LARGEST_CHANGE = 1024 * 1024
"""Bytes of a row; of a larger one only its number is read."""

PAGE_BYTES = 4 * 1024 * 1024
"""Bytes of the rows that are read at once."""

LARGEST_VALUE = 64 * 1024 * 1024
"""Bytes of a value that a SQLite file stores or computes; reading a larger one fails."""

STEPS = 10_000  # of SQLite's virtual machine, between checks of the time

SHOWN = 200  # characters of a database's own message
FAULTS_SHOWN = 3  # of one change
BLANK = "********"


@dataclass(frozen=True, slots=True)
class TimeLimits:
    """Whole seconds that a server may take to connect, and to answer one query."""

    connect: int = 5
    answer: int = 30


@dataclass(frozen=True, slots=True)
class Change:
    """One row of an adapter; `members` are all its columns as JSON, `context` parsed.

    `fault` is why it can't be stored unchanged; then `members` are what can be stored.
    """

    inversion: int
    members: Mapping[str, Any]
    fault: str | None = None


class Adapter:
    """One connection to an adapter database; a context manager.

    Every error is a `SourceUnavailable`, which says why and never contains the password.
    """

    def __init__(
        self, target: Target, rules: TargetRules, limits: TimeLimits | None = None
    ) -> None:
        self._target = target
        self._rules = rules
        self._limits = limits or TimeLimits()
        self._stack = contextlib.ExitStack()

    def __enter__(self) -> Self:
        with self._translate_errors():
            engine = ENGINES[self._target.kind](self._target, self._rules, self._limits)
            self._stack.callback(engine.dispose)
            self._connection: Connection = self._stack.enter_context(engine.connect())
            inspector = inspect(self._connection)
            if not inspector.has_table(TABLE):
                raise SourceUnavailable(
                    NO_FILE
                    if self._target.kind == "sqlite"
                    else f"the database answers, but has no table {TABLE}"
                )
            columns = [description["name"] for description in inspector.get_columns(TABLE)]
            missing = [name for name in REQUIRED if name not in columns]
            if missing:
                raise SourceUnavailable(f"the table {TABLE} has no column {', '.join(missing)}")
            self._connection.rollback()
            self._table = table(TABLE, *(column(name) for name in columns))
        return self

    def __exit__(self, *_error: object) -> None:
        with contextlib.suppress(SQLAlchemyError, OSError):
            self._stack.close()

    def after(self, inversion: int, limit: int) -> list[Change]:
        """Return changes with a higher inversion, in order: up to `limit`, or `PAGE_BYTES` of them.

        Empty if there are none. They end before one whose inversion is not a storable number.

        Raises:
            SourceUnavailable: also if the first one is such a change.
        """
        number, size = self._table.c.inversion, self._size()
        query = select(number, size.label("size")).where(number > inversion)
        with self._translate_errors():
            rows = self._rows(query.order_by(number).limit(limit))
            page = _page([row for row in rows if _is_number(row["inversion"])])
            large = [_large(row) for row in page if row["size"] > LARGEST_CHANGE]
            numbers = [row["inversion"] for row in page if row["size"] <= LARGEST_CHANGE]
            changes = sorted([*self._read(numbers), *large], key=lambda each: each.inversion)
        wrong = [row["inversion"] for row in rows if not _is_number(row["inversion"])]
        if wrong and not changes:
            raise SourceUnavailable(
                f"the change with the inversion {wrong[0]!r:.{SHOWN}} and all later ones can't be"
                f" read: its inversion must be a whole number of at most {BIGGEST_ID}"
            )
        return changes

    def _size(self) -> ColumnElement[int]:
        """Return the number of bytes of a row, as the server counts them."""
        measure = SIZES[self._target.kind]
        return reduce(operator.add, (func.coalesce(measure(each), 0) for each in self._table.c))

    def _read(self, numbers: Sequence[Any]) -> list[Change]:
        """Read the changes of these inversions; of one that has grown meanwhile only its number."""
        inversion = self._table.c.inversion
        query = select(*self._table.c).where(inversion.in_(numbers), self._size() <= LARGEST_CHANGE)
        try:
            return [_change(row) for row in self._rows(query)] if numbers else []
        except OperationalError:
            raise
        except (DBAPIError, ValueError):  # the driver can't convert one of the values
            self._connection.rollback()
            return [self._read_alone(number) for number in numbers]

    def _rows(self, query: Select[Any]) -> Sequence[RowMapping]:
        rows = self._connection.execute(query).mappings().all()
        self._connection.rollback()  # otherwise the next query would see the same snapshot
        return rows

    def _read_alone(self, inversion: int) -> Change:
        """Read one change: if its row can't be read, column by column, as text at worst."""
        faults: list[str] = []
        members: dict[str, Any] = {}
        for each in self._table.c:
            members[each.name], fault = self._value(each, inversion)
            faults += [f"{each.name} can't be read: {fault}"] if fault else []
        return _change(members, faults)

    def _value(self, wanted: ColumnElement[Any], inversion: int) -> tuple[Any, str | None]:
        """Return a value, and why it is only its text, or missing."""
        reason = None
        for form in (wanted, cast(wanted, String)):
            query = select(form.label("value")).where(self._table.c.inversion == inversion)
            try:
                rows = self._rows(query)
            except OperationalError:
                raise
            except (DBAPIError, ValueError) as error:
                self._connection.rollback()
                reason = reason or self._words(getattr(error, "orig", None) or error)
            else:
                return (rows[0]["value"] if rows else None), reason
        return None, reason

    def remove(self, inversions: Sequence[int]) -> None:
        """Remove changes from the adapter; those already removed do no harm."""
        with self._translate_errors():
            self._connection.execute(
                delete(self._table).where(self._table.c.inversion.in_(inversions))
            )
            self._connection.commit()

    def check_removal(self) -> None:
        """Check whether changes may be removed, without removing any."""
        with self._translate_errors():
            self._connection.execute(delete(self._table).where(false()))
            self._connection.rollback()

    @contextlib.contextmanager
    def _translate_errors(self) -> Iterator[None]:
        """Convert errors of a driver to a short message of its own."""
        try:
            yield
        except DBAPIError as error:
            raise SourceUnavailable(self._explain(error.orig or error)) from None
        except (SQLAlchemyError, OSError, ValueError, RuntimeError) as error:
            # A server of another protocol causes all kinds of errors.
            raise SourceUnavailable(self._explain(error)) from None

    def _explain(self, error: BaseException) -> str:
        if self._target.kind == "sqlite":
            return NO_FILE
        return f"the adapter database can't be used: {self._words(error)}"

    def _words(self, error: BaseException) -> str:
        """Return the first line of a driver's message, without the password."""
        text = error.args[-1] if error.args else ""  # MySQL's messages come after a number
        lines = str(text).strip().splitlines()
        words = lines[0] if lines else type(error).__name__
        if self._target.password:
            words = words.replace(self._target.password, BLANK)
        printable = "".join(each for each in words if each.isprintable())
        return printable[:SHOWN]


def _page(rows: Sequence[RowMapping]) -> Sequence[RowMapping]:
    """Return the first rows that fit into a page, at least one."""
    read = (row["size"] if row["size"] <= LARGEST_CHANGE else 0 for row in rows)
    return [row for row, total in zip(rows, accumulate(read), strict=True) if total <= PAGE_BYTES]


def _large(row: RowMapping) -> Change:
    inversion = int(row["inversion"])
    fault = f"it has {row['size']} bytes, and at most {LARGEST_CHANGE} are read"
    return Change(inversion, {"inversion": inversion}, fault)


class JsonText(str):
    """The text of a JSON column."""

    __slots__ = ()


def _is_number(inversion: Any) -> bool:
    return (
        type(inversion) in (int, float, Decimal)
        and abs(inversion) <= BIGGEST_ID
        and inversion == int(inversion)
    )


def _change(row: Mapping[Any, Any] | RowMapping, unread: Sequence[str] = ()) -> Change:
    members: dict[str, Any] = {}
    faults = list(unread)
    for name, value in row.items():
        plain = _plain(value, lossless=name in FIELDS)
        is_json = isinstance(plain, JsonText) or (name == "context" and isinstance(plain, str))
        read, fault = _read(plain, is_json=is_json)
        if fault is not None:
            text = str(plain).encode(errors="surrogateescape").decode(errors="backslashreplace")
            read = storable_text(text)
            faults.append(f"{name}{fault}")
        members[name] = read
    return Change(int(row["inversion"]), members, "; ".join(faults[:FAULTS_SHOWN]) or None)


def _read(value: Any, *, is_json: bool) -> tuple[Any, str | None]:
    """Return a storable value, or why it can't be stored; text that is not JSON stays text."""
    if isinstance(value, str) and not is_storable(value):
        return value, f" {UNFIT}" if "\0" in value else " has bytes that are no UTF-8"
    if is_json and isinstance(value, str) and has_many_values(value.encode()):
        return value, f" has more than {MAX_VALUES} values"
    try:
        read = read_exact(value) if is_json else value
    except TooDeep as error:
        return value, f" {error}"
    except ValueError:
        read = str(value)
    faults = (f"{each.pointer} {each.message}" for each in unstorable(read))
    return read, next(faults, None)


def _plain(value: Any, *, lossless: bool) -> Any:
    """Return a column's value as JSON.

    Bytes that are not UTF-8 become lone surrogates (PEP 383) if they must not get lost.
    """
    if isinstance(value, datetime | date):
        return value.isoformat()
    if isinstance(value, Decimal) and value.is_finite():
        return int(value) if value.as_tuple().exponent == 0 else format(value, "f")
    if isinstance(value, bytes):
        return value.decode(errors="surrogateescape" if lossless else "replace")
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, list):
        return [_plain(item, lossless=lossless) for item in value]
    return value if isinstance(value, str | int | float | dict | None) else str(value)


def _mysql(target: Target, rules: TargetRules, limits: TimeLimits) -> Engine:
    url = URL.create(
        "mysql+pymysql",
        username=target.username or "",
        password=target.password or "",
        host=address_of(target, rules),
        port=int(target.port or 3306),
        database=target.database,
        query={"charset": "utf8mb4"},
    )
    arguments = {
        "connect_timeout": limits.connect,
        "read_timeout": limits.answer,
        "write_timeout": limits.answer,
    }
    return create_engine(url, poolclass=NullPool, connect_args=arguments)


def _pgsql(target: Target, rules: TargetRules, limits: TimeLimits) -> Engine:
    address = address_of(target, rules)
    url = URL.create(
        "postgresql+psycopg",
        username=target.username or None,
        password=target.password or None,
        host=target.host,
        port=int(target.port or 5432),
        database=target.database,
    )
    limited = Limits(connect=limits.connect, answer=limits.answer)
    arguments = {"hostaddr": address, "client_encoding": "utf8"}
    engine = timed_engine(url, limited, poolclass=NullPool, connect_args=arguments)
    event.listen(engine, "connect", _take_any_text)
    return engine


def _take_any_text(connection: Any, _record: Any) -> None:
    """Accept any text of a server: with SQL_ASCII it contains bytes of any encoding."""
    for name in ("text", "varchar", "bpchar", "name"):
        connection.adapters.register_loader(name, _TextLoader)
    for name in ("json", "jsonb"):
        connection.adapters.register_loader(name, _JsonLoader)
    if connection.info.parameter_status("server_encoding") == "SQL_ASCII":
        connection.execute("SET client_encoding TO SQL_ASCII")  # or the server refuses such bytes
        connection.commit()


class _TextLoader(Loader):
    def load(self, data: Buffer) -> str:
        return bytes(data).decode(errors="surrogateescape")


class _JsonLoader(_TextLoader):
    def load(self, data: Buffer) -> str:
        return JsonText(super().load(data))


def _sqlite(target: Target, rules: TargetRules, limits: TimeLimits) -> Engine:
    """Return an engine whose connections are interrupted after the time limits.

    A view in the file may compute endlessly, and values of any size: no server bounds it.
    """
    path = file_of(target, rules)

    def connect() -> sqlite3.Connection:
        ends = time.monotonic() + limits.connect + limits.answer
        # mode=rw: do not create a missing file.
        connection = sqlite3.connect(
            f"file:{quote(str(path))}?mode=rw",
            uri=True,
            timeout=limits.connect,
            check_same_thread=False,
        )
        connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, LARGEST_VALUE)
        connection.set_progress_handler(lambda: time.monotonic() > ends, STEPS)
        connection.text_factory = lambda text: text.decode(errors="surrogateescape")
        return connection

    return create_engine("sqlite://", creator=connect, poolclass=NullPool)


SIZES: Mapping[str, Callable[[ColumnElement[Any]], ColumnElement[int]]] = {
    "mysql": func.length,
    "pgsql": lambda value: cast(func.octet_length(cast(value, Text)), BigInteger),
    "sqlite": lambda value: func.length(cast(value, LargeBinary)),
}
"""Type of database -> the bytes of a value as its server sends it."""

ENGINES: Mapping[str, Callable[[Target, TargetRules, TimeLimits], Engine]] = {
    "mysql": _mysql,
    "pgsql": _pgsql,
    "sqlite": _sqlite,
}
