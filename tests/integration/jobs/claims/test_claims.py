"""The claims API spoken by hand: one run, one process; refusals; leases; reports."""

from base64 import b64encode
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

import httpx
import pytest
from sqlalchemy import delete, select

from jobauto_prefect.clock import utc_now
from jobauto_prefect.engine.services.background import Reaper
from jobauto_prefect.ledger.audit.trail import SERVICE
from jobauto_prefect.ledger.outbox import OutboxKind, enqueue, remove
from jobauto_prefect.ledger.records import (
    AuditEntry,
    Job,
    OutboxMessage,
    OutputLine,
    RunTemplate,
    Task,
)
from jobauto_prefect.ledger.store import Ledger
from jobauto_prefect.settings import Settings
from tests.support.claims import (
    claim_of,
    granted,
    instance_of,
    own_run_of,
    refused,
    renewal_of,
    report,
    report_of,
)
from tests.support.databases import both_databases
from tests.support.ledger_rows import count_rows, fetch, fetch_one
from tests.support.secrets import SECRET, secret
from tests.support.servers import client, worker_token

pytestmark = both_databases


def test_a_launch_has_everything_the_process_needs(
    claims: httpx.Client, rest: httpx.Client, template: dict[str, Any]
) -> None:
    parameters = {"GREETING": "good day; rm -rf /", "COUNT": 4, "LOUD": False}
    launch = granted(claims, claim_of(parameters=parameters))
    assert launch["argv"] == ["probe", "--greeting", "good day; rm -rf /", "Prague"]
    environment = launch["environment"]
    assert environment["PASSWORD"] == SECRET
    assert (environment["COUNT"], environment["LOUD"]) == ("4", "false")
    assert (
        environment["JOBAUTO_JOB_ID"] == environment["MULTIFLEXI_JOB_ID"] == str(launch["job_id"])
    )
    assert environment["JOBAUTO_COMPANY_CODE"] == "acme"
    assert SECRET in launch["secrets"]
    job = rest.get(f"/job/{launch['job_id']}.json").json()
    assert (job["state"], job["schedule_type"], job["worker"]) == ("running", "adhoc-ui", "w1")
    assert job["env"]["PASSWORD"] == "********"


def test_the_same_claim_asked_again_is_given_the_same_launch(
    claims: httpx.Client, template: dict[str, Any]
) -> None:
    claim = claim_of()
    assert granted(claims, claim) == granted(claims, claim)


def test_a_second_claim_of_a_live_run_leaves_it_untouched(
    claims: httpx.Client, template: dict[str, Any], ledger: Ledger
) -> None:
    run = uuid4()
    granted(claims, claim_of(run))
    for number in (1, 2):
        answer = claims.post("/claims", json=claim_of(run, run_number=number, worker="w2"))
        assert answer.status_code == 409
    assert count_rows(ledger, Job) == 1


def test_of_many_claims_at_once_one_is_granted(
    claims: httpx.Client, template: dict[str, Any]
) -> None:
    run = uuid4()

    def ask(number: int) -> int:
        return claims.post("/claims", json=claim_of(run, worker=f"w{number}")).status_code

    with ThreadPoolExecutor(8) as pool:
        codes = sorted(pool.map(ask, range(8)))
    assert codes == [200] + [409] * 7


def test_a_retry_in_prefect_is_a_new_job_on_the_same_run(
    claims: httpx.Client, rest: httpx.Client, template: dict[str, Any]
) -> None:
    run = uuid4()
    launch = granted(claims, claim_of(run, parameters={"GREETING": "hi"}))
    assert report(claims, launch, exit_code=9)["story"]["state"] == "FAILED"
    assert claims.post("/claims", json=claim_of(run)).status_code == 409
    again = granted(claims, claim_of(run, run_number=2))
    assert (again["attempt"], again["environment"]["GREETING"]) == (2, "hi")
    assert again["job_id"] != launch["job_id"]


def test_a_waiting_job_is_the_one_its_flow_run_names(
    claims: httpx.Client, rest: httpx.Client, template: dict[str, Any], ledger: Ledger
) -> None:
    body = {"runtemplate_id": template["id"], "env": {"PASSWORD": secret("for-this-run")}}
    job = rest.post("/job/", json=body).json()
    launch = granted(claims, own_run_of(ledger, job["id"]))
    assert launch["job_id"] == job["id"]
    assert launch["environment"]["PASSWORD"] == secret("for-this-run")
    reason, state, _ = refused(claims, claim_of(parameters={"jobauto": {"job": job["id"]}}))
    assert (reason, state) == ("duplicate", "CANCELLED")


