"""The process that `jobauto up` becomes after its preparations: it supervises the parts.

It needs no database, no Prefect and no library: `replace_process` replaces the preparing program by
one of a few megabytes. Its plan is JSON in a pipe; the environment stays.
"""

import asyncio
import contextlib
import json
import os
import signal
import sys
from collections.abc import AsyncIterator, Coroutine, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, NoReturn

from jobauto_prefect.cli.output.errors import run_explained
from jobauto_prefect.cli.service.supervisor import Part, Supervisor, Tell

SIGNALS = (signal.SIGINT, signal.SIGTERM)
READY_POLL_SECONDS = 0.1
ANSWER_SECONDS = 2.0


@dataclass(frozen=True, slots=True)
class PartPlan:
    """A part as JSON.

    Its environment is this process's, without variables that begin with one of `withheld`, and with
    `variables`. It is ready when `ready_url` answers, or once it reports that itself.
    """

    name: str
    argv: Sequence[str]
    variables: Mapping[str, str]
    withheld: Sequence[str] = ()
    stop_seconds: float = 10.0
    ready_url: str | None = None
    says_ready: bool = False

    def part(self, inherited: Mapping[str, str]) -> Part:
        """Make the part for a process with this environment."""
        withheld = tuple(self.withheld)
        kept = {name: text for name, text in inherited.items() if not name.startswith(withheld)}
        return Part(
            self.name,
            self.argv,
            kept | dict(self.variables),
            stop_seconds=self.stop_seconds,
            ready=partial(wait_until_answered, self.ready_url) if self.ready_url else None,
            says_ready=self.says_ready,
        )


@dataclass(frozen=True, slots=True)
class ServicePlan:
    """All parts, in starting order, and what to print when they are ready and when they end.

    `first` is a command to run to its end once they are ready, before that is reported. `ready` and
    `stopping` are lines for people, `event` is what programs read instead of `ready`.
    """

    stages: Sequence[Sequence[PartPlan]]
    folder: str
    as_json: bool = False
    event: Mapping[str, str] = field(default_factory=dict)
    ready: Sequence[str] = ()
    stopping: str = ""
    first: PartPlan | None = None


@dataclass(slots=True)
class StopRequest:
    """The signals of this process: the first asks it to stop, the second to hurry."""

    stop: asyncio.Event = field(default_factory=asyncio.Event)
    hurry: asyncio.Event = field(default_factory=asyncio.Event)

    def listen(self) -> None:
        """Handle SIGINT and SIGTERM from now on."""
        loop = asyncio.get_running_loop()
        for number in SIGNALS:
            loop.add_signal_handler(number, self._on_signal)

    def _on_signal(self) -> None:
        (self.hurry if self.stop.is_set() else self.stop).set()

    async def unless_stopped(self, work: Coroutine[Any, Any, None]) -> bool:
        """Do some work; return False if a signal aborted it."""
        working = asyncio.ensure_future(work)
        stopping = asyncio.ensure_future(self.stop.wait())
        await asyncio.wait({working, stopping}, return_when=asyncio.FIRST_COMPLETED)
        stopping.cancel()
        if not working.done():
            working.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await working
            return False
        await working
        return True


@contextlib.asynccontextmanager
async def run_service(plan: ServicePlan, asked: StopRequest, tell: Tell) -> AsyncIterator[bool]:
    """Run the whole service; yield False if a signal came before it was ready.

    The service ends with the context.

    Raises:
        JobautoError: a part ended before it was ready.
    """
    stages = [[part.part(os.environ) for part in stage] for stage in plan.stages]
    folder = Path(plan.folder)
    supervisor = Supervisor(stages, folder, folder / "logs", tell)
    supervisor.hurry = asked.hurry
    try:
        yield await asked.unless_stopped(supervisor.start())
    finally:
        await supervisor.stop()


async def wait_until_answered(url: str) -> None:
    """Return once a server on this machine answers this address with success."""
    while True:
        with contextlib.suppress(OSError, TimeoutError, ValueError, IndexError):
            async with asyncio.timeout(ANSWER_SECONDS):
                if (await _status(url)) // 100 == 2:
                    return
        await asyncio.sleep(READY_POLL_SECONDS)


