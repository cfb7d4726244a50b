"""Settling what somebody changed in Prefect: some of it each minute, or all of it now."""

import logging

from jobauto_prefect.engine.automation_drift import restore_automations
from jobauto_prefect.engine.block_drift import restore_blocks
from jobauto_prefect.engine.deployment_drift import settle_some
from jobauto_prefect.engine.drift import Settled
from jobauto_prefect.engine.neighbours import Neighbours

logger = logging.getLogger(__name__)

PAGES_AT_ONCE = 5  # of run templates, and of event rules, that are compared in one pass

LOOKS = (settle_some, restore_automations)
"""Each settles a page of records, those above an id, and says where the next page begins."""


class Inspection:
    """Blocks all at once, run templates and event rules some at a time."""

    def __init__(self, near: Neighbours) -> None:
        self._near = near
        self._seen_up_to = [0 for _ in LOOKS]

    async def go_on(self) -> None:
        """Look at blocks, and at the next records of the others; then from the beginning.

        Raises:
            PrefectUnavailable: Prefect does not answer.
        """
        _tell(await restore_blocks(self._near))
        for number, look in enumerate(LOOKS):
            for _ in range(PAGES_AT_ONCE):
                settled, up_to = await look(self._near, self._seen_up_to[number])
                self._seen_up_to[number] = up_to
                _tell(settled)
                if not up_to:
                    break


async def settle_all(near: Neighbours) -> list[Settled]:
    """Settle all that differs now; what waits to be told to Prefect anyway is not looked at.

    What is restored is so once its wishes are carried out.

    Raises:
        PrefectUnavailable: Prefect does not answer.
    """
    settled = await restore_blocks(near)
    for look in LOOKS:
        page, up_to = await look(near, 0)
        settled += page
        while up_to:
            page, up_to = await look(near, up_to)
            settled += page
    _tell(settled)
    return settled


def _tell(settled: list[Settled]) -> None:
    for one in settled:
        logger.info(
            "%s %s (%s) was changed in Prefect; taken over: %s; restored: %s",
            one.kind, one.id, one.name,
            ", ".join(one.taken_over) or "nothing", ", ".join(one.restored) or "nothing",
        )  # fmt: skip
