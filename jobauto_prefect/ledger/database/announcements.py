"""Announcements of PostgreSQL (NOTIFY), received on one connection per process.

Triggers announce, so that no writer can forget to. SQLite announces nothing.
"""

import asyncio
import contextlib
import logging
from collections import defaultdict
from collections.abc import Callable
from enum import StrEnum

import psycopg
from psycopg import conninfo
from sqlalchemy import make_url

from jobauto_prefect.ledger.database.postgresql import IS_POOLED

logger = logging.getLogger(__name__)

CHANNEL = "jobauto"
ALIVE_SECONDS = 30.0
"""How long the connection may be silent before it is probed."""

SHORTEST_PAUSE, LONGEST_PAUSE = 0.1, 5.0  # seconds between attempts to connect
KEEPALIVE = "keepalives_idle=5 keepalives_interval=5 keepalives_count=2"
"""Settings that detect a dead network within 15 seconds."""


class Announcement(StrEnum):
    """What is announced, each time its transaction commits."""

    OUTBOX = "outbox"  #: there is an unclaimed message
    EVENTS = "events"  #: there is an event
    ACTIONS = "actions"  #: there is an action to carry out, or a webhook to call
    NOTICES = "notices"  #: a notice about a job is due
    WINDOWS = "windows"  #: the time at which a window opens has changed
    RIGHTS = "rights"  #: a token, a user or somebody's rights were written


class Announcements:
    """Calls subscribers, which must return quickly; a call may be spurious.

    `url` None: nothing is ever announced.
    """

    def __init__(self, url: str | None, connect_seconds: float, answer_seconds: float) -> None:
        self._url = url
        self._connect_seconds = connect_seconds
        self._answer_seconds = answer_seconds
        self._wanting: dict[Announcement, list[Callable[[], None]]] = defaultdict(list)
        self.is_live = False
        """Whether every commit from now on is noticed."""

    def when(self, announcement: Announcement, call: Callable[[], None]) -> None:
        """Call on each announcement, and whenever some may have been missed."""
        self._wanting[announcement].append(call)

    async def run(self) -> None:
        """Listen until cancelled; reconnect forever."""
        if self._url is None:
            return
        pause = SHORTEST_PAUSE
        while True:
            try:
                async with asyncio.timeout(self._connect_seconds):
                    connection = await self._connected(self._url)
                if connection is None:
                    logger.warning(
                        "the ledger's database is reached through a pool, such as PgBouncer, which"
                        " does not pass on announcements: set JOBAUTO_DATABASE_LISTEN_URL to the"
                        " address of the server itself"
                    )
                    return
                async with connection:
                    pause = SHORTEST_PAUSE
                    await self._listen(connection)
            except (psycopg.Error, OSError, TimeoutError) as error:
                logger.warning("no announcements from the database: %s", error)
            finally:
                self._live(False)
            await asyncio.sleep(pause)
            pause = min(2 * pause, LONGEST_PAUSE)

    async def _connected(self, url: str) -> psycopg.AsyncConnection[tuple[object, ...]] | None:
        """Return a connection that listens; None if a pool is in between."""
        address = conninfo.make_conninfo(url, **conninfo.conninfo_to_dict(KEEPALIVE))
        connection = await psycopg.AsyncConnection.connect(address, autocommit=True)
        found = await connection.execute(IS_POOLED, [connection.info.backend_pid])
        [(is_pooled,)] = await found.fetchall()
        if is_pooled:
            await connection.close()
            return None
        await connection.execute(f"LISTEN {CHANNEL}")
        return connection

    async def _listen(self, connection: psycopg.AsyncConnection[tuple[object, ...]]) -> None:
        self._live(True)
        while True:
            if not await _has_input(connection.fileno(), ALIVE_SECONDS):
                async with asyncio.timeout(self._answer_seconds):
                    await connection.execute("SELECT 1")
            async for notification in connection.notifies(timeout=0):
                with contextlib.suppress(ValueError):  # another version announced it
                    self._tell(Announcement(notification.payload))

    def _live(self, is_live: bool) -> None:
        changed, self.is_live = self.is_live != is_live, is_live
        if changed:
            for announcement in Announcement:
                self._tell(announcement)

    def _tell(self, announcement: Announcement) -> None:
        for call in self._wanting[announcement]:
            call()


async def _has_input(descriptor: int, seconds: float) -> bool:
    """Whether input arrives within the given time.

    Psycopg's own wait polls ten times a second.
    """
    loop = asyncio.get_running_loop()
    readable = asyncio.Event()
    loop.add_reader(descriptor, readable.set)
    try:
        async with asyncio.timeout(seconds):
            await readable.wait()
    except TimeoutError:
        return False
    finally:
        loop.remove_reader(descriptor)
    return True


def plain_url(url: str) -> str | None:
    """Return a ledger's URL in libpq's form; None if it is not PostgreSQL."""
    address = make_url(url)
    if address.get_backend_name() != "postgresql":
        return None
    return address.set(drivername="postgresql").render_as_string(hide_password=False)
