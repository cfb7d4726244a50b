"""Calls of one kind, one at a time; items that arrive meanwhile are batched into the next call."""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Hashable, Sequence
from typing import Any, TypeVar

from jobauto_prefect.jobs.isolation import CONCERNS_ALL

Item = TypeVar("Item")
Answer = TypeVar("Answer")

MOST_TOGETHER = 20
"""Items per call: beyond this a call hardly gets cheaper per item, and the first item waits longer.
"""


class Batches:
    """Makes calls of many kinds, at most `calls_at_once` of them concurrently.

    An item never waits for a batch to fill: it goes at once, alone, unless a call of its kind is in
    flight.
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
        """Process an item together with waiting items of its kind, and return its own answer.

        `carry`, the same for all of a kind, returns an answer for each item. An exception it
        returns for an item is raised here; one it raises is raised for all items.
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
    """Make one call and give each item its answer; cancel it when nobody waits for it any more."""
    if not batch:
        return
    answers = [answer for _, answer in batch]
    call = asyncio.ensure_future(carry([item for item, _ in batch]))  # noqa: RUF006 - awaited below

    def end_unwanted(_answer: asyncio.Future[Any]) -> None:
        if all(answer.cancelled() for answer in answers):
            call.cancel()

    for answer in answers:
        answer.add_done_callback(end_unwanted)
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


async def together_or_apart(
    work: Callable[[Sequence[Item]], Awaitable[Sequence[Answer]]], items: Sequence[Item]
) -> Sequence[Answer | BaseException]:
    """Return the answer for each item, from one call; if that fails, from one call for each.

    So no item fails because of another one; the answer for one that fails alone is its error.

    Raises:
        JobautoError: an error that concerns all items.
    """
    try:
        return await work(items)
    except CONCERNS_ALL:
        raise
    except Exception:
        if len(items) == 1:
            raise

    async def alone(item: Item) -> Answer:
        (answer,) = await work([item])
        return answer

    return await asyncio.gather(*map(alone, items), return_exceptions=True)
