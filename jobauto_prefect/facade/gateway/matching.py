"""Which route of the table a request is for."""

import re
from collections.abc import Iterable, Mapping
from typing import Generic, Protocol, TypeVar
from uuid import UUID

from jobauto_prefect.facade.gateway.table import ROUTES, SOCKETS, Route, Socket

UUIDS = frozenset({"id", "schedule_id"})
"""Parts of paths that only match UUIDs, as in Prefect's own routes."""


class Rule(Protocol):
    """What has a path."""

    @property
    def path(self) -> str:
        """As in Prefect's document, without `/api`."""


R = TypeVar("R", bound=Rule)


class Paths(Generic[R]):
    """Rules by their path."""

    def __init__(self, rules: Iterable[R]) -> None:
        self._by_first: dict[str, list[tuple[re.Pattern[str], R]]] = {}
        for rule in rules:
            self._by_first.setdefault(_first(rule.path), []).append((_pattern(rule.path), rule))

    def match(self, path: str) -> tuple[R, Mapping[str, str]] | None:
        """The rule for a path, and what the path says; None: there is none."""
        for pattern, rule in self._by_first.get(_first(path), ()):
            found = pattern.fullmatch(path)
            if found is not None and _are_uuids(found.groupdict()):
                return rule, found.groupdict()
        return None


def _first(path: str) -> str:
    return path[1:].partition("/")[0]


def _pattern(path: str) -> re.Pattern[str]:
    # What Prefect reads as one segment holds no slash, whatever was encoded in the request.
    parts = re.split(r"\{(\w+)\}", path)
    texts = (f"(?P<{one}>[^/]+)" if n % 2 else re.escape(one) for n, one in enumerate(parts))
    return re.compile("".join(texts))


def _are_uuids(said: Mapping[str, str]) -> bool:
    return all(is_uuid(value) for name, value in said.items() if name in UUIDS)


def is_uuid(text: object) -> bool:
    """Whether a text is a UUID as Prefect's paths take them: with hyphens."""
    try:
        return isinstance(text, str) and len(text) == 36 and bool(UUID(text))
    except ValueError:
        return False


def _by_method() -> dict[str, Paths[Route]]:
    methods = {route.method for route in ROUTES}
    return {one: Paths(route for route in ROUTES if route.method == one) for one in methods}


_ROUTES = _by_method()
_SOCKETS = Paths(SOCKETS)


def route_of(method: str, path: str) -> tuple[Route, Mapping[str, str]] | None:
    """The route of a request, and what its path says; None: the table does not know it."""
    paths = _ROUTES.get(method)
    return paths.match(path) if paths else None


def socket_of(path: str) -> tuple[Socket, Mapping[str, str]] | None:
    """The same for a websocket."""
    return _SOCKETS.match(path)
