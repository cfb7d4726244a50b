"""The table of Prefect's routes is complete, and means what Prefect means."""

import os
from collections.abc import Iterator
from importlib.metadata import version
from typing import Any

import pytest

from jobauto_prefect.facade.auth.permissions import ROLES, Role
from jobauto_prefect.facade.gateway.policy.scope_rules import RULES
from jobauto_prefect.facade.gateway.route_lookup import find_route, find_socket
from jobauto_prefect.facade.gateway.routes import (
    CONFIGURES,
    OPEN_PATHS,
    ROUTES,
    SOCKETS,
    Action,
    ScopeRule,
)

SOMETHING = "0b9e9c60-5f3b-4d1c-8d3e-0123456789ab"


OF_LATER_PREFECTS = {("GET", "/observed-states"): (3, 9)}
"""Routes of the table, and since which Prefect they are there, if not since the oldest."""


def prefect_version() -> tuple[int, ...]:
    return tuple(map(int, version("prefect").split(".")[:2]))


@pytest.fixture(scope="module")
def prefect() -> Any:
    from prefect.server.api.server import create_api_app

    return create_api_app()


def routes_of(app: Any) -> set[tuple[str, str]]:
    paths = app.openapi()["paths"]
    return {
        (method.upper(), path)
        for path, methods in paths.items()
        for method in methods
        if path not in OPEN_PATHS
    }


def sockets_of(router: Any) -> Iterator[str]:
    for route in getattr(router, "routes", ()):
        if "WebSocket" in type(route).__name__:
            yield route.path
        yield from sockets_of(getattr(route, "original_router", route))


def test_every_route_of_the_installed_prefect_is_in_the_table(prefect: Any) -> None:
    known = [(route.method, route.path) for route in ROUTES]
    assert sorted(routes_of(prefect) - set(known)) == []
    later = {route for route, since in OF_LATER_PREFECTS.items() if since > prefect_version()}
    assert sorted(set(known) - routes_of(prefect)) == sorted(later)
    assert len(known) == len(set(known))


def test_every_socket_of_the_installed_prefect_is_in_the_table(prefect: Any) -> None:
    assert {socket.path for socket in SOCKETS} == set(sockets_of(prefect))


def test_every_field_is_one_that_prefect_knows(prefect: Any) -> None:
    document = prefect.openapi()
    known = set()
    for schema in document["components"]["schemas"].values():
        known |= set(schema.get("properties", ()))
    for route in ROUTES:
        assert set(route.allowed_fields) <= known, route.path


def test_every_permission_is_one_that_administrators_have_and_every_reach_has_a_check() -> None:
    for rule in (*ROUTES, *SOCKETS):
        assert rule.permission in ROLES[Role.ADMIN], rule.path
    assert set(RULES) == set(ScopeRule)


@pytest.mark.parametrize("route", ROUTES, ids=lambda one: f"{one.method} {one.path}")
def test_a_path_leads_to_its_own_route(route: Any) -> None:
    path = route.path
    for name in ("id", "schedule_id"):
        path = path.replace(f"{{{name}}}", SOMETHING)
    for name in ("view", "countable", "key"):
        path = path.replace(f"{{{name}}}", "x")
    while "{" in path:
        path = path.replace(path[path.index("{") : path.index("}") + 1], "a b")
    found = find_route(route.method, path)
    assert found is not None
    assert found[0] is route


def test_what_changes_something_is_known_to_do_so() -> None:
    for route in ROUTES:
        if route.method in ("PUT", "DELETE"):
            assert route.action is not None, route.path
        if route.method == "GET":
            assert route.action is None, route.path
        if route.action is Action.DELETE:
            assert route.method == "DELETE" or "bulk" in route.path
        if route.member_rule is not None and route.action is not None:
            assert route.permission.startswith("jobs.") or route.permission == CONFIGURES


@pytest.mark.parametrize(
    "path",
    [
        "/flows",
        "/flows/1",
        "/flows/nonsense",
        "/work_pools/a/b",
        "//flows/filter",
        "/flows/filter/",
    ],
)
def test_other_paths_lead_nowhere(path: str) -> None:
    assert find_route("GET", path) is None
    assert find_route("POST", path) is None


def test_a_socket_says_its_pool() -> None:
    found = find_socket("/work_pools/a b/workers/connect")
    assert found is not None
    assert found[1] == {"work_pool_name": "a b"}
    assert "PREFECT_SERVER_API_AUTH_STRING" not in os.environ
