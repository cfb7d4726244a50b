"""Passing a job's output on while it runs."""

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable

from jobauto_prefect.errors import JobautoError
from jobauto_prefect.runtime.client import FacadeClient, insist
from jobauto_prefect.runtime.output import Output
from jobauto_prefect.runtime.protocol import Launch, OutputLine

logger = logging.getLogger(__name__)

SEND_SECONDS = 0.5
BATCH_LINES = 500
BATCH_BYTES = 512 * 1024  # of text; as JSON it is somewhat more


class OutputSender:
    """Sends lines in batches, to a hook first and then to the ledger.

    While the facade is away lines wait; they are as many as the job's output may have at most.
    """

    def __init__(
        self,
        launch: Launch,
        client: FacadeClient,
        output: Output,
        on_lines: Callable[[list[OutputLine]], Awaitable[None]] | None,
    ) -> None:
        self._job_id = launch.job_id
        self._claim_id = launch.claim_id
        self._client = client
        self._output = output
        self._on_lines = on_lines
        self._finished = False
        self._due = asyncio.Event()

    def wake(self) -> None:
        """Send at once if there is a full batch."""
        if self._output.waiting >= BATCH_LINES:
            self._due.set()

    def finish(self) -> None:
        """No more lines will come."""
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
                await self._send(batch)

    async def _send(self, batch: list[OutputLine]) -> None:
        if self._on_lines is not None:
            try:
                await self._on_lines(batch)
            except Exception:  # a hook that fails must not cost the ledger its lines
                logger.exception("output of job %s was not shown", self._job_id)
        try:
            await insist(self._client.output, self._job_id, self._claim_id, batch)
        except JobautoError as error:
            logger.warning("output of job %s was refused: %s", self._job_id, error)