async def _status(url: str) -> int:
    scheme, _, after_scheme = url.partition("://")
    authority, _, path = after_scheme.partition("/")
    host, _, port = authority.rpartition(":")
    reading, writing = await asyncio.open_connection(
        host.strip("[]"), int(port), ssl=_any_certificate() if scheme == "https" else None
    )
    try:
        lines = (f"GET /{path} HTTP/1.1", f"Host: {authority}", "Connection: close", "", "")
        writing.write("\r\n".join(lines).encode())
        return int((await reading.readline()).split()[1])
    finally:
        writing.close()


def _any_certificate() -> Any:
    """Accept any certificate.

    A part may be ready even if the certificate is for another address.
    """
    import ssl

    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context


class EventPrinter:
    """Prints the events of the service for people, or as JSON Lines."""

    def __init__(self, plan: ServicePlan) -> None:
        self._plan = plan
        self._started: set[str] = set()

    def part(self, name: str, event: str, number: int | None) -> None:
        """Print that a part has started (its process id) or ended (its exit code)."""
        if self._plan.as_json:
            key = "pid" if event == "started" else "exit_code"
            self._say(json.dumps({"event": event, "part": name, key: number}))
        elif event == "ended":
            self._say(f"{name} ended with exit code {number}; restarting it")
        else:
            self._say(f"{name} runs again" if name in self._started else f"starting {name} …")
        self._started.add(name)

    def ready(self) -> None:
        """Print that all parts are ready."""
        if self._plan.as_json:
            self._say(json.dumps({"event": "ready", **self._plan.event}))
        else:
            self._say("\n".join(self._plan.ready))

    def stopping(self) -> None:
        """Print that the parts are being ended."""
        self._say(json.dumps({"event": "stopping"}) if self._plan.as_json else self._plan.stopping)

    def _say(self, text: str) -> None:
        sys.stdout.write(text + "\n")
        sys.stdout.flush()


def replace_process(plan: ServicePlan, *kept: int) -> NoReturn:
    """Replace this program by one that carries out the plan; these descriptors stay open."""
    reading, writing = os.pipe()
    with os.fdopen(writing, "w") as file:
        json.dump(asdict(plan), file)
    for descriptor in (reading, *kept):
        os.set_inheritable(descriptor, True)
    sys.stdout.flush()
    sys.stderr.flush()
    os.execv(sys.executable, [sys.executable, "-P", "-m", __name__, "up", str(reading)])  # noqa: S606


def read_plan(text: str) -> ServicePlan:
    """Read a plan as `replace_process` writes it."""
    plan = json.loads(text)
    stages = [[PartPlan(**part) for part in stage] for stage in plan.pop("stages")]
    first = plan.pop("first")
    return ServicePlan(stages=stages, first=first and PartPlan(**first), **plan)


async def supervise(plan: ServicePlan) -> None:
    """Carry out a plan until SIGINT or SIGTERM.

    Raises:
        JobautoError: a part ended before it was ready.
    """
    stop, printer = StopRequest(), EventPrinter(plan)
    stop.listen()
    async with run_service(plan, stop, printer.part) as ready:
        if ready and (
            plan.first is None or await stop.unless_stopped(_run_to_end(plan.first, plan.as_json))
        ):
            printer.ready()
            await stop.stop.wait()
        printer.stopping()


async def _run_to_end(plan: PartPlan, as_json: bool) -> None:
    process = await asyncio.create_subprocess_exec(
        *plan.argv,
        env=plan.part(os.environ).environment,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.DEVNULL if as_json else None,
        start_new_session=True,  # Ctrl-C reaches it through this process
    )
    try:
        await process.wait()
    finally:
        if process.returncode is None:
            process.terminate()
            await process.wait()


def main() -> None:
    """Carry out the plan that is in the pipe with this number."""
    with os.fdopen(int(sys.argv[-1])) as file:
        plan = read_plan(file.read())
    run_explained(lambda: asyncio.run(supervise(plan)))


if __name__ == "__main__":
    main()
