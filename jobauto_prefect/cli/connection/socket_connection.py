"""The connection to the facade running in this home, by its socket, without heavy imports.

Each request opens a connection: on one machine that costs nothing, and the facade can't have closed
it meanwhile.
"""

import asyncio
import contextlib
import socket
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

import h11

from jobauto_prefect import __version__
from jobauto_prefect.cli.connection.protocol import Request, Response
from jobauto_prefect.errors import FacadeUnavailable
from jobauto_prefect.local_socket import connect

ANSWER_SECONDS = 300.0
"""Longer than a facade takes: its database has limits of its own."""

CHUNK = 65536
PATH_SAFE = "/%:@!$&'()*+,;=~"


class SocketConnection:
    """A connection by HTTP over the socket of a home."""

    def __init__(self, home: Path) -> None:
        self._home = home

    async def ask(self, question: Request) -> Response:
        """Send a request, see `Connection`."""
        seconds = max(ANSWER_SECONDS, question.seconds or 0)
        connection = connect(self._home)
        if connection is None:
            raise self._gone("has ended")
        try:
            async with asyncio.timeout(seconds):
                return await _exchange(connection, question)
        except TimeoutError:
            raise self._gone(f"has not answered for {seconds:.0f} s") from None
        except (OSError, h11.RemoteProtocolError):
            raise self._gone("has ended before it answered") from None

    def _gone(self, what: str) -> FacadeUnavailable:
        return FacadeUnavailable(
            f"the service that runs with {self._home} {what}; check the service, and try again"
        )


async def _exchange(connection: socket.socket, question: Request) -> Response:
    with connection:
        connection.setblocking(False)
        http = h11.Connection(h11.CLIENT)
        with contextlib.suppress(ConnectionError):  # if a large body is refused unread
            content = question.content or b""
            query = urlencode({name: _text(value) for name, value in question.query.items()})
            headers = {
                "Host": "localhost",
                "User-Agent": f"jobauto/{__version__}",
                "Content-Length": str(len(content)),
                "Connection": "close",
                **question.headers,
            }
            request = h11.Request(
                method=question.method,
                target=quote(question.path, safe=PATH_SAFE) + (f"?{query}" if query else ""),
                headers=list(headers.items()),
            )
            events = (request, h11.Data(data=content), h11.EndOfMessage())
            await asyncio.get_running_loop().sock_sendall(
                connection, b"".join(http.send(event) or b"" for event in events)
            )
        return await _answer(http, connection)


def _text(value: Any) -> str:
    """Format a query field as httpx does."""
    if isinstance(value, bool):
        return str(value).lower()
    return "" if value is None else str(value)


async def _answer(http: h11.Connection, connection: socket.socket) -> Response:
    headers: Mapping[str, str] = {}
    status, content = 0, bytearray()
    while True:
        event = http.next_event()
        if event is h11.NEED_DATA:
            http.receive_data(await asyncio.get_running_loop().sock_recv(connection, CHUNK))
        elif isinstance(event, h11.Response):
            status = event.status_code
            headers = {
                name.decode("latin-1"): value.decode("latin-1") for name, value in event.headers
            }
        elif isinstance(event, h11.Data):
            content += event.data
        elif isinstance(event, h11.EndOfMessage):
            return Response(status, headers, bytes(content))
        elif isinstance(event, h11.ConnectionClosed):
            raise ConnectionError
