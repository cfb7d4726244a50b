"""An installation whose parts are processes of their own, to be killed, stopped and cut off.

After the faults a matcher assigns the processes that really started to the windows there were.
"""

import contextlib
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx
import psycopg

from jobauto_prefect.engine.prefect_server.process import prefect_command
from jobauto_prefect.ledger.database.engine import make_engine
from jobauto_prefect.ledger.opening import ledger_at
from jobauto_prefect.ledger.records import Job, RunTemplate, Task
from jobauto_prefect.ledger.secrets import create_key
from jobauto_prefect.ledger.states import LIVE_TASKS, TaskReason
from jobauto_prefect.ledger.store import Ledger
from jobauto_prefect.settings import Settings
from tests.support.breakable import Part, Relay
from tests.support.databases import database
from tests.support.documents import smallest
from tests.support.ledger_rows import fetch_all
from tests.support.paths import JOBAUTO
from tests.support.ports import free_port
from tests.support.processes import clean_environment, commands, environment_of
from tests.support.servers import client, prefect_client, user_token, worker_token
from tests.support.waits import eventually

PATIENCE = 120  # seconds
MINUTE = timedelta(minutes=1)

PROBE = """#!/bin/sh
# A second process of one task, at the same time, would be seen.
live="$MARKS/live-$JOBAUTO_TASK_ID"
trap 'rm -f "$live"; exit 143' TERM
# What was killed outright leaves its file: only a process that lives counts.
if [ -e "$live" ] && kill -0 "$(cat "$live")"; then
    echo "$JOBAUTO_TASK_ID" >> "$MARKS/overlaps"
fi
echo $$ > "$live"
echo "$JOBAUTO_JOB_ID $JOBAUTO_TASK_ID" >> "$MARKS/starts"
sleep "$SECONDS_TO_SLEEP" & wait $!
rm -f "$live"
"""


@dataclass(frozen=True, slots=True)
class Findings:
    """What the matcher found; `missed` and `extra` say in words what was wrong."""

    states: Counter[str]
    missed: list[str] = field(default_factory=list)
    extra: list[str] = field(default_factory=list)


