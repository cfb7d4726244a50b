"""Claims and reports that are repeated, late, or come at the same instant."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

import httpx
import pytest
from sqlalchemy import select

from jobauto_prefect.jobs.outcome.loss import close_lost, mark_lost
from jobauto_prefect.jobs.windows.due_windows import open_windows
from jobauto_prefect.ledger.audit.trail import SERVICE
from jobauto_prefect.ledger.jobs import windows as keeping
from jobauto_prefect.ledger.queries.jobs import job_with_context
from jobauto_prefect.ledger.records import Job, Lease, OutboxMessage, RunTemplate, Task
from jobauto_prefect.ledger.store import Ledger
from jobauto_prefect.runtime.protocol import Ending, Report
from jobauto_prefect.settings import Settings
from tests.support.claims import at_once, claim_of, granted, own_run_of, refused, report, report_of
from tests.support.databases import both_databases
from tests.support.ledger_rows import fetch, fetch_all

pytestmark = both_databases

Record = dict[str, Any]
ROUNDS = 3
AT_ONCE = 4
TEN = datetime(2026, 5, 1, 10, tzinfo=UTC)
HOUR = timedelta(hours=1)


def why_over(answer: httpx.Response) -> str:
    assert answer.status_code == 409, answer.text
    reason: str = answer.json()["details"]["reason"]
    return reason


def lost(ledger: Ledger, settings: Settings, launch: Record) -> None:
    """The reaper finds that the worker is silent."""
    loss = Report(
        claim_id=UUID(launch["claim_id"]),
        worker="w1",
        ending=Ending.LOST,
        message="no sign of life",
        ended_at=ledger.clock(),
    )
    with ledger.writing(SERVICE) as session:
        mark_lost(session, job_with_context(session, launch["job_id"]), loss, settings)


def outbox(ledger: Ledger) -> list[tuple[str, int]]:
    return [(message.kind, message.subject_id) for message in fetch_all(ledger, OutboxMessage)]


def jobs_in(ledger: Ledger) -> list[Job]:
    return fetch_all(ledger, Job)


def test_the_same_claim_many_times_at_once_is_one_launch(
    claims: httpx.Client, template: Record, ledger: Ledger
) -> None:
    for number in range(1, ROUNDS + 1):
        answers = at_once(claims, [claim_of()] * AT_ONCE)
        assert [answer.status_code for answer in answers] == [200] * AT_ONCE
        launches = [answer.json()["launch"] for answer in answers]
        assert all(launch == launches[0] for launch in launches)
        assert len(jobs_in(ledger)) == number


def test_of_other_claims_at_the_same_instant_each_is_told_to_leave_the_run(
    claims: httpx.Client, template: Record, ledger: Ledger
) -> None:
    for _ in range(ROUNDS):
        run = uuid4()
        answers = at_once(claims, [claim_of(run, worker=f"w{n}") for n in range(AT_ONCE)])
        assert sorted(answer.status_code for answer in answers) == [200] + [409] * (AT_ONCE - 1)


def test_a_run_of_a_waiting_job_is_claimed_once_however_often_it_is_asked_for(
    claims: httpx.Client, rest: httpx.Client, template: Record, ledger: Ledger
) -> None:
    for _ in range(ROUNDS):
        job = rest.post("/job/", json={"runtemplate_id": template["id"]}).json()["id"]
        mine = own_run_of(ledger, job)
        others = [mine | {"claim_id": str(uuid4())} for _ in range(2)]
        answers = at_once(claims, [mine, *others, mine, *others])
        granted_to = [answer for answer in answers if answer.status_code == 200]
        assert len(granted_to) == 2
        assert {answer.json()["launch"]["job_id"] for answer in granted_to} == {job}
        assert {answer.status_code for answer in answers} == {200, 409}


def test_a_claim_asked_again_after_its_job_is_over_is_told_what_became_of_it(
    claims: httpx.Client, template: Record, ledger: Ledger, facade_settings: Settings
) -> None:
    claim = claim_of()
    launch = granted(claims, claim)
    report(claims, launch)
    assert why_over(claims.post("/claims", json=claim)) == "ended"

    claim = claim_of()
    launch = granted(claims, claim)
    lost(ledger, facade_settings, launch)
    assert why_over(claims.post("/claims", json=claim)) == "lost"

    with ledger.writing(SERVICE) as session:
        lease = session.get_one(Lease, launch["job_id"])
        lease.ends_by = ledger.clock() - HOUR
        close_lost(session, job_with_context(session, launch["job_id"]))
    granted(claims, own_run_of(ledger, jobs_in(ledger)[-1].id))
    assert why_over(claims.post("/claims", json=claim)) == "superseded"


def test_a_claim_whose_answers_never_came_is_granted_when_it_is_asked_again(
    claims: httpx.Client, template: Record, ledger: Ledger
) -> None:
    claim = claim_of()

    def give_up_waiting(_: int) -> None:
        with pytest.raises(httpx.ReadTimeout):
            claims.post("/claims", json=claim, timeout=0.3)

    with ledger.writing(SERVICE) as session:  # the database hangs
        session.get_one(RunTemplate, template["id"], with_for_update=True)
        with ThreadPoolExecutor(2) as pool:
            list(pool.map(give_up_waiting, range(2)))
    granted(claims, claim)
    assert [job.state for job in jobs_in(ledger)] == ["running"]


def test_a_claim_that_was_refused_is_refused_again_and_makes_no_other_job(
    claims: httpx.Client, rest: httpx.Client, template: Record, ledger: Ledger
) -> None:
    rest.post("/runtemplate/", json={"id": template["id"], "active": False}).raise_for_status()
    claim = claim_of()
    first = refused(claims, claim)
    again = refused(claims, claim)
    assert (first[1:], len(jobs_in(ledger))) == (again[1:], 1)


def test_a_claim_id_is_that_of_one_flow_run(claims: httpx.Client, template: Record) -> None:
    claim = claim_of()
    granted(claims, claim)
    answer = claims.post("/claims", json=claim | {"flow_run_id": str(uuid4())})
    assert answer.status_code == 409


def test_asking_again_is_a_sign_of_life(
    claims: httpx.Client, template: Record, ledger: Ledger
) -> None:
    claim = claim_of()
    launch = granted(claims, claim)
    with ledger.writing(SERVICE) as session:
        session.get_one(Lease, launch["job_id"]).renewed_at -= HOUR
    granted(claims, claim)
    assert fetch(ledger, Lease, launch["job_id"]).renewed_at > ledger.clock() - HOUR / 2


@pytest.mark.parametrize("ending", ["exited", "lost", "cancelled"])
def test_a_repeated_report_changes_nothing(
    claims: httpx.Client, template: Record, ledger: Ledger, ending: str
) -> None:
    launch = granted(claims, claim_of())
    told = report_of(launch, ending=ending, exit_code=0 if ending == "exited" else None)
    path = f"/jobs/{launch['job_id']}/report"
    first = claims.post(path, json=told).json()
    before = (outbox(ledger), [(job.id, job.state, job.end) for job in jobs_in(ledger)])
    with ThreadPoolExecutor(AT_ONCE) as pool:
        again = list(pool.map(lambda _: claims.post(path, json=told).json(), range(AT_ONCE)))
    assert first["recorded"]
    assert [answer["recorded"] for answer in again] == [False] * AT_ONCE
    assert all(answer["story"]["state"] == first["story"]["state"] for answer in again)
    assert before == (outbox(ledger), [(job.id, job.state, job.end) for job in jobs_in(ledger)])


def test_who_cancels_a_lost_job_is_told_which_one_follows_it(
    claims: httpx.Client, rest: httpx.Client, template: Record, ledger: Ledger
) -> None:
    launch = granted(claims, claim_of())
    report(claims, launch, ending="lost")
    refusal = rest.post("/job/", json={"id": launch["job_id"], "state": "cancelled"})
    assert refusal.status_code == 409, refusal.text
    follower = jobs_in(ledger)[-1].id
    assert f"cancel job {follower}, which follows it" in refusal.text
    rest.post("/job/", json={"id": follower, "state": "cancelled"}).raise_for_status()
    assert [job.state for job in jobs_in(ledger)] == ["lost", "cancelled"]
    refusal = rest.post("/job/", json={"id": launch["job_id"], "state": "cancelled"})
    assert refusal.status_code == 409
    assert "no later attempt waits or runs" in refusal.text


def test_a_late_report_and_the_claim_of_the_next_attempt_agree_which_counts(
    claims: httpx.Client, template: Record, ledger: Ledger, facade_settings: Settings
) -> None:
    for _ in range(ROUNDS):
        late = granted(claims, claim_of())
        lost(ledger, facade_settings, late)
        with ledger.writing(SERVICE) as session:
            session.get_one(Lease, late["job_id"]).ends_by = ledger.clock() - HOUR
            close_lost(session, job_with_context(session, late["job_id"]))
        following = own_run_of(ledger, jobs_in(ledger)[-1].id)
        path = f"/jobs/{late['job_id']}/report"
        with ThreadPoolExecutor(2) as pool:
            told = pool.submit(lambda path=path, late=late: claims.post(path, json=report_of(late)))
            asked = pool.submit(lambda following=following: claims.post("/claims", json=following))
        launch = asked.result().json()["launch"]
        recorded = told.result().json()["recorded"]
        assert recorded == (launch is None)
        states = [job.state for job in jobs_in(ledger)[-2:]]
        assert states == (["succeeded", "skipped"] if recorded else ["lost", "running"])


@pytest.fixture
def windows(rest: httpx.Client, ledger: Ledger, template: Record) -> Callable[[str], list[Record]]:
    """Claims of the flow runs for two windows of a template that came due together."""

    def make(overlap: str) -> list[Record]:
        ledger.clock = lambda: TEN - HOUR / 2
        body = {"id": template["id"], "interv": "h", "overlap": overlap, "misfire": "all"}
        rest.post("/runtemplate/", json=body).raise_for_status()
        ledger.clock = lambda: TEN + timedelta(seconds=1)
        _open(ledger)
        ledger.clock = lambda: TEN + HOUR + timedelta(seconds=1)
        _open(ledger)
        due = [TEN, TEN + HOUR]
        return [claim_of(auto_scheduled=True, scheduled_for=at.isoformat()) for at in due]

    return make


def _open(ledger: Ledger) -> None:
    with ledger.writing(SERVICE) as session:
        open_windows(
            session, keeping.lock_due_templates(session, ledger.clock(), 10), ledger.clock()
        )


@pytest.mark.parametrize(
    ("overlap", "other"), [("wait", ("SCHEDULED", "open")), ("skip", ("CANCELLED", "missed"))]
)
def test_windows_claimed_at_the_same_instant_do_not_overlap(
    claims: httpx.Client,
    ledger: Ledger,
    windows: Callable[[str], list[Record]],
    overlap: str,
    other: tuple[str, str],
) -> None:
    answers = [answer.json() for answer in at_once(claims, windows(overlap))]
    (launch,) = [answer["launch"] for answer in answers if answer["launch"]]
    (refusal,) = [answer["refusal"] for answer in answers if answer["refusal"]]
    (waiting,) = fetch_all(ledger, select(Task).where(Task.id != launch["task_id"]))
    assert (refusal["story"]["state"], waiting.state) == other
    assert refusal["reason"] == "overlap"


def test_windows_that_run_in_parallel_are_claimed_at_the_same_instant(
    claims: httpx.Client, windows: Callable[[str], list[Record]]
) -> None:
    answers = [answer.json() for answer in at_once(claims, windows("parallel"))]
    assert all(answer["launch"] for answer in answers)


def test_a_copy_of_a_live_jobs_run_is_refused_and_the_jobs_own_run_is_left_alone(
    claims: httpx.Client, rest: httpx.Client, template: Record, ledger: Ledger
) -> None:
    job = rest.post("/job/", json={"runtemplate_id": template["id"]}).json()["id"]
    copied = claim_of(parameters={"jobauto": {"job": job}})
    assert refused(claims, copied)[:2] == ("duplicate", "CANCELLED")
    mine = own_run_of(ledger, job)
    launch = granted(claims, mine)
    other_worker = mine | {"claim_id": str(uuid4())}
    assert claims.post("/claims", json=other_worker).status_code == 409
    elsewhere = other_worker | {"flow_run_id": str(uuid4())}
    assert claims.post("/claims", json=elsewhere).status_code == 409
    assert refused(claims, copied)[:2] == ("duplicate", "CANCELLED")
    assert ("cancel_run", job) not in outbox(ledger)
    assert report(claims, launch)["recorded"]
