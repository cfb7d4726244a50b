"""Prefect's own programs through the door: command line, Python client, sockets, workers."""

import asyncio
import contextlib
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import websockets
from websockets.asyncio.client import ClientConnection

from tests.support.gateway import OURS, PASSWORD, Gateway, opened
from tests.support.processes import clean_environment, running
from tests.support.servers import worker_token
from tests.support.waits import eventually

LISTENER = """
import asyncio, sys
from prefect.events.clients import get_events_subscriber
from prefect.events.filters import EventFilter, EventNameFilter

async def listen():
    wanted = EventFilter(event=EventNameFilter(prefix=["prefect.flow-run."]))
    async with get_events_subscriber(wanted, reconnection_attempts=0) as stream:
        print("listening", flush=True)
        async for event in stream:
            print(event.event, event.resource.id, flush=True)
            return

asyncio.run(asyncio.wait_for(listen(), 60))
"""

REFUSAL = r"Forbidden|Unauthorized|Prefect refused \w+ \S+:"
"""What the log of a worker says of what it may not."""


def prefect(gate: Gateway, login: str, *words: str) -> "subprocess.CompletedProcess[str]":
    argv = [str(Path(sys.executable).parent / "prefect"), *words]
    environment = gate.environment(login) | {"COLUMNS": "200"}
    return subprocess.run(
        argv, env=environment, capture_output=True, text=True, timeout=120, check=False
    )


def test_the_command_line_shows_a_member_their_company_and_runs_what_they_may(
    gate: Gateway,
) -> None:
    ran = prefect(gate, "viewer", "deployment", "ls")
    assert ran.returncode == 0, ran.stderr
    assert "Ours daily" in ran.stdout
    assert "Planted" not in ran.stdout
    ran = prefect(gate, "manager", "deployment", "run", "--id", gate.deployment(OURS))
    assert ran.returncode == 0, ran.stderr
    ran = prefect(gate, "viewer", "deployment", "run", "--id", gate.deployment(OURS))
    assert ran.returncode != 0
    assert "jobs.create" in ran.stdout + ran.stderr


def test_an_administrators_program_hears_events(gate: Gateway) -> None:
    argv = [sys.executable, "-c", LISTENER]
    environment = gate.environment("root")
    with subprocess.Popen(argv, env=environment, stdout=subprocess.PIPE, text=True) as program:
        assert program.stdout is not None
        assert program.stdout.readline() == "listening\n"
        gate.run(OURS)
        assert program.stdout.readline().startswith("prefect.flow-run.")
        assert program.wait(60) == 0


@pytest.mark.parametrize(
    ("path", "token", "code"),
    [
        ("/events/out", "viewer:wrong", 1008),
        ("/events/out", f"viewer:{PASSWORD}", 1008),
        ("/events/in", f"manager:{PASSWORD}", 1008),
        ("/logs/out", f"manager:{PASSWORD}", 1008),
        ("/task_runs/subscriptions/scheduled", f"viewer:{PASSWORD}", 1008),
        ("/nothing", f"root:{PASSWORD}", 1008),
    ],
)
async def test_sockets_that_can_not_be_narrowed_are_closed(
    gate: Gateway, path: str, token: str, code: int
) -> None:
    socket = await opened(gate, path, token)
    with pytest.raises(websockets.ConnectionClosed) as closed:
        await asyncio.wait_for(socket.recv(), 20)
    assert closed.value.rcvd is not None
    assert closed.value.rcvd.code == code
    assert closed.value.rcvd.reason


async def test_a_socket_without_the_subprotocol_is_not_opened(gate: Gateway) -> None:
    with pytest.raises(websockets.InvalidStatus):
        await opened(gate, "/events/out", None, subprotocols=None)


