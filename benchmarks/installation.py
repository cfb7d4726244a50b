"""What is measured as people have it: this checkout installed by pip, started by its own commands.

The environment is made as the README says, once per run; `JOBAUTO_BENCH_PROGRAMS` is the folder of
programs of one that is there. Databases are on PostgreSQL at `JOBAUTO_BENCH_POSTGRESQL_URL`
(default: the local server as postgres), or files of SQLite. Nothing is left behind.
"""

import asyncio
import atexit
import contextlib
import functools
import json
import os
import shutil
import signal
import socket
import sqlite3
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import httpx
import psycopg

ROOT = Path(__file__).parents[1]
POSTGRESQL = os.environ.get(
    "JOBAUTO_BENCH_POSTGRESQL_URL", "postgresql://postgres@127.0.0.1:5432/postgres"
)
KINDS = ("PostgreSQL", "SQLite")
PATIENCE = 90  # seconds
READY_WITHIN = 180
TICKS = os.sysconf("SC_CLK_TCK")
FOREIGN = ("JOBAUTO_", "PREFECT_", "DB_", "PYTHON", "VIRTUAL_ENV")
"""How variables begin that would change what is measured."""

QUICK = "--quick" in sys.argv

Figures = dict[str, Any]


def sized(full: int, quick: int) -> int:
    """How much is measured: `quick` only shows that a benchmark works."""
    return quick if QUICK else full


def report(measure: Callable[[], Figures | Iterable[Figures]], about: str | None) -> None:
    """Measure and print: a line of JSON for each goal with `--json`, else one for each figure.

    What is found is printed at once: a failure later loses none of it.
    """
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # what was started ends, too
    if "--help" in sys.argv:
        print(about, "\n--quick: little of each, to see that it works; its figures say nothing.")
        return
    found = measure()
    for figures in [found] if isinstance(found, dict) else found:
        if "--json" in sys.argv:
            print(json.dumps(figures), flush=True)
            continue
        for name, figure in figures.items():
            print(f"{name:>20}  {figure}")


def eventually(look: Callable[[], Any], seconds: float = PATIENCE) -> Any:
    """What `look` finds, once it finds something."""
    until = time.monotonic() + seconds
    while True:
        with contextlib.suppress(httpx.HTTPError):
            if found := look():
                return found
        if time.monotonic() > until:
            raise TimeoutError("what was waited for did not come")
        time.sleep(0.02)


@functools.cache
def programs() -> Path:
    """The folder of the installed programs."""
    if given := os.environ.get("JOBAUTO_BENCH_PROGRAMS"):
        return Path(given)
    folder = Path(tempfile.mkdtemp(prefix="jobauto-bench-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    subprocess.run([sys.executable, "-m", "venv", folder], check=True)
    pip = (folder / "bin" / "pip", "install", "--quiet", "--disable-pip-version-check")
    subprocess.run([*pip, "-c", "constraints.txt", "."], cwd=ROOT, check=True)
    return folder / "bin"


def program(name: str) -> str:
    """The path of an installed program."""
    return str(programs() / name)


def free_port(following: int = 1) -> int:
    """The first of so many ports that nobody listens on just now."""
    while True:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            first = int(probe.getsockname()[1])
        with contextlib.suppress(OSError), contextlib.ExitStack() as probes:
            for port in range(first, first + following):
                probes.enter_context(socket.socket()).bind(("127.0.0.1", port))
            return first


@contextlib.contextmanager
def running_process(
    argv: Sequence[str], environment: Mapping[str, str], log: Path
) -> Iterator["subprocess.Popen[bytes]"]:
    """A process with its output in `log`; it is told to end afterwards."""
    with log.open("ab") as output:
        process = subprocess.Popen(
            argv, env=environment, stdout=output, stderr=output, start_new_session=True
        )
    try:
        yield process
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGTERM)
        try:
            process.wait(60)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)


class Database:
    """A database, looked at from beside."""

    def __init__(self, url: str) -> None:
        self.url = url
        self._server: psycopg.Connection[Any] | None = None

    @property
    def is_file(self) -> bool:
        """Whether it is one of SQLite."""
        return self.url.startswith("sqlite")

    def rows(self, query: str) -> Sequence[tuple[Any, ...]]:
        """What a query finds; it can't use placeholders."""
        if self.is_file:
            path = f"file:{self.url.partition(':///')[2]}?mode=ro"
            with contextlib.closing(sqlite3.connect(path, uri=True, timeout=30)) as file:
                return file.execute(query).fetchall()
        return self.server.execute(query).fetchall()

    def one(self, query: str) -> Any:
        """The first value a query finds; None: nothing."""
        return next((row[0] for row in self.rows(query)), None)

    @property
    def server(self) -> psycopg.Connection[Any]:
        """A connection to it on PostgreSQL, each statement a transaction."""
        if self._server is None:
            self._server = psycopg.connect(self.url, autocommit=True)
        return self._server

    def transactions(self) -> int:
        """How many there have been on PostgreSQL, ours too."""
        query = "SELECT xact_commit + xact_rollback FROM pg_stat_database"
        return int(self.one(f"{query} WHERE datname = current_database()"))


