"""Events that others send to Prefect: in whose name, and about what."""

import asyncio
import json
from typing import Any
from uuid import uuid4

import pytest
import websockets

from tests.support.claims import start_workers
from tests.support.gateway import OURS, PASSWORD, THEIRS, Gateway, opened
from tests.support.servers import worker_token


def event(name: str, resource: str, *related: str) -> dict[str, Any]:
    return {
        "id": str(uuid4()),
        "occurred": "2026-01-01T00:00:00Z",
        "event": name,
        "resource": {"prefect.resource.id": resource},
        "related": [
            {"prefect.resource.id": one, "prefect.resource.role": "flow-run"} for one in related
        ],
    }


async def is_refused(gate: Gateway, signed_in: str, sent: dict[str, Any]) -> bool:
    """Whether the socket is closed for this event, not for what follows it and is none."""
    socket = await opened(gate, "/events/in", signed_in)
    assert json.loads(await socket.recv())["type"] == "auth_success"
    await socket.send(json.dumps(sent))
    await socket.send(json.dumps("no event"))
    with pytest.raises(websockets.ConnectionClosed) as closed:
        await asyncio.wait_for(socket.recv(), 60)
    assert closed.value.rcvd is not None
    assert closed.value.rcvd.code == 1008
    return "JSON object" not in closed.value.rcvd.reason


async def test_events_of_ours_come_from_the_services_alone(gate: Gateway) -> None:
    run = f"prefect.flow-run.{await asyncio.to_thread(gate.run, OURS)}"
    await asyncio.to_thread(start_workers, gate.ledger)
    forged = [
        event("jobauto.template.1.success", "prefect.worker.jobauto.w1"),
        event("jobauto.template.1.success", run),
        event("jobauto.source.1.change", "jobauto.source.1", run),
        event("jobauto.emits.bill.written", "other", run),
        event("other", "jobauto.template.1", run),
    ]
    for sent in forged:
        for signed_in in (f"worker:{gate.worker_token}", f"root:{PASSWORD}"):
            assert await is_refused(gate, signed_in, sent), (signed_in[:6], sent)
    with gate.as_("root") as root:
        for body in (*forged, [event("x.y", "x"), forged[0]]):
            refused = root.post("/events", json=body if isinstance(body, list) else [body])
            assert (refused.status_code, "services" in refused.text) == (403, True)
        root.post("/events", json=[event("x.y", "x")]).raise_for_status()
    assert not await is_refused(gate, f"root:{PASSWORD}", event("x.y", "x"))


async def test_a_worker_speaks_of_workers_of_its_pools_alone(gate: Gateway) -> None:
    await asyncio.to_thread(start_workers, gate.ledger)
    here = f"worker:{gate.worker_token}"
    there = f"worker:{await asyncio.to_thread(worker_token, gate.ledger, 'elsewhere')}"
    with gate.as_("worker", gate.worker_token) as worker:  # as Prefect's own worker does
        path = "/work_pools/jobauto/workers/heartbeat"
        worker.post(path, json={"name": "Stock One"}).raise_for_status()
    for resource in ("prefect.worker.jobauto.w1", "prefect.worker.process.stock-one"):
        started = "prefect.worker.started"
        assert not await is_refused(gate, here, event(started, resource))
        assert await is_refused(gate, there, event(started, resource))
        assert await is_refused(gate, here, event("prefect.flow-run.Completed", resource))
    run = await asyncio.to_thread(gate.run, OURS)
    other = event("prefect.worker.started", f"prefect.flow-run.{run}")
    assert await is_refused(gate, here, other)


async def test_a_worker_changes_no_task_run_of_another_pool(gate: Gateway) -> None:
    """Prefect makes and changes task runs by such events."""
    with gate.as_("root") as root:
        ours, theirs = gate.run(OURS), gate.run(THEIRS)
        body = {"flow_run_id": theirs, "task_key": "t", "dynamic_key": "0"}
        foreign = root.post("/task_runs/", json=body).raise_for_status().json()["id"]
    await asyncio.to_thread(_move, gate)
    try:
        name, related = "prefect.task-run.Completed", f"prefect.flow-run.{ours}"
        token = f"worker:{gate.worker_token}"
        assert await is_refused(gate, token, event(name, f"prefect.task-run.{foreign}", related))
        new = event(name, f"prefect.task-run.{uuid4()}", related)
        assert not await is_refused(gate, token, new)
        # Prefect reads any spelling of an id, and what the payload says goes over the resource.
        bare = foreign.replace("-", "")
        for spelled in (bare, f"{{{foreign}}}", f"urn:{bare}", f"{bare}----"):
            assert await is_refused(
                gate, token, event(name, f"prefect.task-run.{spelled}", related)
            )
        for payload in (
            {"task_run": {"id": foreign}},
            {"task_run": {"flow_run_id": theirs}},
            {"validated_state": {"id": str(uuid4())}},
        ):
            assert await is_refused(gate, token, new | {"payload": payload}), payload
        # Prefect goes by the role, whatever is related besides.
        other = {"prefect.resource.id": related, "prefect.resource.role": "other"}
        role = {"prefect.resource.id": f"prefect.flow-run.{theirs}"}
        in_role = [other, role | {"prefect.resource.role": "flow-run"}]
        assert await is_refused(gate, token, new | {"related": in_role})
        # An event of this name about something else keeps Prefect from all it reads with it.
        for resource in (related, "other", str(uuid4())):
            assert await is_refused(gate, token, event(name, resource, related))
    finally:
        await asyncio.to_thread(_move, gate, None)


def _move(gate: Gateway, pool: str | None = "elsewhere") -> None:
    """The run template of the other company has another work pool."""
    body = {"id": gate.templates[THEIRS]["id"], "pool": pool}
    gate.rest.post("/runtemplate/", json=body).raise_for_status()
