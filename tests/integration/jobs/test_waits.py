"""Records of jobs say what they wait for, on each kind of database."""

from datetime import timedelta
from typing import Any
from uuid import uuid4

import httpx
from sqlalchemy import delete, event

from jobauto_prefect.jobs import waits
from jobauto_prefect.ledger.audit.trail import SERVICE
from jobauto_prefect.ledger.records import Job, OutboxMessage, WorkerRecord
from jobauto_prefect.ledger.service_status import PrefectStatus, store_status
from jobauto_prefect.ledger.store import Ledger
from jobauto_prefect.settings import Settings
from tests.support.claims import claim_of, granted, instance_of, renewal_of
from tests.support.databases import both_databases

pytestmark = both_databases


def start(rest: httpx.Client, template: int, **members: Any) -> dict[str, Any]:
    made: dict[str, Any] = rest.post("/job/", json={"runtemplate_id": template, **members}).json()
    return made


def keep(ledger: Ledger, status: PrefectStatus) -> None:
    with ledger.writing(SERVICE) as session:
        store_status(session, status)


def living_worker(ledger: Ledger) -> None:
    with ledger.writing(SERVICE) as session:
        worker = WorkerRecord(name="w1", pool="jobauto", host="here", instance=uuid4())
        worker.seen_at, worker.run_as = session.clock(), {}
        session.add(worker)


def test_a_job_says_what_it_waits_for_as_it_is_made_alone_and_in_lists(
    rest: httpx.Client, template: dict[str, Any], ledger: Ledger
) -> None:
    made = start(rest, template["id"])
    assert "no worker is alive in work pool jobauto" in made["waits_for"]
    keep(ledger, PrefectStatus(paused=["jobauto"]))
    assert "is paused" in rest.get(f"/job/{made['id']}.json").json()["waits_for"]
    keep(ledger, PrefectStatus(away="Prefect does not answer"))
    listed = rest.get("/jobs.json").json()[str(made["id"])]
    assert "Prefect does not answer" in listed["waits_for"]
    keep(ledger, PrefectStatus())
    with ledger.writing(SERVICE) as session:
        session.execute(delete(OutboxMessage))
        session.get_one(Job, made["id"]).flow_run_id = uuid4()
    living_worker(ledger)

    def waits_for() -> Any:
        return rest.get(f"/job/{made['id']}.json").json()["waits_for"]

    assert waits_for() is None  # the worker is about to take it
    with ledger.writing(SERVICE) as session:
        session.get_one(Job, made["id"]).message = "the bank is not available yet"
    assert waits_for() == "the bank is not available yet"
    now = ledger.clock
    ledger.clock = lambda: now() + timedelta(hours=1)
    assert "no worker is alive" in waits_for()


def test_a_job_waits_for_workers_by_what_they_tell(
    rest: httpx.Client, claims: httpx.Client, template: dict[str, Any], ledger: Ledger
) -> None:
    hello = {"worker": "w1", "pool": "jobauto", "host": "here", "instance": instance_of("w1")}
    made = start(rest, template["id"])["id"]
    with ledger.writing(SERVICE) as session:
        session.execute(delete(WorkerRecord))
        session.execute(delete(OutboxMessage))
        session.get_one(Job, made).flow_run_id = uuid4()

    def waits_for() -> Any:
        return rest.get(f"/job/{made}.json").json()["waits_for"]

    def slots(of: str) -> tuple[int, int]:
        worker = rest.get("/workers.json").json()[of]
        return worker["free"], worker["limit"]

    claims.post("/workers", json=hello | {"limit": 1}).raise_for_status()
    assert (waits_for(), slots("w1")) == (None, (1, 1))
    running = granted(claims, claim_of())
    assert waits_for() == "the workers of work pool jobauto are full: they run 1 job"
    assert slots("w1") == (0, 1)
    other = hello | {"worker": "w2", "instance": instance_of("w2"), "limit": 2}
    claims.post("/workers", json=other).raise_for_status()
    assert waits_for() is None
    for worker in ("w1", "w2"):
        had = {str(running["job_id"]): running["claim_id"]} if worker == "w1" else {}
        renewal = renewal_of(1, worker, jobs=had, hindrances={"disk": f"{worker} has no room"})
        claims.post("/renewals", json=renewal).raise_for_status()
    assert waits_for() == (
        "no worker of work pool jobauto can start it: w1: w1 has no room; w2: w2 has no room"
    )
    with ledger.writing(SERVICE) as session:
        for record in session.query(WorkerRecord):
            record.lost_at = session.clock()
    assert "no worker is alive" in waits_for()


def test_a_job_that_is_not_due_or_is_over_waits_for_nothing(
    rest: httpx.Client, template: dict[str, Any]
) -> None:
    later = start(rest, template["id"], scheduled="2099-01-01 00:00:00")
    assert later["waits_for"] is None
    over = start(rest, template["id"])
    rest.post("/job/", json={"id": over["id"], "state": "cancelled"}).raise_for_status()
    assert rest.get(f"/job/{over['id']}.json").json()["waits_for"] is None


def test_many_waiting_jobs_cost_no_more_questions_than_one(
    rest: httpx.Client, template: dict[str, Any], ledger: Ledger, facade_settings: Settings
) -> None:
    for _ in range(20):
        start(rest, template["id"])
    asked: list[str] = []
    with ledger.reading() as session:
        jobs = session.query(Job).all()

        def note(_connection: object, _cursor: object, statement: str, *_: object) -> None:
            asked.append(statement)

        event.listen(session.connection(), "before_cursor_execute", note)
        counts = []
        for some in (jobs[:1], jobs):
            asked.clear()
            assert len(waits.wait_reasons(session, some, facade_settings, ledger.clock())) == len(
                some
            )
            counts.append(len(asked))
    assert counts[0] == counts[1]