@contextlib.contextmanager
def database() -> Iterator[Database]:
    """An empty database on PostgreSQL, gone afterwards."""
    name = f"jobauto_bench_{uuid.uuid4().hex}"
    with psycopg.connect(POSTGRESQL, autocommit=True) as server:
        server.execute(f'CREATE DATABASE "{name}"')
        try:
            yield Database(f"{POSTGRESQL.rpartition('/')[0]}/{name}")
        finally:
            server.execute(f'DROP DATABASE "{name}" WITH (FORCE)')


def cpu_seconds(pid: int) -> tuple[float, float]:
    """What a process and its children that have ended have used; zeros: it is gone."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0, 0.0
    user, system, ended_user, ended_system = (int(field) / TICKS for field in fields[11:15])
    return user + system, ended_user + ended_system


def children(pid: int) -> list[int]:
    """The processes that a process has started and that are running."""
    lists = Path(f"/proc/{pid}/task").glob("*/children")
    return [int(child) for one in lists for child in one.read_text().split()]


def postgresql_cpu_seconds(observed: Sequence[Database]) -> float:
    """What PostgreSQL's server has used, ended processes included, without our own connections."""
    ours = [each.server.info.backend_pid for each in observed if not each.is_file]
    if not ours:
        return 0.0
    _state, parent, *_ = Path(f"/proc/{ours[0]}/stat").read_text().rpartition(")")[2].split()
    postmaster = int(parent)
    others = [pid for pid in children(postmaster) if pid not in ours]
    return sum(cpu_seconds(postmaster)) + sum(cpu_seconds(pid)[0] for pid in others)


def pss_mb(pid: int) -> float:
    """What a process holds, in MB; pages that are shared count by their share."""
    rollup = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    return sum(int(line.split()[1]) for line in rollup if line.startswith("Pss:")) / 1024


def total(by_process: Mapping[str, float], digits: int = 1) -> dict[str, float]:
    """Figures by process, and their sum as `all`."""
    whole = {**by_process, "all": sum(by_process.values())}
    return {name: round(figure, digits) for name, figure in whole.items()}


class Server:
    """What is started by one installed command, and looked at from beside."""

    def __init__(self, home: Path, prefect_database: Database) -> None:
        self.home = home
        self.prefect_database = prefect_database
        self.port = free_port()
        self.prefect = httpx.Client(base_url=f"http://127.0.0.1:{self.port}/api", timeout=60)
        kept = {name: text for name, text in os.environ.items() if not name.startswith(FOREIGN)}
        self.environment = kept | {
            "PATH": f"{programs()}{os.pathsep}{kept['PATH']}",
            "PREFECT_HOME": str(home / "prefect"),
            "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
            "DO_NOT_TRACK": "1",
        }
        if not prefect_database.is_file:
            asynchronous = prefect_database.url.replace("postgresql:", "postgresql+asyncpg:")
            self.environment["PREFECT_SERVER_DATABASE_CONNECTION_URL"] = asynchronous
        self.pids: dict[str, int] = {}
        self.start_seconds = 0.0
        self._log = home / "output.log"
        self._processes = contextlib.ExitStack()

    @property
    def databases(self) -> Sequence[Database]:
        """All that it uses."""
        return (self.prefect_database,)

    def start(self) -> None:
        """Start it; return once it is ready."""
        self._log.unlink(missing_ok=True)
        began = time.perf_counter()
        process = self._processes.enter_context(
            running_process(self._command(), self.environment, self._log)
        )
        while not self._is_ready():
            if process.poll() is not None or time.perf_counter() > began + READY_WITHIN:
                raise RuntimeError(f"it did not start: {self._log.read_text()[-500:]}")
            time.sleep(0.02)
        self.start_seconds = time.perf_counter() - began
        self.pids = self._parts(process.pid)

    def stop(self) -> None:
        """End it; it can be started again."""
        self._processes.close()

    def _command(self) -> Sequence[str]:
        raise NotImplementedError

    def _is_ready(self) -> bool:
        raise NotImplementedError

    def _parts(self, pid: int) -> dict[str, int]:
        raise NotImplementedError

    def cpu(self) -> dict[str, float]:
        """CPU seconds so far by process; those of children that have ended are `jobs`."""
        used = {name: cpu_seconds(pid) for name, pid in self.pids.items()}
        return {
            **{name: own for name, (own, _) in used.items()},
            "jobs": sum(children for _, children in used.values()),
            "postgresql": postgresql_cpu_seconds(self.databases),
        }

    def cpu_since(self, before: Mapping[str, float]) -> dict[str, float]:
        """CPU seconds since then by process."""
        return {name: used - before[name] for name, used in self.cpu().items()}

    def pss(self) -> dict[str, float]:
        """Megabytes by process."""
        return {name: pss_mb(pid) for name, pid in self.pids.items()}

    def idle(self, seconds: float) -> tuple[float, float | None]:
        """Cores and transactions a second while nobody asks for anything; None: on SQLite."""
        on_server = not self.prefect_database.is_file
        asked = sum(each.transactions() for each in self.databases) if on_server else 0
        before = self.cpu()
        time.sleep(seconds)
        cores = sum(self.cpu_since(before).values()) / seconds
        if not on_server:
            return cores, None
        return cores, (sum(each.transactions() for each in self.databases) - asked) / seconds


