"""The sender of a job's output, in batches while the job runs."""

import asyncio
import contextlib
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Iterator

from jobauto_prefect.errors import JobautoError
from jobauto_prefect.retries import retry_until_available
from jobauto_prefect.runtime.facade_client import FacadeClient
from jobauto_prefect.runtime.output.lines import Output, take_batch
from jobauto_prefect.runtime.protocol import Launch, OutputLines

logger = logging.getLogger(__name__)

SEND_SECONDS = 0.5
BATCH_LINES = 5000  # as many as fit into one message
BATCH_BYTES = 512 * 1024  # of text; slightly more as JSON


def in_batches(output: Iterable[OutputLines]) -> Iterator[list[OutputLines]]:
    """Split output into batches that fit into one message."""
    waiting = deque(output)
    while waiting:
        batch, _ = take_batch(waiting, BATCH_LINES, BATCH_BYTES)
        yield batch


class OutputSender:
    """Sends lines in batches, to a hook first and then to the ledger.

    While the facade is away lines wait; the limit of the job's output bounds them.
    """

    def __init__(
        self,
        launch: Launch,
        client: FacadeClient,
        output: Output,
        on_lines: Callable[[list[OutputLines]], Awaitable[None]] | None,
    ) -> None:
        self._job_id = launch.job_id
        self._claim_id = launch.claim_id
        self._client = client
        self._output = output
        self._on_lines = on_lines
        self._batch: list[OutputLines] = []
        self._finished = False
        self._due = asyncio.Event()

    def wake(self) -> None:
        """Send at once if a batch is full."""
        if self._output.waiting >= BATCH_LINES or self._output.waiting_bytes >= BATCH_BYTES:
            self._due.set()

    def unsent(self) -> list[OutputLines]:
        """Return the lines that the ledger may not have, in order."""
        return [*self._batch, *self._output.peek()]

    def finish(self) -> None:
        """Note that no more lines follow."""
        self._finished = True
        self._due.set()

    async def run(self) -> None:
        """Send until everything is sent after `finish`."""
        while not (self._finished and not self._output.waiting):
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(SEND_SECONDS):
                    await self._due.wait()
            self._due.clear()
            self._output.flush_resting()
            while batch := self._output.take(BATCH_LINES, BATCH_BYTES):
                self._batch = batch
                if self._on_lines is not None:
                    try:
                        await self._on_lines(batch)
                    except Exception:  # a failing hook must not cost the ledger its lines
                        logger.exception("output of job %s was not shown", self._job_id)
                try:
                    await retry_until_available(
                        self._client.output, self._job_id, self._claim_id, batch
                    )
                except JobautoError as error:
                    logger.warning("output of job %s was refused: %s", self._job_id, error)
                self._batch = []
