"""An adapter database, opened: its changes in order, and taking them out of it.

The schema is the adapters' own: a table `changes_cache`, of which `inversion` (the key, ascending),
`recordid`, `evidence` and `operation` have to be there.
"""

import contextlib
import json
import math
import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from typing import Any, Self
from urllib.parse import quote

from sqlalchemy import (
    URL,
    Connection,
    Engine,
    NullPool,
    RowMapping,
    TableClause,
    column,
    create_engine,
    delete,
    false,
    inspect,
    select,
    table,
)
from sqlalchemy.exc import DBAPIError, SQLAlchemyError

from jobauto_prefect.errors import SourceUnavailable
from jobauto_prefect.ledger.database.postgresql import Limits, timed_engine
from jobauto_prefect.sources.targets import Target, TargetRules, address_of, file_of

TABLE = "changes_cache"
REQUIRED = ("inversion", "recordid", "evidence", "operation")
SHOWN = 200  # characters of a database's own words
BLANK = "********"


@dataclass(frozen=True, slots=True)
class TimeLimits:
    """Whole seconds a server has to let us in, and to answer one question."""

    connect: int = 5
    answer: int = 30


@dataclass(frozen=True, slots=True)
class Change:
    """One row of an adapter; `members` are all its columns as JSON, `context` read."""

    inversion: int
    members: Mapping[str, Any]


class Adapter:
    """One connection to an adapter database; a context manager.

    Everything raises `SourceUnavailable`, which says why and never holds the password.
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
            engine = _engine(self._target, self._rules, self._limits)
            self._stack.callback(engine.dispose)
            self._connection: Connection = self._stack.enter_context(engine.connect())
            self._table = self._describe_table()
        return self

    def __exit__(self, *_error: object) -> None:
        with contextlib.suppress(SQLAlchemyError, OSError):
            self._stack.close()

    def after(self, inversion: int, limit: int) -> list[Change]:
        """Return the changes with a higher inversion, in their order, at most `limit`."""
        inversions = self._table.c.inversion
        query = select(self._table).where(inversions > inversion).order_by(inversions).limit(limit)
        with self._translate_errors():
            rows = self._connection.execute(query).mappings().all()
            self._connection.rollback()  # or the next look would see what this one saw
            return [Change(int(row["inversion"]), _members(row)) for row in rows]

    def remove(self, inversions: Sequence[int]) -> None:
        """Take changes out of the adapter; those that are gone already do no harm."""
        with self._translate_errors():
            self._connection.execute(
                delete(self._table).where(self._table.c.inversion.in_(inversions))
            )
            self._connection.commit()

    def check_removal(self) -> None:
        """Find out whether changes may be removed, without removing any."""
        with self._translate_errors():
            self._connection.execute(delete(self._table).where(false()))
            self._connection.rollback()

    def _describe_table(self) -> TableClause:
        inspector = inspect(self._connection)
        if not inspector.has_table(TABLE):
            raise SourceUnavailable(f"the database answers, but has no table {TABLE}")
        columns = [description["name"] for description in inspector.get_columns(TABLE)]
        missing = [name for name in REQUIRED if name not in columns]
        if missing:
            raise SourceUnavailable(f"the table {TABLE} has no column {', '.join(missing)}")
        self._connection.rollback()
        return table(TABLE, *(column(name) for name in columns))

    @contextlib.contextmanager
    def _translate_errors(self) -> Iterator[None]:
        """Translate what goes wrong in a driver into a few words of its own."""
        try:
            yield
        except DBAPIError as error:
            raise SourceUnavailable(self._explain(error.orig or error)) from None
        except (SQLAlchemyError, OSError, ValueError, RuntimeError) as error:
            # What a server says that is none reaches us as all kinds of errors.
            raise SourceUnavailable(self._explain(error)) from None

    def _explain(self, error: BaseException) -> str:
        if self._target.kind == "sqlite":
            # Whether there is a file, and of what kind, is nothing to ask a source for.
            return f"there is no SQLite database with a readable table {TABLE} at that path"
        text = error.args[-1] if error.args else ""  # MySQL's come after a number
        lines = str(text).strip().splitlines()
        words = lines[0] if lines else type(error).__name__
        if self._target.password:
            words = words.replace(self._target.password, BLANK)
        printable = "".join(each for each in words if each.isprintable())
        return f"the adapter database can't be used: {printable[:SHOWN]}"


def _members(row: RowMapping) -> dict[str, Any]:
    members = {str(name): _plain(value) for name, value in row.items()}
    if isinstance(members.get("context"), str):
        with contextlib.suppress(ValueError):
            members["context"] = json.loads(members["context"], parse_constant=str)
    return members


def _plain(value: Any) -> Any:
    """Return a column's value as JSON can say it."""
    if isinstance(value, datetime | date):
        return value.isoformat()
    if isinstance(value, Decimal):
        return int(value) if value == value.to_integral_value() else str(value)
    if isinstance(value, bytes):
        value = value.decode(errors="replace")
    if isinstance(value, str):
        return value.replace("\0", "")  # the ledger's database can't keep it
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value if isinstance(value, int | float | bool | dict | list | None) else str(value)


def _engine(target: Target, rules: TargetRules, limits: TimeLimits) -> Engine:
    return ENGINES[target.kind](target, rules, limits)


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
    return timed_engine(url, limited, poolclass=NullPool, connect_args={"hostaddr": address})


def _sqlite(target: Target, rules: TargetRules, limits: TimeLimits) -> Engine:
    path = file_of(target, rules)

    def connect() -> sqlite3.Connection:
        # mode=rw: a file that is not there must not be made.
        return sqlite3.connect(
            f"file:{quote(str(path))}?mode=rw",
            uri=True,
            timeout=limits.connect,
            check_same_thread=False,
        )

    return create_engine("sqlite://", creator=connect, poolclass=NullPool)


ENGINES: Mapping[str, Callable[[Target, TargetRules, TimeLimits], Engine]] = {
    "mysql": _mysql,
    "pgsql": _pgsql,
    "sqlite": _sqlite,
}
