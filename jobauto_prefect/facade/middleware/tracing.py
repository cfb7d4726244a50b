"""Requests of the contract as spans. Only used if the facade traces."""

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from jobauto_prefect.facade.http.body_sizes import INTERNAL
from jobauto_prefect.facade.middleware.transport import READING, ROUTE
from jobauto_prefect.logs import current_log_context
from jobauto_prefect.monitoring import tracing


class TracingMiddleware:
    """A span for each request that writes, or that has a `traceparent` to continue.

    Other reads are what programs ask all the time. Claims and reports are spans of their job.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Trace a request; sockets and the application's lifespan are passed on."""
        is_quiet = scope["type"] != "http" or scope["path"].startswith(INTERNAL)
        if is_quiet or (scope["method"] in READING and current_log_context().traceparent is None):
            await self._app(scope, receive, send)
            return
        status = 500

        async def noting(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        with tracing.span(scope["method"]) as span:
            try:
                await self._app(scope, receive, noting)
            finally:
                route = scope["state"].get(ROUTE)
                if span is not None:
                    span.update_name(f"{scope['method']} {route or ''}".rstrip())
                    span.set_attributes(
                        {
                            "http.request.method": scope["method"],
                            "http.route": route or "",
                            "http.response.status_code": status,
                            **{
                                f"jobauto.{k}": v
                                for k, v in current_log_context().members().items()
                            },
                        }
                    )
