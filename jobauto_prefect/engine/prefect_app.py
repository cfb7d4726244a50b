"""Prefect's server application, as uvicorn starts it for us."""

from collections.abc import Awaitable, Callable
from typing import Any

from jobauto_prefect.engine.garbage import collect_aside


def create_app() -> Callable[..., Awaitable[Any]]:
    """Prefect's ASGI application in a process that stays responsive on SQLite."""
    from prefect.server.api.server import create_app as create

    collect_aside()
    return create()