class Bare(Server):
    """A bare Prefect server."""

    def _command(self) -> Sequence[str]:
        return (program("prefect"), "server", "start", "--port", str(self.port))

    def _is_ready(self) -> bool:
        with contextlib.suppress(httpx.HTTPError):
            return self.prefect.get("/health").is_success
        return False

    def _parts(self, pid: int) -> dict[str, int]:
        return {"prefect": pid}

    def create(self, path: str, body: Mapping[str, Any]) -> Any:
        """Create an object by Prefect's API, as soon as its database is free; its id."""
        answer = eventually(lambda: self._answered(path, body))
        return answer.raise_for_status().json()["id"]

    def _answered(self, path: str, body: Mapping[str, Any]) -> httpx.Response | None:
        answer = self.prefect.post(path, json=body)
        return None if answer.status_code == httpx.codes.SERVICE_UNAVAILABLE else answer

    def deployment(self) -> str:
        """The id of a new deployment that nobody works for."""
        flow = self.create("/flows/", {"name": "true"})
        return str(self.create("/deployments/", {"name": uuid.uuid4().hex, "flow_id": flow}))


OVER = "('COMPLETED', 'FAILED', 'CRASHED', 'CANCELLED')"


class Up(Server):
    """`jobauto up`, used by its administrator over REST."""

    def __init__(self, home: Path, ledger: Database, prefect: Database, **settings: str) -> None:
        super().__init__(home, prefect)
        self.ledger = ledger
        self.api_port, self._management_port = free_port(), free_port(20)
        self.url = f"http://127.0.0.1:{self.api_port}"
        self.rest = httpx.Client(base_url=f"{self.url}/api/v1", timeout=60)
        self.environment |= {"JOBAUTO_HOME": str(home), "JOBAUTO_CONFIG_DIR": str(home)}
        self.environment["JOBAUTO_MANAGEMENT_PORT"] = str(self._management_port)
        self.environment |= settings
        if not ledger.is_file:
            self.environment["JOBAUTO_DATABASE_URL"] = ledger.url

    @property
    def databases(self) -> Sequence[Database]:
        """All that it uses."""
        return (self.prefect_database, self.ledger)

    def _command(self) -> Sequence[str]:
        ports = ("--api-port", str(self.api_port), "--prefect-port", str(self.port))
        return (program("jobauto"), "up", "--json", *ports)

    def _is_ready(self) -> bool:
        return '"ready"' in self._log.read_text()

    def said(self, event: str) -> list[dict[str, Any]]:
        """Return the events of this name that it printed."""
        said = [json.loads(line) for line in self._log.read_text().splitlines() if line[0] == "{"]
        return [members for members in said if members["event"] == event]

    def _parts(self, pid: int) -> dict[str, int]:
        pids = {event["part"]: event["pid"] for event in self.said("started")}
        (watchdog,) = children(pids["worker"])
        return {"up": pid, **pids, "watchdog": watchdog}

    def sign_in(self) -> None:
        """Let both clients be the administrator, as the others that use their headers."""
        issued = json.loads(self.jobauto("token", "issue", "--user", "admin", "--json"))
        for client in (self.rest, self.prefect):
            client.headers["Authorization"] = f"Bearer {issued['token']}"

    def jobauto(self, *words: str) -> str:
        """What a command prints."""
        done = subprocess.run(
            [program("jobauto"), *words],
            env=self.environment, capture_output=True, text=True, check=False,
        )  # fmt: skip
        if done.returncode:
            raise RuntimeError(f"{' '.join(words)}: {done.stderr}")
        return done.stdout.strip()

    def post(self, path: str, body: Mapping[str, Any]) -> dict[str, Any]:
        """Create or update over REST."""
        answer = self.rest.post(path, json=body)
        if answer.is_error:
            raise RuntimeError(f"{path}: {answer.text}")
        written: dict[str, Any] = answer.json()
        return written

    def program_of_jobs(self, name: str, script: str) -> str:
        """The path of an executable shell script for jobs."""
        path = self.home / name
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)
        return str(path)

    def app(self, executable: str, *names: str) -> int:
        """The id of a new application, and of a company; `names` are keys of its values."""
        definition = {
            "$schema": "https://example.com/application.schema.json",
            "name": Path(executable).name,
            "description": "Is measured",
            "executable": executable,
            "environment": {name: {"type": "string", "required": True} for name in names},
        }
        if not self.rest.get("/companies.json").json():
            self.post("/company/", {"slug": "bench", "name": "Bench"})
        return int(self.post("/app/", definition)["id"])

    def template(self, app: int, name: str = "measured", **members: Any) -> int:
        """The id of a new run template, once Prefect knows it."""
        body = {"app_id": app, "company": "bench", "name": name, **members}
        made = int(self.post("/runtemplate/", body)["id"])
        self.applied()
        return made

    def true_template(self) -> int:
        """One of `/bin/true`."""
        return self.template(self.app("/bin/true"))

    def applied(self) -> None:
        """Return once Prefect knows all that it is to be told."""
        eventually(lambda: self.rest.get("/status").json()["waiting_for_prefect"] == 0)

    def deployment(self, template: int) -> str:
        """The id of its deployment in Prefect."""
        found = self.ledger.one(f"SELECT deployment_id FROM runtemplate WHERE id = {template}")
        return str(uuid.UUID(str(found)))

    def post_jobs(self, templates: Sequence[int], jobs: int, at_once: int = 8) -> None:
        """Ask for jobs of these run templates in turn, so many at a time."""

        async def post_all() -> None:
            left = iter(range(jobs))

            async def post_some(http: httpx.AsyncClient) -> None:
                for number in left:
                    body = {"runtemplate_id": templates[number % len(templates)]}
                    (await http.post("/job/", json=body)).raise_for_status()

            async with httpx.AsyncClient(
                base_url=self.rest.base_url, headers=self.rest.headers, timeout=60
            ) as http:
                await asyncio.gather(*(post_some(http) for _ in range(at_once)))

        asyncio.run(post_all())

    def ended(self) -> int:
        """How many jobs the ledger and Prefect both show as over."""
        ours = self.ledger.one('SELECT count(*) FROM job WHERE "end" IS NOT NULL')
        runs = f"SELECT count(*) FROM flow_run WHERE state_type IN {OVER}"
        return min(int(ours), int(self.prefect_database.one(runs)))

    def burst(self, templates: Sequence[int], jobs: int) -> float:
        """Seconds from the first POST until the last end is known everywhere."""
        before, began = self.ended(), time.perf_counter()
        self.post_jobs(templates, jobs)
        eventually(lambda: self.ended() >= before + jobs, 300)
        return time.perf_counter() - began

    def asked_of_prefect(self) -> dict[str, int]:
        """How often each route of Prefect has been asked, at its gateway."""
        text = httpx.get(f"http://127.0.0.1:{self._management_port + 1}/metrics").text
        asked: dict[str, int] = {}
        for line in text.splitlines():
            if line.startswith("jobauto_requests_total"):
                route = line.split('route="')[1].partition('"')[0]
                asked[route] = asked.get(route, 0) + int(float(line.rpartition(" ")[2]))
        return asked


