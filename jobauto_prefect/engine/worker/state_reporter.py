"""The state reporter: shows job states in Prefect, however long Prefect is away."""

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from dataclasses import dataclass, replace
from typing import Any
from uuid import UUID, uuid4

from jobauto_prefect.engine.api import PrefectApi
from jobauto_prefect.engine.flow_runs import (
    Proposal,
    Verdict,
    add_labels,
    add_page,
    change_appearance,
    name_run,
    propose,
    set_state,
)
from jobauto_prefect.errors import JobautoError, NotFound
from jobauto_prefect.jobs.appearance import RunAppearance, is_window_name
from jobauto_prefect.retries import retry_until_available
from jobauto_prefect.runtime.protocol import Launch, RunStatus

logger = logging.getLogger(__name__)

MOST_WAITING = 10_000  # runs whose looks wait; beyond that the oldest go without

PLAIN_SUCCESS = {"jobauto.exit_code": 0, "jobauto.severity": "success"}.items()
"""What the labels of nearly all runs would say."""


async def propose_running(api: PrefectApi, flow_run_id: UUID) -> Proposal | None:
    """Propose Running until Prefect decides, however long that takes; None: the run is gone."""
    transition_id = uuid4()
    while True:
        try:
            answer = await retry_until_available(
                propose, api, flow_run_id, "RUNNING", transition_id=transition_id
            )
        except NotFound:
            return None
        if answer.verdict is not Verdict.WAIT:
            return answer
        await asyncio.sleep(answer.wait_seconds)  # the clocks differ


async def _at_once() -> None:
    """Return at once."""


def appearance_at_start(
    looks: RunAppearance, labels: Mapping[str, Any], launch: Launch
) -> RunAppearance:
    """Return how a run looks as its job begins: named like it, without a former job's marks."""
    plain = looks.ended(with_warning=False)
    if labels.get("jobauto.job") == launch.job_id or is_window_name(plain.name, launch.title):
        return plain
    return replace(plain, name=launch.title)


@dataclass(frozen=True, slots=True)
class RunMetadata:
    """What a flow run bears before its end; without an appearance its name and tags stay."""

    labels: Mapping[str, Any]
    appearance: RunAppearance | None = None


@dataclass(frozen=True, slots=True)
class MetadataChange:
    """What a flow run is to bear after its end, beside what it bears."""

    flow_run_id: UUID
    labels: Mapping[str, str | int]
    appearance: RunAppearance | None


def metadata_change(
    flow_run_id: UUID, run_status: RunStatus, borne: RunMetadata
) -> MetadataChange | None:
    """Return what a run status changes of what a run bears; None: nothing that is worth a call."""
    missing = {
        name: value for name, value in run_status.labels.items() if borne.labels.get(name) != value
    }
    if not missing.items() - PLAIN_SUCCESS:  # its state says all there is
        missing = {}
    before, after = borne.appearance, None
    if before is not None and run_status.tells_end:
        after = before.ended(with_warning=run_status.has_warning)
    changed = after if after != before else None
    return MetadataChange(flow_run_id, missing, changed) if missing or changed else None


class StateReporter:
    """Shows run statuses in Prefect: the state at once, the rest in the background.

    Finishes are written one after the other, each when `calm` returns: a write that only makes
    runs easier to find must not hold up the start of another one.
    """

    def __init__(self, api: PrefectApi, calm: Callable[[], Awaitable[None]] = _at_once) -> None:
        self._api = api
        self._calm = calm
        self._background: set[asyncio.Task[None]] = set()
        self._waiting: deque[MetadataChange] = deque(maxlen=MOST_WAITING)
        self._finishing = False

    async def report(self, flow_run_id: UUID, run_status: RunStatus, borne: RunMetadata) -> None:
        """Report the state, until Prefect has it; the rest soon."""
        await retry_until_available(set_state, self._api, flow_run_id, run_status)
        self.attach_metadata(flow_run_id, run_status, borne)

    def attach_metadata(self, flow_run_id: UUID, run_status: RunStatus, borne: RunMetadata) -> None:
        """Change the run to look as its status says, and add its page, soon."""
        finish = metadata_change(flow_run_id, run_status, borne)
        if finish is not None:
            self._waiting.append(finish)
            if not self._finishing:
                self._finishing = True
                self._start(self._finish_all())
        if run_status.artifact_markdown:
            self._start(add_page(self._api, flow_run_id, run_status))

    def show_start(self, flow_run_id: UUID, before: RunAppearance, after: RunAppearance) -> None:
        """Change a run that begins to look so, soon; drop what an earlier end was to change."""
        kept = [finish for finish in self._waiting if finish.flow_run_id != flow_run_id]
        self._waiting = deque(kept, maxlen=MOST_WAITING)
        if after.tags != before.tags:
            self._start(change_appearance(self._api, flow_run_id, after))
        elif after.name != before.name:
            self._start(name_run(self._api, flow_run_id, after.name))

    async def _finish_all(self) -> None:
        try:
            while self._waiting:
                await self._calm()
                if self._waiting:
                    await self._finish(self._waiting.popleft())
        finally:
            self._finishing = False

    async def _finish(self, finish: MetadataChange) -> None:
        if finish.appearance is not None:
            await _quietly(change_appearance(self._api, finish.flow_run_id, finish.appearance))
        if finish.labels:
            await _quietly(add_labels(self._api, finish.flow_run_id, finish.labels))

    async def wait_until_idle(self) -> None:
        """Return when nothing is going on in the background."""
        while self._background:
            await asyncio.wait(set(self._background))

    def _start(self, telling: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(_quietly(telling))
        self._background.add(task)
        task.add_done_callback(self._background.discard)


async def _quietly(telling: Coroutine[Any, Any, None]) -> None:
    """Try once what only makes Prefect's pages nicer; log a failure."""
    try:
        await telling
    except JobautoError as error:
        logger.warning("Prefect's page of a flow run is not complete: %s", error)
