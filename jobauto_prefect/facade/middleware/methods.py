"""HTTP methods that are handled alike for every route."""

from starlette.types import ASGIApp, Message, Receive, Scope, Send


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
        elif not over:  # end immediately: followed output may last for hours
            over = True
            await send({"type": "http.response.body"})

    return send_head
