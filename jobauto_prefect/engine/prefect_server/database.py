"""The database of Prefect's server, by Prefect's own settings; creating its tables."""

import os
import re
import subprocess
import sys
import tempfile
import warnings
from importlib.util import find_spec
from pathlib import Path
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


MIGRATES_ON_START = "PREFECT_SERVER_DATABASE_MIGRATE_ON_START"


async def upgrade_prefect_tables() -> None:
    """Bring the tables of this process's Prefect to its version, unless a setting says not to.

    Of two that do so at once on an empty database one fails, also while it registers the types of
    blocks: hold a lock (`upgrade_lock`). It must be of another database, because some of Prefect's
    migrations wait for open transactions.
    """
    from prefect.server.database import provide_database_interface
    from prefect.server.models.block_registration import run_block_auto_registration
    from prefect.settings import get_current_settings

    server = get_current_settings().server
    if not server.database.migrate_on_start:
        return
    database: Any = provide_database_interface()
    engine = await database.engine()
    try:
        before = await _revision(engine)
        await database.create_db()
        if await _revision(engine) != before and server.register_blocks_on_start:
            async with await database.session() as session:
                await run_block_auto_registration(session=session)
    finally:
        await engine.dispose()  # bound to this event loop; the server has another
    os.environ[MIGRATES_ON_START] = "false"  # it is done


async def _revision(engine: Any) -> str | None:
    async with engine.connect() as connection:
        table = "alembic_version"
        if not await connection.run_sync(lambda sync: sync.dialect.has_table(sync, table)):
            return None
        found = await connection.exec_driver_sql("SELECT version_num FROM alembic_version")
        return str(found.scalar())


def statement_seconds() -> float:
    """Return the default statement timeout of Prefect's server on PostgreSQL."""
    from prefect.settings.models.server.database import ServerDatabaseSettings

    return float(ServerDatabaseSettings.model_fields["timeout"].default)


def newest_prefect_revision(kind: str) -> str:
    """Return the newest revision of Prefect's tables for `sqlite` or `postgresql`.

    The migrations are only read: to import Prefect's server takes seconds.
    """
    package = find_spec("prefect")
    assert package is not None  # noqa: S101 - it is installed
    assert package.origin is not None  # noqa: S101 - likewise
    folder = Path(package.origin).parent / "server" / "database" / "_migrations" / "versions" / kind
    text = "\n".join(file.read_text() for file in folder.glob("*.py"))
    made, replaced = (
        set(re.findall(rf'^{name}\b.*= *"(\w+)"', text, re.MULTILINE))
        for name in ("revision", "down_revision")
    )
    [newest] = made - replaced
    return str(newest)


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
            f"Prefect can't make its tables of revision {revision} ({reason}); solve that, or"
            " install the version of Prefect that the database is of, and run this again"
        )
