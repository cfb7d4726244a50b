"""The database of Prefect's server, by Prefect's own settings; creating its tables."""

import asyncio
import os
import re
import subprocess
import sys
import tempfile
import warnings
from typing import Any

from jobauto_prefect.engine.prefect_server.process import QUIET
from jobauto_prefect.errors import NotReady
from jobauto_prefect.settings import Settings
from jobauto_prefect.variables import adopt_prefect_settings


def prefect_database_url(settings: Settings) -> str:
    """Return the SQLAlchemy URL of the database that `jobauto prefect start` would use here."""
    adopt_prefect_settings(of_server=True)
    os.environ.setdefault("PREFECT_HOME", str(settings.home / "prefect"))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # its home need not exist
        from prefect.settings import Settings as PrefectSettings

        url = PrefectSettings().server.database.connection_url
    assert url is not None  # noqa: S101 - it has a default
    return url.get_secret_value()


MIGRATION_LOCK = 3_880_042
"""Key of the advisory lock in Prefect's database."""

LOCK_POLL_SECONDS = 0.5


async def prepare_alone() -> None:
    """Prepare Prefect's database on PostgreSQL as its server does at start: one server at a time.

    Prefect's own lock is one of a process: of two servers that start on an empty database, one
    fails.
    """
    from prefect.server.database import provide_database_interface

    database: Any = provide_database_interface()
    engine = await database.engine()
    take = f"SELECT pg_try_advisory_xact_lock({MIGRATION_LOCK})"
    try:
        while True:  # because Prefect's statements have a timeout
            async with engine.begin() as connection:
                if (await connection.exec_driver_sql(take)).scalar():
                    # In a savepoint, which ends the query above: its snapshot would stay, and
                    # CREATE INDEX CONCURRENTLY in the migrations wait for its end.
                    async with connection.begin_nested():
                        return await _prepare(database)
            await asyncio.sleep(LOCK_POLL_SECONDS)
    finally:
        await engine.dispose()  # bound to this event loop; the server has another


async def _prepare(database: Any) -> None:
    from prefect.server.models.block_registration import run_block_auto_registration
    from prefect.settings import get_current_settings

    server = get_current_settings().server
    if server.database.migrate_on_start:
        await database.create_db()
    if server.register_blocks_on_start:
        async with await database.session() as session:
            await run_block_auto_registration(session=session)


def statement_seconds() -> float:
    """Return the default statement timeout of Prefect's server on PostgreSQL."""
    from prefect.settings.models.server.database import ServerDatabaseSettings

    return float(ServerDatabaseSettings.model_fields["timeout"].default)


def make_prefect_tables(url: str, revision: str) -> None:
    """Create Prefect's tables of a revision in an empty database, by Prefect's own migrations.

    They run in a child process, because Prefect reads its settings only once.

    Raises:
        NotReady: this version of Prefect has no such revision, or the migration failed.
    """
    if not re.fullmatch("[0-9a-f]{12}", revision):
        raise NotReady(
            f"Prefect has no tables of revision {revision[:40]!r}; take a backup whose Prefect"
            " database is one"
        )
    upgrade = ("server", "database", "upgrade", "--yes", "--revision", revision)
    with tempfile.TemporaryDirectory() as folder:
        environment = {"PREFECT_HOME": folder, "PREFECT_SERVER_DATABASE_CONNECTION_URL": url}
        done = subprocess.run(
            [sys.executable, "-m", "prefect", *upgrade],
            env={**os.environ, **QUIET, **environment},
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    if done.returncode:
        reason = (done.stderr.strip().splitlines() or ["no reason"])[-1][:300]
        raise NotReady(
            f"Prefect can't make its tables of revision {revision} ({reason}); install the version"
            " of Prefect that the backup names and run this again"
        )