def test_a_job_of_another_template_is_not_taken(
    claims: httpx.Client, rest: httpx.Client, template: dict[str, Any]
) -> None:
    other = rest.post(
        "/runtemplate/", json={"app_id": template["app_id"], "company": "acme", "name": "other"}
    ).json()
    job = rest.post("/job/", json={"runtemplate_id": other["id"]}).json()
    reason, state, _ = refused(claims, claim_of(parameters={"jobauto": {"job": job["id"]}}))
    assert (reason, state) == ("foreign_job", "FAILED")


def test_a_claim_for_another_pool_is_forbidden_and_written_down(
    claims: httpx.Client, template: dict[str, Any], ledger: Ledger, facade_url: str
) -> None:
    with client(f"{facade_url}/internal/v1", worker_token(ledger, "elsewhere")) as stranger:
        assert stranger.post("/claims", json=claim_of()).status_code == 403
        launch = granted(claims, claim_of())
        path = f"/jobs/{launch['job_id']}"
        assert stranger.post(f"{path}/report", json=report_of(launch)).status_code == 403
    entry = fetch_one(ledger, select(AuditEntry).where(AuditEntry.action == "refuse"))
    assert entry.door == "worker"
    assert "jobauto" in entry.changes["reason"][1]


def test_missing_required_values_refuse_the_launch_with_their_names(
    claims: httpx.Client, rest: httpx.Client, template: dict[str, Any]
) -> None:
    rest.post("/runtemplate/", json={"id": template["id"], "env": {"COUNT": ""}})
    reason, state, message = refused(claims, claim_of())
    assert (reason, state) == ("invalid_launch", "FAILED")
    assert "COUNT" in message
    (job,) = rest.get("/jobs.json").json().values()
    assert (job["state"], job["message"]) == ("blocked", message)


def test_nothing_inactive_is_launched(
    claims: httpx.Client, rest: httpx.Client, template: dict[str, Any]
) -> None:
    rest.post("/company/", json={"slug": "acme", "enabled": False})
    assert refused(claims, claim_of())[:2] == ("inactive", "FAILED")


def test_a_deployment_that_is_not_ours_is_refused(claims: httpx.Client) -> None:
    assert refused(claims, claim_of())[:2] == ("unknown_deployment", "FAILED")


def test_a_deployment_that_is_not_noted_yet_is_waited_for(
    claims: httpx.Client, rest: httpx.Client, template: dict[str, Any], ledger: Ledger
) -> None:
    """Whoever made it in Prefect was killed before they noted it; their message stays."""
    job = rest.post("/job/", json={"runtemplate_id": template["id"]}).json()["id"]
    moved = {"parameters": {"jobauto": {"job": job}}, "template_id": template["id"]}
    with ledger.writing(SERVICE) as session:
        session.execute(delete(OutboxMessage))
        killed = enqueue(session, OutboxKind.APPLY_TEMPLATE, template["id"])
    deployment = str(uuid4())
    for claim in (
        claim_of(deployment_id=deployment, template_id=template["id"]),
        claim_of(deployment_id=deployment, **moved),
    ):
        assert refused(claims, claim)[:2] == ("being_registered", "SCHEDULED")
    for template_id in (None, template["id"] + 1):
        stray = claim_of(deployment_id=deployment, template_id=template_id)
        assert refused(claims, stray)[:2] == ("unknown_deployment", "FAILED")
    with ledger.writing(SERVICE) as session:
        session.get_one(RunTemplate, template["id"]).deployment_id = UUID(deployment)
        remove(session, killed)
    own = own_run_of(ledger, job, deployment_id=deployment, template_id=template["id"])
    assert granted(claims, own)["job_id"] == job
    granted(claims, claim_of(deployment_id=deployment, template_id=template["id"], worker="w2"))


def hourly_since_ten(rest: httpx.Client, ledger: Ledger, template: dict[str, Any]) -> datetime:
    """A schedule written half an hour before ten, and a ledger that is a second past it."""
    ten = datetime(2026, 5, 1, 10, tzinfo=UTC)
    ledger.clock = lambda: ten - timedelta(minutes=30)
    rest.post("/runtemplate/", json={"id": template["id"], "interv": "h"}).raise_for_status()
    ledger.clock = lambda: ten + timedelta(seconds=1)
    return ten


