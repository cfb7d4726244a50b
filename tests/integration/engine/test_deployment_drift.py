"""What somebody changes on deployments in Prefect: a real facade and a real Prefect."""

import asyncio
from collections.abc import Callable
from typing import Any
from uuid import uuid4

import httpx
import pytest

from jobauto_prefect.engine.api import PrefectApi
from jobauto_prefect.engine.context import EngineContext
from jobauto_prefect.engine.outbox_worker import OutboxWorker
from jobauto_prefect.engine.sync.deployment_drift import (
    PREFECT_USER,
    DeploymentComparison,
    adopt_pauses,
)
from jobauto_prefect.engine.sync.drift import Correction
from jobauto_prefect.ledger.audit.trail import SERVICE
from jobauto_prefect.ledger.outbox import OutboxKind, enqueue
from jobauto_prefect.ledger.records import AuditEntry, EventRule, RunTemplate
from jobauto_prefect.ledger.store import Ledger
from jobauto_prefect.settings import Settings
from tests.support.ledger_rows import entries, fetch, has_no_messages
from tests.support.records import make_template
from tests.support.servers import reach_prefect
from tests.support.waits import eventually

Settle = Callable[[], list[Correction]]
SAME = ("name", "tags", "parameters", "description", "paused")
KEPT = ("id", "name", "description", "enabled", "tags", "actions")  # a trigger's id changes
NOTE = "differed in Prefect, restored"


@pytest.fixture
def facade_settings(facade_settings: Settings, prefect_server: str) -> Settings:
    return reach_prefect(facade_settings, prefect_server)


class Place:
    """A run template with an interval, and its deployment."""

    def __init__(self, rest: httpx.Client, prefect: httpx.Client, ledger: Ledger) -> None:
        self._prefect, self._ledger = prefect, ledger
        made = make_template(rest, name=f"t-{uuid4().hex[:6]}", interv="d", timezone="UTC")
        self.id: int = made["id"]
        eventually(lambda: has_no_messages(ledger))

    @property
    def record(self) -> RunTemplate:
        return fetch(self._ledger, RunTemplate, self.id)

    @property
    def path(self) -> str:
        return f"/deployments/{self.record.deployment_id}"

    def deployment(self) -> dict[str, Any]:
        found: dict[str, Any] = self._prefect.get(self.path).raise_for_status().json()
        return found

    def schedule(self) -> dict[str, Any]:
        (found,) = self.deployment()["schedules"]
        planned: dict[str, Any] = found["schedule"]
        return planned

    def change(self, **members: Any) -> None:
        self._prefect.patch(self.path, json=members).raise_for_status()

    def reschedule(self, *, active: bool = True, **planned: Any) -> None:
        (found,) = self.deployment()["schedules"]
        body = {"active": active, "schedule": planned}
        at = f"{self.path}/schedules/{found['id']}"
        self._prefect.patch(at, json=body).raise_for_status()

    def add_schedule(self, **planned: Any) -> None:
        body = [{"active": True, "schedule": planned}]
        self._prefect.post(f"{self.path}/schedules", json=body).raise_for_status()

    def audited(self) -> list[AuditEntry]:
        """What was written of it since it was created."""
        found = entries(self._ledger, "RunTemplate")
        return [one for one in found if one.entity_id == self.id][1:]

    def changes(self) -> list[dict[str, Any]]:
        return [one.changes for one in self.audited()]


@pytest.fixture
def make(rest: httpx.Client, prefect: httpx.Client, ledger: Ledger) -> Callable[[], Place]:
    return lambda: Place(rest, prefect, ledger)


@pytest.fixture
def settle(prefect_server: str, ledger: Ledger, facade_settings: Settings) -> Settle:
    """Settle twice, the messages handled in between: the second time there is nothing left."""

    async def look() -> list[Correction]:
        async with PrefectApi(prefect_server) as api:
            found, more = await DeploymentComparison(
                EngineContext(ledger, api, facade_settings)
            ).correct()
            assert more == 0
            return found

    async def carry() -> bool:
        async with PrefectApi(prefect_server) as api:
            await OutboxWorker(EngineContext(ledger, api, facade_settings)).handle_all()
            return has_no_messages(ledger)

    def twice() -> list[Correction]:
        found = asyncio.run(look())
        eventually(lambda: asyncio.run(carry()))
        assert asyncio.run(look()) == []
        return found

    return twice


