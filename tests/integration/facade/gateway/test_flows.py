"""A flow is seen by whoever may see its application, and nothing else is told of it."""

from collections.abc import Iterator
from typing import Any
from uuid import UUID, uuid4

import httpx
import pytest
from sqlalchemy import select

from jobauto_prefect.ledger.audit.trail import SERVICE
from jobauto_prefect.ledger.records import App, RunTemplate
from tests.support.documents import smallest
from tests.support.gateway import OURS, THEIRS, Gateway
from tests.support.ledger_rows import fetch
from tests.support.waits import eventually

SLUGS = {OURS: OURS.lower(), THEIRS: THEIRS.lower()}


@pytest.fixture
def flows(gate: Gateway) -> Iterator[dict[str, str]]:
    """Prefect's ids of the flows of an application of each company and of shared ones.

    `lent` is shared and run by the other company alone, `common` by both.
    """
    made, flows = [], {}
    common = gate.rest.get(f"/app/{gate.templates[OURS]['app_id']}.json").json()
    owners = {"ours": (OURS, OURS), "theirs": (THEIRS, THEIRS), "lent": (None, THEIRS)}
    for name, (owner, user) in owners.items():
        company_id = gate.templates[owner]["company_id"] if owner else None
        body = smallest(name=f"{name} app", uuid=str(uuid4()), company_id=company_id)
        app = gate.rest.post("/app/", json=body).raise_for_status().json()
        template = {"company": SLUGS[user], "app_id": app["id"], "name": f"{name} run"}
        template = gate.rest.post("/runtemplate/", json=template).raise_for_status().json()
        made += [f"/runtemplate/{template['id']}.json", f"/app/{app['id']}.json"]
        flows[name] = _flow_id(gate, app["id"])
        _wait_for_deployment(gate, template["id"])
    flows["common"] = _flow_id(gate, common["id"])
    yield flows
    for path in made:
        gate.rest.delete(path).raise_for_status()


def _flow_id(gate: Gateway, app_id: int) -> str:
    def look() -> UUID | None:
        return fetch(gate.ledger, App, app_id).flow_id

    return str(eventually(look))


def _wait_for_deployment(gate: Gateway, template_id: int) -> None:
    def look() -> UUID | None:
        return fetch(gate.ledger, RunTemplate, template_id).deployment_id

    eventually(look)


def _deployments(viewer: httpx.Client, flow_id: str) -> list[dict[str, Any]]:
    found = viewer.post("/deployments/filter", json={}).json()
    return [deployment for deployment in found if deployment["flow_id"] == flow_id]


def ids(found: Any) -> set[str]:
    return {one["id"] for one in found}


def test_flows_are_seen_as_their_applications_are(gate: Gateway, flows: dict[str, str]) -> None:
    seen = {flows[name] for name in ("ours", "lent", "common")}
    with gate.as_("viewer") as viewer:
        assert ids(viewer.post("/flows/filter", json={}).json()) == seen
        assert ids(viewer.post("/flows/paginate", json={}).json()["results"]) == seen
        assert viewer.post("/flows/count", json={}).json() == len(seen)
        for name, flow_id in flows.items():
            status = viewer.get(f"/flows/{flow_id}").status_code
            assert status == (404 if name == "theirs" else 200), name
        asked = {"flows": {"id": {"any_": [flows["theirs"]]}}}
        assert viewer.post("/flows/filter", json=asked).json() == []
        named = {"flows": {"name": {"like_": "theirs"}}}
        assert viewer.post("/flows/count", json=named).json() == 0
        either = {"flows": {"operator": "or_", "name": {"like_": "theirs"}}}
        assert viewer.post("/flows/filter", json=either).status_code == 403
        counted = viewer.post("/ui/flows/count-deployments", json={"flow_ids": [*flows.values()]})
        assert counted.json() == {
            flows["ours"]: 1, flows["lent"]: 0, flows["common"]: 1, flows["theirs"]: 0
        }  # fmt: skip
        assert viewer.get("/flows/name/theirs app").status_code == 403
    with gate.as_("outsider") as outsider:  # what is shared is for everybody
        shared = {flows["lent"], flows["common"]}
        assert ids(outsider.post("/flows/filter", json={}).json()) == shared


