"""What a worker's renewals mean: which of its jobs live, and which have no process."""

import itertools
from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any
from uuid import uuid4

import httpx
import pytest
from sqlalchemy import select

from jobauto_prefect.ledger.audit.trail import SERVICE
from jobauto_prefect.ledger.records import AuditEntry, Job, Lease, WorkerRecord
from jobauto_prefect.ledger.store import Ledger
from tests.support.claims import claim_of, granted, instance_of, own_run_of, renewal_of, report
from tests.support.databases import both_databases
from tests.support.ledger_rows import fetch, fetch_all, fetch_one
from tests.support.servers import client, worker_token

pytestmark = both_databases

Launch = dict[str, Any]


class Renewing:
    """A worker that renews by hand; each of its renewals is answered."""

    def __init__(self, claims: httpx.Client, worker: str = "w1") -> None:
        self._claims, self._worker = claims, worker
        self._numbers = itertools.count(1)

    def __call__(self, *had: Launch, **members: Any) -> dict[str, Any]:
        jobs = {str(launch["job_id"]): launch["claim_id"] for launch in had}
        renewal = renewal_of(next(self._numbers), self._worker, jobs=jobs, **members)
        answer: dict[str, Any] = self._claims.post("/renewals", json=renewal).json()
        return answer


@pytest.fixture
def renew(claims: httpx.Client) -> Renewing:
    return Renewing(claims)


@pytest.fixture
def retried(rest: httpx.Client, template: dict[str, Any]) -> dict[str, Any]:
    """A template whose lost jobs are tried again; they go on without contact for nine hours."""
    body = {"id": template["id"], "max_attempts": 3, "on_contact_lost": "finish"}
    rest.post("/runtemplate/", json=body).raise_for_status()
    return template


def jobs(ledger: Ledger) -> list[tuple[str, int]]:
    """State and attempt of all jobs, the first one first."""
    return [(job.state, job.attempt) for job in fetch_all(ledger, Job)]


def test_a_job_its_worker_does_not_have_is_tried_again_within_three_renewals(
    claims: httpx.Client, retried: dict[str, Any], ledger: Ledger, renew: Renewing
) -> None:
    renew()
    launch = granted(claims, claim_of())  # and the answer gets lost
    renew()
    assert jobs(ledger) == [("running", 1)]
    renew()
    assert jobs(ledger) == [("lost", 1), ("scheduled", 2)]
    assert renew(launch)["stop"]  # it is held no more
    assert report(claims, launch)["recorded"] is False


def test_what_a_worker_names_is_not_lost(
    claims: httpx.Client, retried: dict[str, Any], ledger: Ledger, renew: Renewing
) -> None:
    had, unknown, waiting = (granted(claims, claim_of()) for _ in range(3))
    members = {
        "unknown": {str(unknown["job_id"]): unknown["claim_id"]},
        "claims": [waiting["claim_id"]],
    }
    for _ in range(4):
        assert renew(had, **members)["stop"] == {}
    assert jobs(ledger) == [("running", 1)] * 3


def test_only_what_is_had_is_renewed(
    claims: httpx.Client, retried: dict[str, Any], ledger: Ledger, renew: Renewing
) -> None:
    start = ledger.clock()
    had, unknown = granted(claims, claim_of()), granted(claims, claim_of())
    ledger.clock = lambda: start + timedelta(seconds=20)
    renew(had, unknown={str(unknown["job_id"]): unknown["claim_id"]})
    with ledger.reading() as session:
        renewed = session.get_one(Lease, had["job_id"]).renewed_at
        left = session.get_one(Lease, unknown["job_id"]).renewed_at
    assert renewed == start + timedelta(seconds=20)
    assert left < renewed  # its run template says what becomes of it


def test_a_claim_granted_after_the_answered_renewal_is_not_judged(
    claims: httpx.Client, retried: dict[str, Any], ledger: Ledger
) -> None:
    post = claims.post
    post("/renewals", json=renewal_of(1))
    granted(claims, claim_of())
    # Two renewals were written before the claim was sent, and come late.
    post("/renewals", json=renewal_of(2, answered=1))
    post("/renewals", json=renewal_of(3, answered=1))
    assert jobs(ledger) == [("running", 1)]


