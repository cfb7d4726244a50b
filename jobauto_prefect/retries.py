"""Retries while a service is unavailable: at once, then with growing pauses."""

import asyncio
import functools
import logging
from collections.abc import Awaitable, Callable, Iterator
from typing import ParamSpec, TypeVar

from jobauto_prefect.errors import PrefectFailed, Unavailable

FIRST_PAUSE_SECONDS = 0.1
LONGEST_PAUSE_SECONDS = 5.0
MOST_FAILURES = 8  # of Prefect on one request, within 16 s, until it is given up

Answer = TypeVar("Answer")
Asked = ParamSpec("Asked")

logger = logging.getLogger(__name__)


def growing_pauses() -> Iterator[float]:
    """Yield pauses in seconds, without end: each is twice the previous one, up to a limit."""
    pause = FIRST_PAUSE_SECONDS
    while True:
        yield pause
        pause = min(2 * pause, LONGEST_PAUSE_SECONDS)


async def retry(
    ask: Callable[[], Awaitable[Answer]],
    pause_of: Callable[[Exception, float], float | None],
    patience_seconds: float | None = None,
) -> Answer:
    """Retry until there is an answer, for `patience_seconds` (None: for ever).

    `pause_of` returns the pause after an error, given the usual pause. None: the error is
    permanent, and is raised.
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
    raise AssertionError  # the pauses never end


async def retry_until_available(
    ask: Callable[Asked, Awaitable[Answer]], *asked: Asked.args, **named: Asked.kwargs
) -> Answer:
    """Retry a call to a service until it answers, however long that takes; raise refusals.

    Repeated failures of Prefect on this request, while it answers others, are raised, too.
    """
    failures = 0

    def pause_of(error: Exception, usual: float) -> float | None:
        nonlocal failures
        failures += isinstance(error, PrefectFailed)
        may_pass = isinstance(error, PrefectFailed) and failures < MOST_FAILURES
        return usual if may_pass or isinstance(error, Unavailable) else None

    return await retry(functools.partial(ask, *asked, **named), pause_of)