def test_all_but_pauses_and_times_comes_back_and_is_audited_once(
    make: Callable[[], Place], settle: Settle, prefect: httpx.Client
) -> None:
    kept, changed, deleted, crowded = (make() for _ in range(4))
    places = (kept, changed, deleted, crowded)
    before = [one.deployment() for one in places]
    changed.change(tags=["mine"], parameters={"GREETING": "mallory-9"})
    prefect.delete(deleted.path).raise_for_status()
    crowded.add_schedule(interval=60)

    found = settle()

    assert {one.id: one.restored for one in found} == {
        changed.id: ("parameters", "tags"),
        deleted.id: ("deployment",),
        crowded.id: ("other schedules",),
    }
    assert not any(one.taken_over for one in found)
    assert kept.deployment() == before[0]
    assert kept.changes() == []
    for one, was in zip(places, before, strict=True):
        now = one.deployment()
        assert {name: now[name] for name in SAME} == {name: was[name] for name in SAME}
    assert len(crowded.deployment()["schedules"]) == 1
    (told,) = changed.audited()
    assert told.changes == {NOTE: ["parameters, tags", None]}
    assert (told.entity_id, told.actor) == (changed.id, "service")


def test_a_schedule_that_no_record_can_have_is_restored(
    make: Callable[[], Place], settle: Settle
) -> None:
    refused: list[dict[str, Any]] = [
        {"interval": 3600, "timezone": "UTC"},
        {"rrule": "FREQ=HOURLY", "timezone": "UTC"},
        {"cron": "0 0 * * *", "timezone": "UTC", "day_or": False},
        {"cron": "0 0 1 1 * 30", "timezone": "UTC"},
    ]
    places = [make() for _ in refused]
    before = [one.schedule() for one in places]
    for place, schedule in zip(places, refused, strict=True):
        place.reschedule(**schedule)

    found = settle()

    assert [(one.taken_over, one.restored) for one in found] == [((), ("schedule",))] * 4
    assert [one.schedule() for one in places] == before
    assert {one.record.interv for one in places} == {"d"}
    assert [one.changes() for one in places] == [[{NOTE: ["schedule", None]}]] * 4


def test_pauses_and_times_are_the_records(make: Callable[[], Place], settle: Settle) -> None:
    moved, all_of_it = make(), make()
    moved.reschedule(cron="30 9 * * 1-5", timezone="Asia/Tokyo")
    all_of_it.change(paused=True, description="mine")
    all_of_it.reschedule(cron="0 5 * * *", timezone="UTC", active=False)

    found = settle()

    assert [(one.taken_over, one.restored) for one in found] == [
        (("schedule",), ()),
        (("paused", "schedule"), ("description",)),
    ]
    one = moved.record
    assert (one.interv, one.cron, one.timezone) == ("c", "30 9 * * 1-5", "Asia/Tokyo")
    assert one.kept_schedule == "30 9 * * 1-5|Asia/Tokyo|0"
    assert moved.schedule()["cron"] == "30 9 * * 1-5"
    (told,) = moved.audited()
    assert told.changes == {
        "interv": ["d", "c"], "cron": [None, "30 9 * * 1-5"], "timezone": ["UTC", "Asia/Tokyo"],
    }  # fmt: skip
    assert (told.actor, told.door) == (PREFECT_USER.name, PREFECT_USER.door)
    other = all_of_it.record
    assert (other.active, other.interv, other.cron) == (False, "c", "0 5 * * *")
    assert all_of_it.deployment()["paused"]
    assert all_of_it.changes()[0] == {NOTE: ["description", None]}


def test_a_deployment_of_an_older_version_gets_the_tags_and_the_form_of_this_one(
    make: Callable[[], Place], settle: Settle
) -> None:
    place = make()
    now = place.deployment()
    schema = now["parameter_openapi_schema"]
    older = schema["properties"] | {"jobauto": {"title": "jobauto", "type": "object"}}
    place.change(
        tags=[*now["tags"], "category:Tools"],
        parameter_openapi_schema={**schema, "properties": older},
    )
    (settled,) = settle()
    assert settled.restored == ("parameter_openapi_schema", "tags")
    assert place.deployment()["tags"] == now["tags"]
    assert place.deployment()["parameter_openapi_schema"] == schema


