"""Webhooks over real sockets: what is sent, to whom, how often, and what never is."""

import base64
import hashlib
import hmac
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager
from datetime import timedelta
from typing import Any

import httpx
import pytest
from sqlalchemy import select

from jobauto_prefect.ledger import queues
from jobauto_prefect.ledger.audit.trail import SERVICE
from jobauto_prefect.ledger.events import pending_actions
from jobauto_prefect.ledger.events.event_store import SourceChange, store_changes
from jobauto_prefect.ledger.opening import open_ledger
from jobauto_prefect.ledger.records import Event, EventSource, Job, PendingAction
from jobauto_prefect.ledger.store import Ledger
from jobauto_prefect.settings import Settings
from jobauto_prefect.sources import sender, webhooks
from jobauto_prefect.sources.webhooks import WebhookSender
from tests.support.background_service import beside
from tests.support.claims import claim_of, granted, report
from tests.support.databases import both_databases
from tests.support.ledger_rows import fetch_all
from tests.support.secrets import MARK, secret
from tests.support.waits import eventually
from tests.support.webhook_receiver import Received, Receiver, receiver

SECRET = secret("tells-what-came-from-us")
TOKEN = "token-of-the-receiver"


@pytest.fixture
def hooks() -> Iterator[Receiver]:
    with receiver() as made:
        yield made


@pytest.fixture
def other_hooks() -> Iterator[Receiver]:
    with receiver() as made:
        yield made


@pytest.fixture
def ledger_settings(ledger_settings: Settings, hooks: Receiver) -> Settings:
    """With one receiver."""
    return Settings(
        home=ledger_settings.home,
        database_url=ledger_settings.database_url,
        webhook_urls=f"{hooks.url}/all?key=of-the-url",
        webhook_secret=SECRET,
        webhook_token=TOKEN,
    )


def sending(ledger: Ledger, settings: Settings) -> AbstractContextManager[None]:
    """What `jobauto services` does with webhooks, meanwhile."""
    return beside(WebhookSender(ledger, settings).run)


def rows(ledger: Ledger) -> list[PendingAction]:
    return fetch_all(ledger, PendingAction)


def states(ledger: Ledger) -> list[str]:
    return [one.state for one in rows(ledger)]


def changed(rest: httpx.Client, ledger: Ledger, *inversions: int) -> int:
    """Changes of a source are stored; the id of the source."""
    source = rest.post("/eventsource/", json={"name": "erp", "db_database": "x"}).json()["id"]
    found = [
        SourceChange(one, {"inversion": one, "recordid": 42, "evidence": "invoice",
                           "operation": "create", "externalids": "code:X", "context": {"a": 1}})
        for one in inversions
    ]  # fmt: skip
    with ledger.writing(SERVICE) as session:
        store_changes(session, session.get_one(EventSource, source), found)
    number: int = source
    return number


def header(received: Received, name: str) -> str:
    value = received.headers[name]
    assert value is not None, name
    return value


def is_signed(received: Received, key: bytes) -> bool:
    """As the specification of Standard Webhooks has it, computed here once more."""
    signed = f"{header(received, 'webhook-id')}.{header(received, 'webhook-timestamp')}."
    digest = hmac.new(key, signed.encode() + received.content, hashlib.sha256).digest()
    return header(received, "webhook-signature") == f"v1,{base64.b64encode(digest).decode()}"


