"""Every route of Prefect by every kind of person on own and foreign companies, from the table.

What is right follows from `gateway/routes.py` and `facade/auth/permissions.py`. `make test` tries a
fixed part of the cells, `make soak` all of them.
"""

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any
from uuid import uuid4

import httpx
import pytest

from jobauto_prefect.facade.auth.permissions import Membership, Rights, Role, combine_rights
from jobauto_prefect.facade.gateway.routes import ROUTES, Route, ScopeRule
from jobauto_prefect.ledger.access.tokens import issue_user_token
from jobauto_prefect.ledger.audit.trail import SERVICE
from jobauto_prefect.ledger.records import CompanyUser, RunTemplate, User, UserRole
from tests.support.gateway import OURS, THEIRS, Gateway
from tests.support.ledger_rows import fetch
from tests.support.servers import prefect_client, worker_token
from tests.support.waits import eventually

PART = 8
"""One cell of so many is tried by `make test`."""

PEOPLE: dict[str, tuple[tuple[Role, ...], Membership | None]] = {
    "super_admin": ((Role.SUPER_ADMIN,), None),
    "admin": ((Role.ADMIN,), None),
    "editor": ((Role.EDITOR,), Membership.VIEWER),
    "user": ((Role.USER,), Membership.VIEWER),
    "viewer": ((Role.VIEWER,), Membership.VIEWER),
    "viewing member": ((), Membership.VIEWER),
    "managing member": ((), Membership.MANAGER),
    "member admin": ((), Membership.ADMIN),
    "editor of no company": ((Role.EDITOR,), None),
    "nobody": ((), None),
}
"""Roles, and the membership in `Ours`."""

POOLS = {"worker": "jobauto", "worker of another pool": "elsewhere"}
SIDES = (OURS, THEIRS)

PASSES = "passes on to Prefect"
PREFECTS_OWN = (502, 503)

ABOUT_A_COMPANY = frozenset(
    {
        ScopeRule.DEPLOYMENT, ScopeRule.FLOW_RUN, ScopeRule.TASK_RUN, ScopeRule.ARTIFACT,
        ScopeRule.FLOW_RUN_STATE, ScopeRule.TASK_RUN_STATE, ScopeRule.DEPLOYMENT_NAME,
        ScopeRule.QUERY_FLOW_RUN, ScopeRule.QUERY_TASK_RUN,
    }
)  # fmt: skip
LISTED = frozenset({ScopeRule.LISTED_RUNS, ScopeRule.LISTED_DEPLOYMENTS})
OF_A_POOL = frozenset({ScopeRule.POOL, ScopeRule.QUEUE})
"""Both companies run in the one work pool, and the same application, which is shared."""

NOT_TRIED_AS_OWN = frozenset(
    {ScopeRule.TASK_RUN, ScopeRule.TASK_RUN_STATE, ScopeRule.QUERY_TASK_RUN}
)
"""Flow runs of ours have no task runs, so there is none of one's own either."""


@dataclass(frozen=True)
class Cell:
    """One request of the matrix."""

    route: Route
    who: str
    company: str

    def __str__(self) -> str:
        return f"{self.route.method} {self.route.path} by {self.who} on {self.company}"


CELLS = [Cell(*one) for one in itertools.product(ROUTES, (*PEOPLE, *POOLS), SIDES)]


def sampled() -> list[Cell]:
    """Every route and every person, each person with other routes, the same ones each time."""
    return [
        cell
        for cell in CELLS
        if (
            ROUTES.index(cell.route) + 3 * [*PEOPLE, *POOLS].index(cell.who)
            + SIDES.index(cell.company)
        ) % PART == 0
    ]  # fmt: skip


