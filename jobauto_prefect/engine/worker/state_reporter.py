"""The state reporter: shows job states in Prefect, however long Prefect is away."""

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

MOST_WAITING = 10_000  # runs whose looks wait; beyond that the oldest go without

PLAIN_SUCCESS = {"jobauto.exit_code": 0, "jobauto.severity": "success"}.items()
"""What the labels of nearly all runs would say."""


FRESH_SECONDS = 5.0
"""An end that waits longer goes alone, by its own transition id, which is everybody's who may tell
it: the reconciler begins to after 10 s."""


@dataclass(frozen=True, slots=True)
class _Waiting:
    """A proposal that waits to go with others; `transition_id` is its own, for when it is alone."""

    flow_run_id: UUID
    transition_id: UUID
    since: float


@dataclass(frozen=True, slots=True)
class _Proposed:
    """What Prefect answered to a proposed state; None: it has to be asked alone, by the same id."""

    answer: Proposal | None
    transition_id: UUID


class StateProposals:
    """Proposes states until Prefect decides, however long that takes.

    What waits while a call for the same state is under way goes with the next one. All that go
    together have one transition id: whoever asks for one of them alone afterwards has to repeat
    it, or a state that was taken is taken again.
    """

    def __init__(self, api: PrefectApi) -> None:
        self._api = api
        self._batches = Batches(LIMITS.max_connections or 1)
        self._goes_together = True

    async def propose(
        self, flow_run_id: UUID, state: str, message: str = "", transition_id: UUID | None = None
    ) -> Proposal:
        """Propose a state; `transition_id` is that of a proposal that is alone.

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
            await asyncio.sleep(answer.wait_seconds if answer else 0)  # the clocks differ
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
            logger.info("states go to Prefect one by one: %s", error)
            self._goes_together = False  # an older gateway, or none of these routes
        except JobautoError as error:
            logger.info("flow runs become %s one by one: %s", state, error)
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
        """Make the same call until there is an answer: what was lost may have been taken.

        What others have told meanwhile, by an id of their own, is not told again.
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
            logger.debug("what of %d flow runs is %s is unknown: %s", len(runs), state, error)
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
        self._proposals = StateProposals(api)
        self._calm = calm
        self._background: set[asyncio.Task[None]] = set()
        self._waiting: deque[MetadataChange] = deque(maxlen=MOST_WAITING)
        self._finishing = False

    async def report(self, flow_run_id: UUID, run_status: RunStatus, borne: RunMetadata) -> None:
        """Report the state, until Prefect has it; the rest soon."""
        if run_status.state is PrefectState.COMPLETED:
            await self._report_completed(flow_run_id, run_status)
        else:
            await retry_until_available(set_state, self._api, flow_run_id, run_status)
        self.attach_metadata(flow_run_id, run_status, borne)

    async def propose_running(self, flow_run_id: UUID) -> Proposal | None:
        """Propose Running until Prefect decides; None: the run is gone."""
        try:
            return await self._proposals.propose(flow_run_id, "RUNNING")
        except NotFound:
            return None

    async def _report_completed(self, flow_run_id: UUID, run_status: RunStatus) -> None:
        with contextlib.suppress(NotFound):
            answer = await self._proposals.propose(
                flow_run_id, run_status.state, run_status.message, run_status.transition_id
            )
            await retry_until_available(insist, self._api, flow_run_id, run_status, answer)

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
