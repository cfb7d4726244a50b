"""What is told to Prefect in the background, and when."""

import asyncio
from uuid import UUID

import httpx

from jobauto_prefect.engine.api import PrefectApi
from jobauto_prefect.engine.show import Shower
from jobauto_prefect.runtime.protocol import PrefectState, Story

RUN, OTHER = UUID(int=1), UUID(int=2)
STORY = Story(
    state=PrefectState.FAILED,
    message="exit code 7 (error)",
    labels={"jobauto.job": 5, "jobauto.exit_code": 7, "jobauto.severity": "error"},
)


class Line(httpx.AsyncBaseTransport):
    """A line whose other end takes everything; it knows how many calls were open at once."""

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.most_at_once = self._open = 0

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        self._open += 1
        self.most_at_once = max(self.most_at_once, self._open)
        await asyncio.sleep(0)
        self._open -= 1
        self.calls.append(request.url.path)
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
        shower = Shower(api, until_calm)
        shower.decorate(RUN, STORY, {})
        await settle()
        assert line.calls == []
        calm.set()
        await shower.finished()
    assert line.calls == [f"/api/flow_runs/{RUN}/labels"]


async def test_labels_are_written_one_after_the_other_and_only_what_is_missing() -> None:
    line = Line()
    async with PrefectApi("http://prefect/api", transport=line) as api:
        shower = Shower(api)
        shower.decorate(RUN, STORY, {"jobauto.job": 5})
        shower.decorate(OTHER, STORY, {})
        shower.decorate(UUID(int=3), STORY, STORY.labels)
        await shower.finished()
        assert line.calls == [f"/api/flow_runs/{run}/labels" for run in (RUN, OTHER)]
        shower.decorate(OTHER, STORY, {})  # the writer has come to its end, and begins anew
        await shower.finished()
    assert len(line.calls) == 3
    assert line.most_at_once == 1


async def test_a_plain_success_of_a_run_that_bears_its_labels_costs_no_call() -> None:
    line = Line()
    made = {"jobauto.job": 5, "jobauto.attempt": 1}
    labels = {**made, "jobauto.exit_code": 0, "jobauto.severity": "success"}
    async with PrefectApi("http://prefect/api", transport=line) as api:
        shower = Shower(api)
        shower.decorate(RUN, STORY.model_copy(update={"labels": labels}), made)
        await shower.finished()
        assert line.calls == []
        shower.decorate(OTHER, STORY.model_copy(update={"labels": labels}), {})
        await shower.finished()
    assert line.calls == [f"/api/flow_runs/{OTHER}/labels"]
