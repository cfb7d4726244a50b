"""Any ASGI application on a real port, as this service is served."""

import asyncio
import contextlib
import json
import socket
import threading
import time
from collections.abc import Iterator

import uvicorn
from starlette.types import ASGIApp, Receive, Scope, Send

from jobauto_prefect.facade.server_options import server_options
from jobauto_prefect.settings import Settings
from tests.support.ports import free_port

STARTS_WITHIN = 90  # seconds


class _Server(uvicorn.Server):
    """Ends as soon as it is told to; uvicorn's own looks ten times a second, and then pauses."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self._ending = asyncio.Event()
        self._loop: asyncio.AbstractEventLoop | None = None

    async def main_loop(self) -> None:
        self._loop = asyncio.get_running_loop()
        while not await self.on_tick(0):  # the date of the answers
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._ending.wait(), 1)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        for listening in self.servers:
            listening.close()
        for connection in list(self.server_state.connections):
            connection.shutdown()
        await asyncio.sleep(0.005)
        await self._wait_tasks_to_complete()
        await self.lifespan.shutdown()

    def end(self) -> None:
        """From another thread."""
        self.should_exit = True
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._ending.set)


@contextlib.contextmanager
def serving(app: ASGIApp, settings: Settings, port: int | None = None) -> Iterator[int]:
    """The port of a running server."""
    port = port or free_port()
    options = server_options(settings)
    server = _Server(uvicorn.Config(app, host="127.0.0.1", port=port, **options))
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    until = time.monotonic() + STARTS_WITHIN
    while not server.started and thread.is_alive() and time.monotonic() < until:
        time.sleep(0.002)
    try:
        assert server.started, f"nothing listens on {port}"
        yield port
    finally:
        server.end()
        thread.join(20)


def spoken(port: int, *lines: str, body: bytes = b"") -> tuple[int, dict[str, str], bytes]:
    """Status, headers and body of the answer to a request that is written by hand."""
    request = "\r\n".join((*lines, "Connection: close", "", "")).encode("latin-1")
    with socket.create_connection(("127.0.0.1", port), timeout=60) as connection:
        connection.sendall(request + body)
        answer = b"".join(iter(lambda: connection.recv(65536), b""))
    head, _, content = answer.partition(b"\r\n\r\n")
    status, *fields = head.decode("latin-1").split("\r\n")
    pairs = (field.split(": ", 1) for field in fields)
    return int(status.split()[1]), {name.lower(): value for name, value in pairs}, content


async def mirror(scope: Scope, receive: Receive, send: Send) -> None:
    """An application that tells what reached it; sockets are accepted and told, too."""
    if scope["type"] == "lifespan":
        return
    told = json.dumps(
        {
            "scheme": scope["scheme"],
            "client": scope["client"][0],
            "request_id": scope["state"]["request_id"],
            "path": scope["path"],
        }
    )
    if scope["type"] == "websocket":
        await receive()
        await send({"type": "websocket.accept"})
        await send({"type": "websocket.send", "text": told})
        await send({"type": "websocket.close"})
        return
    if scope["path"] == "/broken":
        raise RuntimeError("broken on purpose")
    length = str(len(told)).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", length)]
    if scope["path"] == "/static":
        headers += [(b"etag", b'"1"'), (b"x-frame-options", b"SAMEORIGIN")]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": told.encode()})
