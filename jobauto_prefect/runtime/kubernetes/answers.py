"""Answers of the API that are none, and asking again."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import TypeVar

from jobauto_prefect.runtime.kubernetes.pods import Object

logger = logging.getLogger(__name__)

FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS = 0.2, 5.0
PASSING = (401, 429, 500, 502, 503, 504)  # with 401 the credentials are read anew

Result = TypeVar("Result")


class ApiError(Exception):
    """An answer that is none, or no answer (`status` 0). `reason` is Kubernetes' word for it."""

    def __init__(
        self, status: int, reason: str, message: str, retry_after: float | None = None
    ) -> None:
        super().__init__(message or reason)
        self.status = status
        self.reason = reason
        self.retry_after = retry_after

    @property
    def passes(self) -> bool:
        """Whether the same request may succeed later."""
        conflicts = self.status == 409 and self.reason != "AlreadyExists"
        return self.status in (0, *PASSING) or conflicts


async def insist(
    call: Callable[[], Awaitable[Result]], patience_seconds: float | None = None
) -> Result:
    """Ask again while the answer may become another one; None: for ever.

    Raises:
        ApiError: another answer, or the last one in time.
    """
    loop = asyncio.get_running_loop()
    end = None if patience_seconds is None else loop.time() + patience_seconds
    pause = FIRST_PAUSE_SECONDS
    while True:
        try:
            return await call()
        except ApiError as error:
            pause_now = error.retry_after or pause
            if not error.passes or (end is not None and loop.time() + pause_now > end):
                raise
            logger.debug("the cluster is asked again: %s", error)
        await asyncio.sleep(pause_now)
        pause = min(2 * pause, LONGEST_PAUSE_SECONDS)


def error_of(status: int, said: Object) -> ApiError:
    """What an answer with this status says; `said` is a Status object, or anything."""
    return ApiError(status, said.get("reason", ""), said.get("message") or f"HTTP {status}")


def no_answer(error: Exception) -> ApiError:
    """There was no answer."""
    return ApiError(0, type(error).__name__, f"the cluster does not answer: {error}".rstrip(": "))
