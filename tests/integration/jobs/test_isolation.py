"""One record that nothing can be done with keeps no other waiting."""

import asyncio
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import httpx
import pytest
from sqlalchemy import select

from jobauto_prefect.engine.api import PrefectApi
from jobauto_prefect.engine.context import EngineContext
from jobauto_prefect.engine.services import event_emitter
from jobauto_prefect.engine.services.background import Reaper
from jobauto_prefect.engine.services.event_dispatch import dispatch_all
from jobauto_prefect.engine.services.event_emitter import EventEmitter
from jobauto_prefect.engine.services.window_scheduler import WindowScheduler
from jobauto_prefect.jobs.actions import run_due_actions
from jobauto_prefect.jobs.windows.due_windows import follow_zone
from jobauto_prefect.ledger.audit.trail import SERVICE
from jobauto_prefect.ledger.events.deliveries import EventKind
from jobauto_prefect.ledger.records import (
    Delivery,
    Event,
    EventSource,
    Job,
    PendingAction,
    RunTemplate,
    Task,
)
from jobauto_prefect.ledger.states import ActionState
from jobauto_prefect.ledger.store import Ledger
from jobauto_prefect.settings import Settings
from jobauto_prefect.sources.webhooks import WebhookSender
from tests.support.claims import claim_of, granted
from tests.support.ledger_rows import fetch, fetch_all, fetch_one
from tests.support.poison import cure, poison
from tests.support.records import make_template

NOWHERE = "http://127.0.0.1:9/api"
FOR_EVER = "0 * * * *|UTC|999999999999"  # a delay beyond all dates
HOURLY = {"interv": "c", "cron": "0 * * * *"}


def templates_of(rest: httpx.Client, **members: Any) -> tuple[int, int]:
    """Two run templates alike; the first one is to be poisoned."""
    first = make_template(rest, **members)
    body = {"app_id": first["app_id"], "company": "acme", "name": "other", **members}
    return first["id"], rest.post("/runtemplate/", json=body).json()["id"]


def with_prefect(ledger: Ledger, settings: Settings, work: Callable[..., Any]) -> None:
    """Work that asks Prefect nothing: it is not there."""

    async def run() -> None:
        async with PrefectApi(NOWHERE) as prefect:
            await work(EngineContext(ledger, prefect, settings))

    asyncio.run(run())


def change(ledger: Ledger, **members: Any) -> int:
    """An event of a source."""
    with ledger.writing(SERVICE) as session:
        source = session.scalar(select(EventSource))
        if source is None:
            source = EventSource(name="erp", db_database="erp")
            session.add(source)
            session.flush()
        event = Event(
            operation="any",
            data={},
            created_at=ledger.clock(),
            **{
                "kind": EventKind.CHANGE,
                "event_source_id": source.id,
                "emitted_at": ledger.clock(),
                **members,
            },
        )
        session.add(event)
        session.flush()
        return event.id


def owed_action(ledger: Ledger, event: int, **members: Any) -> int:
    now = ledger.clock()
    with ledger.writing(SERVICE) as session:
        action = PendingAction(
            event_id=event, state=ActionState.OWED, due_at=now, created_at=now, **members
        )
        session.add(action)
        session.flush()
        return action.id


def states(ledger: Ledger, kind: Any) -> list[str]:
    return fetch_all(ledger, select(kind.state).order_by(kind.id))


def test_windows_open_beside_a_run_template_that_waits_for_ever(
    rest: httpx.Client, ledger: Ledger
) -> None:
    poisoned, sound = templates_of(rest, **HOURLY)
    with ledger.writing(SERVICE) as session:
        session.get_one(RunTemplate, poisoned).kept_schedule = FOR_EVER
    clock = ledger.clock
    ledger.clock = lambda: clock() + timedelta(hours=1, minutes=1)
    WindowScheduler(ledger).tick()
    with ledger.reading() as session:
        opened = set(session.scalars(select(Task.runtemplate_id)))
        later = session.get_one(RunTemplate, poisoned).next_schedule
    assert opened == {sound}
    assert later is not None
    assert later > ledger.clock()  # it keeps nobody busy


def test_services_start_beside_a_run_template_that_waits_for_ever(
    rest: httpx.Client, ledger: Ledger, facade_settings: Settings
) -> None:
    poisoned, sound = templates_of(rest, **HOURLY)
    with ledger.writing(SERVICE) as session:
        session.get_one(RunTemplate, poisoned).kept_schedule = FOR_EVER
    moved = facade_settings.model_copy(update={"timezone": "Asia/Tokyo"})
    follow_zone(ledger, moved)
    assert "Asia/Tokyo" in str(fetch(ledger, RunTemplate, sound).kept_schedule)


