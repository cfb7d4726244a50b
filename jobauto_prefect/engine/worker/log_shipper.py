"""Ships job output to Prefect's logs: one call per batch, for any number of jobs."""

import asyncio
import contextlib
import logging
from collections import deque
from collections.abc import AsyncIterator
from typing import Any
from uuid import UUID

from jobauto_prefect.definitions.storable import storable_text
from jobauto_prefect.engine.api import PrefectApi
from jobauto_prefect.errors import (
    Forbidden,
    JobautoError,
    PrefectFailed,
    PrefectRefuses,
    PrefectUnavailable,
)
from jobauto_prefect.runtime.job import OnLines
from jobauto_prefect.runtime.output.lines import first_lines
from jobauto_prefect.runtime.protocol import OutputLines

logger = logging.getLogger(__name__)

LEVELS = {"stdout": logging.INFO, "stderr": logging.WARNING, "notice": logging.WARNING}
LOGGER_NAME = "jobauto"

BATCH_SECONDS = 0.25
"""How long a line waits to be batched."""

CROWD_SECONDS = 1.0
"""Minimum time between batches: under load the lines of many jobs are in each."""

BATCH_LINES = 1000
BATCH_CHARACTERS = 1_000_000
LONGEST_LINE = 100_000  # characters; Prefect refuses batches that are too large
MOST_WAITING = 50_000  # lines kept while Prefect is away
PAUSE_SECONDS = 2.0  # between attempts while Prefect is away
FAILED_SECONDS = 0.5  # before a line on which Prefect failed is sent again
MOST_FAILURES = 3  # of Prefect on one line, until the line is dropped


MOST_LINES = 10_000
"""Lines of one run's output in Prefect's log; Prefect stores each as a row, and its page loads all.
"""


class LogShipper:
    """Sends lines in order. While Prefect is away the oldest ones may be dropped."""

    def __init__(self, api: PrefectApi) -> None:
        self._api = api
        self._waiting: deque[dict[str, Any]] = deque(maxlen=MOST_WAITING)
        self._some = asyncio.Event()
        self._sending = asyncio.Lock()

    def run_log(self, flow_run_id: UUID, job_id: int) -> OnLines:
        """Return a consumer of a run's output that stops, with a notice, after `MOST_LINES`."""
        room = MOST_LINES  # negative once the notice is out

        async def add(output: list[OutputLines]) -> None:
            nonlocal room
            for lines in output:
                if room > 0:
                    self.add(flow_run_id, first_lines(lines, room))
                if 0 <= room < len(lines.texts):
                    text = f"more than {MOST_LINES} lines; all of them: jobauto job logs {job_id}"
                    notice = lines.model_copy(update={"stream": "notice", "texts": [text]})
                    self.add(flow_run_id, notice)
                room = max(-1, room - len(lines.texts))

        return add

    def add(self, flow_run_id: UUID, lines: OutputLines) -> None:
        """Enqueue lines of a flow run's job; they are sent within a moment."""
        common = {
            "flow_run_id": str(flow_run_id),
            "name": LOGGER_NAME,
            "level": LEVELS[lines.stream],
            "timestamp": lines.at.isoformat(),
        }
        for text in lines.texts:
            # Prefect shows no empty lines.
            self._waiting.append(common | {"message": storable_text(text[:LONGEST_LINE]) or " "})
        self._some.set()

    async def run(self) -> None:
        """Send until cancelled."""
        time = asyncio.get_running_loop().time
        earliest = time()
        while True:
            await self._some.wait()
            await asyncio.sleep(max(BATCH_SECONDS, earliest - time()))
            earliest = time() + CROWD_SECONDS
            try:
                await self.flush()
            except PrefectUnavailable:
                await asyncio.sleep(PAUSE_SECONDS)

    @contextlib.asynccontextmanager
    async def sending(self) -> AsyncIterator[None]:
        """Send within the block, and at its end what still waits."""
        running = asyncio.create_task(self.run())
        try:
            yield
        finally:
            # Flush first: cancelled while it sends, the task would lose the lines on their way.
            with contextlib.suppress(JobautoError):
                await self.flush()
            running.cancel()

    async def flush(self) -> None:
        """Send waiting lines now.

        Raises:
            PrefectUnavailable: unsent lines keep waiting.
        """
        async with self._sending:
            while batch := self._next():
                await self._send(batch)
            self._some.clear()

    def _next(self) -> list[dict[str, Any]]:
        batch: list[dict[str, Any]] = []
        size = 0
        while self._waiting and len(batch) < BATCH_LINES and size < BATCH_CHARACTERS:
            batch.append(self._waiting.popleft())
            size += len(batch[-1]["message"])
        return batch

    async def _send(self, batch: list[dict[str, Any]], failures: int = 0) -> None:
        try:
            await self._api.post("/logs/", batch)
        except PrefectUnavailable:
            self._waiting.extendleft(reversed(batch[: MOST_WAITING - len(self._waiting)]))
            raise
        except (Forbidden, PrefectRefuses, PrefectFailed) as error:
            run = batch[0]["flow_run_id"]
            part = [line for line in batch if line["flow_run_id"] == run]
            rest = [line for line in batch if line["flow_run_id"] != run]
            # One line may be the cause, but a forbidden run, such as a deleted one, is forbidden as
            # a whole.
            if not rest and not isinstance(error, Forbidden):
                part, rest = part[: len(part) // 2], part[len(part) // 2 :]
            if part and rest:
                self._waiting.extendleft(reversed(rest))
                await self._send(part)
                return
            if isinstance(error, PrefectFailed) and failures < MOST_FAILURES:
                await asyncio.sleep(FAILED_SECONDS)
                await self._send(batch, failures + 1)
                return
            logger.warning(
                "%d lines of flow run %s are not in Prefect's log: %s", len(batch), run, error
            )
        except JobautoError as error:
            logger.warning("%d lines of output are not in Prefect's log: %s", len(batch), error)
