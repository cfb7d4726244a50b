"""What HTTP says of methods, for every route alike."""

from fastapi import Request
from starlette.routing import Match
from starlette.types import ASGIApp, Message, Receive, Scope, Send

METHODS = ("DELETE", "GET", "POST", "PUT")
"""Those that routes here are made for; HEAD comes with GET."""


class HeadMiddleware:
    """Answers HEAD as GET, without the body (RFC 9110, 9.3.2)."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer HEAD as GET without a body; all other requests are passed on unchanged."""
        if scope["type"] == "http" and scope["method"] == "HEAD":
            await self._app({**scope, "method": "GET"}, receive, _without_body(send))
        else:
            await self._app(scope, receive, send)


def _without_body(send: Send) -> Send:
    over = False

    async def send_head(message: Message) -> None:
        nonlocal over
        if message["type"] != "http.response.body":
            await send(message)
        elif not over:  # the end at once: output that is followed may come for hours
            over = True
            await send({"type": "http.response.body"})

    return send_head


def allowed_methods(request: Request) -> list[str]:
    """Return the methods that are possible where this request went (RFC 9110, 10.2.1)."""
    methods = [
        method
        for method in METHODS
        if any(
            route.matches({**request.scope, "method": method})[0] is Match.FULL
            for route in request.app.routes
        )
    ]
    return [*methods, "HEAD"] if "GET" in methods else methods
