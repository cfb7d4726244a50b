"""Reading changes into the ledger: each once, in their order, whatever happens in between."""

import asyncio
import contextlib
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import create_engine, select, text
from sqlalchemy.orm import undefer

from jobauto_prefect.definitions import to_text
from jobauto_prefect.jobs.timetable import timetable_of
from jobauto_prefect.ledger.audit.trail import SERVICE
from jobauto_prefect.ledger.events.event_store import SourceChange, store_changes
from jobauto_prefect.ledger.queries.agenda import Topic
from jobauto_prefect.ledger.queries.events import source_times
from jobauto_prefect.ledger.records import Event, EventSource
from jobauto_prefect.ledger.store import Ledger
from jobauto_prefect.settings import Settings
from jobauto_prefect.sources.adapters import LARGEST_CHANGE, Adapter
from jobauto_prefect.sources.poller import Poller
from jobauto_prefect.sources.targets import TargetRules
from tests.support.adapters import AdapterDatabase, adapter_database, add_source, stored
from tests.support.databases import both_databases
from tests.support.ledger_rows import fetch, fetch_all, fetch_one
from tests.support.waits import until


def source_of(ledger: Ledger, source_id: int) -> EventSource:
    return fetch(ledger, EventSource, source_id)


def events_of(ledger: Ledger, source_id: int) -> Sequence[Event]:
    query = select(Event).where(Event.event_source_id == source_id).order_by(Event.id)
    return fetch_all(ledger, query.options(undefer(Event.state)))


INSERT = (
    "INSERT INTO changes_cache (inversion, recordid, evidence, context)"
    " VALUES (:inversion, :recordid, :evidence, :context)"
)


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
    event = fetch_one(ledger, select(Event).order_by(Event.id).limit(1))
    assert (event.evidence, event.operation, event.record_id) == ("invoice", "create", "1001")
    assert event.data["context"] == {"number": "VF1"}


def test_a_change_that_is_too_large_is_a_dead_letter_with_its_number(
    ledger: Ledger, poller: Poller, adapter: AdapterDatabase
) -> None:
    source = add_source(ledger, adapter)
    adapter.add(1, 3)
    adapter.add(4, context={"text": "x" * LARGEST_CHANGE})
    adapter.add(5)
    assert poller.read(source) == 5
    assert adapter.inversions() == []
    faults = {event.inversion: event.error for event in events_of(ledger, source) if event.error}
    assert faults.keys() == {4}
    assert f"at most {LARGEST_CHANGE} are read" in (faults[4] or "")
    assert source_of(ledger, source).poll_error is None


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


@both_databases
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


@both_databases
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


UNKEPT_CONTEXTS = {
    "half a surrogate pair": (r'{"a": "\ud83d"}', "context/a has a character"),
    "half a surrogate pair in a key": (r'{"\ud83d": 1}', "unusable character"),
    "NUL": (r'{"a": ["\u0000"]}', "context/a/0 has a character"),
    "a number beyond all": ('{"a": 1e400}', "context/a is infinite or too large"),
    "a whole number beyond all": ('{"a": -' + "9" * 400 + "}", "context/a is infinite"),
    "depth": ('{"a":' * 70 + "1" + "}" * 70, "is nested deeper than 64 levels"),
    "great depth": ("[" * 1100 + "]" * 1100, "is nested deeper than 64 levels"),
    "depth beyond all": ("[" * 100_000, "is nested deeper than 64 levels"),
}
"""JSON that databases take as text, and why it can't be kept."""


@pytest.mark.parametrize("unkept", UNKEPT_CONTEXTS)
def test_a_change_that_cannot_be_kept_is_a_dead_letter(
    ledger: Ledger, poller: Poller, sqlite_adapter: AdapterDatabase, unkept: str
) -> None:
    context, reason = UNKEPT_CONTEXTS[unkept]
    source = add_source(ledger, sqlite_adapter)
    sqlite_adapter.add(1)
    with sqlite_adapter.engine.begin() as connection:
        row = {"inversion": 2, "recordid": 7, "evidence": "invoice", "context": context}
        connection.execute(text(INSERT), row)
    sqlite_adapter.add(3)
    assert poller.read(source) == 3
    assert source_of(ledger, source).poll_error is None
    assert sqlite_adapter.inversions() == []
    events = events_of(ledger, source)
    assert [(event.inversion, event.state) for event in events] == [
        (1, "done"), (2, "dead"), (3, "done")
    ]  # fmt: skip
    assert reason in str(events[1].error)
    assert events[1].data["context"] == context
    assert events[1].record_id == "7"
    assert events[1].emitted_at is not None  # nobody else is to trip over it


UNREADABLE = {
    "sqlite": {
        "evidence": ("CAST(x'ff41' AS TEXT)", "evidence has bytes that are no UTF-8", r"\xffA"),
        "context": ("CAST(x'7b22ff223a317d' AS TEXT)", "context has bytes", '{"\\xff":1}'),
        "target": ("x'fe'", "target has bytes that are no UTF-8", r"\xfe"),
        "externalids": ("'a' || char(0)", "externalids has a character", "a\ufffd"),
    },
    "pgsql": {
        "created": ("'infinity'", "created can't be read: timestamp too large", "infinity"),
        "source_date": ("'0044-03-15 BC'", "source_date can't be read", "0044-03-15 BC"),
        "later_date": ("'12026-01-01'", "later_date can't be read", "12026-01-01"),
        "dates": ("'{infinity}'", "dates can't be read", "{infinity}"),
        "at_time": ("'24:00'", "at_time can't be read", "24:00:00"),
    },
}
"""By kind of adapter and column: a value no driver hands over, why, and what is kept of it."""

