"""A network that hangs with its sockets open holds up neither a request nor a row."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from sqlalchemy import Engine, make_url, text

from jobauto_prefect.errors import LedgerUnavailable
from jobauto_prefect.ledger.database.engine import database_errors, make_engine
from jobauto_prefect.ledger.database.postgresql import Limits
from jobauto_prefect.settings import Settings
from tests.support.breakable import Relay
from tests.support.databases import database

PATIENCE = 60  # seconds; without limits the waiting is for ever
LIMITS = Limits(connect=5, answer=2, idle=2)


@pytest.fixture
def url(tmp_path: Path) -> Iterator[str]:
    with database("postgresql", tmp_path) as plain:
        yield Settings(database_url=plain).ledger_url


@pytest.fixture
def relay(url: str) -> Iterator[Relay]:
    with Relay(make_url(url).port or 5432) as relay:
        yield relay


@pytest.fixture
def engine(url: str, relay: Relay) -> Iterator[Engine]:
    """An engine whose connections go through the relay."""
    engine = _led(url, relay, LIMITS)
    yield engine
    engine.dispose()


def _led(url: str, relay: Relay, limits: Limits) -> Engine:
    led = make_url(url).set(host="127.0.0.1", port=relay.port)
    return make_engine(led.render_as_string(hide_password=False), limits)


def _answer(engine: Engine) -> int:
    with database_errors(), engine.connect() as connection:
        return int(connection.execute(text("SELECT 42")).scalar_one())


def _ends_unavailable(engine: Engine) -> bool:
    with ThreadPoolExecutor(1) as threads:
        asked = threads.submit(_answer, engine)
        with pytest.raises(LedgerUnavailable):
            asked.result(PATIENCE)
    return True


def test_a_known_connection_that_hangs_is_given_up_and_replaced(
    engine: Engine, relay: Relay
) -> None:
    assert _answer(engine) == 42
    relay.hang()
    assert _ends_unavailable(engine)
    relay.mend()
    assert _answer(engine) == 42


def test_a_commit_that_hangs_is_given_up(engine: Engine, relay: Relay) -> None:
    with (
        ThreadPoolExecutor(1) as threads,
        pytest.raises(LedgerUnavailable, match="no answer"),
        database_errors(),
        engine.connect() as connection,
    ):
        connection.execute(text("SELECT 42"))
        relay.hang()
        threads.submit(connection.commit).result(PATIENCE)


def test_a_slow_network_within_the_limits_is_no_error(url: str, relay: Relay) -> None:
    relay.delay_seconds = 0.05
    engine = _led(url, relay, Limits(connect=30, answer=30))
    assert _answer(engine) == 42
    engine.dispose()


def test_what_a_hung_connection_held_is_let_go_by_the_server(
    engine: Engine, relay: Relay, url: str
) -> None:
    direct = make_engine(url, Limits(answer=PATIENCE))
    with direct.begin() as connection:
        connection.execute(text("CREATE TABLE shelf (id int PRIMARY KEY, book text)"))
        connection.execute(text("INSERT INTO shelf VALUES (1, 'a')"))
    held = engine.connect()
    held.execute(text("UPDATE shelf SET book = 'b' WHERE id = 1"))
    relay.hang()
    with direct.begin() as connection:
        connection.execute(text("UPDATE shelf SET book = 'c' WHERE id = 1"))
    held.invalidate()
    held.close()
    direct.dispose()


def test_a_statement_that_takes_too_long_is_ended_by_the_server_too(engine: Engine) -> None:
    with pytest.raises(LedgerUnavailable), database_errors(), engine.connect() as connection:
        connection.execute(text("SELECT pg_sleep(30)"))
