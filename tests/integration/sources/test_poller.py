"""Reading changes into the ledger: each once, in their order, whatever happens in between."""

import asyncio
import contextlib
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import select, text

from jobauto_prefect.jobs.timetable import timetable_of
from jobauto_prefect.ledger.audit.trail import SERVICE
from jobauto_prefect.ledger.events.event_store import SourceChange, store_changes
from jobauto_prefect.ledger.queries.agenda import Topic
from jobauto_prefect.ledger.queries.events import sources_due
from jobauto_prefect.ledger.records import Event, EventSource
from jobauto_prefect.ledger.store import Ledger
from jobauto_prefect.settings import Settings
from jobauto_prefect.sources import Poller
from jobauto_prefect.sources.adapters import Adapter
from jobauto_prefect.sources.targets import TargetRules
from tests.support.adapters import AdapterDatabase, add_source, stored
from tests.support.waits import until


def source_of(ledger: Ledger, source_id: int) -> EventSource:
    with ledger.reading() as session:
        return session.get_one(EventSource, source_id)


@pytest.fixture
def poller(ledger: Ledger, ledger_settings: Settings) -> Poller:
    return Poller(ledger, ledger_settings)


@pytest.mark.spec("1.8", "6.8")
def test_changes_are_stored_in_order_and_then_removed(
    ledger: Ledger, poller: Poller, adapter: AdapterDatabase
) -> None:
    source = add_source(ledger, adapter)
    adapter.add(1, 1203, context={"number": "VF1"})
    assert poller.read(source) == 1203
    assert stored(ledger, source) == list(range(1, 1204))
    assert adapter.inversions() == []
    read = source_of(ledger, source)
    assert (read.last_processed_id, read.poll_error) == (1203, None)
    assert read.polled_at is not None
    assert poller.read(source) == 0
    with ledger.reading() as session:
        event = session.scalars(select(Event).order_by(Event.id).limit(1)).one()
    assert (event.evidence, event.operation, event.record_id) == ("invoice", "create", "1001")
    assert event.data["context"] == {"number": "VF1"}


def test_what_was_stored_and_not_removed_is_not_stored_again(
    ledger: Ledger, poller: Poller, adapter: AdapterDatabase
) -> None:
    source = add_source(ledger, adapter)
    adapter.add(1, 5)
    with Adapter(adapter.target, TargetRules()) as opened:
        rows = [SourceChange(one.inversion, one.members) for one in opened.after(0, 3)]
    with ledger.writing(SERVICE) as session:  # and here its process died
        store_changes(session, session.get_one(EventSource, source), rows)
    assert poller.read(source) == 2
    assert stored(ledger, source) == [1, 2, 3, 4, 5]
    assert adapter.inversions() == []


def test_a_change_that_comes_late_under_a_lower_number_is_read(
    ledger: Ledger, poller: Poller, sqlite_adapter: AdapterDatabase
) -> None:
    for consume in ("delete", "keep"):
        source = add_source(ledger, sqlite_adapter, consume=consume)
        sqlite_adapter.add(10)
        poller.read(source)
        sqlite_adapter.add(9)
        assert poller.read(source) == 1
        assert stored(ledger, source) == [10, 9]
        with ledger.writing(SERVICE) as session:
            session.get_one(EventSource, source).retired_at = ledger.clock()


def test_kept_changes_stay_and_are_read_once(
    ledger: Ledger, poller: Poller, sqlite_adapter: AdapterDatabase
) -> None:
    source = add_source(ledger, sqlite_adapter, consume="keep")
    sqlite_adapter.add(1, 3)
    assert [poller.read(source), poller.read(source)] == [3, 0]
    sqlite_adapter.add(4)
    assert poller.read(source) == 1
    assert sqlite_adapter.inversions() == [1, 2, 3, 4]


def test_an_adapter_that_counts_anew_is_read_all_the_same(
    ledger: Ledger, poller: Poller, sqlite_adapter: AdapterDatabase
) -> None:
    source = add_source(ledger, sqlite_adapter)
    sqlite_adapter.add(1)
    poller.read(source)
    sqlite_adapter.add(1, recordid=77)
    assert poller.read(source) == 1
    assert stored(ledger, source) == [1, 1]


def test_changes_up_to_where_reading_begins_are_left_alone(
    ledger: Ledger, poller: Poller, sqlite_adapter: AdapterDatabase
) -> None:
    source = add_source(ledger, sqlite_adapter, start_after=2)
    sqlite_adapter.add(1, 3)
    assert poller.read(source) == 1
    assert sqlite_adapter.inversions() == [1, 2]


