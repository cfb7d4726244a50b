"""How many requests of one user are under way at once: one user can't take all of Prefect."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Hashable
from dataclasses import dataclass, field

from jobauto_prefect.errors import TooManyRequests

AT_ONCE = 8
"""Requests of one user that are under way."""

MOST_WAITING = 64
"""Further ones that wait for them."""

RETRY_AFTER = 1  # seconds


@dataclass(slots=True)
class _Places:
    free: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(AT_ONCE))
    present: int = 0


class UserConcurrency:
    """Counts the requests of each user, in this process."""

    def __init__(self) -> None:
        self._users: dict[Hashable, _Places] = {}

    @contextlib.asynccontextmanager
    async def place(self, user: Hashable) -> AsyncIterator[None]:
        """A place among the requests of a user that are under way; it may have to be waited for.

        Raises:
            TooManyRequests: too many are waiting.
        """
        places = self._users.setdefault(user, _Places())
        if places.present >= AT_ONCE + MOST_WAITING:
            message = f"{AT_ONCE} requests of yours are under way and {MOST_WAITING} wait"
            raise TooManyRequests(RETRY_AFTER, f"{message}; send fewer at once")
        places.present += 1
        try:
            async with places.free:
                yield
        finally:
            places.present -= 1
            if not places.present:
                del self._users[user]
