"""Prefect's server application, as uvicorn starts it for us."""

import os
from collections.abc import Awaitable, Callable
from typing import Any

from jobauto_prefect.engine.garbage import collect_aside
from jobauto_prefect.engine.worker_type import add_worker_type
from jobauto_prefect.errors import NotReady

AUTHENTICATION = "PREFECT_SERVER_API_AUTH_STRING"


def create_app() -> Callable[..., Awaitable[Any]]:
    """Prefect's ASGI application, responsive on SQLite too, which knows our worker."""
    from prefect.server.api.server import create_app as create

    collect_aside()
    add_worker_type()
    return create()


def create_closed_app(login: str) -> Callable[..., Awaitable[Any]]:
    """The same, which answers only who gives this login, a name and a password.

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