def test_rules_start_beside_a_delivery_of_an_unknown_kind(
    rest: httpx.Client, ledger: Ledger, facade_settings: Settings
) -> None:
    template = make_template(rest)["id"]
    events = [change(ledger, kind="odd"), change(ledger)]
    source = fetch_one(ledger, select(EventSource.id))
    body = {"event_source_id": source, "runtemplate_id": template}
    rule = rest.post("/eventrule/", json=body).json()["id"]
    now = ledger.clock()
    with ledger.writing(SERVICE) as session:
        session.get_one(RunTemplate, template).deployment_id = None
        session.add_all(
            Delivery(event_id=event, rule_id=rule, state="owed", due_at=now, created_at=now)
            for event in events
        )
    with_prefect(ledger, facade_settings, dispatch_all)
    with ledger.reading() as session:
        poisoned, sound = session.scalars(select(Delivery).order_by(Delivery.id)).all()
        assert session.scalars(select(Job.event_id)).all() == [events[1]]
    assert (poisoned.state, poisoned.error) == (
        "dead", "an error in this program; see the log of jobauto services"
    )  # fmt: skip
    assert sound.state == "started"


def test_actions_are_done_beside_one_that_says_nothing(
    rest: httpx.Client, ledger: Ledger, facade_settings: Settings
) -> None:
    template = make_template(rest)["id"]
    owed_action(ledger, change(ledger), kind="ChainRuntemplate", config={})
    owed_action(ledger, change(ledger), kind="NoSuchAction", config={})
    sound, of_company = {"runtemplate_id": template}, change(ledger, company_id=1)
    owed_action(ledger, of_company, kind="ChainRuntemplate", config=sound)
    asyncio.run(run_due_actions(ledger, facade_settings, lambda: None))
    assert states(ledger, PendingAction) == ["dead", "dead", "done"]


def test_webhooks_are_read_beside_one_whose_secret_cannot_be(
    ledger: Ledger, ledger_settings: Settings
) -> None:
    target = "https://hooks.acme.example/jobs"
    owed_action(ledger, change(ledger), kind="WebHook", target=target, config={}, secret="odd")
    owed_action(ledger, change(ledger), kind="WebHook", target=target, config={})
    sender = WebhookSender(ledger, ledger_settings)
    assert [message.action_id for message in sender._claim()] == [2]
    poisoned = fetch(ledger, PendingAction, 1)
    assert (poisoned.state, poisoned.attempts, poisoned.taken_until) == ("owed", 1, None)
    assert poisoned.error


def test_prefect_is_told_of_events_beside_one_of_a_source_that_is_gone(
    ledger: Ledger, prefect_server: str
) -> None:
    change(ledger, event_source_id=None, emitted_at=None)
    change(ledger, emitted_at=None)

    async def run() -> None:
        async with PrefectApi(prefect_server) as prefect:
            await EventEmitter(ledger, prefect).emit_all()

    asyncio.run(run())
    poisoned, sound = fetch_all(ledger, Event)
    assert poisoned.emission_error is not None
    assert (sound.emission_error, sound.emitted_at is not None) == (None, True)


class FailingOn(httpx.AsyncHTTPTransport):
    """The ordinary transport to a Prefect that fails on one event."""

    def __init__(self, event: int) -> None:
        super().__init__()
        self._marks = f'"event":{event},'.encode()

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        if self._marks in await request.aread():
            return httpx.Response(500, json={"exception_message": "Internal Server Error"})
        return await super().handle_async_request(request)


def test_prefect_is_told_of_events_beside_one_that_it_fails_on(
    ledger: Ledger, prefect_server: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(event_emitter, "FAILED_SECONDS", 0.01)
    events = [change(ledger, emitted_at=None) for _ in range(5)]
    poisoned = events[1]

    async def run() -> None:
        async with PrefectApi(prefect_server, transport=FailingOn(poisoned)) as prefect:
            await EventEmitter(ledger, prefect).emit_all()

    asyncio.run(run())
    told = {event.id: event for event in fetch_all(ledger, Event)}
    assert all(event.emitted_at is not None for event in told.values())
    assert [event for event in events if told[event].emission_error] == [poisoned]
    assert "the log of its server" in str(told[poisoned].emission_error)


async def test_lost_jobs_are_found_beside_one_that_can_not_be_written(
    rest: httpx.Client,
    claims: httpx.Client,
    template: dict[str, Any],
    ledger: Ledger,
    facade_settings: Settings,
    caplog: pytest.LogCaptureFixture,
) -> None:
    jobs = [granted(claims, claim_of())["job_id"] for _ in range(3)]
    with ledger.engine.begin() as connection:
        poison(connection, "UPDATE", "job", jobs[0])
    start = ledger.clock() + timedelta(hours=1)  # the leases have been over for long
    async with httpx.AsyncClient(base_url=facade_settings.url, timeout=5) as facade:
        reaper = Reaper(ledger, facade_settings, facade)
        for seconds in range(0, 40, 10):
            ledger.clock = lambda seconds=seconds: start + timedelta(seconds=seconds)  # type: ignore[misc]
            await reaper.reap()
        assert states(ledger, Job) == ["running", "lost", "lost"]
        assert f"job {jobs[0]} is put aside" in caplog.text
        with ledger.engine.begin() as connection:
            cure(connection, "job")
        ledger.clock = lambda: start + timedelta(seconds=40)
        await reaper.reap()
    assert states(ledger, Job) == ["lost"] * 3
