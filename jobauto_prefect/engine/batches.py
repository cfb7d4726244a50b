"""Calls of a kind, one at a time; what is asked for meanwhile is carried out together."""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Hashable, Sequence
from functools import partial
from typing import Any, TypeVar

Item = TypeVar("Item")
Answer = TypeVar("Answer")

MOST_TOGETHER = 20
"""Items of one call: with more of them a call costs Prefect hardly less for each, and the first
waits longer."""


class Batches:
    """Makes calls of many kinds, `calls_at_once` of all of them at the same time.

    Nothing waits for a batch to fill: an item goes at once, alone, unless a call of its kind is
    under way.
    """

    def __init__(self, calls_at_once: int) -> None:
        self._slots = asyncio.Semaphore(calls_at_once)
        self._waiting: dict[Hashable, deque[tuple[Any, asyncio.Future[Any]]]] = {}
        self._working: set[asyncio.Task[None]] = set()

    async def join(
        self,
        kind: Hashable,
        item: Item,
        carry: Callable[[Sequence[Item]], Awaitable[Sequence[Answer | BaseException]]],
    ) -> Answer:
        """Have an item carried out with those of its kind that wait, and return its own answer.

        `carry`, the same for all of a kind, returns an answer for each item. What it returns as an
        exception is raised here, and so is what it raises, for all of them.
        """
        answer = asyncio.get_running_loop().create_future()
        if kind in self._waiting:
            self._waiting[kind].append((item, answer))
        else:
            self._waiting[kind] = deque([(item, answer)])
            working = asyncio.create_task(self._carry_all(kind, carry))
            self._working.add(working)
            working.add_done_callback(self._working.discard)
        result: Answer = await answer
        return result

    async def _carry_all(
        self, kind: Hashable, carry: Callable[[Sequence[Any]], Awaitable[Sequence[Any]]]
    ) -> None:
        waiting = self._waiting[kind]
        try:
            while waiting:
                async with self._slots:
                    count = min(len(waiting), MOST_TOGETHER)
                    batch = [waiting.popleft() for _ in range(count)]
                    await _carry_batch([each for each in batch if not each[1].done()], carry)
        finally:
            del self._waiting[kind]


async def _carry_batch(
    batch: Sequence[tuple[Any, asyncio.Future[Any]]],
    carry: Callable[[Sequence[Any]], Awaitable[Sequence[Any]]],
) -> None:
    """Make one call, and give each item its answer; a call that nobody waits for any more ends."""
    if not batch:
        return
    answers = [answer for _, answer in batch]
    call = asyncio.ensure_future(carry([item for item, _ in batch]))  # noqa: RUF006 - awaited below
    for answer in answers:
        answer.add_done_callback(partial(_end_unwanted, answers, call))
    await asyncio.wait({call})
    if call.cancelled():
        return
    error = call.exception()
    results = [error] * len(batch) if error else call.result()
    for answer, result in zip(answers, results, strict=True):
        if answer.done():
            continue
        if isinstance(result, BaseException):
            answer.set_exception(result)
        else:
            answer.set_result(result)


def _end_unwanted(
    answers: Sequence[asyncio.Future[Any]], call: asyncio.Future[Any], _: asyncio.Future[Any]
) -> None:
    if all(answer.cancelled() for answer in answers):
        call.cancel()
