"""Starts the watchdog of a worker, and again after it died."""

import asyncio
from collections.abc import Awaitable, Callable

from jobauto_prefect.runtime.watchdog.client import Watchdog


class WatchdogSupervisor:
    """Shared by the executors of a worker."""

    def __init__(self, start: Callable[[], Awaitable[Watchdog]]) -> None:
        self._start = start
        self._watchdog: Watchdog | None = None
        self._starting = asyncio.Lock()

    async def get(self) -> Watchdog:
        """Return the running watchdog, starting one if needed."""
        async with self._starting:
            if self._watchdog is None or not self._watchdog.alive:
                self._watchdog = await self._start()
            return self._watchdog

    async def close(self) -> None:
        """Close the watchdog, which ends what still runs."""
        if self._watchdog is not None and self._watchdog.alive:
            await self._watchdog.close()
