"""Waiting for what comes by itself."""

import asyncio
import time
from collections.abc import Callable
from typing import Any, Literal, TypeVar

PATIENCE = 90  # seconds

Sought = TypeVar("Sought")

SHORTEST_PAUSE, LONGEST_PAUSE = 0.02, 0.25  # seconds


def eventually(
    look: Callable[[], Sought | Literal[False] | None],
    seconds: float = PATIENCE,
) -> Sought:
    """What `look` answers, once it is something."""
    began = time.monotonic()
    while not (answer := look()):
        waited = time.monotonic() - began
        assert waited < seconds, f"nothing came within {seconds} s"
        time.sleep(_pause(waited))
    return answer


async def until(condition: Callable[[], Any], seconds: float = PATIENCE) -> None:
    """Wait for something to become true."""
    began = time.monotonic()
    while not condition():
        waited = time.monotonic() - began
        assert waited < seconds, "it did not happen in time"
        await asyncio.sleep(_pause(waited))


def _pause(waited: float) -> float:
    """Return how long to wait for the next look, most of which are requests.

    It is a part of what was waited already: who waits long looks less often, and is hardly later.
    """
    return min(max(waited / 6, SHORTEST_PAUSE), LONGEST_PAUSE)
