"""Hand-overs of jobs to Prefect: from what a flow run is created, and which are under way."""

import asyncio
import contextlib
from collections import Counter, deque
from collections.abc import Iterator
from dataclasses import dataclass
from uuid import UUID
from weakref import WeakKeyDictionary

from jobauto_prefect.engine.flow_runs import NewRun
from jobauto_prefect.ledger.records import OutboxMessage

REMEMBERED = 1000
WAIT_SECONDS = 0.5


@dataclass(frozen=True, slots=True)
class Start:
    """What a job's flow run is created from.

    `deployment_id` is None if the run template has to be applied first.
    """

    job_id: int
    template_id: int
    deployment_id: UUID | None
    run: NewRun
    traceparent: str | None
    is_of_task: bool


class HandOvers:
    """Knows what this process is handing over to Prefect; use it in one event loop.

    Prefect announces a flow run before it is committed, and a worker may claim it before it is
    bound: the claim that waits here instead of being repeated is decided at the earliest moment.
    """

    def __init__(self) -> None:
        self.prepared: WeakKeyDictionary[OutboxMessage, Start] = WeakKeyDictionary()
        """By the messages of jobs that this process has written itself: nobody need read them."""

        self._under_way = Counter[UUID]()
        self._bound = deque[UUID](maxlen=REMEMBERED)
        self._next_end = asyncio.Event()

    @contextlib.contextmanager
    def under_way(self, deployment_id: UUID) -> Iterator[None]:
        """Hand a job over to a flow run of this deployment."""
        self._under_way[deployment_id] += 1
        try:
            yield
        finally:
            self._under_way -= Counter((deployment_id,))
            self._next_end.set()
            self._next_end = asyncio.Event()

    def note_bound(self, flow_run_id: UUID) -> None:
        """Note that a flow run is a job's now."""
        self._bound.append(flow_run_id)

    async def wait(self, flow_run_id: UUID, deployment_id: UUID) -> None:
        """Wait until a flow run is bound, nothing of its deployment is under way, or too long."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(WAIT_SECONDS):
                while self._under_way[deployment_id] and flow_run_id not in self._bound:
                    await self._next_end.wait()
