"""One timer for everything that comes due, instead of a poll loop for each topic."""

import asyncio
import contextlib
import logging
from collections.abc import Mapping
from datetime import datetime

from jobauto_prefect.errors import JobautoError
from jobauto_prefect.ledger.database.announcements import Announcement, Announcements, plain_url
from jobauto_prefect.ledger.queries.agenda import Topic, agenda
from jobauto_prefect.ledger.store import Ledger
from jobauto_prefect.settings import Settings

logger = logging.getLogger(__name__)

LOOK_SECONDS = 5.0
"""Longest interval between checks while the database announces changes."""

UNANNOUNCED_SECONDS = 0.2
"""Longest interval between checks while it does not."""

SHORTEST_SECONDS = 0.02

ANNOUNCED: Mapping[Announcement, tuple[Topic, ...]] = {
    Announcement.OUTBOX: (Topic.OUTBOX,),
    Announcement.EVENTS: (Topic.EVENTS,),
    Announcement.ACTIONS: (Topic.ACTIONS, Topic.WEBHOOKS),
    Announcement.NOTICES: (Topic.NOTICES,),
}


class Timetable:
    """Signals when something is due, by one statement for all topics.

    `wanted` has an event per topic, which is set when something becomes due, and at each check
    while it stays due. The waiter clears it.
    """

    def __init__(self, ledger: Ledger, announcements: Announcements) -> None:
        self._ledger = ledger
        self._announcements = announcements
        self._changed = asyncio.Event()
        announcements.when(Announcement.WINDOWS, self._changed.set)
        self.wanted: Mapping[Topic, asyncio.Event] = {topic: asyncio.Event() for topic in Topic}
        for announcement, topics in ANNOUNCED.items():
            for topic in topics:
                announcements.when(announcement, self.wanted[topic].set)

    async def run(self) -> None:
        """Check repeatedly until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._announcements.run())
            while True:
                pause = LOOK_SECONDS
                self._changed.clear()
                with contextlib.suppress(JobautoError):  # those who do the work report the error
                    pause = self._note(await asyncio.to_thread(self._agenda))
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(pause):
                        await self._changed.wait()

    def _agenda(self) -> Mapping[Topic, datetime]:
        with self._ledger.reading() as session:
            return agenda(session)

    def _note(self, due: Mapping[Topic, datetime]) -> float:
        """Set the events of due topics; return the seconds until the next check."""
        now = self._ledger.clock()
        for topic, instant in due.items():
            if instant <= now:
                self.wanted[topic].set()
        longest = LOOK_SECONDS if self._announcements.is_live else UNANNOUNCED_SECONDS
        ahead = [(instant - now).total_seconds() for instant in due.values() if instant > now]
        return max(SHORTEST_SECONDS, min([longest, *ahead]))


def timetable_of(ledger: Ledger, settings: Settings) -> Timetable:
    """Return the timetable of a ledger, with its announcements."""
    return Timetable(ledger, announcements_of(settings))


def announcements_of(settings: Settings) -> Announcements:
    """Return the announcements of the database in the settings."""
    url = plain_url(settings.database_listen_url or settings.ledger_url)
    connect, answer = settings.database_connect_seconds, settings.database_answer_seconds
    return Announcements(url, connect, answer)
