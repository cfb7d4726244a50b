"""Whose a flow run is that the ledger does not know yet: Prefect says it, and no claim."""

from collections.abc import Iterator
from typing import Any
from uuid import UUID, uuid4

import httpx
import pytest

from jobauto_prefect.ledger.audit.trail import SERVICE
from jobauto_prefect.ledger.jobs.workers import Registration, register
from jobauto_prefect.ledger.records import RunTemplate
from tests.support.claims import claim_of, granted, instance_of, start_workers
from tests.support.gateway import OURS, THEIRS, Gateway
from tests.support.servers import client, worker_token

ELSEWHERE, STRANGER = "elsewhere", "stranger"


@pytest.fixture
def own(gate: Gateway) -> Iterator[httpx.Client]:
    """A worker of the pool that the run is for."""
    start_workers(gate.ledger)
    with client(f"{gate.settings.url}/internal/v1", gate.worker_token) as worker:
        yield worker


@pytest.fixture
def stranger(gate: Gateway) -> Iterator[httpx.Client]:
    """A worker of another pool, in which the other company's run template is for a while."""
    move_theirs(gate, ELSEWHERE)
    start = Registration(STRANGER, ELSEWHERE, "there", UUID(instance_of(STRANGER)))
    with gate.ledger.writing(SERVICE) as session:
        register(session, start, [ELSEWHERE], lease_seconds=30)
    token = worker_token(gate.ledger, ELSEWHERE)
    with client(f"{gate.settings.url}/internal/v1", token) as worker:
        yield worker
    move_theirs(gate, None)


def move_theirs(gate: Gateway, pool: str | None) -> None:
    with gate.ledger.writing(SERVICE) as session:
        session.get_one(RunTemplate, gate.templates[THEIRS]["id"]).pool = pool


def of(gate: Gateway, company: str, run: str | UUID, worker: str, **more: Any) -> dict[str, Any]:
    return claim_of(UUID(str(run)), deployment_id=gate.deployment(company), worker=worker, **more)


def test_a_run_of_another_pool_is_not_claimed_by_a_deployment_of_ones_own(
    gate: Gateway, own: httpx.Client, stranger: httpx.Client
) -> None:
    """Its own worker was refused once it was."""
    run = gate.run(OURS)
    for more in ({}, {"parameters": {"jobauto": {"job": 1}}}, {"auto_scheduled": True}):
        stolen = stranger.post("/claims", json=of(gate, THEIRS, run, STRANGER, **more))
        assert stolen.status_code == 403 or stolen.json()["refusal"], (more, stolen.text)
    assert stranger.post("/claims", json=of(gate, THEIRS, run, STRANGER)).status_code == 403
    assert stranger.post("/claims", json=of(gate, THEIRS, uuid4(), STRANGER)).status_code == 403
    assert stranger.post("/claims", json=of(gate, OURS, run, STRANGER)).status_code == 403

    assert stranger.post("/claims", json=of(gate, THEIRS, gate.run(THEIRS), STRANGER)).is_success
    assert granted(own, of(gate, OURS, run, "w1"))
