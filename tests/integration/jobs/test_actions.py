"""What follows the end of a job by the actions of its run template: validated, kept, done once."""

import asyncio
import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any
from uuid import uuid4

import httpx
import pytest
from sqlalchemy import select

from jobauto_prefect.clock import utc_now
from jobauto_prefect.jobs.actions import run_due_actions
from jobauto_prefect.ledger import queues
from jobauto_prefect.ledger.audit.trail import SERVICE
from jobauto_prefect.ledger.events import event_store, pending_actions
from jobauto_prefect.ledger.opening import open_ledger
from jobauto_prefect.ledger.records import AuditEntry, Event, Job, PendingAction, RunTemplate
from jobauto_prefect.ledger.store import Ledger
from jobauto_prefect.settings import Settings
from tests.support.claims import claim_of, granted, own_run_of, report, report_of
from tests.support.databases import both_databases
from tests.support.definitions import PROBE
from tests.support.ledger_rows import fetch, fetch_all
from tests.support.processes import forked
from tests.support.records import errors, ok
from tests.support.secrets import secret

HOOK = "https://hooks.acme.example/jobs"


def other(rest: httpx.Client, template: dict[str, Any], name: str = "after") -> int:
    body = {"app_id": template["app_id"], "company": "acme", "name": name}
    number: int = rest.post("/runtemplate/", json=body).json()["id"]
    return number


def write(rest: httpx.Client, template: dict[str, Any], **members: Any) -> httpx.Response:
    return rest.post("/runtemplate/", json={"id": template["id"], **members})


def say(rest: httpx.Client, template: dict[str, Any], **members: Any) -> dict[str, Any]:
    return ok(write(rest, template, **members), 201)


def chain_to(number: int) -> dict[str, Any]:
    """The action that starts another run template."""
    return {"ChainRuntemplate": {"runtemplate_id": number}}


def run_job(claims: httpx.Client, **members: Any) -> None:
    """A job of the run template is granted, and ends as the report's members say."""
    report(claims, granted(claims, claim_of()), **members)


@pytest.fixture
def act(ledger: Ledger, facade_settings: Settings) -> Callable[[], None]:
    """What `jobauto services` does with actions, once."""
    return lambda: asyncio.run(run_due_actions(ledger, facade_settings, lambda: None))


def owed(rest: httpx.Client) -> list[dict[str, Any]]:
    """The actions of the newest event."""
    newest = max(map(int, rest.get("/events.json").json()))
    found: list[dict[str, Any]] = rest.get(f"/event/{newest}.json").json()["actions"]
    return found


def jobs_of(ledger: Ledger, template_id: int) -> list[Job]:
    found = select(Job).where(Job.runtemplate_id == template_id).order_by(Job.id)
    return fetch_all(ledger, found)


def waiting_jobs(ledger: Ledger, template_id: int) -> list[Job]:
    return [job for job in jobs_of(ledger, template_id) if job.state == "scheduled"]


def test_actions_are_kept_as_they_are_said(rest: httpx.Client, template: dict[str, Any]) -> None:
    assert (template["success"], template["fail"]) == ({}, {})
    after = other(rest, template)
    actions = {"ChainRuntemplate": {"runtemplate_id": after}, "Reschedule": {"delay": "60"}}
    shown = say(rest, template, success=actions, fail={"Stop": True, "Reschedule": True})
    assert shown["success"] == actions | {"Reschedule": {"delay": 60}}
    assert shown["fail"] == {"Reschedule": {"delay": 3600}, "Stop": {}}
    assert say(rest, template, note="x")["success"] == shown["success"]
    for nothing in (None, {}, [], "", {"Stop": False}, {"Zabbix": None}):
        assert say(rest, template, success=nothing)["success"] == {}
    text = json.dumps({"Stop": {}})
    assert say(rest, template, success=text)["success"] == {"Stop": {}}