@dataclass
class World:
    """What there is of each company, by the names of the parts of paths."""

    gate: Gateway
    tokens: dict[str, str]
    schema: Any
    flow: dict[str, str]
    artifacts: dict[str, str]
    queue: str
    runs: dict[str, str] = field(default_factory=dict)
    states: dict[str, str] = field(default_factory=dict)

    def client(self, who: str) -> httpx.Client:
        headers = {"Authorization": f"Bearer {self.tokens[who]}"}
        # What a cell needs may take longer to make than Prefect keeps an idle connection.
        limits = httpx.Limits(keepalive_expiry=1)
        return prefect_client(self.gate.url, headers=headers, limits=limits)


@pytest.fixture(scope="module")
def world(gate: Gateway) -> World:
    company = gate.templates[OURS]["company_id"]
    tokens = {who: worker_token(gate.ledger, pool) for who, pool in POOLS.items()}
    tokens |= {who: token_of(gate, who, company) for who in PEOPLE}
    runs = {side: gate.run(side) for side in SIDES}
    with gate.as_("root") as root:
        deployments = {
            one: root.get(f"/deployments/{gate.deployment(one)}").json() for one in SIDES
        }
        states = {
            side: root.get(f"/flow_runs/{run}").raise_for_status().json()["state_id"]
            for side, run in runs.items()
        }
        artifacts = {}
        for side, run in runs.items():
            body = {"key": "matrix", "data": "x", "flow_run_id": run}
            artifacts[side] = root.post("/artifacts/", json=body).raise_for_status().json()["id"]
        queues = root.post("/work_pools/jobauto/queues/filter", json={}).json()
    return World(
        gate,
        tokens,
        deployments[OURS]["parameter_openapi_schema"],
        {side: one["flow_id"] for side, one in deployments.items()},
        artifacts,
        queues[0]["id"],
        runs,
        states,
    )


def token_of(gate: Gateway, who: str, company_id: int) -> str:
    """Of a person as the table says."""
    roles, membership = PEOPLE[who]
    with gate.ledger.writing(SERVICE) as session:
        now = gate.ledger.clock()
        user = User(login=f"matrix-{who.replace(' ', '-')}")
        user.role_assignments = [UserRole(role=role, assigned_at=now) for role in roles]
        session.add(user)
        session.flush()
        if membership:
            session.add(CompanyUser(company_id=company_id, user_id=user.id, role=membership))
        return issue_user_token(session, user, None)[0]


def expected(cell: Cell) -> str | int:
    """`PASSES`, or the status with which the gateway refuses."""
    if cell.who in POOLS:
        return _expected_of_worker(cell)
    roles, membership = PEOPLE[cell.who]
    company = 1
    rights = combine_rights(frozenset(roles), {company: membership} if membership else {})
    if not roles and not membership:
        return 403
    if cell.route.permission in rights.everywhere:
        return PASSES
    return _expected_of_member(cell, rights, company if cell.company == OURS else 2)


def _expected_of_member(cell: Cell, rights: Rights, company: int) -> str | int:
    rule, permission = cell.route.member_rule, cell.route.permission
    if rule is None:
        return 403
    if rule is ScopeRule.SCHEMA:
        return PASSES if cell.company == OURS and rights.may("jobs.read", 1) else 403
    if rule in LISTED:
        return PASSES if rights.may(permission, 1) else 403
    if rule in OF_A_POOL:
        return PASSES if rights.companies else 404
    if rule not in ABOUT_A_COMPANY:
        return PASSES
    sees = "jobs.read" if cell.route.action else permission
    if not (company in rights.companies and rights.may(sees, company)):
        return 404
    if rule in NOT_TRIED_AS_OWN:
        return 404
    return PASSES if not cell.route.action or rights.may(permission, company) else 403


def _expected_of_worker(cell: Cell) -> str | int:
    """Both companies run in the one pool."""
    rule = cell.route.worker_rule
    if rule is None:
        return 403
    if rule in NOT_TRIED_AS_OWN:
        return 404
    if rule is ScopeRule.POOL_TEMPLATE:
        return 403 if cell.who == "worker" else 404  # the pool has one
    if cell.who == "worker":
        return PASSES
    if rule in (ScopeRule.POOL_BODY, ScopeRule.LOG_LINES):
        return 403
    if rule is ScopeRule.RUN_STATES:
        return 400
    own = ABOUT_A_COMPANY | OF_A_POOL | {ScopeRule.FLOW, ScopeRule.ARTIFACT_BODY}
    return 404 if rule in own else PASSES


