"""Prefect's server application, as uvicorn starts it for us."""

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
    """Create Prefect's ASGI application, responsive on SQLite too, which knows our worker."""
    collect_in_thread()  # first: what Prefect imports stays, and is a tenth slower with a collector
    from prefect.server.api.server import create_app as create

    add_worker_type()
    bound_states()
    return create()


def create_closed_app(login: str) -> Callable[..., Awaitable[Any]]:
    """Create Prefect's application that answers only who gives this login, a name and a password.

    Raises:
        NotReady: Prefect does not take it.
    """
    from prefect.context import refresh_global_settings_context
    from prefect.settings import get_current_settings

    os.environ[AUTHENTICATION] = login
    refresh_global_settings_context()  # somebody may have imported Prefect before
    taken = get_current_settings().server.api.auth_string
    if taken is None or taken.get_secret_value() != login:
        raise NotReady(f"Prefect's settings do not take {AUTHENTICATION} from the environment")
    return create_app()


LONGEST_STATE_TEXT = 10_000
"""Characters that are read of a state's message, and of its data as JSON."""


def bound_states() -> None:
    """Have the database cut what Prefect's server of this process reads of a state.

    Lists of runs repeat it for each. Prefect takes any length, and may hold states from before
    the gateway bounded new ones. What is stored stays as it is.
    """
    from prefect.server.database import orm_models

    for model in (orm_models.FlowRunState, orm_models.TaskRunState):
        columns = model.__table__.columns
        bound_text(columns["message"], LONGEST_STATE_TEXT)
        bound_json(columns["data"], LONGEST_STATE_TEXT)


PAUSE_SECONDS = 1.0


def collect_in_thread() -> None:
    """Collect this process's garbage from now on in a thread of its own.

    Python collects in whichever thread happens to allocate. In the event loop of Prefect's server
    on SQLite that stops everything for up to a minute: the collector closes the cursor of a
    statement that had failed, waits for its connection, which waits for a lock that is held by a
    transaction whose end the event loop has to run. See docs/decisions/0005-garbage.md.
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
