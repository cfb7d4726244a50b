"""Query parameters that a read of the published dialect has left out: its answer names them."""

from urllib.parse import quote

from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from jobauto_prefect.facade.http.requests import MAX_WARNED, SAFE

IGNORED = "X-Jobauto-Ignored"


class IgnoredParametersMiddleware:
    """Lets answers name the query parameters that were ignored."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Name ignored parameters in the answer; sockets and the lifespan are passed on."""

        async def naming(message: Message) -> None:
            names = scope["state"].get("ignored_parameters")
            if message["type"] == "http.response.start" and names:
                shown = ", ".join(quote(name[:64], safe=SAFE) for name in names[:MAX_WARNED])
                MutableHeaders(scope=message)[IGNORED] = shown
            await send(message)

        if scope["type"] == "http":
            scope.setdefault("state", {})
        await self._app(scope, receive, naming if scope["type"] == "http" else send)
