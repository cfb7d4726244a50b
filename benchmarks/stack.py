"""A whole installation for measurements: Prefect, facade and workers, each its own process.

Databases are on PostgreSQL where `JOBAUTO_BENCH_POSTGRESQL_URL` (default: the local server as
postgres) answers, as the design's figures are, or in files of SQLite; nothing is left behind.
"""

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import psycopg
from sqlalchemy import Row, Select

from jobauto_prefect.engine.prefect_server.process import prefect_command
from jobauto_prefect.ledger.access.tokens import issue_user_token, issue_worker_token
from jobauto_prefect.ledger.audit.trail import SERVICE, WritingSession
from jobauto_prefect.ledger.database import migration
from jobauto_prefect.ledger.database.engine import make_engine
from jobauto_prefect.ledger.opening import open_ledger
from jobauto_prefect.ledger.records import User, UserRole
from jobauto_prefect.ledger.secrets import create_key
from jobauto_prefect.settings import Settings

POSTGRESQL = os.environ.get(
    "JOBAUTO_BENCH_POSTGRESQL_URL", "postgresql://postgres@127.0.0.1:5432/postgres"
)
PATIENCE = 90  # seconds

Look = Callable[[], Any]


def eventually(look: Look, seconds: float = PATIENCE) -> Any:
    """What `look` finds, once it finds something."""
    until = time.monotonic() + seconds
    while True:
        with contextlib.suppress(httpx.HTTPError):
            if found := look():
                return found
        if time.monotonic() > until:
            raise TimeoutError("what was waited for did not come")
        time.sleep(0.02)


@dataclass(frozen=True, slots=True)
class Stack:
    """A running installation."""

    settings: Settings
    environment: dict[str, str]
    rest: httpx.Client
    prefect: httpx.Client
    home: Path
    ledger: str
    prefect_database: str
    processes: contextlib.ExitStack
    pids: dict[str, int]

    def start(self, name: str, argv: list[str], **environment: str) -> None:
        """Start one more process; it ends with the stack."""
        self.pids[name] = self.processes.enter_context(
            running_process(argv, self.environment | environment, self.home / f"{name}.log")
        )

    def start_worker(self, pool: str = "jobauto", **environment: str) -> None:
        """A jobauto worker of this pool that Prefect shows online."""
        argv = [sys.executable, "-m", "jobauto_prefect.cli", "worker", "start", "--pool", pool]
        environment["JOBAUTO_WORKER_TOKEN"] = worker_token(self, pool)
        self.start(f"worker of {pool}", argv, **environment)
        eventually(lambda: self.is_served(pool))

    def is_served(self, pool: str) -> bool:
        """Whether a worker of this pool is online."""
        answer = self.prefect.post(f"/work_pools/{pool}/workers/filter", json={})
        return answer.is_success and any(worker["status"] == "ONLINE" for worker in answer.json())

    def pause(self, pool: str = "jobauto") -> None:
        """No worker gets a run of this pool any more; asked again where Prefect is too busy."""
        body = {"is_paused": True}
        eventually(lambda: self.prefect.patch(f"/work_pools/{pool}", json=body).is_success)

    def applied(self) -> None:
        """Return once Prefect knows all that it is to be told."""
        eventually(lambda: self.rest.get("/status").json()["waiting_for_prefect"] == 0)

    def recorded(self, query: Select[Any]) -> Sequence[Row[Any]]:
        """Rows of the ledger, whichever database it is in."""
        engine = make_engine(self.settings.ledger_url)
        try:
            with engine.connect() as connection:
                return connection.execute(query).all()
        finally:
            engine.dispose()

    def jobauto(self, *arguments: str) -> str:
        """What a command prints."""
        command = [sys.executable, "-m", "jobauto_prefect.cli", *arguments]
        done = subprocess.run(
            command, env=self.environment, capture_output=True, text=True, check=False
        )
        if done.returncode:
            raise RuntimeError(f"{' '.join(arguments)}: {done.stderr}")
        return done.stdout.strip()

    def post(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        """Create or update over REST."""
        answer = self.rest.post(path, json=body)
        answer.raise_for_status()
        written: dict[str, Any] = answer.json()
        return written


@contextlib.contextmanager
def running_process(argv: list[str], environment: dict[str, str], log: Path) -> Iterator[int]:
    """A process with its output in `log`, by its id; it is told to end afterwards."""
    with log.open("ab") as output:
        process = subprocess.Popen(
            argv, env=environment, stdout=output, stderr=output, start_new_session=True
        )
    try:
        yield process.pid
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGTERM)
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)


@contextlib.contextmanager
def database() -> Iterator[str]:
    """The URL of an empty database on PostgreSQL, gone afterwards."""
    name = f"jobauto_bench_{uuid.uuid4().hex}"
    with psycopg.connect(POSTGRESQL, autocommit=True) as server:
        server.execute(f'CREATE DATABASE "{name}"')
        try:
            yield f"{POSTGRESQL.rpartition('/')[0]}/{name}"
        finally:
            server.execute(f'DROP DATABASE "{name}" WITH (FORCE)')


def free_port() -> int:
    """A port nobody listens on just now."""
    import socket

    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def settings_in(home: Path, ledger: str) -> Settings:
    """Those of an installation on free ports."""
    prefect_port, api_port = free_port(), free_port()
    return Settings(
        home=home,
        database_url=ledger,
        url=f"http://127.0.0.1:{api_port}",
        api_port=api_port,
        prefect_port=prefect_port,
        prefect_api_url=f"http://127.0.0.1:{prefect_port}/api",
    )


