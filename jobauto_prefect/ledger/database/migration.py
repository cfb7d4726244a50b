"""The version of a ledger's tables, and its upgrade to this program's, with Alembic."""

import re
from pathlib import Path

from sqlalchemy import Connection, Engine, func, inspect, select, text

from jobauto_prefect.errors import NotReady

MIGRATIONS = Path(__file__).parent.parent / "migrations"
VERSION_TABLE = "alembic_version"
UPGRADE_LOCK = 8_241_905
"""Any number that nobody else uses for a lock, as `APPLY_LOCK`."""


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
    if not inspect(connection).has_table(VERSION_TABLE):
        return None
    version = connection.scalar(text(f"SELECT version_num FROM {VERSION_TABLE}"))  # noqa: S608
    return None if version is None else str(version)


def upgrade(engine: Engine, revision: str | None = None) -> tuple[str | None, str]:
    """Upgrade the tables in one transaction; return the revisions before and after.

    `revision` None: this program's.

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
    with engine.execution_options(jobauto_writes=True).begin() as connection:
        if connection.dialect.name == "postgresql":  # one at a time, as SQLite has it anyway
            connection.execute(select(func.pg_advisory_xact_lock(UPGRADE_LOCK)))
        before = _revision(connection)
        config.attributes["connection"] = connection
        command.upgrade(config, target)
    return before, target


def require_current(engine: Engine) -> None:
    """Require the tables of this version.

    Raises:
        NotReady: they are of another version; the message names the command that helps.
    """
    version = current(engine)
    if version != newest():
        state = (
            "has no tables yet" if version is None else f"is at version {version}, not {newest()}"
        )
        raise NotReady(f"the ledger's database {state}; run: jobauto db upgrade")
