"""Several Prefect servers that share their work through Redis and PostgreSQL."""

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast
from uuid import uuid4

import httpx
import psycopg
import pytest
from prefect.server.utilities.messaging import Message, MessageHandler
from prefect_redis.client import clear_cached_clients
from prefect_redis.messaging import Cache, Consumer, Publisher
from redis import Redis

from jobauto_prefect.engine.prefect_server.app import end_when_cancelled
from jobauto_prefect.engine.prefect_server.redis import redis_environment
from jobauto_prefect.ledger.opening import open_ledger
from jobauto_prefect.ledger.secrets import create_key
from jobauto_prefect.monitoring.ports import Part
from jobauto_prefect.settings import Settings
from tests.support.databases import database
from tests.support.ports import free_port, free_range
from tests.support.processes import ENDS_WITHIN, clean_environment, running
from tests.support.redis_server import redis_server
from tests.support.secrets import MARK
from tests.support.servers import user_token
from tests.support.waits import PATIENCE, eventually

START = [sys.executable, "-P", "-m", "jobauto_prefect.cli", "prefect", "start"]
TASKS = "prefect-server-services:stream"
"""What Prefect's background services have to do."""
GROUP = "docket-workers"
INSTANTS = 20
TAKEN_OVER_WITHIN = 60  # seconds; 360 with docket's default


@dataclass
class Servers:
    """A ledger, Prefect's database and a Redis, and the servers that share them."""

    folder: Path
    environment: dict[str, str]
    token: str
    prefect_database: str
    redis: Redis
    processes: list[subprocess.Popen[bytes]] = field(default_factory=list)
    _all: contextlib.ExitStack = field(default_factory=contextlib.ExitStack)

    def start(self, role: str, **variables: str) -> httpx.Client:
        """Start one; return a client of its API, if it has one."""
        port = free_port()
        url = f"http://127.0.0.1:{port}/api"
        own = {"JOBAUTO_PREFECT_PORT": str(port), "PREFECT_API_URL": url}
        log = self.folder / f"{role}-{len(self.processes)}.log"
        argv = [*START, "--role", role]
        environment = self.environment | own | variables
        self.processes.append(self._all.enter_context(running(argv, environment, log)))
        signed_in = {"Authorization": f"Bearer {self.token}"}
        return self._all.enter_context(httpx.Client(base_url=url, headers=signed_in, timeout=30))

    def logs(self) -> str:
        return "\n".join(log.read_text() for log in self.folder.glob("*.log"))

    def close(self) -> None:
        for process in self.processes:
            process.terminate()
        self._all.close()


@pytest.fixture
def servers(migrate_once: Callable[[str], str], tmp_path: Path) -> Iterator[Servers]:
    with (
        database("postgresql", tmp_path, migrate_once("postgresql")) as ledger_url,
        database("postgresql", tmp_path) as prefect_url,
        redis_server(tmp_path) as redis_url,
    ):
        settings = Settings(home=tmp_path, database_url=ledger_url)
        create_key(settings.key_path)
        with contextlib.closing(open_ledger(settings)) as ledger:
            token = user_token(ledger)
        (tmp_path / "jobauto.env").write_text(
            f"JOBAUTO_REDIS_URL={redis_url}\n"
            "PREFECT_SERVER_SERVICES_SCHEDULER_RECENT_DEPLOYMENTS_LOOP_SECONDS=1\n"
        )
        environment = clean_environment() | {
            "JOBAUTO_HOME": str(tmp_path),
            "JOBAUTO_CONFIG_DIR": str(tmp_path),
            "JOBAUTO_DATABASE_URL": ledger_url,
            "PREFECT_API_DATABASE_CONNECTION_URL": prefect_url.replace("://", "+asyncpg://"),
        }
        shared = Servers(tmp_path, environment, token, prefect_url, Redis.from_url(redis_url))
        try:
            yield shared
        finally:
            shared.close()
            shared.redis.close()
            (tmp_path / "jobauto.env").unlink()


def _create(api: httpx.Client, path: str, **body: Any) -> dict[str, Any]:
    answer = api.post(path, json=body)
    assert answer.is_success, answer.text
    return cast("dict[str, Any]", answer.json())


def _runs(api: httpx.Client, deployment: dict[str, Any]) -> list[dict[str, Any]]:
    wanted = {"deployments": {"id": {"any_": [deployment["id"]]}}}
    found = api.post("/flow_runs/filter", json=wanted)
    return cast("list[dict[str, Any]]", found.raise_for_status().json())


def test_servers_on_an_empty_database_share_runs_events_and_schedules(servers: Servers) -> None:
    one, other = servers.start("api"), servers.start("api")
    for _ in range(2):
        servers.start("services")
    services = {process.pid for process in servers.processes[2:]}
    for api in (one, other):
        eventually(lambda api=api: _is_up(api))

    flow = _create(one, "/flows/", name="shared")
    hourly = {"schedule": {"interval": 3600, "anchor_date": datetime.now(UTC).isoformat()}}
    scheduled = _create(one, "/deployments/", name="hourly", flow_id=flow["id"], schedules=[hourly])
    started = _create(one, "/deployments/", name="started", flow_id=flow["id"])
    _create(
        one,
        "/automations/",
        name="start",
        trigger={"type": "event", "posture": "Reactive", "expect": ["test.happened"],
                 "threshold": 1, "within": 0},
        actions=[{"type": "run-deployment", "deployment_id": started["id"]}],
    )  # fmt: skip
    run = _create(one, "/flow_runs/", flow_id=flow["id"], state={"type": "PENDING"})
    assert other.get(f"/flow_runs/{run['id']}").json()["state_type"] == "PENDING"

    assert eventually(lambda: _runs(other, scheduled))
    event = {"event": "test.happened", "resource": {"prefect.resource.id": "test"}}

    def reacts() -> bool:  # an automation is known to the services a little later
        occurred = {"id": str(uuid4()), "occurred": datetime.now(UTC).isoformat()}
        answer = other.post("/events", json=[event | occurred])
        assert answer.is_success, answer.text
        return bool(_runs(other, started))

    assert eventually(reacts)
    eventually(lambda: _workers(servers.redis) >= services)
    assert _workers(servers.redis) == services  # a server drops the tasks that it does not know
    for process in servers.processes:
        for file in ("cmdline", "environ"):
            assert MARK.encode() not in Path(f"/proc/{process.pid}/{file}").read_bytes()
    for process in servers.processes[2:]:
        process.terminate()
    assert [process.wait(ENDS_WITHIN) for process in servers.processes[2:]] == [0, 0]