@dataclass(slots=True)
class Installation:
    """All parts, and what is needed to look at them."""

    settings: Settings
    ledger: Ledger
    rest: httpx.Client
    prefect: httpx.Client
    parts: dict[str, Part]
    relay: Relay
    marks: Path
    templates: list[dict[str, Any]] = field(default_factory=list)

    def add_application(self, name: str, script: str, environment: dict[str, Any]) -> None:
        """An application of a script of its own."""
        program = self.settings.home / "bin" / name.lower()
        program.write_text(script)
        program.chmod(0o755)
        own = {"executable": str(program), "uuid": str(uuid4())}
        definition = smallest(name=name, environment=environment, **own)
        self.rest.post("/app/", json=definition).raise_for_status()

    def add_template(self, name: str, **members: Any) -> dict[str, Any]:
        """A template whose jobs leave a mark when they start."""
        env = {"MARKS": str(self.marks), **members.pop("env", {})}
        body = {"app": "Marker", "company": "town", "name": name, "env": env, **members}
        made: dict[str, Any] = self.rest.post("/runtemplate/", json=body).raise_for_status().json()
        self.templates.append(made)
        return made

    def switch_off(self) -> None:
        """No further windows; what runs goes on."""
        self.templates = [
            eventually(lambda template=template: self._switched_off(template["id"]), PATIENCE)
            for template in self.templates
        ]

    def _switched_off(self, number: int) -> dict[str, Any] | None:
        with contextlib.suppress(httpx.TransportError):
            answer = self.rest.post("/runtemplate/", json={"id": number, "active": False})
            template: dict[str, Any] = answer.json()
            template["answered_at"] = self.ledger.clock().isoformat()
            return template if answer.is_success else None
        return None

    def windows(self, until: str = "updated_at") -> Iterator[tuple[int, datetime]]:
        """Those of the minutely templates: opened since they were made, until switched off."""
        for template in self.templates:
            made, off = (datetime.fromisoformat(template[name]) for name in ("created_at", until))
            start = made.replace(second=0, microsecond=0) + MINUTE
            while start + timedelta(seconds=template["delay"]) <= off:
                yield template["id"], start
                start += MINUTE

    def starts(self) -> list[tuple[int, int]]:
        """Job and task of each process that really started."""
        path = self.marks / "starts"
        lines = path.read_text().splitlines() if path.exists() else []
        return [(int(job), int(task)) for job, task in map(str.split, lines)]

    def overlaps(self) -> list[str]:
        """Tasks that had two processes at once."""
        path = self.marks / "overlaps"
        return path.read_text().splitlines() if path.exists() else []

    def until_running(self) -> int:
        """The task of a process that runs just now."""

        def live() -> int:
            return next((int(p.name[5:]) for p in self.marks.glob("live-*")), 0)

        task: int = eventually(live, PATIENCE)
        return task

    def until_started(self, more: int) -> None:
        """Return when so many more processes have started."""
        wanted = len(self.starts()) + more
        eventually(lambda: len(self.starts()) >= wanted, PATIENCE)

    def until_all_tasks_ended(self, patience: float = PATIENCE) -> None:
        """Return when no task is open or running."""
        eventually(lambda: not any(task.state in LIVE_TASKS for task in self._tasks()), patience)

    def _tasks(self) -> list[Task]:
        return fetch_all(self.ledger, Task)

    def match(self) -> Findings:
        """Assign the processes that started to the windows: template and start."""
        with self.ledger.reading() as session:
            tasks = {task.id: task for task in session.query(Task)}
            jobs = {job.id: job for job in session.query(Job)}
        findings = Findings(Counter(task.state for task in tasks.values()))
        owed = Counter(self.windows())
        owed.subtract((task.runtemplate_id, task.window_start) for task in tasks.values())
        # While the change that switches a template off is on its way, a window may still open.
        possible = set(self.windows("answered_at")) - set(self.windows())
        for window, count in owed.items():
            if count == -1 and window in possible:
                continue
            if count:
                kind = findings.missed if count > 0 else findings.extra
                kind.append(f"{window}: task {count:+}")
        begun = Counter(task for _, task in self.starts())
        for task in tasks.values():
            self._judge(task, begun[task.id], findings)
        for job, count in Counter(job for job, _ in self.starts()).items():
            if count > 1 or job not in jobs:
                findings.extra.append(f"job {job} started {count} times")
        return findings

    def _judge(self, task: Task, begun: int, findings: Findings) -> None:
        story = f"task {task.id} {task.state} ({task.reason}: {task.message})"
        story += f", {begun} of {task.attempts} began"
        if task.state in ("fulfilled", "fulfilled_late"):
            if not begun:
                findings.missed.append(story)
        elif task.reason != TaskReason.INACTIVE:
            findings.missed.append(story)  # each outage was shorter than a window
        if begun > task.attempts or (task.state == "missed" and begun):
            findings.extra.append(story)

    def cut_database(self) -> None:
        """End every session of the ledger's database, as its restart would."""
        end_sessions(self.settings.ledger_url.replace("+psycopg", ""))

    def orphans(self) -> list[str]:
        """The command lines of processes that know these marks: jobs, and what they started."""
        mark = f"MARKS={self.marks}".encode()
        return [command for pid, command in commands().items() if mark in environment_of(pid)]

    def run_by_hand(self, task_id: int) -> None:
        """A second flow run for a window, as somebody could make it."""
        with self.ledger.reading() as session:
            task = session.get_one(Task, task_id)
            deployment = session.get_one(RunTemplate, task.runtemplate_id).deployment_id
        body = {"parameters": {"jobauto": {"task": task_id}}}
        self.prefect.post(f"/deployments/{deployment}/create_flow_run", json=body)


@contextmanager
def run_installation(
    ledger_url: str, home: Path, lease_seconds: float, variables: Mapping[str, str] | None = None
) -> Iterator[Installation]:
    """A running installation on PostgreSQL: Prefect, facade, two services, two workers.

    The ledger has its tables already, and Prefect gets a database of its own. The first worker
    reaches the facade through a relay. All parts get these further variables.
    """
    for folder in ("marks", "bin", "config"):
        (home / folder).mkdir()
    port, prefect_port = free_port(), free_port()
    settings = Settings(
        home=home,
        database_url=ledger_url,
        api_port=port,
        url=f"http://127.0.0.1:{port}",
        prefect_port=prefect_port,
        prefect_api_url=f"http://127.0.0.1:{prefect_port}/api",
        pool="town",
        lease_seconds=lease_seconds,
    )
    create_key(settings.key_path)
    # The tables may be those of a former release.
    ledger = ledger_at(make_engine(settings.ledger_url), settings.key_path)
    with contextlib.ExitStack() as stack:
        stack.callback(ledger.close)
        own = stack.enter_context(database("postgresql", home))
        prefect_url = own.replace("postgresql://", "postgresql+asyncpg://")
        relay = stack.enter_context(Relay(port))
        token = worker_token(ledger, "town")
        parts = _parts(settings, prefect_url, relay, token, variables or {})
        yield stack.enter_context(started(settings, ledger, parts, relay))


