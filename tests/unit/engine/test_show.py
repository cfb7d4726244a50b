"""What is told to Prefect in the background, and when."""

import asyncio
import json
from typing import Any
from uuid import UUID

import httpx

from jobauto_prefect.engine.api import PrefectApi
from jobauto_prefect.engine.worker.state_reporter import (
    RunMetadata,
    StateReporter,
    appearance_at_start,
)
from jobauto_prefect.jobs.appearance import RunAppearance
from jobauto_prefect.runtime.protocol import Launch, PrefectState, RunStatus

RUN, OTHER = UUID(int=1), UUID(int=2)
STORY = RunStatus(
    state=PrefectState.FAILED,
    message="exit code 7 (error)",
    labels={"jobauto.job": 5, "jobauto.exit_code": 7, "jobauto.severity": "error"},
)


class Line(httpx.AsyncBaseTransport):
    """A line whose other end takes everything; it knows how many calls were open at once."""

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.bodies: list[Any] = []
        self.most_at_once = self._open = 0

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        self._open += 1
        self.most_at_once = max(self.most_at_once, self._open)
        await asyncio.sleep(0)
        self._open -= 1
        self.calls.append(request.url.path)
        self.bodies.append(json.loads(request.content))
        return httpx.Response(204)


async def settle() -> None:
    """Let everything happen that does not wait for anything."""
    for _ in range(50):
        await asyncio.sleep(0)


async def test_labels_wait_until_nothing_is_about_to_start() -> None:
    line, calm = Line(), asyncio.Event()

    async def until_calm() -> None:
        await calm.wait()

    async with PrefectApi("http://prefect/api", transport=line) as api:
        shower = StateReporter(api, until_calm)
        shower.attach_metadata(RUN, STORY, RunMetadata({}))
        await settle()
        assert line.calls == []
        calm.set()
        await shower.wait_until_idle()
    assert line.calls == [f"/api/flow_runs/{RUN}/labels"]


async def test_labels_are_written_one_after_the_other_and_only_what_is_missing() -> None:
    line = Line()
    async with PrefectApi("http://prefect/api", transport=line) as api:
        shower = StateReporter(api)
        shower.attach_metadata(RUN, STORY, RunMetadata({"jobauto.job": 5}))
        shower.attach_metadata(OTHER, STORY, RunMetadata({}))
        shower.attach_metadata(UUID(int=3), STORY, RunMetadata(STORY.labels))
        await shower.wait_until_idle()
        assert line.calls == [f"/api/flow_runs/{run}/labels" for run in (RUN, OTHER)]
        shower.attach_metadata(
            OTHER, STORY, RunMetadata({})
        )  # the writer has come to its end, and begins anew
        await shower.wait_until_idle()
    assert len(line.calls) == 3
    assert line.most_at_once == 1


async def test_a_plain_success_of_a_run_that_bears_its_labels_costs_no_call() -> None:
    line = Line()
    made = {"jobauto.job": 5, "jobauto.attempt": 1}
    labels = {**made, "jobauto.exit_code": 0, "jobauto.severity": "success"}
    async with PrefectApi("http://prefect/api", transport=line) as api:
        shower = StateReporter(api)
        shower.attach_metadata(RUN, STORY.model_copy(update={"labels": labels}), RunMetadata(made))
        await shower.wait_until_idle()
        assert line.calls == []
        shower.attach_metadata(OTHER, STORY.model_copy(update={"labels": labels}), RunMetadata({}))
        await shower.wait_until_idle()
    assert line.calls == [f"/api/flow_runs/{OTHER}/labels"]


WARNING = RunStatus(
    state=PrefectState.COMPLETED,
    message="exit code 2 (warning)",
    labels={"jobauto.job": 5, "jobauto.severity": "warning"},
)
SUCCESS = WARNING.model_copy(update={"labels": {"jobauto.job": 5, "jobauto.severity": "success"}})
PLAIN = RunAppearance("Acme / t #5", ("company:acme", "mine"))
MARKED = RunAppearance("Acme / t #5 (warning)", ("company:acme", "mine", "severity:warning"))


async def told(*ends: tuple[RunStatus, RunAppearance | None]) -> list[Any]:
    """What Prefect is told of names and tags, as one run ends again and again."""
    line = Line()
    async with PrefectApi("http://prefect/api", transport=line) as api:
        shower = StateReporter(api)
        for story, looks in ends:
            shower.attach_metadata(RUN, story, RunMetadata(story.labels, looks))
        await shower.wait_until_idle()
    assert line.calls == [f"/api/flow_runs/{RUN}"] * len(line.calls)
    return line.bodies


async def test_a_warning_is_one_call_with_name_and_all_tags_and_other_ends_are_none() -> None:
    marked = {"name": MARKED.name, "tags": list(MARKED.tags)}
    assert await told((WARNING, PLAIN)) == [marked]
    assert await told((SUCCESS, PLAIN), (STORY, PLAIN)) == []
    assert await told((WARNING, MARKED)) == []
    assert await told((SUCCESS, MARKED)) == [{"name": PLAIN.name, "tags": list(PLAIN.tags)}]


async def test_a_refusal_leaves_what_the_end_before_it_set() -> None:
    refusal = RunStatus(state=PrefectState.COMPLETED, message="its task has ended")
    assert await told((refusal, MARKED), (WARNING, None)) == []


async def test_a_run_that_begins_again_loses_its_mark_also_one_that_still_waits() -> None:
    line, calm = Line(), asyncio.Event()

    async def until_calm() -> None:
        await calm.wait()

    async with PrefectApi("http://prefect/api", transport=line) as api:
        shower = StateReporter(api, until_calm)
        shower.attach_metadata(RUN, WARNING, RunMetadata(WARNING.labels, PLAIN))
        await settle()
        shower.show_start(RUN, MARKED, PLAIN)
        calm.set()
        await shower.wait_until_idle()
    assert line.bodies == [{"name": PLAIN.name, "tags": list(PLAIN.tags)}]


def launch(title: str) -> Launch:
    return Launch.model_construct(job_id=5, title=title)


def test_a_run_begins_under_the_name_of_its_job_and_one_of_a_window_keeps_its_name() -> None:
    window = RunAppearance("Acme / t 2027-03-28 02:30 (warning)", MARKED.tags)
    begun = appearance_at_start(window, {}, launch("Acme / t #5 (task 1, attempt 2)"))
    assert begun == RunAppearance("Acme / t 2027-03-28 02:30", PLAIN.tags)
    assert appearance_at_start(MARKED, {"jobauto.job": 4}, launch("Acme / t #5")) == PLAIN
    assert appearance_at_start(
        RunAppearance("mine"), {"jobauto.job": 5}, launch("x")
    ) == RunAppearance("mine")
