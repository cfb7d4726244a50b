"""Commands that nobody else waits for give the database more time than others."""

import contextlib
import threading
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from jobauto_prefect.ledger.database.announcements import plain_url
from jobauto_prefect.settings import Settings
from tests.support.databases import database
from tests.support.homes import Home, InProcessHome
from tests.support.waits import eventually

WAITING_LONG = """
SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()
AND wait_event_type = 'Lock' AND clock_timestamp() - query_start > interval '1 second'
"""


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Home]:
    """A home on PostgreSQL where an answer may take half a second, and to `apply` a minute."""
    with database("postgresql", tmp_path) as url:
        home = InProcessHome(tmp_path)
        home.environment |= {
            "JOBAUTO_DATABASE_URL": url,
            "JOBAUTO_DATABASE_ANSWER_SECONDS": "0.5",
            "JOBAUTO_DATABASE_LONG_SECONDS": "60",
        }
        assert home.run("secrets", "init").returncode == 0
        assert home.run("db", "upgrade").returncode == 0
        yield home


@contextlib.contextmanager
def locked(url: str) -> Iterator[None]:
    """Nobody else reads or writes companies until somebody has waited for it for a second."""
    address = plain_url(Settings(database_url=url).ledger_url) or ""
    with psycopg.connect(address) as holder, psycopg.connect(address, autocommit=True) as watcher:
        holder.execute("LOCK TABLE company")

        def release() -> None:
            eventually(lambda: watcher.execute(WAITING_LONG).fetchone() != (0,))
            holder.rollback()

        releasing = threading.Thread(target=release)
        releasing.start()
        yield
        releasing.join()


def test_apply_waits_for_a_database_that_keeps_others_waiting_too_long(
    home: Home, tmp_path: Path
) -> None:
    (tmp_path / "one.json").write_text('{"kind": "company", "slug": "acme", "name": "Acme"}')
    with locked(home.environment["JOBAUTO_DATABASE_URL"]):
        hasty = home.run("company", "list")
        patient = home.run("apply", "one.json", "--yes")
    assert hasty.returncode == 1
    assert "the ledger's database does not answer" in hasty.stderr  # its limit, or ours, ended it
    assert patient.returncode == 0, patient.stderr
    assert "acme" in home.run("company", "list", JOBAUTO_DATABASE_ANSWER_SECONDS="60").stdout
