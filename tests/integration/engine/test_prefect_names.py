"""Names as Prefect takes them: refused characters, names that are taken, new names."""

import asyncio
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from uuid import uuid4

import httpx
import pytest

from jobauto_prefect.engine.api import PrefectApi
from jobauto_prefect.engine.context import EngineContext
from jobauto_prefect.engine.outbox_worker import OutboxWorker
from jobauto_prefect.engine.sync.application_flows import delete_unused_flows
from jobauto_prefect.engine.sync.drift_monitor import correct_all
from jobauto_prefect.ledger.audit.trail import SERVICE
from jobauto_prefect.ledger.records import App, Job, RunTemplate
from jobauto_prefect.ledger.states import JobState
from jobauto_prefect.ledger.store import Ledger
from jobauto_prefect.settings import Settings
from tests.support.definitions import PROBE
from tests.support.ledger_rows import fetch, has_no_messages
from tests.support.records import ok
from tests.support.servers import reach_prefect
from tests.support.waits import eventually


@pytest.fixture
def facade_settings(facade_settings: Settings, prefect_server: str) -> Settings:
    return reach_prefect(facade_settings, prefect_server)


class Named:
    """Applications and templates, and what Prefect calls them."""

    def __init__(self, rest: httpx.Client, prefect: httpx.Client, ledger: Ledger) -> None:
        self.rest, self.prefect, self.ledger = rest, prefect, ledger
        self.word = uuid4().hex[:8]  # Prefect is shared with other tests
        self.post("company", slug="acme", name="Acme")

    def post(self, item: str, **fields: Any) -> dict[str, Any]:
        return ok(self.rest.post(f"/{item}/", json=fields), 201)

    def app(self, name: str, **members: Any) -> dict[str, Any]:
        """A new application of its own UUID."""
        return self.post("app", **PROBE | {"name": name, "uuid": str(uuid4())} | members)

    def template(self, app: dict[str, Any], name: str = "daily") -> dict[str, Any]:
        return self.post("runtemplate", app_id=app["id"], company="acme", name=name)

    def applied(self) -> None:
        eventually(lambda: has_no_messages(self.ledger))

    def get(self, path: str) -> dict[str, Any]:
        found: dict[str, Any] = self.prefect.get(path).raise_for_status().json()
        return found

    def flow_of(self, app: dict[str, Any]) -> dict[str, Any]:
        flow_id = fetch(self.ledger, App, app["id"]).flow_id
        return self.get(f"/flows/{flow_id}")

    def deployment_of(self, template: dict[str, Any]) -> dict[str, Any]:
        deployment_id = fetch(self.ledger, RunTemplate, template["id"]).deployment_id
        return self.get(f"/deployments/{deployment_id}")

    def run_of(self, job: dict[str, Any]) -> dict[str, Any]:
        run_id = fetch(self.ledger, Job, job["id"]).flow_run_id
        return self.get(f"/flow_runs/{run_id}")

    def waiting_job(self, template: dict[str, Any]) -> dict[str, Any]:
        body = {"runtemplate_id": template["id"], "scheduled": "2099-01-01 00:00:00"}
        job = self.post("job", **body)
        self.applied()
        return job

    def audited(self, kind: str, record: dict[str, Any]) -> list[dict[str, Any]]:
        """The changes of a record, the latest first."""
        query = {"entity_type": kind, "entity_id": record["id"]}
        found = self.rest.get("/auditlog.json", params=query).json()
        return [entry for _, entry in sorted(found.items(), key=lambda one: -int(one[0]))]


@pytest.fixture
def named(rest: httpx.Client, prefect: httpx.Client, ledger: Ledger) -> Named:
    return Named(rest, prefect, ledger)


def test_applications_of_one_name_have_flows_of_their_own(named: Named) -> None:
    name = f"Report {named.word}"
    apps = [named.app(name) for _ in range(4)]
    with ThreadPoolExecutor(4) as at_once:
        templates = list(at_once.map(named.template, apps, [f"t{one['id']}" for one in apps]))
    named.applied()
    flows = [named.flow_of(app) for app in apps]
    own = [flow for flow in flows if flow["name"] == name]
    longer = {f"{name} ({app['uuid'][:8]})" for app in apps}
    assert len(own) == 1
    assert {flow["name"] for flow in flows} <= {name, *longer}
    assert len({flow["id"] for flow in flows}) == len(apps)
    for flow, template in zip(flows, templates, strict=True):
        assert named.deployment_of(template)["flow_id"] == flow["id"]

    for app in apps:  # what is applied again keeps its name
        named.post("app", id=app["id"], version="1.1")
    named.applied()
    assert [named.flow_of(app)["name"] for app in apps] == [flow["name"] for flow in flows]


def test_a_name_with_characters_that_prefect_refuses_is_applied(named: Named) -> None:
    app = named.app(f"R&D / <{named.word}> 100%")
    template = named.template(app, "a/b & c%")
    named.applied()
    assert named.flow_of(app)["name"] == f"R-D - -{named.word}- 100-"
    assert named.deployment_of(template)["name"] == "acme - a-b - c-"
    assert named.rest.get(f"/app/{app['id']}.json").json()["name"] == app["name"]