def test_one_window_has_one_task_and_one_run(
    claims: httpx.Client, rest: httpx.Client, template: dict[str, Any], ledger: Ledger
) -> None:
    due = hourly_since_ten(rest, ledger, template)
    scheduled = {"auto_scheduled": True, "scheduled_for": due.isoformat()}
    launch = granted(claims, claim_of(**scheduled))
    assert launch["task_id"] is not None
    assert refused(claims, claim_of(**scheduled))[:2] == ("duplicate_window", "CANCELLED")
    report(claims, launch, ended_at=(due + timedelta(minutes=9)).isoformat())
    assert refused(claims, claim_of(**scheduled))[:2] == ("duplicate_window", "CANCELLED")
    task = fetch_one(ledger, Task)
    assert (task.state, task.attempts) == ("fulfilled", 1)
    assert (task.window_start, task.window_end) == (due, due + timedelta(hours=1))


@pytest.mark.parametrize(
    ("ending", "exit_code", "state", "severity", "shown", "message"),
    [
        ("exited", 0, "succeeded", "success", "COMPLETED", "exit code 0 (success): All went well"),
        ("exited", 2, "warning", "warning", "COMPLETED", "exit code 2 (warning): Half done"),
        ("exited", 5, "failed", "critical", "FAILED", "exit code 5 (critical): Came to nothing"),
        ("exited", 9, "failed", "error", "FAILED", "exit code 9 (error): No severity said"),
        ("exited", 77, "failed", "error", "FAILED", "exit code 77 (error)"),
        ("timeout", 143, "failed", "error", "FAILED", "ended by its timeout"),
        ("cancelled", 143, "cancelled", "error", "CANCELLED", "cancelled"),
        ("not_started", 127, "failed", "error", "FAILED", "could not be started"),
        ("lost", None, "lost", "error", "CRASHED", "lost"),
    ],
)
def test_an_end_is_told_alike_in_ledger_and_prefect(
    claims: httpx.Client,
    rest: httpx.Client,
    template: dict[str, Any],
    ending: str,
    exit_code: int | None,
    state: str,
    severity: str,
    shown: str,
    message: str,
) -> None:
    launch = granted(claims, claim_of())
    answer = report(claims, launch, ending=ending, exit_code=exit_code)
    assert answer["recorded"] is True
    assert answer["story"]["state"] == shown
    assert answer["story"]["message"].startswith(message)
    job = rest.get(f"/job/{launch['job_id']}.json").json()
    assert (job["state"], job["severity"], job["exitcode"]) == (state, severity, exit_code)


def test_a_second_report_changes_nothing_but_a_lost_job_may_report_after_all(
    claims: httpx.Client, template: dict[str, Any]
) -> None:
    launch = granted(claims, claim_of())
    report(claims, launch, ending="lost", exit_code=None)
    assert report(claims, launch, exit_code=2)["recorded"] is True
    late = report(claims, launch, exit_code=5)
    assert (late["recorded"], late["story"]["state"]) == (False, "COMPLETED")


def test_a_job_cancelled_before_its_claim_does_not_pass_for_a_retry(
    claims: httpx.Client, rest: httpx.Client, template: dict[str, Any], ledger: Ledger
) -> None:
    waiting = rest.post(
        "/job/", json={"runtemplate_id": template["id"], "scheduled": "2099-01-01"}
    ).json()["id"]
    run = uuid4()
    with ledger.writing(SERVICE) as session:
        session.get_one(Job, waiting).flow_run_id = run
    rest.post("/job/", json={"id": waiting, "state": "cancelled", "reason": "not needed"})
    assert refused(claims, claim_of(run)) == ("cancelled", "CANCELLED", "not needed")

    with ledger.writing(SERVICE) as session:
        session.execute(
            delete(OutboxMessage).where(OutboxMessage.subject_id == waiting)
        )  # Prefect has heard of it
    assert granted(claims, claim_of(run))["job_id"] != waiting  # Retry was clicked


def test_a_run_that_was_seen_before_its_job_was_cancelled_does_not_pass_for_a_retry(
    claims: httpx.Client, rest: httpx.Client, template: dict[str, Any], ledger: Ledger
) -> None:
    seen = datetime.now(UTC)
    waiting = rest.post("/job/", json={"runtemplate_id": template["id"]}).json()["id"]
    run = uuid4()
    with ledger.writing(SERVICE) as session:
        session.get_one(Job, waiting).flow_run_id = run
    rest.post("/job/", json={"id": waiting, "state": "cancelled", "reason": "not needed"})
    with ledger.writing(SERVICE) as session:  # Prefect has heard of it, the worker has not
        session.execute(delete(OutboxMessage).where(OutboxMessage.subject_id == waiting))
    late = claim_of(run, changed_at=seen.isoformat())
    assert refused(claims, late) == ("cancelled", "CANCELLED", "not needed")
    retried = claim_of(run, changed_at=(datetime.now(UTC) + timedelta(seconds=5)).isoformat())
    assert granted(claims, retried)["job_id"] != waiting