def request_of(cell: Cell, world: World) -> dict[str, Any]:
    """What is sent: where it passes it changes nothing that other tests look at."""
    path, passes = cell.route.path, expected(cell) == PASSES
    wide = passes and cell.route.member_rule is None and cell.who in PEOPLE
    run = world.runs[cell.company]
    if passes and (
        (cell.route.method == "DELETE" and path == "/flow_runs/{id}")
        or (cell.who == "worker" and cell.route.worker_rule is ScopeRule.RUN_STATES)
    ):
        run = world.gate.run(cell.company)
    ids = {
        "deployments": _deployment(cell, world, passes),
        "flow_runs": run,
        "flow_run_states": world.states[cell.company],
        "flows": world.flow[cell.company],
        "artifacts": _artifact(cell, world, passes),
        "work_queues": world.queue,
    }
    first = path.strip("/").partition("/")[0]
    # Only Prefect's own objects can be reached by administrators alone: none of them is named.
    parts = {
        "id": str(uuid4()) if wide else ids.get(first, str(uuid4())),
        "schedule_id": str(uuid4()),
        "work_pool_name": "nothing" if wide else "jobauto",
        "name": "nothing" if wide or "{work_pool_name}" in path else "jobauto",
        "flow_name": "Greeter",
        "deployment_name": f"{cell.company.lower()} - {cell.company} daily",
        "view": "aggregate-worker-metadata",
    }
    names = [piece.partition("}")[0] for piece in path.split("{")[1:]]
    for name in names:
        path = path.replace(f"{{{name}}}", parts.get(name, "nothing"))
    sent: dict[str, Any] = {"method": cell.route.method, "url": path}
    if cell.route.method in ("POST", "PUT", "PATCH"):
        sent["json"] = _body(cell, world, run, wide)
    if ScopeRule.QUERY_FLOW_RUN in (cell.route.member_rule, cell.route.worker_rule):
        sent["params"] = {"flow_run_id": run}
    return sent


def _deployment(cell: Cell, world: World, passes: bool) -> str:
    if passes and cell.route.method == "DELETE" and cell.route.path == "/deployments/{id}":
        return throwaway(world.gate, cell.company)
    return world.gate.deployment(cell.company)


def _artifact(cell: Cell, world: World, passes: bool) -> str:
    if not (passes and cell.route.method == "DELETE" and cell.route.path == "/artifacts/{id}"):
        return world.artifacts[cell.company]
    body = {"key": "matrix", "data": "x", "flow_run_id": world.runs[cell.company]}
    with world.gate.as_("root") as root:
        made: str = root.post("/artifacts/", json=body).raise_for_status().json()["id"]
        return made


def throwaway(gate: Gateway, company: str) -> str:
    """The deployment of a run template that is retired again."""
    template = gate.templates[company]
    body = {"app_id": template["app_id"], "company_id": template["company_id"], "name": "matrix"}
    made = gate.rest.post("/runtemplate/", json=body).raise_for_status().json()["id"]

    def applied() -> Any:
        return fetch(gate.ledger, RunTemplate, made).deployment_id

    deployment = str(eventually(applied))
    gate.rest.delete(f"/runtemplate/{made}.json").raise_for_status()
    return deployment


