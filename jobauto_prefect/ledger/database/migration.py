"""The version of a ledger's tables, and its upgrade to this program's, with Alembic.

During an upgrade the former release works on the tables of this one: a migration only adds what
that release can leave out. What is no longer read goes one release later, and `OLDEST` rises.
"""

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import cast

from sqlalchemy import Connection, Engine, func, inspect, select, text

from jobauto_prefect.errors import NotReady

MIGRATIONS = Path(__file__).parent.parent / "migrations"
VERSION_TABLE = "alembic_version"
UPGRADE_LOCK = 8_241_905
"""Any number that nobody else uses for a lock, as `APPLY_LOCK`."""


OLDEST = "0035"
"""The oldest version of the tables whose program also works on those of this version."""

OLDEST_COLUMN = "oldest"
"""Column of `VERSION_TABLE` with `OLDEST`, for older programs."""


def newest() -> str:
    """Return the revision this program works with: migration files are named by revision."""
    files = (MIGRATIONS / "versions").glob("[0-9]*.py")
    return max(file.name for file in files).partition("_")[0]


def current(engine: Engine) -> str | None:
    """Return the revision of the database; None if it has no tables yet.

    Every process asks this at its start, without loading Alembic, which takes long.
    """
    with engine.connect() as connection:
        return _revision(connection)


def _revision(connection: Connection) -> str | None:
    return _version(connection).get("version_num")


def _version(connection: Connection) -> Mapping[str, str | None]:
    if not inspect(connection).has_table(VERSION_TABLE):
        return {}
    row = connection.execute(text(f"SELECT * FROM {VERSION_TABLE}")).mappings().first()  # noqa: S608
    return cast("Mapping[str, str | None]", row or {})


@contextmanager
def upgrade_lock(engine: Engine) -> Iterator[Connection]:
    """Hold, in a transaction, the lock under which tables are upgraded, Prefect's too."""
    with engine.execution_options(jobauto_writes=True).begin() as connection:
        if connection.dialect.name == "postgresql":  # SQLite has one writer anyway
            connection.execute(select(func.pg_advisory_xact_lock(UPGRADE_LOCK)))
        yield connection


def upgrade(engine: Engine, revision: str | None = None) -> tuple[str | None, str]:
    """Upgrade the tables in one transaction; return the revisions before and after.

    `revision` None: this program's. Newer tables stay as they are.

    Raises:
        NotReady: this program has no such revision.
    """
    target = newest() if revision is None else revision
    if not re.fullmatch("[0-9]{4}", target) or not [*(MIGRATIONS / "versions").glob(f"{target}_*")]:
        raise NotReady(
            f"this version has tables up to revision {newest()}, not {target!r}; install the"
            " version of the backup and run this again"
        )
    from alembic import command
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS))
    with upgrade_lock(engine) as connection:
        before = _revision(connection)
        if before is not None and before > target:
            return before, before
        config.attributes["connection"] = connection
        command.upgrade(config, target)
        if before != target == newest():  # who only starts a part may not own the tables
            if OLDEST_COLUMN not in _version(connection):
                connection.execute(text(f"ALTER TABLE {VERSION_TABLE} ADD {OLDEST_COLUMN} text"))
            mine = text(f"UPDATE {VERSION_TABLE} SET {OLDEST_COLUMN} = :oldest")  # noqa: S608
            connection.execute(mine, {"oldest": OLDEST})
    return before, target


NO_TABLES = "the ledger's database has no tables yet; run: jobauto db upgrade"


def problem(engine: Engine) -> str | None:
    """Return why this program can't work with the tables, and what to do; None: it can."""
    with engine.connect() as connection:
        version, wanted = _revision(connection), newest()
        if version is None:
            return NO_TABLES
        if version < wanted:
            return (
                f"the ledger's database is at version {version}, not {wanted};"
                " run: jobauto db upgrade"
            )
        oldest = _version(connection).get(OLDEST_COLUMN)
        if version > wanted and (oldest is None or oldest > wanted):
            return (
                f"the ledger's database is at version {version}, and this program, of version"
                f" {wanted}, is too old; install the version of jobauto that the other parts have"
            )
    return None


def require_usable(engine: Engine) -> None:
    """Require tables that this program can work with: its own, or newer ones that allow it.

    Raises:
        NotReady: it can't; the message says what to do.
    """
    if (reason := problem(engine)) is not None:
        raise NotReady(reason)
