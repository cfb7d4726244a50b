"""From a change to a flow run, over a real Prefect: automations, and what they miss."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator
from datetime import timedelta
from typing import Any
from uuid import UUID

import httpx
import pytest
from sqlalchemy import select

from jobauto_prefect.engine.api import PrefectApi
from jobauto_prefect.engine.context import EngineContext
from jobauto_prefect.engine.outbox_worker import OutboxWorker
from jobauto_prefect.engine.services.event_dispatch import dispatch_all
from jobauto_prefect.engine.services.event_emitter import EventEmitter
from jobauto_prefect.ledger.records import (
    Delivery,
    Event,
    EventRule,
    Job,
    RunTemplate,
)
from jobauto_prefect.ledger.store import Ledger
from jobauto_prefect.settings import Settings
from jobauto_prefect.sources.poller import Poller
from tests.support.adapters import AdapterDatabase, adapter_database
from tests.support.claims import claim_of, granted, refused, report, start_workers
from tests.support.company_pair import member_token
from tests.support.databases import on_sqlite
from tests.support.definitions import PROBE
from tests.support.ledger_rows import fetch, fetch_all, fetch_one, has_no_messages
from tests.support.records import make_template, ok, own_name
from tests.support.secrets import SECRET
from tests.support.servers import client, reach_prefect, worker_token
from tests.support.waits import eventually

HEEDED_AFTER = 2  # seconds; Prefect loads an automation after its commit, and nothing shows when

pytestmark = on_sqlite


@pytest.fixture
def facade_settings(facade_settings: Settings, prefect_server: str) -> Settings:
    return reach_prefect(facade_settings, prefect_server)


@pytest.fixture
def claims(facade_url: str, ledger: Ledger, facade_settings: Settings) -> Iterator[httpx.Client]:
    start_workers(ledger, facade_settings.pool)
    token = worker_token(ledger, facade_settings.pool)
    with client(f"{facade_url}/internal/v1", token) as signed_in:
        yield signed_in


@pytest.fixture
def adapter(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AdapterDatabase]:
    with adapter_database("sqlite", tmp_path_factory.mktemp("adapter")) as made:
        yield made


class World:
    """A template, an event source with a rule for it, and what services do, step by step."""

    def __init__(
        self,
        rest: httpx.Client,
        prefect: httpx.Client,
        ledger: Ledger,
        settings: Settings,
        adapter: AdapterDatabase,
    ) -> None:
        self.rest, self.prefect, self.ledger = rest, prefect, ledger
        self.settings, self.adapter = settings, adapter
        self.name = own_name("daily")
        values = {"PASSWORD": SECRET, "COUNT": 4}
        self.template = make_template(rest, name=self.name, env=values)
        self.source = rest.post("/eventsource/", json=adapter.as_source("erp")).json()["id"]
        body = {"event_source_id": self.source, "runtemplate_id": self.template["id"],
                "evidence": "invoice", "env_mapping": {"COUNT": "recordid"}}  # fmt: skip
        self.rule = rest.post("/eventrule/", json=body).json()["id"]

    def automation(self, rule_id: int | None = None) -> dict[str, Any]:
        """The automation of a rule, once Prefect has it."""

        def look() -> UUID | None:
            return fetch(self.ledger, EventRule, rule_id or self.rule).automation_id

        automation_id = eventually(look)
        time.sleep(HEEDED_AFTER)
        answer: dict[str, Any] = self.prefect.get(f"/automations/{automation_id}").json()
        return answer

    def read(self) -> list[int]:
        """Read the source; the ids of its events."""
        Poller(self.ledger, self.settings).read(self.source)
        return fetch_all(self.ledger, select(Event.id).order_by(Event.id))

    def tell(self) -> None:
        """Emit what Prefect has not heard."""
        self._with_prefect(lambda context: EventEmitter(context.ledger, context.prefect).emit_all())

    def deliver(self, later: timedelta) -> None:
        """Look after deliveries, some time later."""
        clock = self.ledger.clock
        self.ledger.clock = lambda: clock() + later
        self._with_prefect(_deliver)
        self.ledger.clock = clock

    def _with_prefect(self, work: Callable[[EngineContext], Awaitable[None]]) -> None:
        async def run() -> None:
            async with PrefectApi(self.settings.prefect_api_url) as api:
                await work(EngineContext(self.ledger, api, self.settings))

        asyncio.run(run())

    def runs(self, template_id: int | None = None) -> list[dict[str, Any]]:
        """The flow runs of a template."""
        template = fetch(self.ledger, RunTemplate, template_id or self.template["id"])
        of_deployment = {"deployments": {"id": {"any_": [str(template.deployment_id)]}}}
        found: list[dict[str, Any]] = self.prefect.post(
            "/flow_runs/filter", json=of_deployment
        ).json()
        return found

    def delivery(self, event: int) -> Delivery:
        return fetch_one(self.ledger, select(Delivery).where(Delivery.event_id == event))

    def claim_of(self, run: dict[str, Any]) -> dict[str, Any]:
        return claim_of(
            UUID(run["id"]), deployment_id=run["deployment_id"], parameters=run["parameters"]
        )


async def _deliver(context: EngineContext) -> None:
    await dispatch_all(context)
    await OutboxWorker(context).handle_all()


@pytest.fixture
def world(
    rest: httpx.Client,
    prefect: httpx.Client,
    ledger: Ledger,
    facade_settings: Settings,
    adapter: AdapterDatabase,
) -> World:
    return World(rest, prefect, ledger, facade_settings, adapter)


def test_a_rule_is_an_automation_that_follows_its_record(world: World) -> None:
    made = world.automation()
    assert made["name"] == f"acme/{world.name} when invoice is changed in erp"
    assert f"/console/rules/{world.rule}" in made["description"]
    assert made["trigger"]["expect"] == [f"jobauto.source.{world.source}.change"]
    assert made["trigger"]["match"] == {"jobauto.evidence": "invoice"}
    world.rest.post("/eventrule/", json={"id": world.rule, "operation": "create", "enabled": False})
    eventually(lambda: not world.automation()["enabled"])
    assert world.automation()["id"] == made["id"]
    assert world.automation()["name"] == f"acme/{world.name} when invoice is created in erp"
    renamed = {"id": world.template["id"], "name": f"other {world.name}"}
    world.rest.post("/runtemplate/", json=renamed)

    def deployment() -> UUID | None:
        return fetch(world.ledger, RunTemplate, world.template["id"]).deployment_id

    eventually(lambda: world.automation()["actions"][0]["deployment_id"] == str(deployment()))
    eventually(lambda: world.automation()["name"].startswith("acme/other"))
    assert world.rest.delete(f"/eventrule/{world.rule}.json").status_code == 200
    eventually(lambda: world.prefect.get(f"/automations/{made['id']}").status_code == 404)


def test_an_automation_rests_while_who_wrote_its_rule_may_not_read_the_source(
    world: World, facade_url: str
) -> None:
    slug = f"other-{world.source}"
    other = ok(world.rest.post("/company/", json={"slug": slug, "name": "Other"}), 201)["id"]
    ok(world.rest.post(f"/eventsource/{world.source}.json", json={"company": slug}), 201)
    both = {other: "manager", world.template["company_id"]: "manager"}
    token = member_token(world.ledger, "eva", both)
    with client(f"{facade_url}/api/v1", token) as eva:
        me = ok(eva.post("/user/", json={"login": "eva", "firstname": "Eva"}), 201)["id"]
        ok(eva.post(f"/eventrule/{world.rule}.json", json={"evidence": "invoice"}), 201)
    assert world.automation()["enabled"]
    ok(world.rest.delete(f"/company/{other}/user/{me}"))
    eventually(lambda: not world.automation()["enabled"])
    world.adapter.add(1)
    (event,) = world.read()
    world.tell()
    world.deliver(timedelta(minutes=1))
    world.deliver(timedelta(minutes=5))
    dead = world.delivery(event)
    assert (dead.state, dead.job_id, world.runs()) == ("dead", None, [])
    assert "belongs to both companies" in str(dead.error)
    member = {"user_id": me, "role": "manager"}
    ok(world.rest.post(f"/company/{other}/user/", json=member), 201)
    eventually(lambda: world.automation()["enabled"])


@pytest.mark.spec("1.7", "1.8", "6.7", "6.8")
def test_a_change_starts_a_run_and_its_end_the_next_one(world: World, claims: httpx.Client) -> None:
    # WHO is required and has no value but the rule's: Prefect must make the run all the same.
    variables = PROBE["environment"] | {"WHO": {"type": "string", "required": True}}
    newer = PROBE | {"version": "99.0", "environment": variables}
    world.rest.post("/app/", json=newer).raise_for_status()
    values = {"id": world.template["id"], "env": {"WHO": "me"}}
    world.rest.post("/runtemplate/", json=values).raise_for_status()
    body = {"app_id": world.template["app_id"], "company": "acme", "name": f"after {world.name}",
            "env": {"PASSWORD": SECRET}}  # fmt: skip
    after = world.rest.post("/runtemplate/", json=body).json()
    chain = {"runtemplate_source_id": world.template["id"], "runtemplate_id": after["id"],
             "env_mapping": {"COUNT": "job_id", "WHO": "severity"}}  # fmt: skip
    chained = world.rest.post("/eventrule/", json=chain).json()["id"]
    world.automation()
    named = f"acme/after {world.name} when acme/{world.name} ends with success"
    assert world.automation(chained)["name"] == named
    world.adapter.add(5)
    (event,) = world.read()
    world.tell()
    (run,) = eventually(world.runs)
    assert run["parameters"]["jobauto"] == {"event": event, "rule": world.rule}
    # It waits for a worker: it is found, and no second one made.
    world.deliver(timedelta(minutes=1))
    assert str(world.delivery(event).flow_run_id) == run["id"]
    assert len(world.runs()) == 1
    launch = granted(claims, world.claim_of(run))
    assert launch["environment"]["COUNT"] == "1005"
    assert report(claims, launch)["recorded"] is True
    world.tell()
    (second,) = eventually(lambda: world.runs(after["id"]))
    launched = granted(claims, world.claim_of(second))
    assert launched["environment"]["COUNT"] == str(launch["job_id"])
    assert launched["environment"]["WHO"] == "success"
    assert launched["environment"]["EVENT_OPERATION"] == "success"
    assert fetch(world.ledger, Job, launched["job_id"]).schedule_type == "chained"


@pytest.mark.spec("6.6")
def test_a_finished_job_emits_what_its_definition_declares(
    world: World, claims: httpx.Client
) -> None:
    world.automation()
    began = world.ledger.clock()
    name = f"bill.paid-{world.name}"
    emits = {name: {"evidence": "bill", "operation": "update"}}
    newer = PROBE | {"version": "99.0", "events": {"emits": emits}}
    world.rest.post("/app/", json=newer).raise_for_status()
    job = world.rest.post("/job/", json={"runtemplate_id": world.template["id"]}).json()
    (run,) = eventually(world.runs)
    report(claims, granted(claims, world.claim_of(run)))
    world.tell()
    asked = {"filter": {"event": {"name": [f"jobauto.emits.{name}"]},
                        "occurred": {"since": began.isoformat()}}}  # fmt: skip
    (told,) = eventually(lambda: world.prefect.post("/events/filter", json=asked).json()["events"])
    assert told["resource"]["jobauto.evidence"] == "bill"
    assert told["payload"]["operation"] == "update"
    assert told["payload"]["job"] == job["id"]


def test_what_an_automation_misses_is_started_all_the_same(
    world: World, claims: httpx.Client
) -> None:
    automation = world.automation()
    world.prefect.delete(f"/automations/{automation['id']}").raise_for_status()
    world.adapter.add(1)
    (event,) = world.read()
    world.tell()
    world.deliver(timedelta(seconds=1))
    assert world.delivery(event).state == "owed"
    world.deliver(timedelta(minutes=1))
    started = world.delivery(event)
    assert started.state == "started"

    def bound() -> UUID | None:
        return fetch(world.ledger, Job, started.job_id).flow_run_id

    run_id = eventually(bound)
    (run,) = world.runs()
    assert (run["id"], run["parameters"]["jobauto"]) == (str(run_id), {"job": started.job_id})
    forged = run | {"id": str(UUID(int=7)), "parameters": {
        "jobauto": {"event": event, "rule": world.rule}}}  # fmt: skip
    assert refused(claims, world.claim_of(forged))[:2] == ("duplicate_event", "CANCELLED")
    assert granted(claims, world.claim_of(run))["environment"]["COUNT"] == "1001"


def test_a_waiting_run_that_somebody_cancels_is_a_dead_letter(world: World) -> None:
    world.automation()
    world.adapter.add(1)
    (event,) = world.read()
    world.tell()
    (run,) = eventually(world.runs)
    world.deliver(timedelta(minutes=1))
    cancelled = {"state": {"type": "CANCELLED"}, "force": True}
    world.prefect.post(f"/flow_runs/{run['id']}/set_state", json=cancelled).raise_for_status()
    world.deliver(timedelta(minutes=5))
    dead = world.delivery(event)
    assert (dead.state, dead.job_id) == ("dead", None)
    assert "cancelled" in str(dead.error)


def test_with_prefect_away_events_wait_and_come_in_order(
    world: World, facade_settings: Settings
) -> None:
    world.automation()
    began = world.ledger.clock()
    world.adapter.add(1, 3)
    events = world.read()
    away = facade_settings.model_copy(update={"prefect_api_url": "http://127.0.0.1:9/api"})
    world.settings = away
    with pytest.raises(Exception, match="does not answer"):
        world.tell()
    world.settings = facade_settings
    world.tell()
    runs = eventually(lambda: len(found := world.runs()) == 3 and found)
    started = sorted(runs, key=lambda run: str(run["created"]))
    assert {run["parameters"]["jobauto"]["event"] for run in started} == set(events)
    # Other tests' sources bear the same number in the same Prefect.
    names = {
        "event": {"name": [f"jobauto.source.{world.source}.change"]},
        "occurred": {"since": began.isoformat()},
        "order": "ASC",
    }
    told = eventually(
        lambda: len(found := world.prefect.post("/events/filter", json={"filter": names}).json()[
            "events"]) == 3 and found
    )  # fmt: skip
    assert [one["payload"]["event"] for one in told] == events
    # What the event feed of Prefect's UI shows of a change: its record, by evidence.
    number = told[0]["payload"]["event"]
    assert told[0]["resource"] == {
        "prefect.resource.id": f"jobauto.source.{world.source}.invoice.1001",
        "prefect.resource.name": "invoice 1001",
        "jobauto.event": str(number),
        "jobauto.evidence": "invoice",
        "jobauto.operation": told[0]["payload"]["operation"],
    }
    (source,) = (one for one in told[0]["related"] if "role" in str(one))
    assert source["prefect.resource.name"] == "erp"
    world.tell()
    assert fetch_all(world.ledger, select(Event).where(Event.emitted_at.is_(None))) == []
    eventually(lambda: has_no_messages(world.ledger))
