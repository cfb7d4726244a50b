"""Prefect's server application, started by uvicorn."""

import gc
import os
import threading
import time
from collections.abc import Awaitable, Callable
from typing import Any

from jobauto_prefect.engine.work_pools import add_worker_type
from jobauto_prefect.errors import NotReady
from jobauto_prefect.ledger.database.bounded_columns import bound_json, bound_text

AUTHENTICATION = "PREFECT_SERVER_API_AUTH_STRING"


def create_app() -> Callable[..., Awaitable[Any]]:
    """Create Prefect's ASGI application, responsive on SQLite too, with our worker's type."""
    collect_in_thread()  # first: with a collector running, Prefect's imports are a tenth slower
    from prefect.server.api.server import create_app as create

    from jobauto_prefect.engine.prefect_server.state_rules import add_state_rules

    add_state_rules()
    add_worker_type()
    bound_states()
    return create()


def create_closed_app(login: str) -> Callable[..., Awaitable[Any]]:
    """Create Prefect's application that requires this login (name:password).

    Raises:
        NotReady: Prefect's settings ignore it.
    """
    from prefect.context import refresh_global_settings_context
    from prefect.settings import get_current_settings

    os.environ[AUTHENTICATION] = login
    refresh_global_settings_context()  # Prefect may have been imported before
    taken = get_current_settings().server.api.auth_string
    if taken is None or taken.get_secret_value() != login:
        raise NotReady(f"Prefect's settings do not take {AUTHENTICATION} from the environment")
    return create_app()


LONGEST_STATE_TEXT = 10_000
"""Maximum length read of a state's message, and of its data as JSON."""


def bound_states() -> None:
    """Have the database truncate what Prefect's server in this process reads of a state.

    Lists of runs repeat the state for each run. Prefect accepts any length, and may hold states
    from before the gateway limited new ones. What is stored stays unchanged.
    """
    from prefect.server.database import orm_models

    for model in (orm_models.FlowRunState, orm_models.TaskRunState):
        columns = model.__table__.columns
        bound_text(columns["message"], LONGEST_STATE_TEXT)
        bound_json(columns["data"], LONGEST_STATE_TEXT)


PAUSE_SECONDS = 1.0


def collect_in_thread() -> None:
    """Collect this process's garbage in a separate thread from now on.

    Python collects in whichever thread happens to allocate. In the event loop of Prefect's server
    on SQLite that blocks everything for up to a minute: the collector closes the cursor of a failed
    statement and waits for its connection, which waits for a lock held by a transaction that only
    the event loop can end. See docs/decisions/0005-garbage.md.
    """
    gc.disable()
    threading.Thread(target=_collect, name="garbage collector", daemon=True).start()


def _collect() -> None:
    while True:
        time.sleep(PAUSE_SECONDS)
        due = [
            generation
            for generation, (count, threshold) in enumerate(
                zip(gc.get_count(), gc.get_threshold(), strict=True)
            )
            if count > threshold
        ]
        if due:
            gc.collect(due[-1])