def test_every_error_of_actions_is_told(rest: httpx.Client, template: dict[str, Any]) -> None:
    shape = {
        "ChainRuntemplate": {}, "Reschedule": {"delay": 0}, "WebHook": True, "Zabbix": True,
        "Stop": {"now": 1},
    }  # fmt: skip
    assert set(errors(write(rest, template, success=shape, fail="text"))) == {
        "/success/ChainRuntemplate/runtemplate_id", "/success/Reschedule/delay",
        "/success/WebHook/uri", "/success/Zabbix", "/success/Stop/now", "/fail",
    }  # fmt: skip
    targets = {
        "ChainRuntemplate": {"runtemplate_id": 999},
        "LaunchJob": {"app_id": 999},
        "WebHook": {"uri": "http://169.254.169.254/latest"},
    }
    refusals = errors(write(rest, template, fail=targets))
    assert set(refusals) == {
        "/fail/ChainRuntemplate/runtemplate_id", "/fail/LaunchJob/app_id", "/fail/WebHook/uri"
    }  # fmt: skip
    assert "JOBAUTO_WEBHOOK_TARGETS" in refusals["/fail/WebHook/uri"]
    for uri in ("ftp://x/", "https://", "http://u:p@h/", "http://h:99999/", "http://h/#f", "x"):
        pointers = errors(write(rest, template, success={"WebHook": {"uri": uri}}))
        assert set(pointers) == {"/success/WebHook/uri"}, uri
    assert rest.get(f"/runtemplate/{template['id']}.json").json()["success"] == {}


def test_actions_can_not_go_round(rest: httpx.Client, template: dict[str, Any]) -> None:
    after = other(rest, template)
    itself = chain_to(template["id"])
    assert "acme/daily → acme/daily" in errors(write(rest, template, fail=itself))["/fail"]
    rule = {"runtemplate_source_id": after, "runtemplate_id": template["id"]}
    rest.post("/eventrule/", json=rule).raise_for_status()
    chain = chain_to(after)
    message = errors(write(rest, template, success=chain))["/success"]
    assert "acme/daily → acme/after → acme/daily" in message
    # The other way about: the actions first, then a rule.
    last = other(rest, template, "last")
    say(rest, {"id": after}, success=chain_to(last))
    back = {"runtemplate_source_id": last, "runtemplate_id": after}
    assert errors(rest.post("/eventrule/", json=back))["/runtemplate_id"].endswith("acme/last")
    refused = rest.delete(f"/runtemplate/{last}.json")
    assert refused.status_code == 409
    assert f"actions of run template {after}" in refused.json()["message"]


def test_an_application_is_launched_by_its_only_run_template(
    claims: httpx.Client,
    rest: httpx.Client,
    ledger: Ledger,
    template: dict[str, Any],
    act: Callable[[], None],
) -> None:
    app = rest.post("/app/", json=PROBE | {"uuid": str(uuid4()), "name": "Mailer"}).json()["id"]
    launch = {"LaunchJob": {"app_id": app}}
    refused = errors(write(rest, template, success=launch))
    assert "it has none" in refused["/success/LaunchJob/app_id"]
    body = {"app_id": app, "company": "acme", "name": "mail"}
    mail = rest.post("/runtemplate/", json=body).json()["id"]
    say(rest, template, success=launch)
    run_job(claims)
    rest.post("/runtemplate/", json=body | {"name": "mail too"}).raise_for_status()
    act()
    (action,) = owed(rest)
    assert (action["state"], action["job_id"]) == ("dead", None)
    assert "must have one run template" in action["error"]
    (second,) = (int(one) for one, shown in rest.get("/runtemplates.json").json().items()
                 if shown["name"] == "mail too")  # fmt: skip
    assert rest.delete(f"/runtemplate/{second}.json").status_code == 200
    (listed,) = rest.get("/events.json", params={"state": "dead"}).json().values()
    replayed = rest.post(f"/event/{listed['id']}/replay.json").json()
    assert replayed["actions"][0]["state"] == "owed"
    act()
    (job,) = jobs_of(ledger, mail)
    assert (job.schedule_type, job.overrides["EVENT_OPERATION"]) == ("chained", "success")
    assert rest.post(f"/event/{listed['id']}/replay.json").status_code == 409


