"""The whole service of one machine, as child processes of this one."""

import asyncio
import contextlib
import os
import signal
from collections.abc import AsyncIterator, Coroutine
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import httpx

from jobauto_prefect.cli.installation import Prepared
from jobauto_prefect.cli.program import command, environment_of, facade_address
from jobauto_prefect.cli.supervise import READY_WITHIN_SECONDS, Part, Supervisor, Tell
from jobauto_prefect.engine.server import wait_ready
from jobauto_prefect.ledger.records import WorkerRecord
from jobauto_prefect.settings import Settings

SIGNALS = (signal.SIGINT, signal.SIGTERM)
READY_POLL_SECONDS = 0.1
MARGIN_SECONDS = 15.0
"""What a worker may take to end beyond the grace of its jobs."""

LEDGER_ONLY = ("DB_", "JOBAUTO_DATABASE_URL", "JOBAUTO_KEY_FILE")
"""How the variables begin that a worker, and so its jobs, must not see."""


@dataclass(slots=True)
class Asked:
    """What the signals of this process ask for: to stop, and after that to hurry."""

    stop: asyncio.Event = field(default_factory=asyncio.Event)
    hurry: asyncio.Event = field(default_factory=asyncio.Event)

    def listen(self) -> None:
        """Take SIGINT and SIGTERM from now on."""
        loop = asyncio.get_running_loop()
        for number in SIGNALS:
            loop.add_signal_handler(number, self._on_signal)

    def _on_signal(self) -> None:
        (self.hurry if self.stop.is_set() else self.stop).set()

    async def unless_stopped(self, work: Coroutine[Any, Any, None]) -> bool:
        """Do some work; False where it was given up because the signal came."""
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


def stages(settings: Settings, prepared: Prepared) -> list[list[Part]]:
    """All parts, in the order of starting."""
    environment = environment_of(settings, os.environ)
    hidden = {name for name in environment if name.startswith(LEDGER_ONLY)}
    outside = {name: value for name, value in environment.items() if name not in hidden}
    worker = command("worker", "start", "--pool", settings.pool)
    worker += ["--token-file", str(prepared.token_file)]
    return [
        [
            Part(
                "prefect",
                command("prefect", "start"),
                environment,
                ready=partial(wait_ready, settings.prefect_api_url, READY_WITHIN_SECONDS),
            ),
            Part(
                "facade",
                command("api", "start"),
                environment,
                ready=partial(_facade_answers, settings),
            ),
        ],
        [Part("services", command("services", "start"), environment)],
        [
            Part(
                "worker",
                worker,
                outside,
                stop_seconds=settings.grace_seconds + MARGIN_SECONDS,
                ready=partial(_worker_is_there, prepared, _workers(prepared)),
            )
        ],
    ]


async def _facade_answers(settings: Settings) -> None:
    url = f"{facade_address(settings)}/api/v1/ping.json"
    # Whether its certificate is for this address is nothing to its being ready.
    async with httpx.AsyncClient(timeout=2, verify=False) as http:  # noqa: S501
        while True:
            with contextlib.suppress(httpx.TransportError):
                if (await http.get(url)).is_success:
                    return
            await asyncio.sleep(READY_POLL_SECONDS)


async def _worker_is_there(prepared: Prepared, before: set[Any]) -> None:
    """Return once a worker has said hello that was not there before."""
    while not _workers(prepared) - before:  # noqa: ASYNC110 - it is another process that says it
        await asyncio.sleep(READY_POLL_SECONDS)


def _workers(prepared: Prepared) -> set[Any]:
    from jobauto_prefect.ledger.queries import newest

    with prepared.ledger.reading() as session:
        return {worker.instance for worker in newest(session, WorkerRecord, limit=1000)}


@contextlib.asynccontextmanager
async def running(
    settings: Settings, prepared: Prepared, asked: Asked, tell: Tell
) -> AsyncIterator[bool]:
    """The whole service; False where a signal came before it was ready. All of it ends with this.

    Raises:
        JobautoError: a part ended before it was ready.
    """
    logs = settings.home / "logs"
    supervisor = Supervisor(stages(settings, prepared), settings.home, logs, tell)
    supervisor.hurry = asked.hurry
    try:
        ready = await asked.unless_stopped(supervisor.start())
        prepared.ledger.close()  # it opens again when it is asked again
        yield ready
    finally:
        await supervisor.stop()
