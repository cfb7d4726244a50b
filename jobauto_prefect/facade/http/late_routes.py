"""Routes that FastAPI examines at their first request.

Examining one takes some milliseconds, and there are two hundred; a command requests a few.
"""

from collections.abc import Callable
from typing import Any

from fastapi import APIRouter
from fastapi.routing import APIRoute
from starlette.routing import Route
from starlette.types import Receive, Scope, Send


class LateRoute(APIRoute):
    """Knows its path and methods immediately, and its endpoint's parameters later."""

    def __init__(self, path: str, endpoint: Callable[..., Any], **options: Any) -> None:
        Route.__init__(
            self,
            path,
            endpoint,
            name=options["name"],
            include_in_schema=options["include_in_schema"],
        )
        self.methods = set(options["methods"] or ["GET"])
        self._options = options
        self._is_examined = False

    def examine(self) -> None:
        """Examine the endpoint as FastAPI's route does, once.

        Raises:
            FastAPIError: a parameter of the endpoint has an unsupported type.
        """
        if not self._is_examined:
            # Response models are for the document only.
            super().__init__(self.path, self.endpoint, **self._options | {"responses": None})
            self._is_examined = True

    def examined(self, **options: Any) -> APIRoute:
        """Return a route like this with its response models and further options."""
        return APIRoute(self.path, self.endpoint, **self._options | options)

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request that this route matches."""
        self.examine()
        await super().handle(scope, receive, send)


def router(**options: Any) -> APIRouter:
    """Return a router of such routes, with FastAPI's options."""
    return APIRouter(route_class=LateRoute, **options)