def test_renewals_say_what_is_to_be_stopped(
    claims: httpx.Client, rest: httpx.Client, template: dict[str, Any]
) -> None:
    launches = [granted(claims, claim_of()) for _ in range(3)]
    jobs = {str(launch["job_id"]): launch["claim_id"] for launch in launches}
    renewed = claims.post("/renewals", json=renewal_of(1, jobs=jobs)).json()
    assert datetime.fromisoformat(renewed.pop("now")).tzinfo is not None
    assert renewed == {"stop": {}, "superseded": False, "useless": False}
    first, second, third = jobs
    rest.post("/job/", json={"id": int(first), "state": "cancelled", "reason": "not needed"})
    report(claims, launches[1])
    jobs[third] = str(uuid4())
    stop = claims.post("/renewals", json=renewal_of(2, jobs=jobs)).json()["stop"]
    assert stop[first] == "not needed"
    assert set(stop) == {first, second, third}


def test_output_is_kept_once_however_often_it_is_sent(
    claims: httpx.Client, rest: httpx.Client, template: dict[str, Any], ledger: Ledger
) -> None:
    launch = granted(claims, claim_of())
    now = datetime.now(UTC).isoformat()
    output = [
        {"seq": 1, "stream": "stdout", "at": now, "texts": ["čau", '\\ "quoted" \t']},
        {"seq": 3, "stream": "stderr", "at": now, "texts": ["oops"]},
        {
            "seq": 4,
            "stream": "stdout",
            "at": now,
            "texts": ["half", "␀␛\ufffd", "7 bytes are missing here", "end"],
            "raws": {0: _base64(b"half"), 1: _base64(b"\0\x1b\xff\r\n"), 2: "", 3: _base64(b"end")},
        },
        {"seq": 8, "stream": "notice", "at": now, "texts": ["that is all"]},
    ]
    body = {"claim_id": launch["claim_id"], "output": output}
    for _ in range(2):
        assert claims.post(f"/jobs/{launch['job_id']}/output", json=body).status_code == 204
    assert count_rows(ledger, OutputLine) == 8
    job = rest.get(f"/job/{launch['job_id']}.json").json()
    shown = 'čau\n\\ "quoted" \t\nhalf␀␛\ufffd\n7 bytes are missing here\nend'
    assert (job["stdout"], job["stderr"]) == (shown, "oops\n")
    written = rest.get(f"/job/{launch['job_id']}/output.txt").content
    begun = 'čau\n\\ "quoted" \t\noops\nhalf'.encode()
    assert written == (begun + b"\0\x1b\xff\r\n7 bytes are missing here\nend\nthat is all\n")
    listed = rest.get(f"/job/{launch['job_id']}/output.json", params={"after": 2}).json()
    assert [line["text"] for line in listed["lines"]][:2] == ["oops", "half"]


def _base64(data: bytes) -> str:
    return b64encode(data).decode()


def test_an_artifact_sent_twice_is_one(
    claims: httpx.Client, rest: httpx.Client, template: dict[str, Any]
) -> None:
    launch = granted(claims, claim_of())
    where = {
        "claim_id": launch["claim_id"],
        "path": "result.json",
        "name": "Result",
        "type": "file",
    }
    for content in (b"{}", b'{"a": 1}'):
        path = f"/jobs/{launch['job_id']}/artifacts"
        assert claims.put(path, params=where, content=content).status_code == 204
    (artifact,) = rest.get(f"/job/{launch['job_id']}.json").json()["artifacts"]
    assert (artifact["path"], artifact["size"]) == ("result.json", 8)
    assert artifact["content_type"] == "application/json"
    assert rest.get(f"/artifact/{artifact['id']}").content == b'{"a": 1}'
    assert rest.get(f"/artifact/{artifact['id']}.json").json() == artifact
    assert "result.json" in rest.get(f"/artifact/{artifact['id']}.html").text