def _workers(redis: Redis) -> set[int]:
    """Return the processes that take the tasks of Prefect's background services."""
    found = cast("list[dict[str, Any]]", redis.xinfo_consumers(TASKS, GROUP))
    return {_process(each["name"]) for each in found}


def _is_up(server: httpx.Client, path: str = "/health") -> bool:
    with contextlib.suppress(httpx.TransportError):
        return server.get(path).is_success
    return False


def test_a_server_is_ready_before_the_balancer_sends_it_requests(servers: Servers) -> None:
    port = free_range()
    balancer = {"PREFECT_API_URL": "http://127.0.0.1:9/api"}
    servers.start("api", JOBAUTO_MANAGEMENT_PORT=str(port), **balancer)
    with httpx.Client(base_url=f"http://127.0.0.1:{port + Part.PREFECT}", timeout=30) as management:
        eventually(lambda: _is_up(management, "/healthz"))
        assert management.get("/readyz").json() == {
            "ok": True,
            "checks": {"ledger": "ok", "prefect": "ok"},
        }


async def _nothing(_message: Message) -> None:
    pass


async def _commit_anyway(_message: Message) -> None:
    try:
        await asyncio.sleep(PATIENCE)
    finally:
        raise RuntimeError("another operation is in progress")


@pytest.mark.parametrize("handle", [_nothing, _commit_anyway])
async def test_a_consumer_of_events_ends_whenever_it_is_cancelled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, handle: MessageHandler
) -> None:
    class OwnConsumer(Consumer):
        pass

    end_when_cancelled(OwnConsumer)
    with redis_server(tmp_path) as url:
        for name, value in redis_environment(
            Settings(redis_url=url), {}, with_services=True
        ).items():
            monkeypatch.setenv(name, value)
        async with Publisher("events", Cache()) as publisher:
            for _ in range(INSTANTS):
                await publisher.publish_data(b"", {})
        for instant in range(INSTANTS):
            consuming = asyncio.create_task(OwnConsumer("events").run(handle))
            for _ in range(3 * instant):
                await asyncio.sleep(0)
            consuming.cancel()
            done, _ = await asyncio.wait({consuming}, timeout=ENDS_WITHIN)
            assert done, f"not after {3 * instant} rounds of the event loop"
        await clear_cached_clients()


@pytest.mark.parametrize(
    ("more", "what_to_do"),
    [
        ({}, "set JOBAUTO_REDIS_URL"),
        ({"JOBAUTO_REDIS_URL": "redis://127.0.0.1:9"}, "correct JOBAUTO_REDIS_URL"),
        (None, "set PREFECT_SERVER_DATABASE_CONNECTION_URL"),
    ],
)
def test_a_server_that_can_share_nothing_does_not_start(
    tmp_path: Path, more: dict[str, str] | None, what_to_do: str
) -> None:
    with redis_server(tmp_path) as url:
        home = {"JOBAUTO_HOME": str(tmp_path), "JOBAUTO_CONFIG_DIR": str(tmp_path)}
        ran = subprocess.run(
            [*START, "--role", "services"],
            env=clean_environment() | home | ({"JOBAUTO_REDIS_URL": url} if more is None else more),
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
    assert ran.returncode == 1
    assert what_to_do in ran.stderr
    assert "Traceback" not in ran.stderr


@pytest.mark.soak
def test_tasks_of_a_killed_server_are_taken_over_within_a_minute(servers: Servers) -> None:
    for _ in range(2):
        servers.start("services")
    eventually(lambda: servers.logs().count("background services start") == 2)
    with psycopg.connect(servers.prefect_database) as held:
        held.execute("LOCK TABLE deployment IN ACCESS EXCLUSIVE MODE")
        task, holder = eventually(lambda: _task_in_hand(servers.redis))
        os.kill(holder, signal.SIGKILL)
    eventually(lambda: task not in _pending(servers.redis), TAKEN_OVER_WITHIN)


def _pending(redis: Redis) -> dict[bytes, tuple[int, int]]:
    """Return the tasks in hand: since when, in milliseconds, and in which process."""
    found = cast("list[dict[str, Any]]", redis.xpending_range(TASKS, GROUP, "-", "+", 100))
    return {
        each["message_id"]: (each["time_since_delivered"], _process(each["consumer"]))
        for each in found
    }


def _process(worker: bytes) -> int:
    return int(worker.rpartition(b"#")[2])


def _task_in_hand(redis: Redis) -> tuple[bytes, int] | None:
    """Return a task that waits for the database, and the process that has it."""
    waiting = ((task, pid) for task, (since, pid) in _pending(redis).items() if since > 1000)
    return next(waiting, None)