def test_a_shared_flow_tells_nothing_of_what_others_do_with_it(
    gate: Gateway, flows: dict[str, str]
) -> None:
    """By names of runs or deployments of another company nobody finds it."""
    theirs = gate.run(THEIRS)
    with gate.as_("root") as root:
        name = root.get(f"/flow_runs/{theirs}").json()["name"]
    run = {"name": {"any_": [name]}}
    wanted = [
        {"flow_runs": run},
        {"flow_runs": run | {"deployment_id": {"any_": [gate.deployment(THEIRS)]}}},
        {"flow_runs": {"id": {"any_": [theirs]}}, "flows": {"id": {"any_": [flows["common"]]}}},
        {"deployments": {"name": {"like_": THEIRS}}},
        {"flow_runs": run, "work_pools": {"name": {"any_": ["jobauto"]}}},
        {"flow_runs": run, "task_runs": {"name": {"like_": ""}}},
    ]
    with gate.as_("viewer") as viewer:
        for asked in wanted:
            for path in ("/flows/filter", "/flows/count", "/flows/paginate"):
                answer = viewer.post(path, json=asked)
                assert answer.status_code == 200, (asked, answer.text)
                found = answer.json()
                assert found in ([], 0) or found["results"] == [], (path, asked)
        either = {"operator": "or_", "is_null_": False}
        for member in ({"operator": "or_"}, {"deployment_id": either}):
            answer = viewer.post("/flows/filter", json={"flow_runs": run | member})
            assert answer.status_code == 403
        own = {"deployments": {"name": {"like_": OURS}}}
        assert flows["common"] in ids(viewer.post("/flows/filter", json=own).json())


def test_the_flow_of_a_deleted_application_is_in_no_list_and_found_by_who_ran_it(
    gate: Gateway,
) -> None:
    company = gate.templates[OURS]
    uuid = str(uuid4())
    body = smallest(name="Short-lived", uuid=uuid, company_id=company["company_id"])
    app = gate.rest.post("/app/", json=body).raise_for_status().json()
    template = {"company": SLUGS[OURS], "app_id": app["id"], "name": "short-lived"}
    template = gate.rest.post("/runtemplate/", json=template).raise_for_status().json()
    flow_id = _flow_id(gate, app["id"])
    gate.templates["short-lived"] = template
    with gate.as_("root") as root:  # without a run that began Prefect would lose the flow, too
        state = {"state": {"type": "RUNNING"}, "force": True}
        began = root.post(f"/flow_runs/{gate.run('short-lived')}/set_state", json=state)
        assert began.json()["status"] == "ACCEPT"
    del gate.templates["short-lived"]
    for path in (f"/runtemplate/{template['id']}.json", f"/app/{app['id']}.json"):
        gate.rest.delete(path).raise_for_status()
    with gate.as_("viewer") as viewer:
        assert flow_id not in ids(viewer.post("/flows/filter", json={}).json())
        assert viewer.get(f"/flows/{flow_id}").status_code == 200
    with gate.as_("foreigner") as foreigner:
        assert foreigner.get(f"/flows/{flow_id}").status_code == 404


def test_a_deleted_run_template_is_gone_with_its_flow(gate: Gateway, flows: dict[str, str]) -> None:
    """Before Prefect is told: `prefect deployment ls` looks up the flow of each deployment."""
    with gate.as_("viewer") as viewer:
        (ours,) = eventually(lambda: _deployments(viewer, flows["ours"]))
        with gate.ledger.writing(SERVICE) as session:
            found = select(RunTemplate).where(RunTemplate.deployment_id == UUID(ours["id"]))
            template = session.scalars(found).one()
            template.retired_at = template.app.retired_at = session.clock()

        def is_gone() -> bool:
            left = viewer.post("/deployments/filter", json={}).json()
            known = ids(viewer.post("/flows/filter", json={}).json())
            assert {deployment["flow_id"] for deployment in left} <= known | {ours["flow_id"]}
            return ours["id"] not in ids(left)

        eventually(is_gone)
        with gate.ledger.writing(SERVICE) as session:
            template = session.get_one(RunTemplate, template.id)
            template.retired_at = template.app.retired_at = None
