"""Bringing the tables of a ledger to this version, with Alembic."""

from pathlib import Path

from alembic import command
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Engine

from jobauto_prefect.errors import NotReady

MIGRATIONS = Path(__file__).parent / "migrations"


def _config() -> Config:
    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS))
    return config


def newest() -> str:
    """The revision this version of the program works with."""
    return ScriptDirectory.from_config(_config()).get_current_head() or ""


def current(engine: Engine) -> str | None:
    """The revision of the database; None where it has no tables yet."""
    with engine.connect() as connection:
        return MigrationContext.configure(connection).get_current_revision()


def upgrade(engine: Engine) -> tuple[str | None, str]:
    """Bring the tables to `newest()` in one transaction; the revisions before and after."""
    before = current(engine)
    config = _config()
    with engine.execution_options(jobauto_writes=True).begin() as connection:
        config.attributes["connection"] = connection
        command.upgrade(config, "head")
    return before, newest()


def require_current(engine: Engine) -> None:
    """Check that the tables are of this version.

    Raises:
        NotReady: they are not; the message names the command that helps.
    """
    found = current(engine)
    if found != newest():
        state = "has no tables yet" if found is None else f"is at version {found}, not {newest()}"
        raise NotReady(f"the ledger's database {state}; run: jobauto db upgrade")
