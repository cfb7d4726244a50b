"""How many jobs may use a credential at a time, whatever their run templates are."""

from typing import Any
from uuid import UUID, uuid4

import httpx
import pytest
from sqlalchemy import select

from jobauto_prefect.ledger.audit.trail import SERVICE
from jobauto_prefect.ledger.outbox import OutboxKind
from jobauto_prefect.ledger.records import OutboxMessage, RunTemplate
from jobauto_prefect.ledger.store import Ledger
from tests.support.claims import at_once, claim_of, granted, refused, report
from tests.support.databases import both_databases
from tests.support.ledger_rows import fetch_all
from tests.support.records import BANK_TYPE, make_template, post

Record = dict[str, Any]
FIRST, SECOND = UUID(int=1), UUID(int=2)


@pytest.fixture
def erp(rest: httpx.Client, ledger: Ledger) -> Record:
    """A credential for two jobs at once, which two run templates have."""
    post(rest, "/credential_type/", **BANK_TYPE | {"fields": [{"keyword": "BANK_USER"}]})
    names = ("Orders", "Invoices")
    templates = [make_template(rest, name=name)["id"] for name in names]
    members = {"company": "acme", "credential_type": "Bank", "name": "ERP", "max_jobs": 2}
    made = post(rest, "/credential/", **members, values={"BANK_USER": "anna"})
    for number, deployment in zip(templates, (FIRST, SECOND), strict=True):
        post(rest, f"/runtemplate/{number}.json", credentials=["ERP"])
        with ledger.writing(SERVICE) as session:
            session.get_one(RunTemplate, number).deployment_id = deployment
    return made


def of(deployment: UUID) -> Record:
    return claim_of(deployment_id=str(deployment))


def woken(ledger: Ledger) -> list[int]:
    found = select(OutboxMessage.subject_id).where(OutboxMessage.kind == OutboxKind.RESCHEDULE_RUN)
    return fetch_all(ledger, found)


@both_databases
def test_no_more_jobs_use_a_credential_than_may_and_one_that_waits_says_so(
    rest: httpx.Client, claims: httpx.Client, erp: Record, ledger: Ledger
) -> None:
    launches = [granted(claims, of(FIRST)), granted(claims, of(SECOND))]
    third = of(SECOND)
    reason, state, message = refused(claims, third)
    assert (reason, state) == ("limit", "SCHEDULED")
    first, second = (launch["job_id"] for launch in launches)
    assert message == (
        f"ERP allows 2 jobs at a time; waiting for one of these to end: {first}, {second}"
    )
    (waiting,) = rest.get("/jobs.json?state=scheduled").json().values()
    assert waiting["message"] == message
    assert woken(ledger) == []

    report(claims, launches[0])

    assert woken(ledger) == [waiting["id"]]
    assert granted(claims, third)["job_id"] == waiting["id"]
    assert refused(claims, of(FIRST))[0] == "limit"


@both_databases
def test_a_claim_asked_again_is_not_in_its_own_way(
    rest: httpx.Client, claims: httpx.Client, erp: Record
) -> None:
    post(rest, f"/credential/{erp['id']}.json", max_jobs=1)
    claim = of(FIRST)
    assert granted(claims, claim) == granted(claims, claim)


@both_databases
def test_a_limit_holds_for_claims_at_the_same_instant(
    rest: httpx.Client, claims: httpx.Client, erp: Record
) -> None:
    post(rest, f"/credential/{erp['id']}.json", max_jobs=1)
    for _ in range(3):
        asked = [of(deployment) | {"worker": f"w{n}"} for n, deployment in
                 enumerate((FIRST, SECOND, FIRST, SECOND))]  # fmt: skip
        for n, claim in enumerate(asked):
            claim["instance"] = claim_of(worker=f"w{n}")["instance"]
        answers = [answer.json() for answer in at_once(claims, asked)]
        launches = [answer["launch"] for answer in answers if answer["launch"] is not None]
        assert len(launches) == 1
        others = [answer["refusal"]["reason"] for answer in answers if answer["launch"] is None]
        assert others == ["limit"] * 3
        worker = next(
            claim["worker"] for claim in asked if claim["claim_id"] == launches[0]["claim_id"]
        )
        report(claims, launches[0], worker=worker)


def test_without_a_limit_all_start(rest: httpx.Client, claims: httpx.Client, erp: Record) -> None:
    post(rest, f"/credential/{erp['id']}.json", max_jobs=None)
    for _ in range(4):
        granted(claims, of(FIRST))


@pytest.mark.parametrize("wrong", [0, -1, 10_001, "many", 1.5])
def test_a_limit_is_a_number_of_jobs(rest: httpx.Client, erp: Record, wrong: object) -> None:
    (fault,) = post(rest, f"/credential/{erp['id']}.json", 400, max_jobs=wrong)["details"]
    assert fault["pointer"] == "/max_jobs"


@both_databases
def test_what_waits_for_a_limit_can_be_cancelled(
    rest: httpx.Client, claims: httpx.Client, erp: Record
) -> None:
    post(rest, f"/credential/{erp['id']}.json", max_jobs=1)
    granted(claims, of(FIRST))
    run = uuid4()
    assert refused(claims, of(SECOND) | {"flow_run_id": str(run)})[0] == "limit"
    (waiting,) = rest.get("/jobs.json?state=scheduled").json().values()
    ended = post(rest, "/job/", id=waiting["id"], state="cancelled")
    assert ended["state"] == "cancelled"