COLUMNS = "source_date date, later_date date, dates date[], at_time time"


@pytest.mark.parametrize(
    ("kind", "column"), [(kind, column) for kind in UNREADABLE for column in UNREADABLE[kind]]
)
def test_a_change_the_driver_cannot_hand_over_is_a_dead_letter(
    ledger: Ledger, poller: Poller, tmp_path_factory: pytest.TempPathFactory, kind: str, column: str
) -> None:
    value, reason, kept = UNREADABLE[kind][column]
    with adapter_database(kind, tmp_path_factory.mktemp("adapter")) as adapter:
        source = add_source(ledger, adapter)
        adapter.add(1)
        with adapter.engine.begin() as connection:
            if kind == "pgsql":
                for each in COLUMNS.split(", "):
                    connection.execute(text(f"ALTER TABLE changes_cache ADD {each}"))
            insert = f"INSERT INTO changes_cache (inversion, {column}) VALUES (2, {value})"
            connection.execute(text(insert))
        adapter.add(3)
        assert poller.read(source) == 3
        assert adapter.inversions() == []
    first, event, last = events_of(ledger, source)
    assert (first.state, event.inversion, event.state, last.state) == ("done", 2, "dead", "done")
    assert reason in str(event.error)
    assert event.data[column] == kept


def test_text_of_a_server_without_an_encoding_is_a_dead_letter_where_it_is_no_utf8(
    ledger: Ledger, poller: Poller, tmp_path: Path
) -> None:
    with adapter_database("pgsql", tmp_path / "adapter") as adapter:
        name = f"{adapter.target.database}_ascii"
        create = (
            f"CREATE DATABASE \"{name}\" ENCODING 'SQL_ASCII' LC_COLLATE 'C' LC_CTYPE 'C'"
            " TEMPLATE template0"
        )
        with adapter.engine.connect().execution_options(isolation_level="AUTOCOMMIT") as server:
            server.execute(text(create))
            url = adapter.engine.url.set(database=name)
            engine = create_engine(url, connect_args={"client_encoding": "utf8"})
            try:
                adapter.table.metadata.create_all(engine)
                with engine.begin() as connection:
                    connection.execute(
                        text(
                            "INSERT INTO changes_cache (inversion, evidence) VALUES"
                            " (1, 'faktúra'), (2, convert_from('\\xe1'::bytea, 'SQL_ASCII')),"
                            " (3, 'invoice')"
                        )
                    )
                there = replace(adapter, target=replace(adapter.target, database=name))
                source = add_source(ledger, there)
                assert poller.read(source) == 3
            finally:
                engine.dispose()
                server.execute(text(f'DROP DATABASE "{name}"'))
    events = events_of(ledger, source)
    assert [(event.evidence, event.state) for event in events] == [
        ("faktúra", "done"), (r"\xe1", "dead"), ("invoice", "done")
    ]  # fmt: skip


@pytest.mark.parametrize("number", ["'abc'", "2.5", "9e18 + 9e18"])
def test_a_change_without_a_usable_number_is_named(
    ledger: Ledger, poller: Poller, sqlite_adapter: AdapterDatabase, number: str
) -> None:
    source = add_source(ledger, sqlite_adapter)
    with sqlite_adapter.engine.begin() as connection:
        connection.execute(text("DROP TABLE changes_cache"))
        connection.execute(
            text("CREATE TABLE changes_cache (inversion, recordid, evidence, operation)")
        )
        connection.execute(text(f"INSERT INTO changes_cache (inversion) VALUES (1), ({number})"))
    assert [poller.read(source), poller.read(source)] == [1, 0]
    assert "must be a whole number" in str(source_of(ledger, source).poll_error)


NUMBERS = (
    '{"total": 1500.00, "sum": 12345678901234567.89, "tiny": 1E-7, "zero": -0, "many": [0.10]}'
)


def test_numbers_of_a_change_keep_their_digits(
    ledger: Ledger, poller: Poller, adapter: AdapterDatabase
) -> None:
    source = add_source(ledger, adapter)
    with adapter.engine.begin() as connection:
        connection.execute(text("ALTER TABLE changes_cache ADD price decimal(22,2)"))
        row = {"inversion": 1, "recordid": 7, "evidence": "invoice", "context": NUMBERS}
        connection.execute(text(INSERT), row)
        if adapter.target.kind != "sqlite":  # which has no decimal numbers
            connection.execute(text("UPDATE changes_cache SET price = 1500.00"))
    assert poller.read(source) == 1
    (event,) = events_of(ledger, source)
    assert event.error is None
    context = event.data["context"]
    assert {key: to_text(value) for key, value in context.items()} == {
        "total": "1500.00", "sum": "12345678901234567.89", "tiny": "1E-7", "zero": "-0",
        "many": "[0.10]",
    }  # fmt: skip
    if adapter.target.kind != "sqlite":
        assert event.data["price"] == "1500.00"


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
            times = source_times(session)
        return [source_id for at, source_id in times if at <= now + timedelta(seconds=seconds)]

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
