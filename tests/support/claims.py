"""The claims API as a worker speaks it, by hand."""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from typing import Any
from uuid import NAMESPACE_OID, UUID, uuid4, uuid5

import httpx

from jobauto_prefect.ledger.audit.trail import SERVICE
from jobauto_prefect.ledger.jobs.flow_runs import run_key
from jobauto_prefect.ledger.jobs.workers import Registration, register
from jobauto_prefect.ledger.records import Job, RunTemplate
from jobauto_prefect.ledger.store import Ledger
from tests.support.ledger_rows import fetch
from tests.support.records import ok, post_contained_template

DEPLOYMENT = UUID(int=1)
Claim = dict[str, Any]


def instance_of(worker: str) -> str:
    """The present start of a worker that `start_workers` made known."""
    return str(uuid5(NAMESPACE_OID, worker))


def start_workers(ledger: Ledger, pool: str = "jobauto") -> None:
    """The ledger knows the workers w0 to w9."""
    with ledger.writing(SERVICE) as session:
        for number in range(10):
            name = f"w{number}"
            start = Registration(name, pool, "here", UUID(instance_of(name)))
            register(session, start, [pool], lease_seconds=30)


def claim_of(flow_run_id: UUID | None = None, **members: Any) -> Claim:
    """A claim of a flow run of the template, by worker w1 where nothing else is said."""
    return {
        "claim_id": str(uuid4()),
        "flow_run_id": str(flow_run_id or uuid4()),
        "run_number": 1,
        "deployment_id": str(DEPLOYMENT),
        "worker": "w1",
        "instance": instance_of(members.get("worker", "w1")),
        "work_directory": "/tmp/work",
        **members,
    }


def own_run_of(ledger: Ledger, job_id: int, **members: Any) -> Claim:
    """A claim of the flow run that was made for a job."""
    key = run_key(fetch(ledger, Job, job_id))
    return claim_of(parameters={"jobauto": {"job": job_id}}, idempotency_key=key, **members)


def renewal_of(number: int, worker: str = "w1", **members: Any) -> dict[str, Any]:
    """A renewal whose predecessor was answered."""
    return {
        "worker": worker,
        "instance": instance_of(worker),
        "number": number,
        "answered": number - 1,
        "jobs": {},
        **members,
    }


def granted(claims: httpx.Client, claim: Claim) -> dict[str, Any]:
    """The launch that a claim is granted."""
    answer = claims.post("/claims", json=claim)
    assert answer.status_code == 200, answer.text
    launch: dict[str, Any] = answer.json()["launch"]
    assert launch is not None, answer.text
    return launch


def refused(claims: httpx.Client, claim: Claim) -> tuple[str, str, str]:
    """Why a claim is refused, and the state and message for Prefect."""
    answer = claims.post("/claims", json=claim)
    assert answer.status_code == 200, answer.text
    refusal = answer.json()["refusal"]
    assert refusal is not None, answer.text
    return refusal["reason"], refusal["story"]["state"], refusal["story"]["message"]


def report_of(launch: dict[str, Any], **members: Any) -> dict[str, Any]:
    """A report that the process of a launch has ended well, but for these members."""
    now = datetime.now(UTC).isoformat()
    return {
        "claim_id": launch["claim_id"],
        "worker": "w1",
        "ending": "exited",
        "exit_code": 0,
        "started_at": now,
        "ended_at": now,
        **members,
    }


def report(claims: httpx.Client, launch: dict[str, Any], **members: Any) -> dict[str, Any]:
    """The answer to such a report."""
    return ok(claims.post(f"/jobs/{launch['job_id']}/report", json=report_of(launch, **members)))


def deploy_template(rest: httpx.Client, ledger: Ledger, **members: Any) -> dict[str, Any]:
    """A template that Prefect knows by a deployment."""
    made: dict[str, Any] = post_contained_template(rest, **members).json()
    with ledger.writing(SERVICE) as session:
        session.get_one(RunTemplate, made["id"]).deployment_id = DEPLOYMENT
    return made


def at_once(claims: httpx.Client, asked: Sequence[Claim]) -> list[httpx.Response]:
    """The answers to claims that are asked for at the same time."""
    with ThreadPoolExecutor(len(asked)) as pool:
        return list(pool.map(lambda claim: claims.post("/claims", json=claim), asked))
