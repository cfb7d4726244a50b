"""Query parameters that no document names: a mistyped filter must not widen what is changed."""

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any
from urllib.parse import quote

from fastapi import Request
from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from jobauto_prefect.definitions.messages import like
from jobauto_prefect.errors import Fault, InvalidInput
from jobauto_prefect.facade.addresses import CONTRACT, address_of
from jobauto_prefect.facade.dialect import OWN
from jobauto_prefect.facade.openapi import document
from jobauto_prefect.facade.requests import MEANINGLESS, SAFE, WARNED
from jobauto_prefect.facade.resources import RESOURCES

IGNORED = "X-Jobauto-Ignored"
"""The header that names what a read of the published dialect has left out."""

Operation = tuple[str, str]
"""Method, and a path without the names of its parts."""


class IgnoredNames:
    """Lets answers name the query parameters that were ignored."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request; sockets and the application's lifespan are passed on."""

        async def naming(message: Message) -> None:
            names = scope["state"].get("ignored_parameters")
            if message["type"] == "http.response.start" and names:
                shown = ", ".join(quote(name[:64], safe=SAFE) for name in names[:WARNED])
                MutableHeaders(scope=message)[IGNORED] = shown
            await send(message)

        if scope["type"] == "http":
            scope.setdefault("state", {})
        await self._app(scope, receive, naming if scope["type"] == "http" else send)


class Parameters:
    """The parameters of all operations, in whichever document.

    `written` are the members that other dialects have of a record kind: a write's members may be
    in its query.
    """

    def __init__(self, written: Mapping[str, Collection[str]]) -> None:
        self._written = written
        self._documented: Mapping[Operation, frozenset[str]] = {}

    def known(self, method: str, path: str) -> frozenset[str]:
        """Those of an operation; `path` is that of its route."""
        if not self._documented:
            self._documented = self._read()
        operation = _shape(method, path.removeprefix(CONTRACT))
        return frozenset(MEANINGLESS) | self._documented.get(operation, frozenset())

    def _read(self) -> Mapping[Operation, frozenset[str]]:
        found = {
            _shape(method, path): frozenset(_names(said))
            for path, methods in document()["paths"].items()
            for method, said in methods.items()
        }
        for resource in RESOURCES:
            members = {
                "id",
                f"{resource.item}_id",
                *resource.aliases,
                *self._written.get(resource.item, ()),
            }
            write, update = ("POST", f"/{resource.item}"), ("POST", f"/{resource.item}/*")
            if write in found:
                found[write] |= members
                found[update] |= found[write]
            if resource.put:
                found["PUT", f"/{resource.item}/*"] = found["POST", f"/{resource.item}/*"]
            if resource.listed_at_item:
                found["GET", f"/{resource.item}"] = found["GET", f"/{resource.collection}"]
        for export in ("/data-export", "/data-export-download"):
            found["GET", export] = found["POST", export] = frozenset({"action", "format"})
        return found


async def refuse_unknown(request: Request) -> None:
    """Refuse query parameters that nobody documents; reads of other dialects only name them.

    Raises:
        InvalidInput: with all of them.
    """
    names = list(dict.fromkeys(request.query_params))
    if not names:
        return
    parameters: Parameters = request.app.state.parameters
    known = parameters.known(request.method, request.scope["route"].path_format)
    unknown = [name for name in names if name not in known]
    if unknown and request.method == "GET" and address_of(request).dialect is not OWN:
        request.state.ignored_parameters = unknown
    elif unknown:
        raise InvalidInput([_fault(name, known) for name in unknown])


def _fault(name: str, known: frozenset[str]) -> Fault:
    shown = ", ".join(sorted(known - {*MEANINGLESS})) or "none"
    hint = like(name, sorted(known))
    return Fault(f"/{name}", "unknown", f"no such parameter here{hint}; there are: {shown}")


def _shape(method: str, path: str) -> Operation:
    """One for all spellings of a path: `/app/{appId}.{suffix}` is `/app/*`."""
    return method.upper(), re.sub(r"\{[^}]*\}", "*", path).removesuffix(".*").rstrip("/")


def _names(operation: Mapping[str, Any]) -> Iterator[str]:
    for parameter in operation.get("parameters", ()):
        resolved = _resolved(parameter)
        if resolved["in"] == "query":
            yield resolved["name"]
    for content in operation.get("requestBody", {}).get("content", {}).values():
        yield from _members(content.get("schema", {}))


def _members(schema: Mapping[str, Any]) -> Iterator[str]:
    resolved = _resolved(schema)
    yield from resolved.get("properties", ())
    parts: Iterable[Mapping[str, Any]] = (*resolved.get("allOf", ()), *resolved.get("anyOf", ()))
    for part in parts:
        yield from _members(part)


def _resolved(said: Mapping[str, Any]) -> Mapping[str, Any]:
    if "$ref" not in said:
        return said
    _, _, kind, name = said["$ref"].split("/")
    found: Mapping[str, Any] = document()["components"][kind][name]
    return found
