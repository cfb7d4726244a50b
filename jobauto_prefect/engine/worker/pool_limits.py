"""What a work pool and its queues allow to be started without asking, as far as that is known."""

import logging
from collections.abc import Collection
from urllib.parse import quote
from uuid import UUID

from jobauto_prefect.engine.api import PAGE_SIZE, PrefectApi
from jobauto_prefect.errors import JobautoError

logger = logging.getLogger(__name__)


class PoolLimits:
    """The queues that are neither paused nor limited, in a pool that is neither.

    A paused pool or queue starts nothing, and of a limited one Prefect alone knows how much is
    free: of those it is asked for each run. Nothing is known before `read`, nor after `forget`.
    """

    def __init__(self, api: PrefectApi, pool: str, queues: Collection[str] = ()) -> None:
        """Watch the limits of a pool.

        `queues`: the names of those that count; none: all of the pool.
        """
        self._api = api
        self._pool = quote(pool, safe="")
        self._queues = queues
        self._open: frozenset[UUID] | None = None
        self.is_open = False
        """Whether all queues of the pool are known to be open."""

        self._changes = 0

    @property
    def is_known(self) -> bool:
        """Whether it was read since the last change."""
        return self._open is not None

    def allow(self, queue_id: UUID | None) -> bool:
        """Whether runs of this queue may start as they are announced."""
        return self._open is not None and queue_id in self._open

    def forget(self) -> None:
        """Drop what is known: it may have changed."""
        self._changes += 1
        self._open, self.is_open = None, False

    async def read(self) -> None:
        """Ask Prefect; what changes meanwhile leaves it unknown."""
        changes = self._changes
        try:
            unrestricted, all_of_them = await self._ask()
        except JobautoError as error:
            logger.debug("what the work pool allows is unknown: %s", error)
            return
        if changes == self._changes:
            self._open, self.is_open = unrestricted, all_of_them

    async def _ask(self) -> tuple[frozenset[UUID], bool]:
        """Return the open queues that count, and whether none is closed."""
        pool = await self._api.get(f"/work_pools/{self._pool}")
        if _is_restricted(pool):
            return frozenset(), False
        path = f"/work_pools/{self._pool}/queues/filter"
        queues = await self._api.post(path, {"limit": PAGE_SIZE})
        counted = [queue for queue in queues if not self._queues or queue["name"] in self._queues]
        unrestricted = [queue for queue in counted if not _is_restricted(queue)]
        are_all = len(unrestricted) == len(counted) and len(queues) < PAGE_SIZE
        return frozenset(UUID(queue["id"]) for queue in unrestricted), are_all


def _is_restricted(restrictable: dict[str, object]) -> bool:
    return bool(restrictable["is_paused"]) or restrictable["concurrency_limit"] is not None
