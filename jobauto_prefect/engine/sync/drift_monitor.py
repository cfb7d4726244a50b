"""Correction of changes made in Prefect: some pages each minute, or everything now."""

import itertools
import logging

from jobauto_prefect.engine.context import EngineContext
from jobauto_prefect.engine.sync.application_flows import FlowComparison
from jobauto_prefect.engine.sync.credentials import BlockComparison, BlockTypeComparison
from jobauto_prefect.engine.sync.deployment_drift import DeploymentComparison
from jobauto_prefect.engine.sync.drift import Correction
from jobauto_prefect.engine.sync.event_rules import AutomationComparison
from jobauto_prefect.jobs.isolation import apart

logger = logging.getLogger(__name__)

COMPARISONS = (
    FlowComparison,
    BlockTypeComparison,
    BlockComparison,
    DeploymentComparison,
    AutomationComparison,
)


class DriftMonitor:
    """Corrects some pages of each kind of record at a time, and starts over after the last."""

    def __init__(self, context: EngineContext) -> None:
        self._comparisons = [comparison(context) for comparison in COMPARISONS]
        self._last_ids = [0 for _ in COMPARISONS]

    async def check_next(self) -> None:
        """Correct what differs on the next pages.

        Raises:
            PrefectUnavailable: Prefect does not answer.
        """
        for number, comparison in enumerate(self._comparisons):
            pages = comparison.pages_at_once
            for _ in itertools.count() if pages is None else range(pages):
                after, self._last_ids[number] = self._last_ids[number], 0
                with apart(f"the drift of {comparison.kind} after number {after}"):
                    corrections, self._last_ids[number] = await comparison.correct(after)
                    _log(corrections)
                if not self._last_ids[number]:
                    break


async def correct_all(context: EngineContext) -> list[Correction]:
    """Correct everything that differs now, except records that wait to be applied anyway.

    Restoring takes effect once the outbox worker has applied the records.

    Raises:
        PrefectUnavailable: Prefect does not answer.
    """
    corrections: list[Correction] = []
    for comparison in COMPARISONS:
        page, last_id = await comparison(context).correct()
        corrections += page
        while last_id:
            page, last_id = await comparison(context).correct(last_id)
            corrections += page
    _log(corrections)
    return corrections


def _log(corrections: list[Correction]) -> None:
    for correction in corrections:
        logger.info(
            "%s %s (%s) was changed in Prefect; taken over: %s; restored: %s",
            correction.kind, correction.id, correction.name,
            ", ".join(correction.taken_over) or "nothing",
            ", ".join(correction.restored) or "nothing",
        )  # fmt: skip
