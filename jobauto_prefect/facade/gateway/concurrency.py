"""How many requests of one user are under way at once: one user can't take all of Prefect."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Hashable
from dataclasses import dataclass, field

from jobauto_prefect.errors import TooManyRequests

MAX_CONCURRENT = 8
"""Requests of one user that are under way."""

MAX_WAITING = 64
"""Further ones that wait for them."""

RETRY_AFTER = 1  # seconds


@dataclass(slots=True)
class _Slots:
    free: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(MAX_CONCURRENT))
    present: int = 0


class UserConcurrency:
    """Bounds the requests of each user at once, in this process."""

    def __init__(self) -> None:
        self._users: dict[Hashable, _Slots] = {}

    @contextlib.asynccontextmanager
    async def slot(self, user: Hashable) -> AsyncIterator[None]:
        """Hold one of the user's slots, once one is free.

        Raises:
            TooManyRequests: too many are waiting.
        """
        slots = self._users.setdefault(user, _Slots())
        if slots.present >= MAX_CONCURRENT + MAX_WAITING:
            message = f"{MAX_CONCURRENT} requests of yours are under way and {MAX_WAITING} wait"
            raise TooManyRequests(RETRY_AFTER, f"{message}; send fewer at once")
        slots.present += 1
        try:
            async with slots.free:
                yield
        finally:
            slots.present -= 1
            if not slots.present:
                del self._users[user]
