"""Claims of runs of which a worker knows no more than that they were made."""

from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import httpx
import pytest

from jobauto_prefect.ledger.audit.trail import SERVICE
from jobauto_prefect.ledger.records import Job
from jobauto_prefect.ledger.store import Ledger
from tests.support.claims import claim_of, report, start_workers
from tests.support.databases import both_databases
from tests.support.records import ok

pytestmark = pytest.mark.usefixtures("_workers")
RUN = UUID(int=77)


@pytest.fixture
def _workers(ledger: Ledger) -> None:
    start_workers(ledger)


def _posted(rest: httpx.Client, ledger: Ledger, template: dict[str, Any], **members: Any) -> int:
    """A job whose flow run is made."""
    body = {"runtemplate_id": template["id"], **members}
    job_id: int = ok(rest.post("/job/", json=body), 201)["id"]
    with ledger.writing(SERVICE) as session:
        session.get_one(Job, job_id).flow_run_id = RUN
    return job_id


def _answer(claims: httpx.Client, **members: Any) -> tuple[dict[str, Any] | None, bool]:
    """The launch, and whether the run is unheard of; nothing is refused."""
    body = ok(claims.post("/claims", json=claim_of(RUN, announced=True, **members)))
    assert body["refusal"] is None
    return body["launch"], body["unheard"]


def _is_left(claims: httpx.Client, **members: Any) -> bool:
    """Whether the worker is told to leave the run untouched."""
    answer = claims.post("/claims", json=claim_of(RUN, announced=True, **members))
    return answer.status_code == 409


@both_databases
def test_a_posted_job_is_claimed_by_its_announcement(
    rest: httpx.Client, claims: httpx.Client, ledger: Ledger, template: dict[str, Any]
) -> None:
    job_id = _posted(rest, ledger, template, env={"COUNT": 5})

    launch, _ = _answer(claims)

    assert launch is not None
    assert launch["job_id"] == job_id
    assert launch["environment"]["COUNT"] == "5"


@both_databases
def test_a_run_that_is_no_jobs_yet_may_be_one_soon(
    claims: httpx.Client, template: dict[str, Any]
) -> None:
    assert template["id"]
    assert _answer(claims) == (None, True)


@both_databases
def test_a_job_that_is_not_due_is_not_started(
    rest: httpx.Client, claims: httpx.Client, ledger: Ledger, template: dict[str, Any]
) -> None:
    later = (datetime.now(UTC) + timedelta(hours=1)).isoformat()
    _posted(rest, ledger, template, scheduled=later)

    assert _answer(claims) == (None, False)


@both_databases
def test_a_cancelled_job_is_not_taken_for_one_that_somebody_retries(
    rest: httpx.Client, claims: httpx.Client, ledger: Ledger, template: dict[str, Any]
) -> None:
    job_id = _posted(rest, ledger, template)
    assert rest.post("/job/", json={"id": job_id, "state": "cancelled"}).is_success

    assert _is_left(claims)
    assert len(rest.get("/jobs.json").json()) == 1


@both_databases
def test_an_announcement_that_is_repeated_starts_nothing_anew(
    rest: httpx.Client, claims: httpx.Client, ledger: Ledger, template: dict[str, Any]
) -> None:
    _posted(rest, ledger, template)
    launch, _ = _answer(claims)
    assert launch is not None

    assert _is_left(claims, worker="w2")
    report(claims, launch)
    assert _is_left(claims)
    assert len(rest.get("/jobs.json").json()) == 1
