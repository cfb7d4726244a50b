"""The management port of a part: its metrics and health, for anyone who can reach it.

It is never the port of the REST contract, and by default only reachable from this machine.
"""

import asyncio
import contextlib
import json
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from enum import IntEnum
from typing import Any

from uvicorn import Config
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.server import ServerState

from jobauto_prefect.monitoring.health import run_checks
from jobauto_prefect.monitoring.monitor import Monitor
from jobauto_prefect.settings import MANAGEMENT_PORTS, Settings

logger = logging.getLogger(__name__)

JSON = "application/json"


class Part(IntEnum):
    """Each part, and the offset of its port from JOBAUTO_MANAGEMENT_PORT."""

    FACADE = 0
    PREFECT = 1
    SERVICES = 2
    WORKER = 3  #: and above: each worker of a host takes the first free one


def ports_of(settings: Settings, part: Part) -> Sequence[int]:
    """Return the ports a part may use, to try in order; none if it has no such port."""
    first = settings.management_port
    if first is None:
        return ()
    return range(first + part, first + (MANAGEMENT_PORTS if part is Part.WORKER else part + 1))


@contextlib.asynccontextmanager
async def management_port(settings: Settings, part: Part, monitor: Monitor) -> AsyncIterator[None]:
    """Serve a monitor within the context. If no port is free the part works without one."""
    ports = ports_of(settings, part)
    server = await _server(settings.management_host, ports, monitor) if ports else None
    try:
        yield
    finally:
        if server is not None:
            server.close()


async def _server(
    host: str, ports: Sequence[int], monitor: Monitor
) -> asyncio.base_events.Server | None:
    async def application(scope: dict[str, Any], _receive: Any, send: Send) -> None:
        status, kind, body = await _answer(monitor, scope["method"], scope["path"])
        headers = [
            (b"content-type", kind.encode()),
            (b"content-length", str(len(body)).encode()),
            (b"cache-control", b"no-store"),
            (b"x-content-type-options", b"nosniff"),
        ]
        await send({"type": "http.response.start", "status": status, "headers": headers})
        shown = b"" if scope["method"] == "HEAD" else body
        await send({"type": "http.response.body", "body": shown})

    config = Config(
        application,
        http="h11",
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        proxy_headers=False,
        server_header=False,
    )
    config.load()
    state = ServerState()
    nothing: dict[str, Any] = {}
    loop, reason = asyncio.get_running_loop(), ""
    for port in ports:
        try:
            server = await loop.create_server(
                lambda: H11Protocol(config, state, nothing), host, port
            )
        except OSError as error:
            reason = error.strerror or str(error)
        else:
            logger.info("metrics and health are at http://%s:%d", host, port)
            return server
    tried = f"{ports[0]}" if len(ports) == 1 else f"{ports[0]} to {ports[-1]}"
    logger.warning("no management port: %s:%s can't be listened on: %s", host, tried, reason)
    return None


Send = Callable[[dict[str, Any]], Awaitable[None]]


async def _answer(monitor: Monitor, method: str, path: str) -> tuple[int, str, bytes]:
    if method not in ("GET", "HEAD"):
        return 405, JSON, b'{"error": "only GET"}'
    if path == "/metrics":
        return 200, monitor.content_type, await asyncio.to_thread(monitor.exposition)
    checks = {"/healthz": monitor.signs, "/readyz": monitor.signs | monitor.checks}.get(path)
    if checks is None:
        return 404, JSON, b'{"error": "there are /metrics, /healthz and /readyz"}'
    reasons = await run_checks(checks)
    well = all(why is None for why in reasons.values())
    answer = {"ok": well, "checks": {name: why or "ok" for name, why in reasons.items()}}
    return 200 if well else 503, JSON, json.dumps(answer).encode()
