"""What PostgreSQL announces reaches those who wait for it, and a lost connection is noticed."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from datetime import timedelta

import psycopg
import pytest
from sqlalchemy import make_url

from jobauto_prefect.jobs.timetable import announcements_of, timetable_of
from jobauto_prefect.ledger.audit.trail import SERVICE
from jobauto_prefect.ledger.database.announcements import Announcement, Announcements
from jobauto_prefect.ledger.outbox import OutboxKind, enqueue
from jobauto_prefect.ledger.queries.agenda import Topic, agenda
from jobauto_prefect.ledger.records import User
from jobauto_prefect.ledger.store import Ledger
from jobauto_prefect.settings import Settings
from tests.support.breakable import Relay
from tests.support.databases import on_postgresql
from tests.support.ledger_rows import claim_next

pytestmark = on_postgresql

PATIENCE = 60  # seconds


@contextlib.asynccontextmanager
async def heard(settings: Settings) -> AsyncIterator[Announcements]:
    """Announcements that are listened to."""
    announcements = announcements_of(settings)
    listening = asyncio.create_task(announcements.run())
    await _until_live(announcements)
    yield announcements
    listening.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await listening
    assert not announcements.is_live


async def _until_live(announcements: Announcements, *, live: bool = True) -> None:
    async with asyncio.timeout(PATIENCE):
        while announcements.is_live is not live:  # noqa: ASYNC110 - what is asked is this
            await asyncio.sleep(0.01)


def _write(ledger: Ledger, kind: Announcement) -> None:
    with ledger.writing(SERVICE) as session:
        if kind is Announcement.RIGHTS:
            session.add(User(login="eva"))
        else:
            enqueue(session, OutboxKind.DELETE_RUN, 1, {"id": "x"})


@pytest.mark.parametrize("kind", [Announcement.OUTBOX, Announcement.RIGHTS])
async def test_what_is_written_is_announced(
    ledger_settings: Settings, ledger: Ledger, kind: Announcement
) -> None:
    async with heard(ledger_settings) as announcements:
        announced = asyncio.Event()
        announcements.when(kind, announced.set)
        await asyncio.to_thread(_write, ledger, kind)
        await asyncio.wait_for(announced.wait(), PATIENCE)


async def test_a_network_that_hangs_is_noticed_and_left(
    ledger_settings: Settings, ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("jobauto_prefect.ledger.database.announcements.ALIVE_SECONDS", 0.2)
    address = make_url(ledger_settings.ledger_url)
    with Relay(address.port or 5432) as relay:
        through = address.set(host="127.0.0.1", port=relay.port)
        hasty = ledger_settings.model_copy(
            update={
                "database_listen_url": through.render_as_string(hide_password=False),
                "database_connect_seconds": 1.0,
                "database_answer_seconds": 0.5,
            }
        )
        async with heard(hasty) as announcements:
            relay.hang()
            await _until_live(announcements, live=False)
            relay.mend()
            await _until_live(announcements)
            announced = asyncio.Event()
            announcements.when(Announcement.OUTBOX, announced.set)
            await asyncio.to_thread(_write, ledger, Announcement.OUTBOX)
            await asyncio.wait_for(announced.wait(), PATIENCE)
            relay.hang()  # and a process that ends meanwhile ends


async def test_after_a_lost_connection_everybody_looks_again(
    ledger_settings: Settings, ledger: Ledger
) -> None:
    async with heard(ledger_settings) as announcements:
        lost, states = asyncio.Event(), list[bool]()

        def look() -> None:
            states.append(announcements.is_live)
            lost.set()

        announcements.when(Announcement.OUTBOX, look)
        with psycopg.connect(ledger_settings.database_url, autocommit=True) as other:
            other.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                " WHERE datname = current_database() AND query LIKE 'LISTEN%'"
            )
        await asyncio.wait_for(lost.wait(), PATIENCE)
        await _until_live(announcements)
        assert states[:2] == [False, True]


async def test_where_listen_leads_nowhere_the_timetable_looks_all_the_same(
    ledger_settings: Settings, ledger: Ledger
) -> None:
    nowhere = ledger_settings.model_copy(
        update={"database_listen_url": "postgresql://postgres@127.0.0.1:9/x"}
    )
    timetable = timetable_of(ledger, nowhere)
    running = asyncio.create_task(timetable.run())
    await asyncio.to_thread(_write, ledger, Announcement.OUTBOX)
    await asyncio.wait_for(timetable.wanted[Topic.OUTBOX].wait(), PATIENCE)
    running.cancel()


def test_the_agenda_says_when_a_message_is_nobodys(ledger: Ledger) -> None:
    with ledger.reading() as session:
        assert agenda(session) == {}
    _write(ledger, Announcement.OUTBOX)
    taken = claim_next(ledger)
    assert taken is not None
    assert taken.taken_until is not None
    with ledger.reading() as session:
        due = agenda(session)
    assert due.keys() == {Topic.OUTBOX}
    assert abs(due[Topic.OUTBOX] - taken.taken_until) < timedelta(milliseconds=1)
