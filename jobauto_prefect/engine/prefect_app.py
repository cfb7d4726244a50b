"""Prefect's server application, as uvicorn starts it for us."""

from collections.abc import Awaitable, Callable
from typing import Any

from jobauto_prefect.engine.garbage import collect_aside
from jobauto_prefect.engine.worker_type import add_worker_type


def create_app() -> Callable[..., Awaitable[Any]]:
    """Prefect's ASGI application, responsive on SQLite too, which knows our worker."""
    from prefect.server.api.server import create_app as create

    collect_aside()
    add_worker_type()
    return create()
