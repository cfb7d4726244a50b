"""A dropped connection is replaced before anything was done on it, and never afterwards."""

import threading
from collections.abc import Iterator
from contextlib import closing

import psycopg
import pytest
from sqlalchemy import func, select

from jobauto_prefect.errors import LedgerUnavailable
from jobauto_prefect.ledger.audit.trail import SERVICE
from jobauto_prefect.ledger.opening import open_ledger
from jobauto_prefect.ledger.records import Company
from jobauto_prefect.ledger.store import Ledger
from jobauto_prefect.settings import Settings
from tests.support.databases import on_postgresql
from tests.support.ledger_rows import count_rows
from tests.support.statements import Statements, counted_database
from tests.support.waits import eventually

pytestmark = on_postgresql


@pytest.fixture
def reached(ledger_settings: Settings) -> Iterator[tuple[Ledger, Statements]]:
    """A ledger and the way to its database."""
    with counted_database(ledger_settings.database_url) as (by, relay):
        settings = ledger_settings.model_copy(update={"database_url": by})
        with closing(open_ledger(settings)) as ledger:
            yield ledger, relay


def _drop(relay: Statements) -> None:
    relay.cut()
    relay.mend()


def _cut_once_committed(relay: Statements, url: str) -> None:
    with psycopg.connect(url, autocommit=True) as direct:
        eventually(lambda: direct.execute("SELECT 1 FROM company").fetchone())
    relay.cut()


def test_what_begins_on_a_dropped_connection_is_done_on_another(
    reached: tuple[Ledger, Statements],
) -> None:
    ledger, relay = reached
    _drop(relay)
    assert count_rows(ledger, Company) == 0
    _drop(relay)
    with ledger.writing(SERVICE) as session:
        session.add(Company(slug="acme", name="Acme"))
    _drop(relay)
    with ledger.snapshot() as session:
        assert session.scalars(select(Company.slug)).all() == ["acme"]


def test_a_later_statement_is_not_tried_again(reached: tuple[Ledger, Statements]) -> None:
    ledger, relay = reached
    with pytest.raises(LedgerUnavailable), ledger.reading() as session:
        session.scalar(select(func.count()).select_from(Company))
        _drop(relay)
        session.scalar(select(func.count()).select_from(Company))
    with pytest.raises(LedgerUnavailable), ledger.writing(SERVICE) as session:
        session.add(Company(slug="acme", name="Acme"))
        session.flush()
        _drop(relay)
        session.add(Company(slug="other", name="Other"))
    assert count_rows(ledger, Company) == 0


def test_a_commit_without_an_answer_is_not_tried_again(
    reached: tuple[Ledger, Statements], ledger_settings: Settings
) -> None:
    ledger, relay = reached
    relay.lose_answer_to = "COMMIT"
    cutting = threading.Thread(
        target=_cut_once_committed, args=(relay, ledger_settings.database_url)
    )
    with relay.during(), pytest.raises(LedgerUnavailable), ledger.writing(SERVICE) as session:
        session.add(Company(slug="acme", name="Acme"))
        session.flush()
        cutting.start()
    assert relay.commits == 1
    assert sum(text.startswith("INSERT INTO company") for text in relay.executed) == 1
    relay.lose_answer_to = None
    cutting.join()
    relay.mend()
    assert count_rows(ledger, Company) == 1