@both_databases
def test_actions_follow_the_end_that_settles_and_are_done_once(
    claims: httpx.Client,
    rest: httpx.Client,
    ledger: Ledger,
    template: dict[str, Any],
    act: Callable[[], None],
) -> None:
    after, failed = other(rest, template), other(rest, template, "failed")
    say(
        rest, template, max_attempts=2,
        success=chain_to(after),
        fail={"ChainRuntemplate": {"runtemplate_id": failed}, "Reschedule": {"delay": 600}},
    )  # fmt: skip
    first = granted(claims, claim_of())
    report(claims, first, exit_code=8)  # worth another attempt: nothing is settled
    act()
    assert rest.get("/events.json").json() == {}
    (again,) = waiting_jobs(ledger, template["id"])
    second = granted(claims, own_run_of(ledger, again.id))
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda _: claims.post(
            f"/jobs/{second['job_id']}/report", json=_end(second, 8)), range(4)))  # fmt: skip
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda _: act(), range(4)))
    assert {one["kind"]: one["state"] for one in owed(rest)} == {
        "ChainRuntemplate": "done", "Reschedule": "done"
    }  # fmt: skip
    assert jobs_of(ledger, after) == []
    assert len(jobs_of(ledger, failed)) == 1
    (later,) = waiting_jobs(ledger, template["id"])
    assert later.schedule_type == "reschedule"
    assert timedelta(minutes=9) < later.schedule - utc_now() <= timedelta(minutes=10)
    run_job(claims, exit_code=2)  # a warning is a success
    act()
    (chained,) = jobs_of(ledger, after)
    assert owed(rest)[0]["job_id"] == chained.id
    launch = granted(claims, claim_of())
    rest.post("/job/", json={"id": launch["job_id"], "state": "cancelled"})
    report(claims, launch, ending="cancelled", exit_code=143)
    act()
    assert len(jobs_of(ledger, failed)) == len(jobs_of(ledger, after)) == 1


def _end(launch: dict[str, Any], exit_code: int) -> dict[str, Any]:
    return report_of(launch, exit_code=exit_code)


def carry_out(settings: Settings) -> None:
    """Carry out what is due, as a process of its own does."""
    asyncio.run(run_due_actions(open_ledger(settings), settings, lambda: None))


@both_databases
def test_who_carries_out_actions_can_be_killed_at_any_moment(
    claims: httpx.Client,
    rest: httpx.Client,
    ledger: Ledger,
    facade_settings: Settings,
    template: dict[str, Any],
    act: Callable[[], None],
) -> None:
    after = other(rest, template)
    say(rest, template, success=chain_to(after))
    run_job(claims)
    with ledger.writing(SERVICE) as session:
        first = session.scalars(select(Event)).one()
        members = {"data": first.data, "runtemplate_id": template["id"], "operation": "success"}
        more = [Event(kind="completion", job_id=None, **members) for _ in range(100)]
        session.add_all(more)
        session.flush()
        config = {"runtemplate_id": after}
        for one in more:
            session.add(PendingAction(event_id=one.id, kind="ChainRuntemplate", config=config,
                                   state="owed", due_at=session.clock()))  # fmt: skip
    for seconds in (0.2, 0.5):
        process = forked(carry_out, facade_settings)
        process.join(seconds)
        process.kill()
        process.join()
    act()
    with ledger.reading() as session:
        rows = session.scalars(select(PendingAction)).all()
        started = session.scalars(select(Job).where(Job.runtemplate_id == after)).all()
    assert [one.state for one in rows] == ["done"] * 101
    assert sorted(filter(None, (one.job_id for one in rows))) == sorted(one.id for one in started)


