"""A Prefect server behind a proxy that keeps count."""

import contextlib
from collections.abc import Iterator
from pathlib import Path

import httpx
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from jobauto_prefect.settings import Settings
from tests.support.asgi_server import serving

METHODS = ["GET", "POST", "PATCH", "PUT", "DELETE"]
ASKING = ("/filter", "/count")
BUSY = 503
"""Prefect's answer while its SQLite is locked: nothing has happened, and clients ask again."""


class Counted:
    """The address of the proxy, and what Prefect answered there, as `METHOD /path`."""

    def __init__(self) -> None:
        self.url = ""
        self.calls: list[str] = []

    @property
    def writes(self) -> list[str]:
        """The calls that change something."""
        return [
            call for call in self.calls if not (call.startswith("GET ") or call.endswith(ASKING))
        ]


def counting_app(api: str, calls: list[str]) -> Starlette:
    """An application that passes everything on to Prefect's API at this address."""
    # Prefect may close a kept connection in the moment it is used again: none is kept.
    upstream = httpx.AsyncClient(timeout=30, limits=httpx.Limits(max_keepalive_connections=0))

    async def passed_on(request: Request) -> Response:
        path = request.url.path.removeprefix("/api")
        content_type = {"Content-Type": request.headers.get("content-type", "application/json")}
        answer = await upstream.request(
            request.method,
            f"{api}{path}",
            content=await request.body(),
            headers=content_type,
            params=request.query_params,
        )
        if answer.status_code != BUSY:
            calls.append(f"{request.method} {path}")
        kind = answer.headers.get("content-type")
        return Response(answer.content, answer.status_code, media_type=kind)

    return Starlette(routes=[Route("/{path:path}", passed_on, methods=METHODS)])


@contextlib.contextmanager
def counted(api: str, home: Path) -> Iterator[Counted]:
    """A server that passes everything on to Prefect's API at this address."""
    calls = Counted()
    with serving(counting_app(api, calls.calls), Settings(home=home)) as port:
        calls.url = f"http://127.0.0.1:{port}/api"
        yield calls


class CountingTransport(httpx.AsyncHTTPTransport):
    """The ordinary transport, which keeps the calls that were answered, but by a busy server."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[str] = []

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        response = await super().handle_async_request(request)
        if response.status_code != BUSY:
            self.calls.append(f"{request.method} {request.url.path.removeprefix('/api')}")
        return response

    @property
    def writes(self) -> list[str]:
        """The calls that change something."""
        asking = ("GET ", "POST /flow_runs/filter", "POST /deployments/filter")
        return [call for call in self.calls if not call.startswith(asking)]

    def count(self, ending: str) -> int:
        """How many calls end like this."""
        return sum(call.endswith(ending) for call in self.calls)