async def test_a_worker_hears_of_its_own_pools_and_of_no_others(gate: Gateway) -> None:
    elsewhere = await asyncio.to_thread(worker_token, gate.ledger, "elsewhere")

    async def subscribed(token: str) -> ClientConnection:
        socket = await opened(gate, "/events/out", f"worker:{token}")
        assert json.loads(await socket.recv())["type"] == "auth_success"
        # Without an end Prefect tells only what was before the subscription.
        until = {"until": "2999-01-01T00:00:00Z"}
        wanted = {"event": {"prefix": ["prefect.flow-run."]}, "occurred": until}
        await socket.send(json.dumps({"type": "filter", "filter": wanted}))
        return socket

    here, there = await subscribed(gate.worker_token), await subscribed(elsewhere)
    listening = asyncio.create_task(here.recv())
    async with asyncio.timeout(60):
        while not listening.done():  # Prefect does not say from when on it listens
            await asyncio.to_thread(gate.run, OURS)
            await asyncio.wait({listening}, timeout=1)
    heard = json.loads(listening.result())["event"]
    assert heard["resource"]["prefect.resource.id"].startswith("prefect.flow-run.")
    # Prefect begins with what was before: other tests may have made runs in that pool.
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(2):
            async for message in there:
                related = json.loads(message)["event"]["related"]
                pools = [one for one in related if one["prefect.resource.role"] == "work-pool"]
                assert [pool["prefect.resource.name"] for pool in pools] == ["elsewhere"]
    await here.close()
    await there.close()


async def test_a_worker_tells_of_its_own_runs_and_of_no_others(gate: Gateway) -> None:
    elsewhere = await asyncio.to_thread(worker_token, gate.ledger, "elsewhere")
    run = await asyncio.to_thread(gate.run, OURS)
    event = {
        "occurred": "2026-01-01T00:00:00Z",
        "event": "prefect.flow-run.heartbeat",
        "resource": {"prefect.resource.id": f"prefect.flow-run.{run}"},
        "id": "00000000-0000-4000-8000-000000000001",
    }
    for token, closes in ((gate.worker_token, False), (elsewhere, True)):
        socket = await opened(gate, "/events/in", f"worker:{token}")
        assert json.loads(await socket.recv())["type"] == "auth_success"
        await socket.send(json.dumps(event))
        with pytest.raises((websockets.ConnectionClosed, TimeoutError)) as ended:
            await asyncio.wait_for(socket.recv(), 20 if closes else 2)
        assert isinstance(ended.value, websockets.ConnectionClosed) is closes
        await socket.close()


@pytest.mark.parametrize("message", ["[]", "null", "nonsense", b"bytes", '{"resource": 1}'])
async def test_what_a_worker_can_not_mean_closes_the_socket(
    gate: Gateway, message: str | bytes
) -> None:
    socket = await opened(gate, "/events/in", f"worker:{gate.worker_token}")
    assert json.loads(await socket.recv())["type"] == "auth_success"
    await socket.send(message)
    with pytest.raises(websockets.ConnectionClosed) as closed:
        await asyncio.wait_for(socket.recv(), 20)
    assert closed.value.rcvd is not None
    assert closed.value.rcvd.code == 1008


def test_a_worker_token_opens_what_is_of_its_pools(gate: Gateway) -> None:
    run = gate.run(OURS)
    elsewhere = worker_token(gate.ledger, "elsewhere")
    with gate.as_("worker", gate.worker_token) as here, gate.as_("worker", elsewhere) as there:
        for path in (f"/flow_runs/{run}", f"/deployments/{gate.deployment(OURS)}"):
            assert here.get(path).status_code == 200
            assert there.get(path).status_code == 404
        path = "/work_pools/jobauto/get_scheduled_flow_runs"
        assert here.post(path, json={}).status_code == 200
        assert there.post(path, json={}).status_code == 404
        assert there.post("/flow_runs/filter", json={}).json() == []
        state = {"state": {"type": "RUNNING"}}
        assert there.post(f"/flow_runs/{run}/set_state", json=state).status_code == 404
        line = {"name": "x", "level": 20, "message": "m", "timestamp": "2026-01-01T00:00:00Z"}
        lines = [line | {"flow_run_id": run}]
        assert there.post("/logs/", json=lines).status_code == 403
        assert here.post("/logs/", json=lines).status_code == 201
        for path in ("/variables/filter", "/block_documents/filter", "/deployments/filter"):
            assert here.post(path, json={}).status_code == 403
        body = {"name": "other", "type": "process"}
        assert here.post("/work_pools/", json=body).status_code == 403
        assert here.patch("/work_pools/jobauto", json={"is_paused": True}).status_code == 403


