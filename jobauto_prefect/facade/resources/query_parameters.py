"""Query parameters that no document names: a mistyped filter must not widen what is changed."""

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any
from urllib.parse import quote

from fastapi import Request
from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from jobauto_prefect.definitions.findings import did_you_mean
from jobauto_prefect.errors import Fault, InvalidInput
from jobauto_prefect.facade.http.addresses import CONTRACT, address_of
from jobauto_prefect.facade.http.dialect import OWN
from jobauto_prefect.facade.http.requests import IGNORED_PARAMETERS, MAX_WARNED, SAFE
from jobauto_prefect.facade.kinds.registry import RESOURCES
from jobauto_prefect.facade.openapi.components import parameters
from jobauto_prefect.facade.openapi.document import paths
from jobauto_prefect.facade.openapi.schemas import component_schemas
from jobauto_prefect.facade.resources.job_deletion import DELETE_JOBS

PUBLISHED_ON_WRITES = ("limit", "token")
"""What the published document names of writes, to which it says nothing; of the deletion of many
jobs it names nothing that could be taken for a bound."""

CONDITIONS = ("If-Match", "If-Unmodified-Since")

IGNORED = "X-Jobauto-Ignored"
"""The header that names what a read of the published dialect has left out."""

Operation = tuple[str, str]
"""Method, and a path without the names of its parts."""

Source = Callable[[], Iterable[str]]
"""Gives names of parameters. Those of a body's fields are read when they are needed: that is
slow.
"""


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


class ParameterIndex:
    """The parameters of all operations, in whichever document.

    `written` are the fields that other dialects have of a record kind: a write's fields may be
    in its query.
    """

    def __init__(self, written: Mapping[str, Collection[str]]) -> None:
        self._written = written
        self._sources: Mapping[Operation, Sequence[Source]] = {}
        self._known: dict[Operation, frozenset[str]] = {}

    def names_of(self, method: str, path: str) -> frozenset[str]:
        """Return the names of an operation's parameters; `path` is that of its route."""
        operation = _operation(method, path.removeprefix(CONTRACT))
        if operation not in self._known:
            self._sources = self._sources or self._read()
            names = (source() for source in self._sources.get(operation, ()))
            self._known[operation] = frozenset().union(*names)
        return self._known[operation]

    def _read(self) -> Mapping[Operation, Sequence[Source]]:
        documented: dict[Operation, list[Source]] = {
            _operation(method, path): [partial(_parameter_names, operation)]
            for path, methods in paths().items()
            for method, operation in methods.items()
        }
        for resource in RESOURCES:
            members = {
                "id",
                f"{resource.kind.item}_id",
                *resource.kind.aliases,
                *self._written.get(resource.kind.item, ()),
            }
            write, update = ("POST", f"/{resource.kind.item}"), ("POST", f"/{resource.kind.item}/*")
            if write in documented:
                documented[write].append(partial(frozenset, members))
                documented[update] += documented[write]
            if resource.put:
                documented["PUT", f"/{resource.kind.item}/*"] = documented[
                    "POST", f"/{resource.kind.item}/*"
                ]
            if resource.listed_at_item:
                documented["GET", f"/{resource.kind.item}"] = documented[
                    "GET", f"/{resource.kind.collection}"
                ]
        for export in ("/data-export", "/data-export-download"):
            names: Source = partial(frozenset, ("action", "format"))
            documented["GET", export] = documented["POST", export] = [names]
        return documented


async def refuse_conditions(request: Request) -> None:
    """Refuse a change on conditions that are not judged here: ignored, they would overwrite.

    Raises:
        InvalidInput: naming them.
    """
    named = [name for name in CONDITIONS if request.method != "GET" and name in request.headers]
    if named:
        message = "records have no ETag, so this can't be judged; send the change without it"
        raise InvalidInput([Fault(f"/{name}", "condition", message) for name in named])


async def refuse_unknown_parameters(request: Request) -> None:
    """Refuse query parameters that nobody documents; reads of other dialects only name them.

    What published clients add to any read is passed over; of a write, only where they speak.

    Raises:
        InvalidInput: with all of them.
    """
    names = list(dict.fromkeys(request.query_params))
    if not names:
        return
    index: ParameterIndex = request.app.state.parameters
    route = request.scope["route"]
    known_names = index.names_of(request.method, route.path_format)
    reads, is_own = request.method == "GET", address_of(request).dialect is OWN
    passed: Collection[str] = IGNORED_PARAMETERS if reads else ()
    if not reads and not is_own and route.name != DELETE_JOBS:
        passed = PUBLISHED_ON_WRITES
    unknown = [name for name in names if name not in known_names and name not in passed]
    if unknown and reads and not is_own:
        request.state.ignored_parameters = unknown
    elif unknown:
        raise InvalidInput([_fault(name, known_names) for name in unknown])


def _fault(name: str, known_names: frozenset[str]) -> Fault:
    shown = ", ".join(sorted(known_names)) or "none"
    hint = did_you_mean(name, sorted(known_names))
    return Fault(f"/{name}", "unknown", f"no such parameter here{hint}; there are: {shown}")


def _operation(method: str, path: str) -> Operation:
    """Return the operation for all spellings of a path: `/app/{appId}.{suffix}` is `/app/*`."""
    return method.upper(), re.sub(r"\{[^}]*\}", "*", path).removesuffix(".*").rstrip("/")


def _parameter_names(operation: Mapping[str, Any]) -> Iterator[str]:
    for parameter in operation.get("parameters", ()):
        resolved = _resolve(parameter)
        if resolved["in"] == "query":
            yield resolved["name"]
    for content in operation.get("requestBody", {}).get("content", {}).values():
        yield from _property_names(content.get("schema", {}))


def _property_names(schema: Mapping[str, Any]) -> Iterator[str]:
    resolved = _resolve(schema)
    yield from resolved.get("properties", ())
    parts: Iterable[Mapping[str, Any]] = (*resolved.get("allOf", ()), *resolved.get("anyOf", ()))
    for part in parts:
        yield from _property_names(part)


def _resolve(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    if "$ref" not in schema:
        return schema
    _, _, kind, name = schema["$ref"].split("/")
    component: Mapping[str, Any] = (parameters() if kind == "parameters" else component_schemas())[
        name
    ]
    return component