def test_reconcile_settles_at_once(
    make: Callable[[], Place], rest: httpx.Client, ledger: Ledger
) -> None:
    place = make()
    assert rest.post("/reconcile.json").json() == {"settled": []}
    place.change(tags=["mine"])
    place.reschedule(cron="0 5 * * *", timezone="UTC")
    answer = rest.post("/reconcile.json")
    assert answer.json()["settled"] == [
        {"kind": "runtemplate", "id": place.id, "name": place.deployment()["name"],
         "taken_over": ["schedule"], "restored": ["tags"]},
    ]  # fmt: skip
    eventually(lambda: has_no_messages(ledger))
    assert "mine" not in place.deployment()["tags"]
    assert place.record.cron == "0 5 * * *"


def test_a_deployment_of_no_run_template_is_named_until_it_is_deleted(
    make: Callable[[], Place], rest: httpx.Client, prefect: httpx.Client
) -> None:
    ours = make().deployment()
    copy = {name: ours[name] for name in ("flow_id", "work_pool_name", "entrypoint", "path")}
    made = prefect.post("/deployments/", json={**copy, "name": "a copy"}).raise_for_status().json()
    drift = rest.get("/drift.json").raise_for_status().json()
    assert drift[made["id"]] == {
        "runtemplate_id": None,
        "deployment": "a copy",
        "differences": {
            "run template": {"prefect": ours["work_pool_name"], "record": None},
        },
    }
    assert ours["id"] not in drift
    prefect.delete(f"/deployments/{made['id']}").raise_for_status()
    assert made["id"] not in rest.get("/drift.json").json()


def test_automations_come_back_and_are_audited_once(
    make: Callable[[], Place], rest: httpx.Client, prefect: httpx.Client, ledger: Ledger
) -> None:
    first, second, third = make(), make(), make()

    def chain(target: Place) -> int:
        body = {"runtemplate_source_id": first.id, "runtemplate_id": target.id}
        number: int = rest.post("/eventrule/", json=body).json()["id"]
        return number

    def automation(rule_id: int) -> str:
        return f"/automations/{fetch(ledger, EventRule, rule_id).automation_id}"

    changed, deleted = chain(second), chain(third)
    eventually(lambda: has_no_messages(ledger))
    before = prefect.get(automation(changed)).json()
    assert rest.post("/reconcile.json").json() == {"settled": []}
    prefect.patch(automation(changed), json={"enabled": False}).raise_for_status()
    prefect.delete(automation(deleted)).raise_for_status()

    answer = rest.post("/reconcile.json").json()
    eventually(lambda: has_no_messages(ledger))

    done = {one["id"]: (one["kind"], one["restored"]) for one in answer["settled"]}
    assert done == {
        changed: ("eventrule", ["enabled"]), deleted: ("eventrule", ["automation"])
    }  # fmt: skip
    after = prefect.get(automation(changed)).json()
    assert {name: after[name] for name in KEPT} == {name: before[name] for name in KEPT}
    assert prefect.get(automation(deleted)).is_success
    assert rest.post("/reconcile.json").json() == {"settled": []}
    told = [one.changes for one in entries(ledger, "EventRule") if one.action == "update"]
    assert told == [{NOTE: ["enabled", None]}, {NOTE: ["automation", None]}]


def test_a_schedule_that_was_switched_and_changed_is_taken_over_by_the_lookout_too(
    make: Callable[[], Place], prefect_server: str, ledger: Ledger, facade_settings: Settings
) -> None:
    place = make()
    place.change(description="mine", tags=["mine"])
    place.reschedule(cron="0 5 * * *", timezone="UTC", active=False)

    async def look() -> set[int]:
        async with PrefectApi(prefect_server) as api:
            context = EngineContext(ledger, api, facade_settings)
            return await adopt_pauses(context, [place.id])

    assert asyncio.run(look()) == {place.id}
    found = place.record
    assert (found.active, found.interv, found.cron) == (False, "c", "0 5 * * *")
    assert {NOTE: ["description, tags", None]} in place.changes()


def test_what_waits_to_be_told_to_prefect_is_no_drift(
    make: Callable[[], Place], prefect_server: str, ledger: Ledger, facade_settings: Settings
) -> None:
    place = make()
    place.reschedule(cron="0 5 * * *", timezone="UTC")
    with ledger.writing(SERVICE) as session:
        enqueue(session, OutboxKind.APPLY_TEMPLATE, place.id)

    async def look() -> tuple[list[Correction], int]:
        async with PrefectApi(prefect_server) as api:
            return await DeploymentComparison(EngineContext(ledger, api, facade_settings)).correct()

    assert asyncio.run(look()) == ([], 0)
    assert place.record.interv == "d"
