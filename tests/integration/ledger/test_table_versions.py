"""Programs and tables of different versions, as there are during an upgrade."""

import asyncio
import contextlib
import subprocess
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
import sqlalchemy as sa

from jobauto_prefect.errors import LedgerUnavailable, NotReady
from jobauto_prefect.facade.metrics import ledger_check
from jobauto_prefect.ledger.database import migration
from jobauto_prefect.ledger.database.engine import make_engine
from jobauto_prefect.ledger.opening import open_ledger
from jobauto_prefect.ledger.queries.lookup import newest_records
from jobauto_prefect.ledger.records import Company
from jobauto_prefect.ledger.secrets import create_key
from jobauto_prefect.settings import Settings
from tests.support.breakable import Part
from tests.support.databases import database
from tests.support.paths import JOBAUTO
from tests.support.ports import free_port
from tests.support.processes import clean_environment
from tests.support.redis_server import redis_server
from tests.support.waits import eventually

LATER = "0099"


@pytest.fixture(params=["postgresql", "sqlite"])
def settings(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Settings]:
    """An installation whose database has no tables yet."""
    with database(request.param, tmp_path) as url:
        settings = Settings(home=tmp_path, database_url=url)
        create_key(settings.key_path)
        yield settings


@pytest.fixture
def engine(settings: Settings) -> Iterator[sa.Engine]:
    """The tables of this version."""
    engine = make_engine(settings.ledger_url)
    migration.upgrade(engine)
    yield engine
    engine.dispose()


def _upgrade_by_later_release(engine: sa.Engine, oldest: str) -> None:
    versions = f"UPDATE alembic_version SET version_num = '{LATER}', oldest = '{oldest}'"
    with engine.begin() as connection:
        connection.execute(sa.text(versions))


def test_the_next_release_upgrades_under_parts_of_this_one(
    settings: Settings, engine: sa.Engine
) -> None:
    ledger = open_ledger(settings)
    _upgrade_by_later_release(engine, oldest=migration.newest())
    assert asyncio.run(ledger_check(ledger)()) is None
    open_ledger(settings).close()  # a part that is restarted meanwhile
    assert migration.upgrade(engine) == (LATER, LATER)
    ledger.close()


def test_a_part_two_releases_behind_its_tables_is_not_ready(
    settings: Settings, engine: sa.Engine
) -> None:
    ledger = open_ledger(settings)
    _upgrade_by_later_release(engine, oldest=LATER)
    with pytest.raises(NotReady, match="is too old; install the version of jobauto"):
        open_ledger(settings)
    with pytest.raises(NotReady, match="too old"):
        asyncio.run(ledger_check(ledger)())
    with engine.begin() as connection:
        connection.execute(sa.text("ALTER TABLE company RENAME TO business"))
    message = "tables are of another version"
    with pytest.raises(LedgerUnavailable, match=message), ledger.reading() as session:
        newest_records(session, Company, limit=1)
    ledger.close()


def _answers(url: str) -> bool:
    with contextlib.suppress(httpx.TransportError):
        return httpx.get(url).is_success
    return False


def _variables(settings: Settings) -> dict[str, str]:
    return clean_environment() | {
        "JOBAUTO_HOME": str(settings.home),
        "JOBAUTO_CONFIG_DIR": str(settings.home),
        "JOBAUTO_DATABASE_URL": settings.ledger_url,
        "JOBAUTO_PREFECT_API_URL": "http://127.0.0.1:9/api",
    }


def test_a_part_waits_for_its_tables(settings: Settings, tmp_path: Path) -> None:
    port, log = free_port(), tmp_path / "facade.log"
    variables = _variables(settings) | {"JOBAUTO_API_PORT": str(port)}
    part = Part("facade", [JOBAUTO, "api", "start"], variables, log)
    part.start()
    try:
        eventually(lambda: "no tables yet; run: jobauto db upgrade" in log.read_text("utf-8"), 30)
        engine = make_engine(settings.ledger_url)
        migration.upgrade(engine)
        engine.dispose()
        eventually(lambda: _answers(f"http://127.0.0.1:{port}/api/v1/ping.json"), 30)
    finally:
        part.end()


@pytest.mark.parametrize("settings", ["postgresql"], indirect=True)
def test_prefect_servers_and_an_upgrade_begin_at_once_on_empty_tables(
    settings: Settings, engine: sa.Engine, tmp_path: Path
) -> None:
    with database("postgresql", tmp_path) as url, redis_server(tmp_path) as redis:
        prefect_url = url.replace("postgresql://", "postgresql+asyncpg://")
        variables = _variables(settings) | {
            "PREFECT_SERVER_DATABASE_CONNECTION_URL": prefect_url,
            "JOBAUTO_REDIS_URL": redis,
        }
        ports = [free_port(), free_port()]
        parts = [
            Part(
                f"prefect-{port}",
                [JOBAUTO, "prefect", "start"],
                variables | {"JOBAUTO_PREFECT_PORT": str(port)},
                tmp_path / f"{port}.log",
            )
            for port in ports
        ]
        try:
            for part in parts:
                part.start()
            subprocess.run([JOBAUTO, "db", "upgrade"], env=variables, check=True)
            for port in ports:
                eventually(lambda port=port: _answers(f"http://127.0.0.1:{port}/api/health"), 60)
        finally:
            for part in parts:
                part.end()


def _columns(engine: sa.Engine) -> dict[tuple[str, str], sa.engine.interfaces.ReflectedColumn]:
    inspector = sa.inspect(engine)
    return {
        (table, column["name"]): column
        for table in inspector.get_table_names()
        for column in inspector.get_columns(table)
    }


def _broken_by(engine: sa.Engine, before: str, after: str) -> set[tuple[str, str]]:
    """The columns that a program of the version before misses, or would have to fill."""
    migration.upgrade(engine, before)
    former = _columns(engine)
    tables = {table for table, _ in former}
    migration.upgrade(engine, after)
    later = _columns(engine)
    return {place for place in former if place not in later} | {
        place
        for place, column in later.items()
        if place not in former
        and place[0] in tables
        and not column["nullable"]
        and column["default"] is None
    }


def test_the_oldest_program_finds_all_it_reads_and_fills_all_it_must(settings: Settings) -> None:
    engine = make_engine(settings.ledger_url)
    assert _broken_by(engine, migration.OLDEST, migration.newest()) == set()
    engine.dispose()


def test_what_breaks_an_older_program_is_found(settings: Settings) -> None:
    engine = make_engine(settings.ledger_url)
    assert ("wish", "id") in _broken_by(engine, "0027", "0028")
    engine.dispose()
