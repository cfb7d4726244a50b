"""Trying again while something is away: at once, then with pauses that grow."""

import asyncio
import functools
import logging
from collections.abc import Awaitable, Callable, Iterator
from typing import ParamSpec, TypeVar

from jobauto_prefect.errors import PrefectFailed, Unavailable

FIRST_PAUSE_SECONDS = 0.1
LONGEST_PAUSE_SECONDS = 5.0
MOST_FAILURES = 8  # of Prefect on one request, in 16 s, until it is given up

Answer = TypeVar("Answer")
Asked = ParamSpec("Asked")

logger = logging.getLogger(__name__)


def growing_pauses() -> Iterator[float]:
    """Return pauses in seconds without end: each twice as long as the one before, up to a limit."""
    pause = FIRST_PAUSE_SECONDS
    while True:
        yield pause
        pause = min(2 * pause, LONGEST_PAUSE_SECONDS)


async def retry(
    ask: Callable[[], Awaitable[Answer]],
    pause_of: Callable[[Exception, float], float | None],
    patience_seconds: float | None = None,
) -> Answer:
    """Ask until there is an answer, for `patience_seconds` (None: for ever).

    `pause_of` says how long to wait after an error, given the pause that would be usual. None: the
    error stays, and is raised.
    """
    loop = asyncio.get_running_loop()
    until = None if patience_seconds is None else loop.time() + patience_seconds
    for usual in growing_pauses():
        try:
            return await ask()
        except Exception as error:
            pause = pause_of(error, usual)
            if pause is None or (until is not None and loop.time() + pause > until):
                raise
            logger.debug("trying again in %.1f s: %s", pause, error)
        await asyncio.sleep(pause)
    raise AssertionError  # there is always one more pause


async def retry_until_available(
    ask: Callable[Asked, Awaitable[Answer]], *asked: Asked.args, **named: Asked.kwargs
) -> Answer:
    """Ask a neighbouring service until it answers, however long it is away; refusals are raised.

    So is that Prefect fails on this request again and again while it answers others.
    """
    failures = 0

    def pause_of(error: Exception, usual: float) -> float | None:
        nonlocal failures
        failures += isinstance(error, PrefectFailed)
        may_pass = isinstance(error, PrefectFailed) and failures < MOST_FAILURES
        return usual if may_pass or isinstance(error, Unavailable) else None

    return await retry(functools.partial(ask, *asked, **named), pause_of)
