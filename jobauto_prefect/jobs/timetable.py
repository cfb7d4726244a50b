"""One timer for all that comes due, instead of a loop for each that asks again and again."""

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
"""Between two looks, at most, where the database announces what is new."""

UNANNOUNCED_SECONDS = 0.2
"""The same where it does not."""

SHORTEST_SECONDS = 0.02

ANNOUNCED: Mapping[Announcement, tuple[Topic, ...]] = {
    Announcement.OUTBOX: (Topic.OUTBOX,),
    Announcement.EVENTS: (Topic.EVENTS,),
    Announcement.ACTIONS: (Topic.ACTIONS, Topic.WEBHOOKS),
    Announcement.NOTICES: (Topic.NOTICES,),
}


class Timetable:
    """Says when there is something to do, by one statement for all topics.

    `wanted` has an event for each topic, which is set when something of it is due, and again with
    each look as long as it stays so. Whoever waits for it clears it.
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
        """Look until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._announcements.run())
            tasks.create_task(self._look_again_and_again())

    async def _look_again_and_again(self) -> None:
        while True:
            pause = LOOK_SECONDS
            self._changed.clear()
            with contextlib.suppress(JobautoError):  # those who do the work will say so
                pause = self._note(await asyncio.to_thread(self._agenda))
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(pause):
                    await self._changed.wait()

    def _agenda(self) -> Mapping[Topic, datetime]:
        with self._ledger.reading() as session:
            return agenda(session)

    def _note(self, due: Mapping[Topic, datetime]) -> float:
        """Set what is due; return in how many seconds to look again."""
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
    """Return what the database of these settings announces."""
    url = plain_url(settings.database_listen_url or settings.ledger_url)
    connect, answer = settings.database_connect_seconds, settings.database_answer_seconds
    return Announcements(url, connect, answer)