def environment_of(settings: Settings) -> dict[str, str]:
    """What processes of such an installation are told."""
    foreign = ("JOBAUTO_", "PREFECT_", "DB_")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(foreign)}
    return kept | {
        "JOBAUTO_HOME": str(settings.home),
        "JOBAUTO_CONFIG_DIR": str(settings.home),
        "JOBAUTO_DATABASE_URL": settings.database_url,
        "JOBAUTO_URL": settings.url,
        "JOBAUTO_API_PORT": str(settings.api_port),
        "PREFECT_API_URL": settings.prefect_api_url,
        "PREFECT_HOME": str(settings.home / "prefect"),
        "PREFECT_LOGGING_LEVEL": "WARNING",
        "DO_NOT_TRACK": "1",
    }


@contextlib.contextmanager
def stack(more: Mapping[str, str] | None = None, *, sqlite: bool = False) -> Iterator[Stack]:
    """Prefect, facade and services; workers are the caller's to start.

    Args:
        more: further variables of the environment of our processes.
        sqlite: ledger and Prefect are on SQLite, not on PostgreSQL.
    """
    home = Path(tempfile.mkdtemp(prefix="jobauto-bench-"))
    try:
        with contextlib.ExitStack() as exits:
            if sqlite:
                ledger = f"sqlite:///{home}/ledger.db"
                prefect = f"sqlite+aiosqlite:///{home}/prefect/prefect.db"
            else:
                ledger, prefect = (exits.enter_context(database()) for _ in range(2))
            settings = settings_in(home, ledger)
            environment = environment_of(settings) | dict(more or {})
            yield _start(home, exits, settings, environment, prefect)
    finally:
        shutil.rmtree(home, ignore_errors=True)


def _start(
    home: Path,
    exits: contextlib.ExitStack,
    settings: Settings,
    ours: dict[str, str],
    prefect: str,
) -> Stack:
    argv, environment = prefect_command(settings, ours)
    environment["PREFECT_SERVER_DATABASE_CONNECTION_URL"] = prefect.replace(
        "postgresql://", "postgresql+asyncpg://"
    )
    processes = exits.enter_context(contextlib.ExitStack())
    rest = exits.enter_context(httpx.Client(base_url=f"{settings.url}/api/v1", timeout=30))
    api = exits.enter_context(httpx.Client(base_url=settings.prefect_api_url, timeout=30))
    ledger = settings.database_url
    running = Stack(settings, ours, rest, api, home, ledger, prefect, processes, {})
    running.pids["prefect"] = processes.enter_context(
        running_process(argv, environment, home / "prefect.log")
    )
    prepare_ledger(settings)
    running.start("api", [sys.executable, "-m", "jobauto_prefect.cli", "api", "start"])
    running.start("services", [sys.executable, "-m", "jobauto_prefect.cli", "services", "start"])
    sign_in(running)
    eventually(lambda: api.get("/health").is_success)
    eventually(lambda: rest.get("/ping.json").is_success)
    return running


def prepare_ledger(settings: Settings) -> None:
    """Make the key and the tables."""
    create_key(settings.key_path)
    engine = make_engine(settings.ledger_url)
    migration.upgrade(engine)
    engine.dispose()


@contextlib.contextmanager
def _writing(running: Stack) -> Iterator[WritingSession]:
    ledger = open_ledger(running.settings)
    try:
        with ledger.writing(SERVICE) as session:
            yield session
    finally:
        ledger.close()


def sign_in(running: Stack) -> None:
    """Let the client of the facade be an administrator."""
    with _writing(running) as session:
        user = User(login="bench")
        user.role_assignments.append(UserRole(role="super_admin", assigned_at=session.clock()))
        session.add(user)
        issued, _ = issue_user_token(session, user, None)
    running.rest.headers["Authorization"] = f"Bearer {issued}"


def worker_token(running: Stack, *pools: str) -> str:
    """A new token for a worker of these pools."""
    with _writing(running) as session:
        return issue_worker_token(session, pools, None)[0]


@dataclass(frozen=True, slots=True)
class BarePrefect:
    """A Prefect server by itself: its process, its database and where its API is."""

    pid: int
    database: str
    url: str


@contextlib.contextmanager
def bare_prefect() -> Iterator[BarePrefect]:
    """A Prefect server by itself, on PostgreSQL."""
    home = Path(tempfile.mkdtemp(prefix="jobauto-bench-"))
    try:
        with database() as url:
            settings = settings_in(home, url)
            argv, environment = prefect_command(settings, environment_of(settings))
            environment["PREFECT_SERVER_DATABASE_CONNECTION_URL"] = url.replace(
                "postgresql://", "postgresql+asyncpg://"
            )
            with running_process(argv, environment, home / "prefect.log") as pid:
                eventually(lambda: httpx.get(f"{settings.prefect_api_url}/health").is_success)
                yield BarePrefect(pid, url, settings.prefect_api_url)
    finally:
        shutil.rmtree(home, ignore_errors=True)


Figures = dict[str, object]


def report(measure: Callable[[], Figures | list[Figures]], about: str | None) -> None:
    """Measure and print: a line of JSON for each goal with `--json`, else one for each figure."""
    import argparse
    import json

    parser = argparse.ArgumentParser(
        description=about, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--json", action="store_true", help="JSON, a line for each goal")
    as_json = parser.parse_known_args()[0].json
    found = measure()
    for figures in found if isinstance(found, list) else [found]:
        if as_json:
            print(json.dumps(figures))
            continue
        for name, figure in figures.items():
            print(f"{name:>20}  {figure}")