def test_a_worker_token_gives_its_pool_the_template_it_lacks(gate: Gateway) -> None:
    with gate.as_("root") as root:
        root.post("/work_pools/", json={"name": "bare", "type": "process"}).raise_for_status()
    path = "/work_pools/bare"
    template = {
        "job_configuration": {"name": "{{ name }}"},
        "variables": {"properties": {"name": {}}},
    }
    asked = {"base_job_template": template}
    there = worker_token(gate.ledger, "elsewhere")
    with gate.as_("worker", there) as stranger:
        assert stranger.patch(path, json=asked).status_code == 404
    with gate.as_("worker", worker_token(gate.ledger, "bare")) as worker:
        more = asked | {"concurrency_limit": 1}
        assert worker.patch(path, json=more).status_code == 403
        assert worker.patch(path, json={}).status_code == 403
        assert worker.patch(path, json=asked).status_code == 204
        assert worker.patch(path, json={"base_job_template": {}}).status_code == 403
        assert worker.get(path).json()["base_job_template"] == template


@contextmanager
def a_worker(
    gate: Gateway, name: str, token: str, *argv: str, **environment: str
) -> Iterator[Path]:
    """The log of a worker that runs."""
    home = gate.settings.home / name
    home.mkdir(exist_ok=True)
    told = clean_environment() | {
        "PREFECT_API_URL": gate.url,
        "JOBAUTO_HOME": str(home),
        "JOBAUTO_CONFIG_DIR": str(home),
        "JOBAUTO_URL": gate.settings.url,
        "JOBAUTO_WORKER_TOKEN": token,
        "PREFECT_HOME": str(home / "prefect"),
        **environment,
    }
    log = gate.settings.home / f"{name}.log"
    with running([sys.executable, *argv], told, log):
        yield log


def completed(gate: Gateway, run: str, log: Path) -> None:
    def ended() -> str | None:
        with gate.as_("viewer") as viewer:
            state: str = viewer.get(f"/flow_runs/{run}").json()["state_type"]
        return state if state in ("COMPLETED", "FAILED", "CRASHED", "CANCELLED") else None

    assert eventually(ended, 240) == "COMPLETED", log.read_text()[-4000:]


def run_of_own_pool(gate: Gateway, kind: str, pool: str) -> tuple[str, str]:
    """A flow run of a work pool where no other runs wait, and a worker's token for the pool."""
    with gate.as_("root") as root:
        root.post("/work_pools/", json={"name": pool, "type": kind}).raise_for_status()
    body = {"app_id": gate.templates[OURS]["app_id"], "company": "ours", "name": pool, "pool": pool}
    gate.templates[pool] = gate.rest.post("/runtemplate/", json=body).raise_for_status().json()
    return gate.run(pool), worker_token(gate.ledger, pool)


def test_the_jobauto_worker_needs_no_more_than_its_token(gate: Gateway) -> None:
    run, token = run_of_own_pool(gate, "jobauto", "own")
    argv = ("-m", "jobauto_prefect.cli", "worker", "start", "--pool", "own")
    with a_worker(gate, "jobauto-worker", token, *argv) as log:
        completed(gate, run, log)
        assert not re.search(REFUSAL, log.read_text())


def test_a_stock_process_worker_runs_what_is_of_its_pool(gate: Gateway) -> None:
    run, token = run_of_own_pool(gate, "process", "stock")
    known = {one["id"] for one in gate.trail(action="refuse")}
    argv = ("-m", "prefect", "worker", "start", "--type", "process", "--pool", "stock")
    signed_in = {"PREFECT_API_AUTH_STRING": f"worker:{token}"}
    with a_worker(gate, "stock-worker", token, *argv, **signed_in) as log:
        completed(gate, run, log)
        assert not re.search(REFUSAL, log.read_text())
        with gate.as_("viewer") as viewer:
            asked = {"logs": {"flow_run_id": {"any_": [run]}}}
            lines = eventually(lambda: viewer.post("/logs/filter", json=asked).json())
            assert lines
    assert {one["id"] for one in gate.trail(action="refuse")} <= known
