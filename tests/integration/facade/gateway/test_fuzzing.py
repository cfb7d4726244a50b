"""Every route of Prefect's own document, tried by who may do nothing of it.

Nobody of them changes anything, nothing of the other company is shown, and nothing answers 500.
"""

import functools
import random
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from jobauto_prefect.facade.gateway.routes import ROUTES, Route, ScopeRule
from tests.support.gateway import OURS, THEIRS, Gateway
from tests.support.ledger_rows import has_no_messages
from tests.support.waits import eventually

SEED = 20261122
DEEPEST = 8
NAMES = ["jobauto", "planted", "default", "x"]
PREFECTS_OWN = (502, 503)
"""Prefect failed on what it was rightly asked, or its database was busy."""

ROUNDS = {"short": 1, "long": 25}


class Inputs:
    """Paths, queries and bodies, good and bad, with the ids of both companies."""

    def __init__(self, document: dict[str, Any], ids: list[str], names: list[str]) -> None:
        self._schemas = document["components"]["schemas"]
        self._paths = document["paths"]
        self._ids = ids
        self._names = names
        self._random = random.Random(SEED)

    def path(self, route: Route) -> str:
        path = route.path
        while "{" in path:
            name = path[path.index("{") + 1 : path.index("}")]
            is_id = name in ("id", "schedule_id")
            value = self._random.choice(self._ids if is_id else self._names)
            path = path.replace(f"{{{name}}}", value, 1)
        return path

    def body(self, route: Route) -> Any:
        operation = self._paths.get(route.path, {}).get(
            route.method.lower(), {}
        )  # or of a later one
        content = operation.get("requestBody", {}).get("content", {}).get("application/json")
        return self.value(content["schema"], 0) if content else None

    def value(self, schema: dict[str, Any], depth: int) -> Any:
        if depth > DEEPEST:  # some schemas hold themselves
            return None
        if "$ref" in schema:
            schema = self._schemas[schema["$ref"].rpartition("/")[2]]
        choices = schema.get("anyOf") or schema.get("oneOf")
        if choices:
            return self.value(self._random.choice(choices), depth + 1)
        if schema.get("format") == "uuid":
            return self._random.choice(self._ids)
        if "enum" in schema:
            return self._random.choice(schema["enum"])
        return self._plain(schema, depth)

    def _plain(self, schema: dict[str, Any], depth: int) -> Any:
        kind = schema.get("type")
        if kind == "object":
            members = schema.get("properties", {})
            needed = schema.get("required", ())
            return {
                name: self.value(one, depth + 1)
                for name, one in members.items()
                if name in needed or (depth < 4 and self._random.random() < 0.5)
            }
        if kind == "array":
            return [self.value(schema.get("items", {}), depth + 1) for _ in range(2)]
        if schema.get("format") == "date-time":
            return "2026-11-22T00:00:00Z"
        return {
            "string": self._random.choice(self._names),
            "integer": self._random.choice([0, 1, 20]),
            "number": 1.5,
            "boolean": self._random.random() < 0.5,
            "null": None,
        }.get(str(kind), self._random.choice([None, "x", {}, []]))


@functools.cache
def prefects_document() -> dict[str, Any]:
    """Prefect's own description of its API; its server takes seconds to import."""
    from prefect.server.api.server import create_api_app

    return create_api_app().openapi()


@pytest.fixture(scope="module")
def inputs(gate: Gateway) -> Inputs:
    ids = [gate.run(OURS), gate.run(THEIRS), gate.deployment(OURS), gate.deployment(THEIRS)]
    with gate.as_("root") as root:
        line = {"name": "x", "level": 20, "timestamp": "2026-11-22T00:00:00Z"}
        lines = [line | {"message": "Planted in a log", "flow_run_id": ids[1]}]
        root.post("/logs/", json=lines).raise_for_status()
        artifact = {"key": "planted", "data": "Planted in an artifact", "flow_run_id": ids[1]}
        ids.append(root.post("/artifacts/", json=artifact).raise_for_status().json()["id"])
        ids += [one["id"] for one in root.post("/flows/filter", json={}).json()]
    return Inputs(prefects_document(), ids, NAMES)


@pytest.fixture(scope="module")
def foreign_inputs(gate: Gateway) -> Inputs:
    """What belongs to the other company alone."""
    ids = [gate.run(THEIRS), gate.deployment(THEIRS)]
    return Inputs(prefects_document(), ids, NAMES)


def state_of(gate: Gateway) -> list[Any]:
    """What nobody here may change."""
    with gate.as_("root") as root:
        runs = root.post("/flow_runs/filter", json={"sort": "ID_DESC"}).json()
        counted = [
            root.post(f"/{kind}/count", json={}).json()
            for kind in ("deployments", "flows", "work_pools", "variables", "artifacts")
        ]
        deployments = root.post("/deployments/filter", json={}).json()
    kept = ("id", "name", "tags", "paused", "parameters", "description", "schedules", "entrypoint")
    return [
        sorted((one["id"], one["name"]) for one in runs),
        counted,
        sorted(str([one[name] for name in kept]) for one in deployments),
    ]


def answers(
    client: httpx.Client, inputs: Inputs, rounds: int
) -> Iterator[tuple[Route, httpx.Response]]:
    for _ in range(rounds):
        for route in ROUTES:
            body = inputs.body(route)
            query = {"flow_run_id": inputs.path(ROUTES[0]), "include_secrets": "true"}
            chosen = query if route.method == "GET" and "states" in route.path else {}
            yield (
                route,
                client.request(route.method, inputs.path(route), json=body, params=chosen),
            )


def tried(gate: Gateway, inputs: Inputs, login: str | None, rounds: int) -> None:
    # What other tests deleted is gone from Prefect, too.
    eventually(lambda: has_no_messages(gate.ledger))
    before = state_of(gate)
    with gate.as_(login) if login else gate.anonymous() as client:
        for route, answer in answers(client, inputs, rounds):
            what = f"{login}: {route.method} {route.path}: {answer.status_code} {answer.text[:300]}"
            if login is None:
                assert answer.status_code in (401, 429), what
                continue
            assert answer.status_code < 500 or answer.status_code in PREFECTS_OWN, what
            assert "Planted" not in answer.text, what
            if route.action is not None and route.member_rule not in (
                ScopeRule.LISTED_RUNS,
                ScopeRule.LISTED_DEPLOYMENTS,
            ):
                assert answer.status_code in (400, 403, 404), what
    assert state_of(gate) == before


@pytest.mark.parametrize("login", [None, "viewer", "outsider"])
def test_nothing_is_changed_and_nothing_of_others_is_shown(
    gate: Gateway, inputs: Inputs, login: str | None
) -> None:
    tried(gate, inputs, login, ROUNDS["short"])


def test_a_manager_changes_and_sees_nothing_of_another_company(
    gate: Gateway, foreign_inputs: Inputs
) -> None:
    tried(gate, foreign_inputs, "manager", ROUNDS["short"])


@pytest.mark.soak
@pytest.mark.parametrize("login", [None, "viewer", "outsider"])
def test_nothing_is_changed_and_nothing_of_others_is_shown_at_length(
    gate: Gateway, inputs: Inputs, login: str | None
) -> None:
    tried(gate, inputs, login, ROUNDS["long"])


@pytest.mark.soak
def test_a_manager_changes_and_sees_nothing_of_another_company_at_length(
    gate: Gateway, foreign_inputs: Inputs
) -> None:
    tried(gate, foreign_inputs, "manager", ROUNDS["long"])
