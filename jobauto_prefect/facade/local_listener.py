"""The Unix socket through which commands on this machine reach the facade.

The kernel identifies the peer. The user whom the facade runs as,
and root, have every right, as at the command line's own copy of the facade, and the audit trail
names them `os:LOGIN`. All others are disconnected before any of their bytes is read.
"""

import asyncio
import contextlib
import logging
import os
import pwd
import socket
from collections.abc import AsyncIterator
from typing import Any

from fastapi import FastAPI
from uvicorn import Config
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.server import ServerState

from jobauto_prefect.facade.auth.request_state import OPERATOR
from jobauto_prefect.facade.server_options import plain_options
from jobauto_prefect.ledger.audit.trail import Actor
from jobauto_prefect.local_socket import listen, peer_user_id
from jobauto_prefect.settings import Settings

logger = logging.getLogger(__name__)

ROOT = 0
DRAIN_SECONDS = 5.0
"""Grace period for requests in progress when the facade stops."""


class LocalProtocol(H11Protocol):
    """HTTP with a process on this machine."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Accept only the service's own user and root, by the kernel's credentials of the peer."""
        super().connection_made(transport)
        user_id = peer_user_id(transport.get_extra_info("socket"))
        if user_id in (ROOT, os.geteuid()):
            self.app_state = {**self.app_state, OPERATOR: operator_of(user_id)}
        else:
            logger.warning("user %d was refused at the socket of the command line", user_id)
            transport.abort()


def operator_of(user_id: int) -> Actor:
    """Return the operator at this machine's command line, as the audit trail names them."""
    try:
        login = pwd.getpwuid(user_id).pw_name
    except KeyError:
        login = str(user_id)
    return Actor(name=f"os:{login}", door="cli")


@contextlib.asynccontextmanager
async def serve_local_socket(app: FastAPI, settings: Settings) -> AsyncIterator[None]:
    """Serve an application, which has begun, at the socket of the home meanwhile."""
    async with contextlib.AsyncExitStack() as stack:
        try:
            listener = stack.enter_context(listen(settings.home))
        except OSError as error:
            logger.warning("no socket for commands in %s: %s", settings.home, error.strerror)
            listener = None
        if listener is not None:
            await stack.enter_async_context(_serve(app, listener))
        yield


@contextlib.asynccontextmanager
async def _serve(app: FastAPI, listener: socket.socket) -> AsyncIterator[None]:
    options = plain_options() | {"http": LocalProtocol, "lifespan": "off", "ws": "none"}
    config = Config(app, **options)
    config.load()
    state = ServerState()

    def protocol() -> LocalProtocol:
        nothing: dict[str, Any] = {}
        return LocalProtocol(config, state, nothing)

    server = await asyncio.get_running_loop().create_unix_server(protocol, sock=listener)
    try:
        yield
    finally:
        server.close()
        for connection in list(state.connections):
            connection.shutdown()
        if state.tasks:  # requests in progress are finished, within the grace period
            await asyncio.wait(list(state.tasks), timeout=DRAIN_SECONDS)