def test_a_workers_name_is_its_own_until_its_lease_is_over(
    claims: httpx.Client, template: dict[str, Any], ledger: Ledger
) -> None:
    def hello(**members: Any) -> httpx.Response:
        body = {"worker": "new", "pool": "jobauto", "host": "here", "instance": str(uuid4())}
        return claims.post("/workers", json=body | members)

    assert hello(instance=instance_of("new")).status_code == 200
    assert hello().status_code == 409
    assert hello(host="there", same_place=True).status_code == 409
    launch = granted(claims, claim_of(worker="new"))
    welcome = hello(same_place=True).json()
    assert [one["job_id"] for one in welcome["left_over"]] == [launch["job_id"]]
    assert hello(worker="newer", pool="elsewhere").status_code == 403
    later = datetime.now(UTC) + timedelta(hours=1)
    ledger.clock = lambda: later
    assert hello(host="there", same_place=True).json()["left_over"] == []


async def _reap(ledger: Ledger, settings: Settings, ticks: Callable[[], list[datetime]]) -> None:
    """Let a reaper look at the given instants."""
    instants = ticks()
    ledger.clock = lambda: instants[0]
    async with httpx.AsyncClient(base_url=settings.url, timeout=2) as http:
        reaper = Reaper(ledger, settings, http)
        while instants:
            await reaper.reap()
            instants.pop(0)


def _seconds(start: datetime, *offsets: float) -> list[datetime]:
    return [start + timedelta(seconds=offset) for offset in offsets]


async def test_the_reaper_waits_one_full_lease_of_answered_time(
    claims: httpx.Client, template: dict[str, Any], ledger: Ledger, facade_settings: Settings
) -> None:
    launch = granted(claims, claim_of())
    start = datetime.now(UTC) + timedelta(hours=1)  # the lease has been over for long
    await _reap(ledger, facade_settings, lambda: _seconds(start, 0, 10, 20, 29))
    assert _state(ledger, launch) == "running"
    # Between 29 and 50 this process was stopped: the count begins anew.
    await _reap(ledger, facade_settings, lambda: _seconds(start, 0, 10, 20, 50, 60, 70, 79))
    assert _state(ledger, launch) == "running"
    await _reap(ledger, facade_settings, lambda: _seconds(start, 0, 10, 20, 31))
    assert _state(ledger, launch) == "lost"
    with ledger.reading() as session:
        # Nobody said that its process is gone: nothing follows yet.
        assert len(session.scalars(select(Job)).all()) == 1
    ledger.clock = utc_now
    answer = report(claims, launch)
    assert (answer["recorded"], answer["story"]["state"]) == (True, "COMPLETED")


async def test_the_reaper_finds_a_lease_that_was_granted_while_it_looked_less_often(
    claims: httpx.Client, template: dict[str, Any], ledger: Ledger, facade_settings: Settings
) -> None:
    start = datetime.now(UTC) + timedelta(hours=1)
    async with httpx.AsyncClient(base_url=facade_settings.url, timeout=2) as http:
        reaper = Reaper(ledger, facade_settings, http)

        async def look(*seconds: float) -> None:
            for instant in _seconds(start, *seconds):
                ledger.clock = lambda instant=instant: instant  # type: ignore[misc]
                await reaper.reap()

        await look(0, 10, 20, 31)
        ledger.clock = lambda: start + timedelta(seconds=32)
        launch = granted(claims, claim_of())
        await look(34, 37, 40, 43, 46, 49, 52, 55, 58, 61)
        assert _state(ledger, launch) == "running"
        await look(64)
    assert _state(ledger, launch) == "lost"
    ledger.clock = utc_now


async def test_the_reaper_does_not_count_while_the_facade_is_away_and_says_so_once(
    claims: httpx.Client,
    template: dict[str, Any],
    ledger: Ledger,
    facade_settings: Settings,
    caplog: pytest.LogCaptureFixture,
) -> None:
    launch = granted(claims, claim_of())
    start = datetime.now(UTC) + timedelta(hours=1)
    away = facade_settings.model_copy(update={"url": "http://127.0.0.1:9"})
    await _reap(ledger, away, lambda: _seconds(start, 0, 10, 20, 29))
    assert caplog.messages == []
    await _reap(ledger, away, lambda: _seconds(start, *range(0, 120, 10)))
    assert _state(ledger, launch) == "running"
    (said,) = caplog.messages
    assert "does not answer at http://127.0.0.1:9; set JOBAUTO_FACADE_URL" in said


def _state(ledger: Ledger, launch: dict[str, Any]) -> str:
    return fetch(ledger, Job, launch["job_id"]).state
