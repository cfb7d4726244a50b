"""The state reporter: shows job states in Prefect, across any outage of Prefect."""

import asyncio
import contextlib
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any
from uuid import UUID, uuid4

from jobauto_prefect.engine.api import LIMITS, PrefectApi
from jobauto_prefect.engine.batches import Batches
from jobauto_prefect.engine.flow_runs import (
    Proposal,
    Verdict,
    add_labels,
    add_page,
    change_appearance,
    insist,
    name_run,
    propose,
    propose_together,
    read_states,
    set_state,
)
from jobauto_prefect.errors import Forbidden, JobautoError, NotFound, Unavailable
from jobauto_prefect.jobs.appearance import RunAppearance, is_window_name
from jobauto_prefect.retries import retry_until_available
from jobauto_prefect.runtime.protocol import Launch, PrefectState, RunStatus

logger = logging.getLogger(__name__)

MOST_WAITING = 10_000  # metadata changes; beyond that the oldest are dropped

PLAIN_SUCCESS = {"jobauto.exit_code": 0, "jobauto.severity": "success"}.items()
"""Labels that nearly all runs would have."""


FRESH_SECONDS = 5.0
"""An end that waited longer goes alone, with its own transition id. All who may report the end use
that id, and the reconciler begins to after 10 s."""


@dataclass(frozen=True, slots=True)
class _Waiting:
    """A proposal waiting for a batch; `transition_id` is the one to use outside a batch."""

    flow_run_id: UUID
    transition_id: UUID
    since: float


@dataclass(frozen=True, slots=True)
class _Proposed:
    """Prefect's answer to a proposed state; None: propose it singly with the same transition id."""

    answer: Proposal | None
    transition_id: UUID


class StateProposals:
    """Proposes states until Prefect decides, however long that takes.

    Proposals that arrive while a call for the same state is in flight are batched into the next
    one. A batch has one transition id: a later single proposal for one of its runs must reuse it;
    otherwise an accepted state would be set twice.
    """

    def __init__(self, api: PrefectApi) -> None:
        self._api = api
        self._batches = Batches(LIMITS.max_connections or 1)
        self._goes_together = True

    async def propose(
        self, flow_run_id: UUID, state: str, message: str = "", transition_id: UUID | None = None
    ) -> Proposal:
        """Propose a state; `transition_id` is used if it is proposed singly.

        Raises:
            NotFound: the flow run is gone.
        """
        own_id = transition_id or uuid4()
        proposed = _Proposed(None, own_id)
        if self._goes_together:
            proposed = await self._batches.join(
                (state, message),
                _Waiting(flow_run_id, own_id, asyncio.get_running_loop().time()),
                partial(self._propose_all, state, message),
            )
        while (answer := proposed.answer) is None or answer.verdict is Verdict.WAIT:
            await asyncio.sleep(answer.wait_seconds if answer else 0)  # for clocks that differ
            proposed = await self._propose(state, message, flow_run_id, proposed.transition_id)
        return answer

    async def _propose_all(
        self, state: str, message: str, waiting: Sequence[_Waiting]
    ) -> list[_Proposed]:
        if len(waiting) == 1:
            alone = waiting[0]
            return [await self._propose(state, message, alone.flow_run_id, alone.transition_id)]
        since, transition_id = asyncio.get_running_loop().time() - FRESH_SECONDS, uuid4()
        together = [
            each.flow_run_id
            for each in waiting
            if each.since > since or state != PrefectState.COMPLETED
        ]
        decided: Mapping[UUID, Proposal] = {}
        try:
            decided = await self._propose_together(state, message, together, transition_id)
        except (Forbidden, NotFound) as error:
            logger.info("reporting states to Prefect one by one: %s", error)
            self._goes_together = False  # an older gateway, or Prefect lacks the routes
        except JobautoError as error:
            logger.info("setting flow runs to %s one by one: %s", state, error)
        return [
            _Proposed(
                decided.get(each.flow_run_id),
                transition_id if each.flow_run_id in together else each.transition_id,
            )
            for each in waiting
        ]

    async def _propose_together(
        self, state: str, message: str, runs: Sequence[UUID], transition_id: UUID
    ) -> dict[UUID, Proposal]:
        """Repeat the same call until it is answered: a lost one may have been accepted.

        Ends that others reported meanwhile, with another transition id, are not reported again.
        """
        ask = partial(propose_together, self._api, state=state, message=message)
        ended: dict[UUID, Proposal] = {}

        async def ask_again() -> dict[UUID, Proposal]:
            if state == PrefectState.COMPLETED:
                shown = await read_states(self._api, runs)
                completed = [run for run in runs if shown.get(run) == state]
                ended.update(dict.fromkeys(completed, Proposal(Verdict.ACCEPT, state)))
            others = [run for run in runs if run not in ended]
            return ended | await ask(others, transition_id=transition_id)

        try:
            return await ask(runs, transition_id=transition_id)
        except Unavailable as error:
            logger.debug("can't tell which of %d flow runs are %s: %s", len(runs), state, error)
        return await retry_until_available(ask_again)

    async def _propose(
        self, state: str, message: str, flow_run_id: UUID, transition_id: UUID
    ) -> _Proposed:
        answer = await retry_until_available(
            propose, self._api, flow_run_id, state, message, transition_id=transition_id
        )
        return _Proposed(answer, transition_id)