def test_a_renamed_template_takes_its_waiting_jobs_along(named: Named) -> None:
    template = named.template(named.app(f"Report {named.word}"))
    job = named.waiting_job(template)
    before, run = named.deployment_of(template), named.run_of(job)

    named.post("runtemplate", id=template["id"], name="nightly")
    named.applied()

    after, moved = named.deployment_of(template), named.run_of(job)
    assert (before["name"], after["name"]) == ("acme - daily", "acme - nightly")
    assert moved["deployment_id"] == after["id"] != before["id"]
    assert moved["parameters"]["jobauto"] == {"job": job["id"]}
    assert moved["next_scheduled_start_time"] == run["next_scheduled_start_time"]
    for gone in (f"/deployments/{before['id']}", f"/flow_runs/{run['id']}"):
        assert named.prefect.get(gone).status_code == 404
    entry, *_ = named.audited("RunTemplate", template)
    assert entry["action"] == "update"
    assert entry["changes"]["name"] == ["daily", "nightly"]


def test_a_renamed_application_is_another_flow_and_the_old_one_goes(named: Named) -> None:
    app = named.app(f"Old {named.word}")
    templates = [named.template(app, name) for name in ("daily", "weekly")]
    job = named.waiting_job(templates[0])
    before = named.flow_of(app)

    named.post("app", id=app["id"], name=f"New {named.word}")
    named.applied()

    after = named.flow_of(app)
    assert (before["name"], after["name"]) == (f"Old {named.word}", f"New {named.word}")
    assert {named.deployment_of(one)["flow_id"] for one in templates} == {after["id"]}
    assert named.run_of(job)["flow_id"] == after["id"]
    assert named.prefect.get(f"/flows/{before['id']}").status_code == 404
    entry, *_ = named.audited("App", app)
    assert entry["changes"]["name"] == [f"Old {named.word}", f"New {named.word}"]


def test_an_application_that_is_renamed_to_and_fro_keeps_one_flow(named: Named) -> None:
    old, new = f"Old {named.word}", f"New {named.word}"
    app = named.app(old)
    template = named.template(app)
    named.applied()
    for _ in range(8):
        for name in (new, old):
            named.post("app", id=app["id"], name=name)
    named.applied()
    flow = named.flow_of(app)
    assert flow["name"] == old
    assert named.deployment_of(template)["flow_id"] == flow["id"]
    assert named.prefect.get(f"/flows/name/{new}").status_code == 404


async def test_a_flow_that_somebody_deletes_in_prefect_is_made_again(
    named: Named, prefect_server: str, facade_settings: Settings
) -> None:
    app = named.app(f"Kept {named.word}", topics=["reports"])
    await asyncio.to_thread(named.applied)
    named.prefect.delete(f"/flows/{named.flow_of(app)['id']}").raise_for_status()
    async with PrefectApi(prefect_server) as api:
        context = EngineContext(named.ledger, api, facade_settings)
        corrections = await correct_all(context)
        await OutboxWorker(context).handle_all()
    assert [(one.kind, one.id, one.restored) for one in corrections] == [
        ("app", app["id"], ("flow",))
    ]
    assert named.flow_of(app)["name"] == f"Kept {named.word}"
    assert "differed in Prefect" in str(named.audited("App", app)[0])


def test_a_flow_whose_runs_are_history_stays_after_a_rename(named: Named) -> None:
    app = named.app(f"Old {named.word}")
    job = named.waiting_job(named.template(app))
    before, run = named.flow_of(app), named.run_of(job)
    state = {"state": {"type": "COMPLETED"}, "force": True}
    named.prefect.post(f"/flow_runs/{run['id']}/set_state", json=state).raise_for_status()

    named.post("app", id=app["id"], name=f"New {named.word}")
    named.applied()

    assert named.get(f"/flows/{before['id']}")["name"] == f"Old {named.word}"
    assert named.get(f"/flow_runs/{run['id']}")["flow_id"] == before["id"]


def test_the_name_of_a_deleted_application_is_free_again(named: Named) -> None:
    name = f"Report {named.word}"
    first = named.app(name)
    template = named.template(first)
    named.applied()
    for path in (f"/runtemplate/{template['id']}.json", f"/app/{first['id']}.json"):
        assert named.rest.delete(path).status_code == 200
    second = named.app(name)
    named.template(second)
    named.applied()
    assert named.flow_of(second)["name"] == name


def test_a_definition_is_a_flow_as_soon_as_it_is_imported(named: Named) -> None:
    app = named.app(f"Fresh {named.word}")
    assert app["prefect_url"] is None
    named.applied()
    flow = named.flow_of(app)
    assert flow["name"] == f"Fresh {named.word}"
    record = named.rest.get(f"/app/{app['id']}.json").json()
    assert record["prefect_url"].endswith(f"/flows/flow/{flow['id']}")
    named.rest.delete(f"/app/{app['id']}.json").raise_for_status()
    named.applied()
    assert named.prefect.get(f"/flows/{flow['id']}").status_code == 404


async def test_the_flow_of_a_deleted_application_stays_as_long_as_its_runs(
    named: Named, prefect_server: str
) -> None:
    app = named.app(f"Done {named.word}")
    template = named.template(app)
    job = named.waiting_job(template)
    flow, run = named.flow_of(app), named.run_of(job)
    state = {"state": {"type": "COMPLETED"}, "force": True}
    named.prefect.post(f"/flow_runs/{run['id']}/set_state", json=state).raise_for_status()
    with named.ledger.writing(SERVICE) as session:
        session.get_one(Job, job["id"]).state = JobState.CANCELLED
    for path in (f"/runtemplate/{template['id']}.json", f"/app/{app['id']}.json"):
        named.rest.delete(path).raise_for_status()
    named.applied()
    async with PrefectApi(prefect_server) as api:
        context = EngineContext(named.ledger, api, Settings())
        await delete_unused_flows(context)
        assert named.get(f"/flows/{flow['id']}")["id"] == flow["id"]
        named.prefect.delete(f"/flow_runs/{run['id']}").raise_for_status()
        await delete_unused_flows(context)
    assert named.prefect.get(f"/flows/{flow['id']}").status_code == 404
