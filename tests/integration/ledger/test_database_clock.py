"""Leases, windows and deadlines are judged by the database's clock, not by that of a host."""

import logging
import re
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path

import psycopg
import pytest
from sqlalchemy import Engine, text

from jobauto_prefect.clock import utc_now
from jobauto_prefect.ledger.database import clock as database_clock
from jobauto_prefect.ledger.database.clock import DatabaseClock
from jobauto_prefect.ledger.database.engine import make_engine
from jobauto_prefect.ledger.opening import open_ledger
from jobauto_prefect.ledger.store import Ledger
from jobauto_prefect.settings import Settings
from tests.support.databases import POSTGRESQL, both_databases, database

FALSE = timedelta(seconds=120)
CLOSE = timedelta(seconds=30)
"""Real time passes between two readings."""

MEASURE_SECONDS = 1000


def _two_minutes_ahead() -> datetime:
    return utc_now() + FALSE


@pytest.fixture(autouse=True)
def _measured_seldom(monkeypatch: pytest.MonkeyPatch) -> None:
    """By as many seconds a clock is wrong that is not measured again: by more than is close."""
    monkeypatch.setattr(database_clock, "MEASURE_SECONDS", MEASURE_SECONDS)


class Uptime:
    """Seconds since boot that the test sets."""

    def __init__(self) -> None:
        self.seconds = 1000.0

    def __call__(self) -> float:
        return self.seconds


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Engine]:
    with database("postgresql", tmp_path) as url:
        engine = make_engine(Settings(database_url=url).ledger_url)
        yield engine
        engine.dispose()


def _use(engine: Engine) -> datetime:
    with engine.connect() as connection:
        instant: datetime = connection.execute(text("SELECT clock_timestamp()")).scalar_one()
    return instant


def test_a_host_whose_clock_is_wrong_has_the_databases_time(engine: Engine) -> None:
    clock = DatabaseClock(host=_two_minutes_ahead)
    assert clock() - utc_now() > FALSE - CLOSE  # nothing is known before the first connection
    clock.follow(engine)
    instant = _use(engine)
    assert abs(clock() - instant) < CLOSE
    assert clock().tzinfo is UTC
    assert abs(clock.host_is_ahead - FALSE) < CLOSE


def test_the_difference_is_measured_again_while_connections_are_used(engine: Engine) -> None:
    uptime = Uptime()
    clock = DatabaseClock(uptime=uptime)
    clock.follow(engine)
    _use(engine)
    uptime.seconds += MEASURE_SECONDS - 1
    _use(engine)
    assert clock() - utc_now() > timedelta(seconds=900), "measured too often"
    uptime.seconds += 1
    _use(engine)
    assert abs(clock() - utc_now()) < CLOSE


def test_the_difference_is_measured_again_on_a_new_connection(engine: Engine) -> None:
    uptime = Uptime()
    clock = DatabaseClock(uptime=uptime)
    clock.follow(engine)
    _use(engine)
    uptime.seconds += MEASURE_SECONDS - 1
    engine.dispose()
    _use(engine)
    assert abs(clock() - utc_now()) < CLOSE


def test_a_wrong_host_clock_is_said_once(engine: Engine, caplog: pytest.LogCaptureFixture) -> None:
    uptime = Uptime()
    clock = DatabaseClock(host=_two_minutes_ahead, uptime=uptime)
    clock.follow(engine)
    with caplog.at_level(logging.WARNING):
        _use(engine)
        uptime.seconds += MEASURE_SECONDS
        _use(engine)
    (record,) = caplog.records
    assert re.search(r"\b1[2-4]\d\.\d s ahead of the database's", record.getMessage())


def test_a_connection_that_was_cut_is_replaced_when_it_is_measured(engine: Engine) -> None:
    uptime = Uptime()
    clock = DatabaseClock(uptime=uptime)
    clock.follow(engine)
    with engine.connect() as connection:
        pid = connection.execute(text("SELECT pg_backend_pid()")).scalar_one()
    with psycopg.connect(POSTGRESQL) as other:
        other.execute("SELECT pg_terminate_backend(%s)", [pid])
    uptime.seconds += MEASURE_SECONDS
    _use(engine)
    assert abs(clock() - utc_now()) < CLOSE


@both_databases
def test_an_open_ledger_follows_its_database(ledger: Ledger, ledger_settings: Settings) -> None:
    with closing(open_ledger(ledger_settings)) as opened:
        follows = isinstance(opened.clock, DatabaseClock)
        assert follows == (ledger.engine.dialect.name == "postgresql")
