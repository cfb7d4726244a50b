"""Finding the route, or the socket, that a path belongs to."""

import re
from collections.abc import Iterable, Mapping
from typing import Generic, Protocol, TypeVar
from uuid import UUID

from jobauto_prefect.facade.gateway.routes import ROUTES, SOCKETS, Route, Socket

UUIDS = frozenset({"id", "schedule_id"})
"""Path parameters that only match UUIDs, as in Prefect's own routes."""


class HasPath(Protocol):
    """A route or a socket."""

    @property
    def path(self) -> str:
        """The path as in Prefect's document, without `/api`."""


P = TypeVar("P", bound=HasPath)


class PathTable(Generic[P]):
    """Routes, or sockets, by their path."""

    def __init__(self, routes: Iterable[P]) -> None:
        self._by_first: dict[str, list[tuple[re.Pattern[str], P]]] = {}
        for route in routes:
            entries = self._by_first.setdefault(_first(route.path), [])
            entries.append((_pattern(route.path), route))

    def match(self, path: str) -> tuple[P, Mapping[str, str]] | None:
        """Find the route of a path, and the path's parameters; None if there is no such route."""
        for pattern, route in self._by_first.get(_first(path), ()):
            match = pattern.fullmatch(path)
            parameters = match.groupdict() if match else {}
            if match and all(is_uuid(parameters[name]) for name in UUIDS & parameters.keys()):
                return route, parameters
        return None


def _first(path: str) -> str:
    return path[1:].partition("/")[0]


def _pattern(path: str) -> re.Pattern[str]:
    # What Prefect reads as one segment contains no slash, whatever was encoded in the request.
    parts = re.split(r"\{(\w+)\}", path)
    texts = (
        f"(?P<{part}>[^/]+)" if number % 2 else re.escape(part) for number, part in enumerate(parts)
    )
    return re.compile("".join(texts))


def is_uuid(text: object) -> bool:
    """Whether a text is a UUID as Prefect's paths take them: with hyphens, each in its place."""
    try:
        return isinstance(text, str) and str(UUID(text)) == text.lower()
    except ValueError:
        return False


_ROUTES = {
    method: PathTable(route for route in ROUTES if route.method == method)
    for method in {route.method for route in ROUTES}
}
_SOCKETS = PathTable(SOCKETS)


def find_route(method: str, path: str) -> tuple[Route, Mapping[str, str]] | None:
    """Find the route of a request, and its path's parameters; None if the table has none."""
    paths = _ROUTES.get(method)
    return paths.match(path) if paths else None


def find_socket(path: str) -> tuple[Socket, Mapping[str, str]] | None:
    """Find the websocket of a path, and its parameters; None if the table has none."""
    return _SOCKETS.match(path)