def test_a_renewal_that_is_not_above_the_last_renews_and_judges_nothing(
    claims: httpx.Client, retried: dict[str, Any], ledger: Ledger, renew: Renewing
) -> None:
    for _ in range(3):
        renew()
    start = ledger.clock()
    launch = granted(claims, claim_of())
    renew(launch)
    ledger.clock = lambda: start + timedelta(seconds=20)
    had = {str(launch["job_id"]): launch["claim_id"]}
    for members in ({"jobs": had}, {}):
        late = renewal_of(2, answered=10, **members)
        assert claims.post("/renewals", json=late).json()["stop"] == {}
    assert fetch(ledger, Lease, launch["job_id"]).renewed_at < ledger.clock()
    assert jobs(ledger) == [("running", 1)]


def test_the_jobs_of_another_start_or_another_worker_are_not_judged_and_not_renewed(
    claims: httpx.Client, retried: dict[str, Any], ledger: Ledger, renew: Renewing
) -> None:
    start = ledger.clock()
    launches = [granted(claims, claim_of()), granted(claims, claim_of(worker="w2"))]
    with ledger.writing(SERVICE) as session:
        session.get_one(WorkerRecord, "w1").instance = new = uuid4()
    ledger.clock = lambda: start + timedelta(seconds=20)
    for _ in range(4):
        renew(*launches, instance=str(new))
    former = renew(*launches)  # of the former start
    assert former["superseded"] is True
    for launch in launches:
        assert fetch(ledger, Lease, launch["job_id"]).renewed_at < ledger.clock()
    assert jobs(ledger) == [("running", 1)] * 2


def test_a_former_start_of_a_worker_is_granted_nothing(
    claims: httpx.Client, template: dict[str, Any], ledger: Ledger
) -> None:
    assert claims.post("/claims", json=claim_of(instance=str(uuid4()))).status_code == 409
    assert claims.post("/claims", json=claim_of(worker="unheard of")).status_code == 409
    assert jobs(ledger) == []


def test_a_hello_that_comes_twice_leaves_the_count_of_renewals(
    claims: httpx.Client, ledger: Ledger, renew: Renewing
) -> None:
    hello = {"worker": "w1", "pool": "jobauto", "host": "here", "instance": instance_of("w1")}
    for _ in range(3):
        renew()
    assert claims.post("/workers", json=hello).status_code == 200
    assert fetch(ledger, WorkerRecord, "w1").renewal == 3


@pytest.fixture
def stranger(facade_url: str, ledger: Ledger) -> Iterator[httpx.Client]:
    """The claims API with a token of another work pool."""
    with client(f"{facade_url}/internal/v1", worker_token(ledger, "elsewhere")) as signed_in:
        yield signed_in


def test_a_token_of_another_pool_takes_no_name_and_renews_nothing(
    claims: httpx.Client, stranger: httpx.Client, retried: dict[str, Any], ledger: Ledger
) -> None:
    start = ledger.clock()
    launch = granted(claims, claim_of())
    hello = {
        "worker": "w1",
        "pool": "elsewhere",
        "host": "here",
        "instance": str(uuid4()),
        "same_place": True,
    }
    had = {str(launch["job_id"]): launch["claim_id"]}
    ledger.clock = lambda: start + timedelta(seconds=20)
    taking = stranger.post("/workers", json=hello)
    assert taking.status_code == 403
    assert launch["claim_id"] not in taking.text
    assert stranger.post("/renewals", json=renewal_of(1, jobs=had)).status_code == 403
    # A worker of its own names the job: it is not its lease.
    assert stranger.post("/workers", json=hello | {"worker": "w77"}).status_code == 200
    own = renewal_of(1, "w77", instance=hello["instance"], jobs=had)
    assert stranger.post("/renewals", json=own).status_code == 200
    claiming = claim_of(worker="w1")
    assert stranger.post("/claims", json=claiming).status_code == 403
    ledger.clock = lambda: start + timedelta(hours=1)  # it is silent, but its job may live
    assert stranger.post("/workers", json=hello).status_code == 403
    with ledger.reading() as session:
        assert session.get_one(Lease, launch["job_id"]).renewed_at < start + timedelta(seconds=20)
        refused = select(AuditEntry).where(AuditEntry.action == "refuse")
        assert len(session.scalars(refused).all()) == 3


