"""Waiting for what comes by itself."""

import asyncio
import time
from collections.abc import Callable
from typing import Any, Literal, TypeVar

PATIENCE = 90  # seconds

Sought = TypeVar("Sought")


def eventually(
    look: Callable[[], Sought | Literal[False] | None],
    seconds: float = PATIENCE,
) -> Sought:
    """What `look` answers, once it is something."""
    deadline = time.monotonic() + seconds
    while not (answer := look()):
        assert time.monotonic() < deadline, f"nothing came within {seconds} s"
        time.sleep(0.02)
    return answer


async def until(condition: Callable[[], Any], seconds: float = 30) -> None:
    """Wait for something to become true."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not happen in time"
        await asyncio.sleep(0.02)