@contextlib.contextmanager
def _folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="jobauto-bench-", ignore_cleanup_errors=True) as home:
        (Path(home) / "prefect").mkdir()
        yield Path(home)


@contextlib.contextmanager
def _stopped(server: Any) -> Iterator[Any]:
    try:
        yield server
    finally:
        server.stop()


@contextlib.contextmanager
def bare(kind: str = KINDS[0]) -> Iterator[Bare]:
    """A running bare Prefect server."""
    with contextlib.ExitStack() as exits:
        home = exits.enter_context(_folder())
        on = Database(f"sqlite:///{home}/prefect/prefect.db")
        server = Bare(home, exits.enter_context(database()) if kind == KINDS[0] else on)
        exits.enter_context(_stopped(server)).start()
        yield server


@contextlib.contextmanager
def up(kind: str = KINDS[0], **settings: str) -> Iterator[Up]:
    """A running `jobauto up` that its administrator has signed in to."""
    with contextlib.ExitStack() as exits:
        home = exits.enter_context(_folder())
        if kind == KINDS[0]:
            ledger, prefect = (exits.enter_context(database()) for _ in range(2))
        else:
            ledger = Database(f"sqlite:///{home}/ledger.db")
            prefect = Database(f"sqlite:///{home}/prefect/prefect.db")
        service = exits.enter_context(_stopped(Up(home, ledger, prefect, **settings)))
        service.start()
        service.sign_in()
        yield service
