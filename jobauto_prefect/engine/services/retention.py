"""Retention: deletes expired data, in small batches, so that no request is slowed down.

Prefect's data of a job is deleted before the job: after a crash in between it is tried again.
"""

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial
from typing import Any

from jobauto_prefect.engine.context import EngineContext
from jobauto_prefect.engine.flow_runs import ENDED
from jobauto_prefect.errors import Conflict, Forbidden, PrefectFailed
from jobauto_prefect.jobs.isolation import apart, by_halves
from jobauto_prefect.jobs.retention import KeptRuns, Kind, Step, kept_runs, steps_of
from jobauto_prefect.ledger.jobs.retention import Ended, runs_only_of

BATCH = 200
"""Records per transaction."""

RUNS_AT_ONCE = 50
"""The most Prefect deletes in one call."""

DEPLOYMENTS_AT_ONCE = 100
SHORTEST_PAUSE = 0.02  # seconds


@dataclass(slots=True)
class Tally:
    """What was or would be deleted: counts by kind and company (None: of no company, or of all).

    `is_complete`: nothing is left to delete.
    """

    counts: Counter[tuple[Kind, int | None]] = field(default_factory=Counter)
    is_complete: bool = True


class Pruner:
    """Deletes expired data; safe to run twice at once."""

    def __init__(self, context: EngineContext) -> None:
        self._context = context
        self._walked: dict[tuple[object, ...], Ended] = {}
        """Up to where nothing is left, by a step's scope: an hourly run only reads an hour."""

    async def prune(self, seconds: float | None = None) -> Tally:
        """Delete expired data; stop after `seconds` (None: no limit) and leave the rest for later.

        Raises:
            PrefectUnavailable: jobs and flow runs wait until Prefect answers.
        """
        until = None if seconds is None else time.monotonic() + seconds
        tally = Tally()
        steps = await self._steps()
        for step in steps:
            with apart(f"retention of {step.kind}"):
                await self._take(step, tally, until)
            if not tally.is_complete:
                return tally
        scopes = {step.scope for step in steps}
        self._walked = {scope: row for scope, row in self._walked.items() if scope in scopes}
        tally.counts[Kind.RUNS, None] += await self._prune_runs(until)
        tally.is_complete = until is None or time.monotonic() <= until
        return tally

    async def _take(self, step: Step, tally: Tally, until: float | None) -> None:
        nothing_left = True
        async for batch in self._batches(step, self._walked.get(step.scope)):
            began = time.monotonic()
            stays = await by_halves(
                batch,
                partial(self._remove, step),
                lambda row: f"retention of {step.kind}: number {row.id}",
            )
            kept = {row.id for row in stays}
            tally.counts.update((step.kind, row.company_id) for row in batch if row.id not in kept)
            nothing_left &= not stays
            if step.kind is Kind.OUTPUT and nothing_left:
                self._walked[step.scope] = batch[-1]
            if until is not None and time.monotonic() > until:
                tally.is_complete = False
                return
            # Pause as long as the work took, to leave room for others.
            await asyncio.sleep(max(SHORTEST_PAUSE, time.monotonic() - began))

    async def preview(self) -> Tally:
        """Count what would be deleted.

        Raises:
            PrefectUnavailable: its flow runs can't be counted.
        """
        tally = Tally()
        seen: set[tuple[Kind, int]] = set()  # a job may exceed both the age and the number
        for step in await self._steps():
            async for batch in self._batches(step):
                new = [row for row in batch if (step.kind, row.id) not in seen]
                seen.update((step.kind, row.id) for row in new)
                tally.counts.update((step.kind, row.company_id) for row in new)
        now = self._context.ledger.clock()
        for kept in await self._context.read(kept_runs, self._context.settings):
            for wanted in _filters(kept, now):
                body = {"flow_runs": wanted}
                tally.counts[Kind.RUNS, None] += await self._context.prefect.post(
                    "/flow_runs/count", body
                )
        return tally

    async def _steps(self) -> list[Step]:
        context = self._context
        return await context.read(steps_of, context.settings, context.ledger.clock())

    async def _batches(
        self, step: Step, after: Ended | None = None
    ) -> AsyncIterator[Sequence[Ended]]:
        while batch := await self._context.read(step.page, after, BATCH):
            yield batch
            after = batch[-1]

    async def _remove(self, step: Step, batch: Sequence[Ended]) -> None:
        if step.kind is Kind.JOBS:
            runs = await self._context.read(runs_only_of, batch)
            for start in range(0, len(runs), RUNS_AT_ONCE):
                chosen = [str(run) for run in runs[start : start + RUNS_AT_ONCE]]
                await self._delete_runs({"id": {"any_": chosen}})
        left = batch
        while left:
            left = await self._context.write(step.remove, left)
            await asyncio.sleep(SHORTEST_PAUSE)

    async def _prune_runs(self, until: float | None) -> int:
        """Delete flow runs that ended long ago, including those without a job; return how many."""
        gone = 0
        now = self._context.ledger.clock()
        for kept in await self._context.read(kept_runs, self._context.settings):
            for wanted in _filters(kept, now):
                with apart(f"retention of flow runs after {kept.days} days"):
                    stay: list[str] = []
                    while deleted := await self._delete_next_runs(wanted, stay):
                        gone += deleted
                        if until is not None and time.monotonic() > until:
                            return gone
                        await asyncio.sleep(SHORTEST_PAUSE)
        return gone

    async def _delete_next_runs(self, wanted: Mapping[str, Any], stay: list[str]) -> int:
        """Delete some flow runs except those in `stay`; add to `stay` what can't be deleted.

        Return 0 if nothing is left, or Prefect deletes none of them.
        """
        following = {**wanted, "id": {"not_any_": stay}}
        try:
            return await self._delete_runs(following)
        except (Conflict, Forbidden, PrefectFailed):
            body = {"flow_runs": following, "limit": RUNS_AT_ONCE}
            runs = await self._context.prefect.post("/flow_runs/filter", body)
        ids = [run["id"] for run in runs]
        held = await by_halves(
            ids,
            lambda some: self._delete_runs({"id": {"any_": some}}),
            lambda run: f"retention of flow run {run}",
        )
        stay += held
        return len(ids) - len(held)

    async def _delete_runs(self, wanted: Mapping[str, Any]) -> int:
        body = {"flow_runs": wanted, "limit": RUNS_AT_ONCE}
        answer = await self._context.prefect.post("/flow_runs/bulk_delete", body)
        return len(answer["deleted"])


def _filters(kept: KeptRuns, now: datetime) -> list[dict[str, Any]]:
    """Return Prefect filters for the expired flow runs."""
    before = (now - timedelta(days=kept.days)).isoformat()
    deployments = [str(deployment) for deployment in kept.deployments]
    return [
        {
            "deployment_id": {"any_": deployments[start : start + DEPLOYMENTS_AT_ONCE]},
            "end_time": {"before_": before},
            "state": {"type": {"any_": ENDED}},
        }
        for start in range(0, len(deployments), DEPLOYMENTS_AT_ONCE)
    ]
