"""Limits of concurrent requests per identity, and of long work, so that one can't starve others."""

import asyncio
import contextlib
import sys
import threading
from collections.abc import AsyncIterator, Callable, Hashable, Iterator
from dataclasses import dataclass, field
from typing import ParamSpec, TypeVar

from jobauto_prefect.errors import TooManyRequests

P = ParamSpec("P")
T = TypeVar("T")

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

    def require_room(self, user: Hashable) -> None:
        """Check that one more may come, or wait.

        Raises:
            TooManyRequests: too many are waiting.
        """
        slots = self._users.get(user)
        if slots is not None and slots.present >= self.most + self.waiting:
            message = f"{self.most} requests of yours are under way and {self.waiting} wait"
            raise TooManyRequests(RETRY_AFTER, f"{message}; send fewer at once")

    @contextlib.asynccontextmanager
    async def slot(self, user: Hashable) -> AsyncIterator[Slot]:
        """Hold one of the user's slots, once one is free.

        Raises:
            TooManyRequests: too many are waiting.
        """
        self.require_room(user)
        slots = self._users.setdefault(user, _Slots(asyncio.Semaphore(self.most)))
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


LONG_THREADS = 2
"""Maximum threads that write long lists, for all users."""

SWITCH_SECONDS = 0.0005
"""How long a thread keeps the interpreter while long work is under way. A short request waits for
it some thirty times, each time as long as that. Python's own 5 ms suit everything else: what starts
jobs is a third slower with this."""


class _LongWork:
    """Long computations in this process, in threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._count = 0
        self._usual = sys.getswitchinterval()
        self._free = threading.BoundedSemaphore(LONG_THREADS)

    @contextlib.contextmanager
    def giving_way(self) -> Iterator[None]:
        """Let other threads have the interpreter sooner while this one computes."""
        with self._lock:
            if not self._count:
                self._usual = sys.getswitchinterval()
                sys.setswitchinterval(SWITCH_SECONDS)
            self._count += 1
        try:
            yield
        finally:
            with self._lock:
                self._count -= 1
                if not self._count:
                    sys.setswitchinterval(self._usual)

    def compute(self, work: Callable[P, T], *args: P.args, **named: P.kwargs) -> T:
        """Return the function's result, giving way meanwhile."""
        with self.giving_way():
            return work(*args, **named)

    def pieces(self, pieces: Iterator[T]) -> Iterator[T]:
        """Yield what the iterator does, giving way while it computes."""
        while (piece := self.compute(next, pieces, None)) is not None:
            yield piece

    @contextlib.contextmanager
    def turn(self) -> Iterator[None]:
        """Wait for one of the few turns of all users, then give way; do not wait within it."""
        with self._free, self.giving_way():
            yield


long_work = _LongWork()
