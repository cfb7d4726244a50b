"""How many requests of one identity are under way at once: one can't take all from the others."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Hashable
from dataclasses import dataclass, field

from jobauto_prefect.errors import TooManyRequests

MAX_CONCURRENT = 8
"""Requests of one user that are under way."""

MAX_WAITING = 64
"""Further ones that wait for them."""

WORKERS_CONCURRENT, WORKERS_WAITING = 32, 1024
"""The same with one worker's token: replicas may share one."""

ARTIFACTS_CONCURRENT = 4
"""Artifacts that one worker's token sends: each is in memory as a whole."""

STRANGERS_CONCURRENT = 4
"""Requests to sign in from one address that are under way: each compares a password."""

RETRY_AFTER = 1  # seconds

SLOT = "slot"
"""In a request's state: its place among those of its identity, for what it asks within itself."""


@dataclass(slots=True)
class _Slots:
    free: asyncio.Semaphore
    present: int = 0


@dataclass(slots=True)
class Slot:
    """A place among the requests of one identity that are under way."""

    free: asyncio.Semaphore
    held: bool = True

    def release(self) -> None:
        """Let the next one begin: what is left of this request is bounded by other means."""
        if self.held:
            self.held = False
            self.free.release()


@dataclass(slots=True)
class UserConcurrency:
    """Bounds the requests of each identity at once, in this process."""

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
