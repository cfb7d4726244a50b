"""Where the contract is reached: one set of routes, several addresses, each with its dialect."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

from fastapi import Request
from starlette.types import ASGIApp, Receive, Scope, Send

from jobauto_prefect.facade.dialect import OWN, Dialect

CONTRACT = "/api/v1"
"""Where the routes are."""


@dataclass(frozen=True, slots=True)
class Address:
    """The beginning of the contract's paths, and how it speaks there."""

    prefix: str
    dialect: Dialect = OWN


HERE = Address(CONTRACT)


class Addresses:
    """Leads requests from every address to the routes.

    The address is then in `scope["address"]`, and the path that was asked for in
    `scope["asked_path"]`.
    """

    def __init__(self, app: ASGIApp, others: Sequence[Address]) -> None:
        self._app = app
        # /api begins /api/v1, too: the longest one counts.
        self._known = sorted((HERE, *others), key=lambda one: len(one.prefix), reverse=True)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request; what is at no address is passed on as it is."""
        if scope["type"] == "http":
            scope = self._led(scope)
        await self._app(scope, receive, send)

    def _led(self, scope: Scope) -> Scope:
        path: str = scope["path"]
        for one in self._known:
            if path == one.prefix or path.startswith(f"{one.prefix}/"):
                here = CONTRACT + (path.removeprefix(one.prefix) or "/")
                return {**scope, "path": here, "address": one, "asked_path": path}
        return {**scope, "address": HERE, "asked_path": path}


def address_of(request: Request) -> Address:
    """The address at which a request came."""
    return cast("Address", request.scope["address"])


def asked_path(request: Request) -> str:
    """The path as the client knows it."""
    path: str = request.scope["asked_path"]
    return path