def test_a_worker_that_is_declared_lost_loses_its_jobs_at_once(
    claims: httpx.Client,
    rest: httpx.Client,
    retried: dict[str, Any],
    ledger: Ledger,
    renew: Renewing,
) -> None:
    launches = [granted(claims, claim_of()) for _ in range(2)]
    assert rest.post("/worker/w1/lost.json").status_code == 409  # it was heard of just now
    assert rest.post("/worker/nobody/lost.json").status_code == 404
    start = ledger.clock()
    ledger.clock = lambda: start + timedelta(minutes=1)
    answer = rest.post("/worker/w1/lost.json").raise_for_status().json()
    assert answer["lost_jobs"] == [launch["job_id"] for launch in launches]
    assert jobs(ledger) == [("lost", 1)] * 2 + [("scheduled", 2)] * 2
    worker = rest.get("/workers.json").json()["w1"]
    assert (worker["state"], worker["jobs"]) == ("lost", [])
    entry = fetch_one(ledger, select(AuditEntry).where(AuditEntry.action == "lost"))
    assert entry.entity_type == "Worker"
    # It was not lost after all: it is told to end what it has, and is granted nothing.
    woken = renew(*launches)
    assert {*woken["stop"]} == {str(launch["job_id"]) for launch in launches}
    assert woken["superseded"] is True
    assert claims.post("/claims", json=claim_of()).status_code == 409
    assert report(claims, launches[0])["recorded"] is False


def test_workers_are_listed_with_what_they_hold_and_what_hinders_them(
    claims: httpx.Client,
    rest: httpx.Client,
    template: dict[str, Any],
    ledger: Ledger,
    renew: Renewing,
) -> None:
    launch = granted(claims, claim_of())
    renew(launch)
    assert rest.get("/workers.json").json()["w1"].items() >= {
        "pool": "jobauto", "host": "here", "instance": instance_of("w1"), "state": "working",
        "jobs": [launch["job_id"]], "hindrances": {},
    }.items()  # fmt: skip
    renew(launch, hindrances={"disk": "it is full"})
    worker = rest.get("/workers.json").json()["w1"]
    assert (worker["state"], worker["hindrances"]) == ("hindered", {"disk": "it is full"})
    start = ledger.clock()
    ledger.clock = lambda: start + timedelta(minutes=1)
    assert rest.get("/workers.json").json()["w1"]["state"] == "silent"


def test_a_job_no_worker_could_start_keeps_its_number_and_comes_ten_times_before_it_counts(
    claims: httpx.Client, retried: dict[str, Any], ledger: Ledger
) -> None:
    pauses = []
    for _ in range(11):
        waiting = fetch_all(ledger, select(Job).where(Job.state == "scheduled"))
        claim = own_run_of(ledger, waiting[0].id) if waiting else claim_of()
        launch = granted(claims, claim)
        assert launch["environment"]["JOBAUTO_ATTEMPT"] == "1"
        ended = ledger.clock()
        report(
            claims, launch, ending="lost", exit_code=None, worker_unable=True, started_at=None,
            ended_at=ended.isoformat(), message="nothing can be written",
        )  # fmt: skip
        (waiting,) = fetch_all(ledger, select(Job).where(Job.state == "scheduled"))
        pauses.append(round((waiting.schedule - ended).total_seconds()))
    assert pauses == [1, 2, 4, 8, 16, 32, 60, 60, 60, 60, 0]
    assert jobs(ledger) == [("lost", 1)] * 11 + [("scheduled", 2)]


def test_a_worker_gets_no_job_of_an_executor_it_cannot_use(
    claims: httpx.Client, template: dict[str, Any], ledger: Ledger, renew: Renewing
) -> None:
    run = claim_of(without=["Native"])
    assert claims.post("/claims", json=run).status_code == 409
    assert jobs(ledger) == []
    assert renew(hindrances={"Podman": "it does not answer"})["useless"] is False
    assert renew(hindrances={"Native": "gone"})["useless"] is True


def test_a_renewal_that_can_not_be_read_is_a_sign_of_life(
    claims: httpx.Client, retried: dict[str, Any], ledger: Ledger, renew: Renewing
) -> None:
    renew()
    granted(claims, claim_of())

    def renewed_at() -> datetime:
        return fetch_one(ledger, select(Lease.renewed_at))

    before = renewed_at()
    of_another_version = renewal_of(0) | {"jobs": "in another form"}
    assert claims.post("/renewals", json=of_another_version).status_code == 400
    after = renewed_at()
    assert after > before
    other_start = of_another_version | {"instance": str(uuid4())}
    assert claims.post("/renewals", json=other_start).status_code == 400
    assert renewed_at() == after


def test_a_renewal_of_nobody_is_refused_with_every_fault(claims: httpx.Client) -> None:
    answer = claims.post("/renewals", json={"number": 0})
    assert answer.status_code == 400
    for name in ("worker", "instance", "number"):
        assert f'"/{name}"' in answer.text


def test_messages_of_a_newer_worker_are_read(
    claims: httpx.Client, retried: dict[str, Any], renew: Renewing
) -> None:
    assert renew(of_a_later_version={"any": 1})["stop"] == {}
    granted(claims, claim_of() | {"of_a_later_version": True})
