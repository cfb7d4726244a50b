"""Which scheduler creates the flow runs of windows: Prefect's own, or the window scheduler.

Prefect's is one loop in the whole installation, which is full at about 2,000 run templates.
"""

import logging

from jobauto_prefect.ledger.audit.trail import WritingSession
from jobauto_prefect.ledger.jobs import windows
from jobauto_prefect.settings import Scheduler, Settings

logger = logging.getLogger(__name__)

MOST_OF_PREFECT = 1000
"""Scheduled run templates above which `auto` chooses the window scheduler."""

FEWEST_OF_LEDGER = 800
"""Below this number it chooses Prefect's again: each change writes all deployments."""


def choose_scheduler(wanted: Scheduler, present: Scheduler, scheduled: int) -> Scheduler:
    """Return who is to create the runs of so many scheduled run templates."""
    if wanted is not Scheduler.AUTO:
        return wanted
    if scheduled > MOST_OF_PREFECT:
        return Scheduler.LEDGER
    return Scheduler.PREFECT if scheduled < FEWEST_OF_LEDGER else present


def follow_scheduler(session: WritingSession, settings: Settings) -> None:
    """Put the scheduler of the settings in charge, if it is not yet."""
    present = windows.scheduler_in_charge(session)
    scheduled = windows.count_scheduled(session)
    chosen = choose_scheduler(settings.scheduler, present, scheduled)
    if chosen is not present and windows.put_in_charge(session, chosen):
        logger.info(
            "the flow runs of %s scheduled run templates are now created by %s",
            scheduled,
            "Prefect's scheduler" if chosen is Scheduler.PREFECT else "the window scheduler",
        )
