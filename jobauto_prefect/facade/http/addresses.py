"""Addresses of the contract: one set of routes, several prefixes, each with its dialect."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast
from urllib.parse import unquote

from fastapi import Request
from starlette.types import ASGIApp, Receive, Scope, Send

from jobauto_prefect.console_addresses import CONTRACT
from jobauto_prefect.facade.http.dialect import OWN, Dialect
from jobauto_prefect.kinds import KINDS


@dataclass(frozen=True, slots=True)
class Address:
    """A path prefix of the contract, and the dialect there."""

    prefix: str
    dialect: Dialect = OWN


OWN_ADDRESS = Address(CONTRACT)


class AddressMiddleware:
    """Maps requests from every address to the routes.

    The address is then in `scope["address"]`, and the path that was asked for in
    `scope["asked_path"]`.
    """

    def __init__(self, app: ASGIApp, others: Sequence[Address]) -> None:
        self._app = app
        # /api is also a prefix of /api/v1: the longest one wins.
        self._known = sorted(
            (OWN_ADDRESS, *others), key=lambda address: len(address.prefix), reverse=True
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request; a path with none of these prefixes is passed on unchanged."""
        if scope["type"] == "http":
            path = scope["path"]
            led = [each for each in self._known if f"{path}/".startswith(f"{each.prefix}/")]
            scope = (
                mapped(scope, led[0])
                if led
                else {**scope, "address": OWN_ADDRESS, "asked_path": path}
            )
        await self._app(scope, receive, send)


def mapped(scope: Scope, address: Address) -> Scope:
    """Return the scope of a request at an address, with the path of its route."""
    path: str = scope["path"]
    asked = {**scope, "address": address, "asked_path": path}
    encoded = encode_slashes(scope, address.prefix).removeprefix(address.prefix)
    if encoded != path.removeprefix(address.prefix):
        return {**asked, "path": CONTRACT + encoded, "slashes_encoded": True}
    return {**asked, "path": CONTRACT + (encoded or "/")}


OF_COMPANIES = tuple([item] for item, kind in KINDS.items() if kind.is_owned)
"""Items whose records are named `company/name` only: their slash need not be encoded."""


def encode_slashes(scope: Scope, prefix: str) -> str:
    """Return the path with slashes within a name as %2F, and % as %25.

    These are slashes that came as %2F, and those of names like `/runtemplate/acme/Nightly.json`.
    """
    raw: bytes = scope.get("raw_path") or b""
    path: str = scope["path"]
    parts = path.split("/")
    if b"%2f" in raw.lower():
        parts = [unquote(part) for part in raw.decode("ascii", "replace").split("/")]
    place = prefix.count("/") + 2  # index of the part after the kind of record
    if parts[place - 1 : place] in OF_COMPANIES and _is_plain_name(parts[place:]):
        parts[place : place + 2] = ["/".join(parts[place : place + 2])]
    if not any("/" in part for part in parts):
        return path
    return "/".join(part.replace("%", "%25").replace("/", "%2F") for part in parts)


def _is_plain_name(parts: list[str]) -> bool:
    """Whether these begin with a company and a name, not with an id and a subresource."""
    return (
        len(parts) > 1
        and parts[0] != ""
        and not re.fullmatch("[0-9]+", parts[0])
        and "/" not in parts[0]
    )


def address_of(request: Request) -> Address:
    """Return the address at which a request came in."""
    return cast("Address", request.scope["address"])


def requested_path(request: Request) -> str:
    """Return the path as the client sent it."""
    path: str = request.scope["asked_path"]
    return path