def test_a_receiver_is_told_of_changes_and_ends_in_the_published_shape(
    rest: httpx.Client,
    claims: httpx.Client,
    ledger: Ledger,
    ledger_settings: Settings,
    hooks: Receiver,
    template: dict[str, Any],
) -> None:
    source = changed(rest, ledger, 7)
    launch = granted(claims, claim_of())
    where = {"claim_id": launch["claim_id"], "path": "result.json", "name": "Result"}
    claims.put(f"/jobs/{launch['job_id']}/artifacts", params=where, content=b"{}")
    report(claims, launch)
    with sending(ledger, ledger_settings):
        eventually(lambda: states(ledger) == ["done", "done"])
    told = {one.body["event"]: one for one in hooks.received}
    assert all(one.path == "/all?key=of-the-url" for one in hooks.received)
    change = told["webhook.change"].body
    assert change.pop("ts").endswith("+00:00")
    assert change == {
        "event": "webhook.change", "source_id": source, "source_name": "erp",
        "adapter_type": "abraflexi-webhook", "inversion": 7, "evidence": "invoice",
        "operation": "create", "recordid": 42, "externalids": "code:X",
    }  # fmt: skip
    end = told["job.completed"].body
    (artifact,) = end.pop("artifacts")
    assert set(artifact) == {"id", "filename", "content_type", "note", "created_at"}
    assert artifact["filename"] == "result.json"
    assert all(end.pop(name).endswith("+00:00") for name in ("ts", "begin", "end"))
    assert end == {
        "event": "job.completed", "job_id": launch["job_id"], "runtemplate_id": template["id"],
        "app_id": template["app_id"], "app_uuid": "6a2c6d4e-30e4-4f6b-9d6e-7c8ad9f2b001",
        "company_id": template["company_id"], "exitcode": 0, "schedule_type": "adhoc-ui",
        "executor": "Native",
    }  # fmt: skip
    for one in hooks.received:
        assert header(one, "X-MultiFlexi-Token") == TOKEN
        assert header(one, "Content-Type") == "application/json"
        assert is_signed(one, SECRET.encode())
    shown = rest.get("/event/1.json")
    (action,) = shown.json()["actions"]
    assert (action["state"], action["target"]) == ("done", f"{hooks.url}/all")
    assert "of-the-url" not in shown.text


def test_a_run_templates_webhook_has_its_own_key_and_no_token(
    rest: httpx.Client,
    claims: httpx.Client,
    ledger: Ledger,
    ledger_settings: Settings,
    template: dict[str, Any],
    other_hooks: Receiver,
) -> None:
    key = base64.b64encode(MARK.encode()).decode()
    hook = {"uri": f"{other_hooks.url}/mine", "secret": f"whsec_{key}"}
    body = {"id": template["id"], "success": {"WebHook": hook}, "fail": {"WebHook": {
        "uri": f"{other_hooks.url}/unsigned"}}}  # fmt: skip
    rest.post("/runtemplate/", json=body).raise_for_status()
    report(claims, granted(claims, claim_of()))
    report(claims, granted(claims, claim_of()), exit_code=5)
    with sending(ledger, ledger_settings):
        eventually(lambda: states(ledger) == ["done"] * 4)
    by_path = {one.path: one for one in other_hooks.received}
    assert set(by_path) == {"/mine", "/unsigned"}
    assert is_signed(by_path["/mine"], MARK.encode())
    assert by_path["/unsigned"].body["exitcode"] == 5
    assert by_path["/unsigned"].headers["webhook-signature"] is None
    assert all(one.headers["X-MultiFlexi-Token"] is None for one in other_hooks.received)


@both_databases
def test_what_is_not_accepted_comes_again_until_it_is_given_up(
    rest: httpx.Client, ledger: Ledger, ledger_settings: Settings, hooks: Receiver
) -> None:
    hooks.statuses = [500, 404]
    changed(rest, ledger, 1)
    with sending(ledger, ledger_settings):
        eventually(lambda: states(ledger) == ["done"])
        ids = {header(one, "webhook-id") for one in hooks.received}
        assert (len(hooks.received), len(ids)) == (3, 1)
        assert rows(ledger)[0].attempts == 2
    with ledger.writing(SERVICE) as session:
        action = session.scalars(select(PendingAction)).one()
        action.state, action.created_at = "owed", action.created_at - pending_actions.GIVEN_UP_AFTER
    hooks.statuses = [503]
    with sending(ledger, ledger_settings):
        eventually(lambda: states(ledger) == ["dead"])
    assert rows(ledger)[0].error == "HTTP 503; given up after 3 attempts"
    (listed,) = rest.get("/events.json", params={"state": "dead"}).json().values()
    rest.post(f"/event/{listed['id']}/replay.json").raise_for_status()
    with sending(ledger, ledger_settings):
        eventually(lambda: states(ledger) == ["done"])


@both_databases
def test_waits_grow_to_an_hour(ledger: Ledger) -> None:
    with ledger.writing(SERVICE) as session:
        event = Event(kind="change", operation="any", data={})
        session.add(event)
        session.flush()
        action = PendingAction(event_id=event.id, kind="WebHook", target="http://h/", config={},
                            state="owed", due_at=session.clock())  # fmt: skip
        session.add(action)
        session.flush()
        waits = []
        for _ in range(15):
            pending_actions.retry_later(session, action, "HTTP 500")
            waits.append(round((action.due_at - session.clock()).total_seconds()))
    assert waits == [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 3600, 3600, 3600]