async def _at_once() -> None:
    """Return at once."""


def appearance_at_start(
    looks: RunAppearance, labels: Mapping[str, Any], launch: Launch
) -> RunAppearance:
    """Return a run's appearance at the start: its job's name, no marks of a former job."""
    plain = looks.ended(with_warning=False)
    if labels.get("jobauto.job") == launch.job_id or is_window_name(plain.name, launch.title):
        return plain
    return replace(plain, name=launch.title)


@dataclass(frozen=True, slots=True)
class RunMetadata:
    """A flow run's metadata before its end; without an appearance name and tags stay unchanged."""

    labels: Mapping[str, Any]
    appearance: RunAppearance | None = None


@dataclass(frozen=True, slots=True)
class MetadataChange:
    """The metadata to set on a flow run after its end."""

    flow_run_id: UUID
    labels: Mapping[str, str | int]
    appearance: RunAppearance | None


def metadata_change(
    flow_run_id: UUID, run_status: RunStatus, borne: RunMetadata
) -> MetadataChange | None:
    """Return the metadata that a run status changes; None if the change is not worth a call."""
    missing = {
        name: value for name, value in run_status.labels.items() if borne.labels.get(name) != value
    }
    if not missing.items() - PLAIN_SUCCESS:  # the state says it all
        missing = {}
    before, after = borne.appearance, None
    if before is not None and run_status.tells_end:
        after = before.ended(with_warning=run_status.has_warning)
    changed = after if after != before else None
    return MetadataChange(flow_run_id, missing, changed) if missing or changed else None


class StateReporter:
    """Shows run statuses in Prefect: the state at once, the rest in the background.

    Metadata is written one run after the other, each when `calm` returns: a write that only makes
    runs easier to find must not delay the start of another run.
    """

    def __init__(self, api: PrefectApi, calm: Callable[[], Awaitable[None]] = _at_once) -> None:
        self._api = api
        self._proposals = StateProposals(api)
        self._calm = calm
        self._background: set[asyncio.Task[None]] = set()
        self._waiting: deque[MetadataChange] = deque(maxlen=MOST_WAITING)
        self._finishing = False

    async def report(self, flow_run_id: UUID, run_status: RunStatus, borne: RunMetadata) -> None:
        """Report the state until Prefect has it; show the rest in the background."""
        if run_status.state is PrefectState.COMPLETED:
            with contextlib.suppress(NotFound):
                answer = await self._proposals.propose(
                    flow_run_id, run_status.state, run_status.message, run_status.transition_id
                )
                await retry_until_available(insist, self._api, flow_run_id, run_status, answer)
        else:
            await retry_until_available(set_state, self._api, flow_run_id, run_status)
        self.attach_metadata(flow_run_id, run_status, borne)

    async def propose_running(self, flow_run_id: UUID) -> Proposal | None:
        """Propose Running until Prefect decides; None if the run is gone."""
        try:
            return await self._proposals.propose(flow_run_id, "RUNNING")
        except NotFound:
            return None

    def attach_metadata(self, flow_run_id: UUID, run_status: RunStatus, borne: RunMetadata) -> None:
        """Update the run's appearance and add its page, in the background."""
        finish = metadata_change(flow_run_id, run_status, borne)
        if finish is not None:
            self._waiting.append(finish)
            if not self._finishing:
                self._finishing = True
                self._start(self._finish_all())
        if run_status.artifact_markdown:
            self._start(add_page(self._api, flow_run_id, run_status))

    def show_start(self, flow_run_id: UUID, before: RunAppearance, after: RunAppearance) -> None:
        """Update a starting run's appearance in the background; drop changes of an earlier end."""
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
                    finish = self._waiting.popleft()
                    if finish.appearance is not None:
                        await _quietly(
                            change_appearance(self._api, finish.flow_run_id, finish.appearance)
                        )
                    if finish.labels:
                        await _quietly(add_labels(self._api, finish.flow_run_id, finish.labels))
        finally:
            self._finishing = False

    async def wait_until_idle(self) -> None:
        """Return when no background updates are left."""
        while self._background:
            await asyncio.wait(set(self._background))

    def _start(self, telling: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(_quietly(telling))
        self._background.add(task)
        task.add_done_callback(self._background.discard)


async def _quietly(telling: Coroutine[Any, Any, None]) -> None:
    """Try once, log a failure: this only improves Prefect's pages."""
    try:
        await telling
    except JobautoError as error:
        logger.warning("Prefect's page of a flow run is incomplete: %s", error)