def test_two_services_never_read_a_source_twice(
    ledger: Ledger, ledger_settings: Settings, sqlite_adapter: AdapterDatabase
) -> None:
    source = add_source(ledger, sqlite_adapter)
    sqlite_adapter.add(1, 2000)
    pollers = [Poller(ledger, ledger_settings) for _ in range(4)]
    with ThreadPoolExecutor(4) as threads:
        counts = list(threads.map(lambda one: one.read(source), pollers))
    assert sorted(counts) == [0, 0, 0, 2000]
    assert stored(ledger, source) == list(range(1, 2001))


def test_who_took_too_long_writes_nothing_any_more(
    ledger: Ledger,
    ledger_settings: Settings,
    sqlite_adapter: AdapterDatabase,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Between reading and storing, its turn ends and another process takes over."""
    source = add_source(ledger, sqlite_adapter)
    sqlite_adapter.add(1, 2)
    slow, quick = Poller(ledger, ledger_settings), Poller(ledger, ledger_settings)
    read, clock = Adapter.after, ledger.clock

    def read_slowly(adapter: Adapter, after: int, limit: int) -> Any:
        monkeypatch.setattr(Adapter, "after", read)
        found = adapter.after(after, limit)
        ledger.clock = lambda: clock() + timedelta(minutes=5)
        assert quick.read(source) == 2
        return found

    monkeypatch.setattr(Adapter, "after", read_slowly)
    assert slow.read(source) == 0
    assert stored(ledger, source) == [1, 2]


def test_where_removing_is_refused_reading_goes_on_and_says_so(
    ledger: Ledger, poller: Poller, sqlite_adapter: AdapterDatabase
) -> None:
    forbid = (
        "CREATE TRIGGER keep BEFORE DELETE ON changes_cache BEGIN SELECT RAISE(ABORT, 'no'); END"
    )
    with sqlite_adapter.engine.begin() as connection:
        connection.execute(text(forbid))
    source = add_source(ledger, sqlite_adapter)
    sqlite_adapter.add(1, 700)
    assert [poller.read(source), poller.read(source)] == [700, 0]
    assert "removed" in str(source_of(ledger, source).poll_error)
    sqlite_adapter.add(701)
    assert poller.read(source) == 1


def test_a_source_that_is_away_says_why_and_comes_back(
    ledger: Ledger, poller: Poller, sqlite_adapter: AdapterDatabase
) -> None:
    away = replace(sqlite_adapter.target, database=sqlite_adapter.target.database + ".gone")
    source = add_source(ledger, replace(sqlite_adapter, target=away))
    sqlite_adapter.add(1)
    assert poller.read(source) == 0
    assert source_of(ledger, source).poll_error
    with ledger.writing(SERVICE) as session:
        session.get_one(EventSource, source).db_database = sqlite_adapter.target.database
    assert poller.read(source) == 1
    assert source_of(ledger, source).poll_error is None


def test_texts_no_database_keeps_do_no_harm(
    ledger: Ledger, poller: Poller, sqlite_adapter: AdapterDatabase
) -> None:
    source = add_source(ledger, sqlite_adapter)
    sqlite_adapter.add(1, evidence="in\0voice", externalids="\0")
    with sqlite_adapter.engine.begin() as connection:
        odd = "INSERT INTO changes_cache (inversion, context) VALUES (2, '{\"a\": NaN}')"
        connection.execute(text(odd))
    assert poller.read(source) == 2
    assert source_of(ledger, source).poll_error is None


def test_each_source_is_due_in_its_own_time(
    ledger: Ledger, poller: Poller, sqlite_adapter: AdapterDatabase
) -> None:
    often = add_source(ledger, sqlite_adapter, poll_interval=1)
    with ledger.writing(SERVICE) as session:
        session.get_one(EventSource, often).name = "often"
    seldom = add_source(ledger, sqlite_adapter, poll_interval=3600)
    now = ledger.clock()

    def due(seconds: float) -> list[int]:
        with ledger.reading() as session:
            return sources_due(session, now + timedelta(seconds=seconds))

    assert sorted(due(0)) == [often, seldom]
    ledger.clock = lambda: now
    poller.read(often)
    poller.read(seldom)
    assert due(0.9) == []
    assert due(1) == [often]
    assert sorted(due(3600)) == [often, seldom]
    with ledger.writing(SERVICE) as session:
        session.get_one(EventSource, often).enabled = False
    assert due(10) == []


async def test_the_first_source_is_read_soon_after_it_is_made(
    ledger: Ledger, ledger_settings: Settings, adapter: AdapterDatabase
) -> None:
    timetable = timetable_of(ledger, ledger_settings)
    poller = Poller(ledger, ledger_settings, there_are=timetable.wanted[Topic.SOURCES])
    services = [asyncio.create_task(timetable.run()), asyncio.create_task(poller.run())]
    await asyncio.sleep(0.5)  # it has looked, and there was none
    source = add_source(ledger, adapter)
    adapter.add(1, 3)
    await until(lambda: stored(ledger, source) == [1, 2, 3])
    for service in services:
        service.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await service