@contextmanager
def started(
    settings: Settings, ledger: Ledger, parts: dict[str, Part], relay: Relay
) -> Iterator[Installation]:
    """Start these parts; workers and services last, once Prefect and a facade answer."""
    token = user_token(ledger)
    signed_in = {"Authorization": f"Bearer {token}"}
    with contextlib.ExitStack() as stack:
        rest = stack.enter_context(client(f"{settings.url}/api/v1", token))
        prefect = stack.enter_context(prefect_client(settings.prefect_api_url, headers=signed_in))
        for part in parts.values():
            stack.callback(part.end)
        made = Installation(settings, ledger, rest, prefect, parts, relay, settings.home / "marks")
        later = [part for part in parts.values() if part.name.startswith(("worker", "services"))]
        for part in parts.values():
            if part not in later:
                part.start()
        eventually(lambda: _answers(prefect, "/health"), PATIENCE)
        eventually(lambda: _answers(rest, "/ping.json"), PATIENCE)
        _populate(made)
        for part in later:
            part.start()
        yield made


def end_sessions(url: str) -> None:
    """End every session of a database on PostgreSQL."""
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE datname = current_database() AND pid <> pg_backend_pid()"
        )


def _answers(http: httpx.Client, path: str) -> bool:
    with contextlib.suppress(httpx.TransportError):
        return http.get(path).is_success
    return False


def _parts(
    settings: Settings, prefect_url: str, relay: Relay, token: str, variables: Mapping[str, str]
) -> dict[str, Part]:
    home = settings.home
    base = clean_environment() | variables
    ours = base | {
        "JOBAUTO_HOME": str(home),
        "JOBAUTO_CONFIG_DIR": str(home / "config"),
        "JOBAUTO_DATABASE_URL": settings.ledger_url,
        "JOBAUTO_URL": settings.url,
        "JOBAUTO_API_PORT": str(settings.api_port),
        "JOBAUTO_PREFECT_API_URL": settings.prefect_api_url,
        "JOBAUTO_POOL": settings.pool,
        "JOBAUTO_LEASE_SECONDS": str(settings.lease_seconds),
        "PREFECT_LOGGING_LEVEL": "WARNING",
        "PREFECT_HOME": str(home / "prefect"),
        "PREFECT_API_URL": settings.prefect_api_url,
    }
    workers = {name: value for name, value in ours.items() if name != "JOBAUTO_DATABASE_URL"} | {
        "JOBAUTO_WORKER_TOKEN": token
    }
    argv, environment = prefect_command(settings, base)
    environment |= {"PREFECT_SERVER_DATABASE_CONNECTION_URL": prefect_url}

    def part(name: str, argv: list[str], environment: dict[str, str]) -> Part:
        return Part(name, argv, environment, home / f"{name}.log")

    def worker(name: str, port: int) -> Part:
        command = ["-m", "prefect", "worker", "start", "--type", "jobauto", "--pool", "town"]
        own = {"JOBAUTO_HOME": str(home / name), "JOBAUTO_URL": f"http://127.0.0.1:{port}"}
        return part(name, [sys.executable, *command, "--name", name], workers | own)

    made = [
        part("prefect", argv, environment),
        part("facade", [JOBAUTO, "api", "start"], ours),
        part("services-1", [JOBAUTO, "services", "start"], ours),
        part("services-2", [JOBAUTO, "services", "start"], ours),
        worker("worker-1", relay.port),
        worker("worker-2", settings.api_port),
    ]
    return {made_part.name: made_part for made_part in made}


def _populate(made: Installation) -> None:
    environment = {
        "MARKS": {"type": "string", "required": True},
        "SECONDS_TO_SLEEP": {"type": "float", "defval": 2},
    }
    made.add_application("Marker", PROBE, environment)
    made.rest.post("/company/", json={"slug": "town", "name": "Town"}).raise_for_status()