@both_databases
def test_stop_takes_the_schedule_away(
    claims: httpx.Client,
    rest: httpx.Client,
    ledger: Ledger,
    template: dict[str, Any],
    act: Callable[[], None],
) -> None:
    say(rest, template, interv="y", fail={"Stop": {}})
    run_job(claims, exit_code=5)
    act()
    shown = rest.get(f"/runtemplate/{template['id']}.json").json()
    assert (shown["interv"], shown["active"]) == ("n", True)
    with ledger.reading() as session:
        record = session.get_one(RunTemplate, template["id"])
        assert (record.kept_schedule, record.next_window) == (None, None)
        entry = session.scalars(
            select(AuditEntry)
            .where(AuditEntry.entity_type == "RunTemplate")
            .order_by(AuditEntry.id.desc())
        ).first()
    assert entry is not None
    assert (entry.actor, entry.changes["interv"]) == ("service", ["y", "n"])


def test_what_is_not_active_is_a_dead_letter(
    claims: httpx.Client,
    rest: httpx.Client,
    ledger: Ledger,
    template: dict[str, Any],
    act: Callable[[], None],
) -> None:
    after = other(rest, template)
    chain = chain_to(after)
    say(rest, template, success=chain)
    rest.post("/runtemplate/", json={"id": after, "active": False}).raise_for_status()
    run_job(claims)
    act()
    (action,) = owed(rest)
    assert (action["state"], "is not active" in action["error"]) == ("dead", True)
    assert jobs_of(ledger, after) == []


@both_databases
def test_a_chain_of_actions_that_goes_round_ends(
    claims: httpx.Client, rest: httpx.Client, ledger: Ledger, template: dict[str, Any]
) -> None:
    say(rest, template, success=chain_to(other(rest, template)))
    launch = granted(claims, claim_of())
    with ledger.writing(SERVICE) as session:
        deep = Event(
            kind="completion",
            operation="any",
            data={},
            depth=event_store.LONGEST_CIRCLE,
            runtemplate_id=template["id"],
        )
        session.add(deep)
        session.flush()
        session.get_one(Job, launch["job_id"]).event_id = deep.id
    report(claims, launch)
    (action,) = owed(rest)
    assert (action["state"], "21 jobs long" in action["error"]) == ("dead", True)


def test_the_key_of_a_signature_is_never_shown(
    rest: httpx.Client, ledger: Ledger, template: dict[str, Any]
) -> None:
    key = secret("s3cret-signing-key")
    shown = say(rest, template, success={"WebHook": {"uri": HOOK, "secret": key}})
    assert shown["success"]["WebHook"] == {"uri": HOOK, "secret": "********"}
    with ledger.reading() as session:
        record = session.get_one(RunTemplate, template["id"])
        sealed = record.action_secrets["success"]
        assert ledger.box.open({"x": sealed}) == {"x": key}
        trail = [json.dumps(one.changes) for one in session.scalars(select(AuditEntry))]
    assert not any(key in one or sealed in one for one in trail)
    assert say(rest, template, success=shown["success"])["success"] == shown["success"]
    assert fetch(ledger, RunTemplate, template["id"]).action_secrets["success"] == sealed


@both_databases
def test_actions_of_a_dead_ledger_row_are_found_again(ledger: Ledger) -> None:
    """A process that died with webhooks in hand keeps them for a while, not for ever."""
    with ledger.writing(SERVICE) as session:
        event = Event(kind="change", operation="any", data={})
        session.add(event)
        session.flush()
        session.add(PendingAction(event_id=event.id, kind="WebHook", target=HOOK, config={},
                               state="owed", due_at=session.clock()))  # fmt: skip
        session.flush()
        assert len(pending_actions.claim_webhooks(session, {}, 4)) == 1
        assert len(pending_actions.claim_webhooks(session, {}, 4)) == 0
    clock = ledger.clock
    ledger.clock = lambda: clock() + queues.HELD_FOR + timedelta(seconds=1)
    with ledger.writing(SERVICE) as session:
        assert len(pending_actions.claim_webhooks(session, {}, 4)) == 1
