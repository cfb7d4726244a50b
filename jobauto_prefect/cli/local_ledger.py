"""This machine's own ledger, for commands that bypass the REST contract."""

import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from jobauto_prefect.ledger.audit.trail import Actor
    from jobauto_prefect.ledger.store import Ledger
    from jobauto_prefect.settings import Settings


@contextlib.contextmanager
def open_local_ledger() -> "Iterator[Ledger]":
    """Open this machine's ledger.

    Raises:
        NotReady: it lacks its key or its tables; the message says what to do.
    """
    from jobauto_prefect.ledger.opening import open_ledger
    from jobauto_prefect.settings import load_settings

    ledger = open_ledger(load_settings())
    try:
        yield ledger
    finally:
        ledger.close()


def upgrade_prefect(settings: "Settings") -> None:
    """Bring Prefect's tables on PostgreSQL to its version, one process at a time.

    Those on SQLite have one server, which does that when it starts.
    """
    import asyncio

    from jobauto_prefect.engine.prefect_server.database import (
        prefect_database_url,
        upgrade_prefect_tables,
    )
    from jobauto_prefect.ledger.database.engine import database_errors, long_limits, make_engine
    from jobauto_prefect.ledger.database.migration import upgrade_lock

    if not prefect_database_url(settings).startswith("postgresql"):
        return
    engine = make_engine(settings.ledger_url, long_limits(settings))
    with database_errors(), upgrade_lock(engine):
        asyncio.run(upgrade_prefect_tables())
    engine.dispose()


def local_actor() -> "Actor":
    """Return the audit trail's actor: the user of this command line."""
    from jobauto_prefect.ledger.audit.trail import Actor
    from jobauto_prefect.settings import local_operator

    return Actor(name=local_operator(), door="cli")
