"""Telling Prefect about flow runs, however long it is away."""

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from typing import Any, ParamSpec, TypeVar
from uuid import UUID, uuid4

from jobauto_prefect.engine.api import PrefectApi
from jobauto_prefect.engine.runs import Answer, Verdict, add_page, name_run, propose, set_state
from jobauto_prefect.errors import JobautoError, NotFound, PrefectUnavailable
from jobauto_prefect.runtime.protocol import Story

logger = logging.getLogger(__name__)

FIRST_PAUSE_SECONDS = 0.1
LONGEST_PAUSE_SECONDS = 5.0

MOST_UNLABELLED = 10_000  # runs whose labels wait; beyond that the oldest go without

PLAIN_SUCCESS = {"jobauto.exit_code": 0, "jobauto.severity": "success"}.items()
"""What the labels of nearly all runs would say."""

Told = TypeVar("Told")
Asked = ParamSpec("Asked")


async def persist(
    tell: Callable[Asked, Awaitable[Told]], *asked: Asked.args, **named: Asked.kwargs
) -> Told:
    """Tell Prefect until it answers; what it refuses is raised."""
    pause = FIRST_PAUSE_SECONDS
    while True:
        try:
            return await tell(*asked, **named)
        except PrefectUnavailable as error:
            logger.debug("trying again in %.1f s: %s", pause, error)
        await asyncio.sleep(pause)
        pause = min(2 * pause, LONGEST_PAUSE_SECONDS)


async def begin(api: PrefectApi, flow_run_id: UUID) -> Answer | None:
    """Let a flow run be Running, however long that takes; None: it has been deleted."""
    transition_id = uuid4()
    while True:
        try:
            answer = await persist(
                propose, api, flow_run_id, "RUNNING", transition_id=transition_id
            )
        except NotFound:
            return None
        if answer.verdict is not Verdict.WAIT:
            return answer
        await asyncio.sleep(answer.wait_seconds)  # the clocks differ


async def _at_once() -> None:
    """Labels need not wait."""


class Shower:
    """Shows stories in Prefect: the state at once, the rest in the background.

    Labels are written one after the other, each when `calm` returns: a write that only makes runs
    easier to find must not hold up the start of another one.
    """

    def __init__(self, api: PrefectApi, calm: Callable[[], Awaitable[None]] = _at_once) -> None:
        self._api = api
        self._calm = calm
        self._background: set[asyncio.Task[None]] = set()
        self._unlabelled: deque[tuple[UUID, Mapping[str, str | int]]] = deque(
            maxlen=MOST_UNLABELLED
        )
        self._labelling = False

    async def show(self, flow_run_id: UUID, story: Story, labels: Mapping[str, Any]) -> None:
        """The story's state, until Prefect has it; `labels` are those the run has already."""
        await persist(set_state, self._api, flow_run_id, story)
        self.decorate(flow_run_id, story, labels)

    def decorate(self, flow_run_id: UUID, story: Story, labels: Mapping[str, Any]) -> None:
        """Let the run bear the story's labels and its page, soon."""
        self._label(flow_run_id, story, labels)
        if story.artifact_markdown:
            self._start(add_page(self._api, flow_run_id, story))

    def name(self, flow_run_id: UUID, name: str) -> None:
        """Let the run bear this name, soon."""
        self._start(name_run(self._api, flow_run_id, name, {}))

    def _label(self, flow_run_id: UUID, story: Story, labels: Mapping[str, Any]) -> None:
        missing = {name: value for name, value in story.labels.items() if labels.get(name) != value}
        if missing.items() - PLAIN_SUCCESS:  # that costs no call: its state says all there is
            self._unlabelled.append((flow_run_id, missing))
            if not self._labelling:
                self._labelling = True
                self._start(self._write_labels())

    async def _write_labels(self) -> None:
        try:
            while self._unlabelled:
                await self._calm()
                flow_run_id, labels = self._unlabelled.popleft()
                await _quietly(name_run(self._api, flow_run_id, None, labels))
        finally:
            self._labelling = False

    async def finished(self) -> None:
        """Return when nothing is going on in the background."""
        while self._background:
            await asyncio.wait(set(self._background))

    def _start(self, telling: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(_quietly(telling))
        self._background.add(task)
        task.add_done_callback(self._background.discard)


async def _quietly(telling: Coroutine[Any, Any, None]) -> None:
    """What only makes Prefect's pages nicer is tried once."""
    try:
        await telling
    except JobautoError as error:
        logger.warning("Prefect's page of a flow run is not complete: %s", error)
