"""Limits of concurrent requests per identity, so that one can't starve the others."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Hashable
from dataclasses import dataclass, field

from jobauto_prefect.errors import TooManyRequests

MAX_CONCURRENT = 8
"""Maximum concurrent requests of one user."""

MAX_WAITING = 64
"""Maximum further requests that wait."""

WORKERS_CONCURRENT, WORKERS_WAITING = 32, 1024
"""Maximum concurrent requests with one worker's token: replicas may share it."""

ARTIFACTS_CONCURRENT = 4
"""Maximum concurrent artifacts of one worker's token: each is held in memory."""

STRANGERS_CONCURRENT = 4
"""Maximum concurrent sign-in requests from one address: each compares a password."""

RETRY_AFTER = 1  # seconds

SLOT = "slot"
"""In a request's state: its slot among those of its identity."""


@dataclass(slots=True)
class _Slots:
    free: asyncio.Semaphore
    present: int = 0


@dataclass(slots=True)
class Slot:
    """A slot among the concurrent requests of one identity."""

    free: asyncio.Semaphore
    held: bool = True

    def release(self) -> None:
        """Let the next request begin: the rest of this one is limited by other means."""
        if self.held:
            self.held = False
            self.free.release()


@dataclass(slots=True)
class UserConcurrency:
    """Limits the concurrent requests of each identity in this process."""

    most: int = MAX_CONCURRENT
    waiting: int = MAX_WAITING
    _users: dict[Hashable, _Slots] = field(default_factory=dict)

    @contextlib.asynccontextmanager
    async def slot(self, user: Hashable) -> AsyncIterator[Slot]:
        """Hold one of the user's slots, once one is free.

        Raises:
            TooManyRequests: too many are waiting.
        """
        slots = self._users.setdefault(user, _Slots(asyncio.Semaphore(self.most)))
        if slots.present >= self.most + self.waiting:
            message = f"{self.most} requests of yours are under way and {self.waiting} wait"
            raise TooManyRequests(RETRY_AFTER, f"{message}; send fewer at once")
        slots.present += 1
        try:
            await slots.free.acquire()
            slot = Slot(slots.free)
            try:
                yield slot
            finally:
                slot.release()
        finally:
            slots.present -= 1
            if not slots.present:
                del self._users[user]