def _body(cell: Cell, world: World, run: str, wide: bool) -> Any:
    path, named = cell.route.path, {"any_": [run]}
    if cell.who in POOLS and cell.route.worker_rule is ScopeRule.RUN_STATES:
        return {"flow_runs": {"id": named}, "state": {"type": "RUNNING"}, "limit": 1}
    if wide and "bulk" in path:
        return {"flows": {"id": {"any_": [str(uuid4())]}}}
    bodies: dict[str, Any] = {
        "/flow_runs/{id}/set_state": {"state": {"type": "SCHEDULED"}},
        "/flow_runs/bulk_set_state": {
            "flow_runs": {"id": named},
            "state": {"type": "SCHEDULED"},
        },
        "/flow_runs/bulk_delete": {"flow_runs": {"id": {"any_": [str(uuid4())]}}},
        "/deployments/bulk_delete": {"deployments": {"id": {"any_": [str(uuid4())]}}},
        "/flow_runs/{id}/input": {"key": f"matrix-{uuid4()}", "value": "1"},
        "/deployments/{id}/create_flow_run/bulk": [{}],
        "/deployments/{id}/schedules": [],
        "/logs/filter": {"logs": {"flow_run_id": named}},
        "/ui/flow_runs/count-task-runs": {"flow_run_ids": [run]},
        "/ui/flows/count-deployments": {"flow_ids": [world.flow[cell.company]]},
        "/ui/flows/next-runs": {"flow_ids": [world.flow[cell.company]]},
        "/ui/schemas/validate": {
            "schema": world.schema if cell.company == OURS else {},
            "values": {},
        },
        "/work_pools/": {"name": "jobauto", "type": "jobauto"},
        "/work_pools/{work_pool_name}/workers/heartbeat": {"name": "matrix"},
        "/logs/": [
            {
                "name": "matrix",
                "level": 20,
                "message": "x",
                "timestamp": "2026-01-01T00:00:00Z",
                "flow_run_id": run,
            }
        ],
        "/artifacts/": {"key": "matrix", "data": "x", "flow_run_id": run},
        "/flow_runs/{id}/labels": {"matrix": 1},
    }
    return bodies.get(path, {})


def outcome(answer: httpx.Response) -> str | int:
    """A refusal of the gateway has an id of the request; what Prefect says has none."""
    if answer.status_code in PREFECTS_OWN or answer.status_code < 400:
        return PASSES
    own = "request_id" in answer.text
    return answer.status_code if own else PASSES


def tried(world: World, cells: list[Cell]) -> Iterator[str]:
    """What differs from the table."""
    by_person = itertools.groupby(sorted(cells, key=lambda cell: cell.who), lambda cell: cell.who)
    for who, theirs in by_person:
        with world.client(who) as client:
            for cell in theirs:
                answer = client.request(**request_of(cell, world))
                if outcome(answer) != expected(cell):
                    yield f"{cell}: {answer.status_code} not {expected(cell)}: {answer.text[:200]}"
                shown = answer.text if answer.is_success else ""
                if PEOPLE.get(who, ((), None))[1] and "Planted" in shown:
                    yield f"{cell}: shows what is of another company: {answer.text[:200]}"


@pytest.fixture
def as_it_was(world: World) -> Iterator[None]:
    """The deployments are not paused afterwards."""
    yield
    with world.gate.as_("root") as root:
        for company in SIDES:
            path = f"/deployments/{world.gate.deployment(company)}/resume_deployment"
            root.post(path).raise_for_status()


def test_the_people_have_all_roles_and_memberships_and_the_part_has_all_routes() -> None:
    assert {role for roles, _ in PEOPLE.values() for role in roles} == set(Role)
    assert {membership for _, membership in PEOPLE.values()} - {None} == set(Membership)
    for company in SIDES:
        assert {cell.who for cell in sampled() if cell.company == company} == {*PEOPLE, *POOLS}
    assert {id(cell.route) for cell in sampled()} == {id(route) for route in ROUTES}


@pytest.mark.usefixtures("as_it_was")
def test_each_may_what_the_table_says_and_nothing_else(world: World) -> None:
    assert not "\n".join(tried(world, sampled()))


@pytest.mark.soak
@pytest.mark.usefixtures("as_it_was")
def test_each_may_what_the_table_says_and_nothing_else_in_every_cell(world: World) -> None:
    assert not "\n".join(tried(world, CELLS))