def test_redirects_are_not_followed(
    rest: httpx.Client,
    ledger: Ledger,
    ledger_settings: Settings,
    hooks: Receiver,
    other_hooks: Receiver,
) -> None:
    hooks.statuses, hooks.location = [307], f"{other_hooks.url}/elsewhere"
    changed(rest, ledger, 1)
    with sending(ledger, ledger_settings):
        eventually(lambda: states(ledger) == ["done"])
    assert len(hooks.received) == 2
    assert other_hooks.received == []


def test_refused_addresses_are_told_nothing(
    rest: httpx.Client, ledger: Ledger, ledger_settings: Settings, hooks: Receiver
) -> None:
    changed(rest, ledger, 1)
    settings = ledger_settings.model_copy(update={"webhook_targets": ("10.0.0.0/8",)})
    with sending(ledger, settings):
        error = eventually(lambda: rows(ledger)[0].error)
    assert "127.0.0.1 is not allowed as a webhook; name it in JOBAUTO_WEBHOOK_TARGETS" in error
    assert hooks.received == []


def test_a_receiver_that_hangs_keeps_nobody_waiting(
    rest: httpx.Client,
    claims: httpx.Client,
    ledger: Ledger,
    ledger_settings: Settings,
    template: dict[str, Any],
    hooks: Receiver,
    other_hooks: Receiver,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sender, "ANSWER_SECONDS", 50.0)
    hooks.hangs = threading.Event()
    body = {"id": template["id"], "success": {"WebHook": {"uri": other_hooks.url + "/"}}}
    rest.post("/runtemplate/", json=body).raise_for_status()
    changed(rest, ledger, *range(1, 11))
    with sending(ledger, ledger_settings):
        eventually(lambda: len(hooks.received) == webhooks.EACH)
        report(claims, granted(claims, claim_of()))
        eventually(lambda: other_hooks.received)
        assert len(hooks.received) == webhooks.EACH
        hooks.hangs.set()
        eventually(lambda: states(ledger) == ["done"] * 12)


@both_databases
def test_what_takes_long_is_sent_by_one_as_long_as_its_sender_lives(
    rest: httpx.Client,
    ledger: Ledger,
    ledger_settings: Settings,
    hooks: Receiver,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(queues, "HELD_FOR", timedelta(seconds=1))
    monkeypatch.setattr(queues, "RENEWED_EVERY", 0.2)
    hooks.hangs = threading.Event()
    changed(rest, ledger, 1)
    second = open_ledger(ledger_settings)
    with sending(ledger, ledger_settings), sending(second, ledger_settings):
        first_until = eventually(lambda: rows(ledger)[0].taken_until)
        eventually(lambda: rows(ledger)[0].taken_until > first_until + 2 * queues.HELD_FOR)
        hooks.hangs.set()
        eventually(lambda: states(ledger) == ["done"])
    second.close()
    assert len(hooks.received) == 1


@both_databases
def test_two_senders_share_the_work(
    rest: httpx.Client, ledger: Ledger, ledger_settings: Settings, hooks: Receiver
) -> None:
    changed(rest, ledger, *range(1, 41))
    second = open_ledger(ledger_settings)
    with sending(ledger, ledger_settings), sending(second, ledger_settings):
        eventually(lambda: states(ledger) == ["done"] * 40)
    second.close()
    assert sorted(one.body["inversion"] for one in hooks.received) == list(range(1, 41))


@both_databases
def test_a_sender_that_ends_gives_back_what_it_sends(
    rest: httpx.Client, ledger: Ledger, ledger_settings: Settings, hooks: Receiver
) -> None:
    hooks.hangs = threading.Event()
    changed(rest, ledger, 1)
    with sending(ledger, ledger_settings):
        eventually(lambda: hooks.received)
        assert rows(ledger)[0].taken_until is not None
    (left,) = rows(ledger)
    assert (left.state, left.taken_until, left.attempts) == ("owed", None, 0)
    hooks.hangs.set()
    with sending(ledger, ledger_settings):
        eventually(lambda: states(ledger) == ["done"])
    first, second = hooks.received
    assert header(first, "webhook-id") == header(second, "webhook-id")


def test_without_receivers_nothing_is_owed(rest: httpx.Client, ledger: Ledger) -> None:
    ledger.receivers = ()
    changed(rest, ledger, 1)
    assert rows(ledger) == []
    assert fetch_all(ledger, Job) == []
