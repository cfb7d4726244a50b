"""Memory that long-running processes no longer use."""

import asyncio
import ctypes

TRIM_SECONDS = 20.0


async def return_freed_memory() -> None:
    """Return freed memory to the system now and then, until cancelled.

    glibc keeps what large bodies and much output took.
    """
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    while trim is not None:
        await asyncio.sleep(TRIM_SECONDS)
        await asyncio.to_thread(trim, 0)
