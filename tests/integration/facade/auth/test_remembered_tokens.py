"""A token is not looked up for each request, and what is revoked counts at once all the same."""

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from datetime import timedelta

import httpx
import psycopg
import pytest

from jobauto_prefect.facade.auth import token_cache
from jobauto_prefect.ledger.audit.trail import SERVICE
from jobauto_prefect.ledger.opening import open_ledger
from jobauto_prefect.ledger.records import Token, User
from jobauto_prefect.ledger.store import Ledger
from jobauto_prefect.settings import Settings
from tests.support.databases import on_postgresql
from tests.support.servers import client, facade, user_token
from tests.support.statements import Statements, counted_database
from tests.support.waits import eventually

pytestmark = on_postgresql

FOR_EVER = timedelta(days=1)  # so that nothing but the revocation can end it


@pytest.fixture
def reached(facade_settings: Settings) -> Iterator[tuple[Settings, Statements]]:
    with counted_database(facade_settings.database_url) as (by, asked):
        yield facade_settings.model_copy(update={"database_url": by}), asked


@contextmanager
def signed_in(settings: Settings, ledger: Ledger) -> Iterator[httpx.Client]:
    """A client of a facade over this ledger, which answers it."""
    token = user_token(ledger)
    with (
        facade(settings, ledger) as url,
        client(f"{url}/api/v1", token) as rest,
    ):
        assert rest.get("/status").is_success
        yield rest


def _asked_for_token(rest: httpx.Client, asked: Statements) -> bool:
    with asked.during():
        assert rest.get("/app/1.json").status_code == 404
        return any("FROM token" in text for text in asked.executed)


def _revoke(ledger: Ledger) -> None:
    with ledger.writing(SERVICE) as session:
        session.get_one(Token, 1).revoked_at = session.clock()


def _disable(ledger: Ledger) -> None:
    with ledger.writing(SERVICE) as session:
        session.get_one(User, 1).enabled = False


@pytest.mark.parametrize("end", [_revoke, _disable])
def test_a_revocation_elsewhere_is_heard_of(
    reached: tuple[Settings, Statements],
    monkeypatch: pytest.MonkeyPatch,
    end: Callable[[Ledger], None],
) -> None:
    settings, asked = reached
    monkeypatch.setattr(token_cache, "REMEMBER_FOR", FOR_EVER)
    with closing(open_ledger(settings)) as ledger, signed_in(settings, ledger) as rest:
        eventually(lambda: not _asked_for_token(rest, asked))
        with closing(open_ledger(settings)) as other:
            end(other)
        eventually(lambda: rest.get("/status").status_code == 401)


@pytest.mark.parametrize("end", [_revoke, _disable])
def test_a_revocation_here_counts_at_once(
    reached: tuple[Settings, Statements],
    monkeypatch: pytest.MonkeyPatch,
    end: Callable[[Ledger], None],
) -> None:
    settings, asked = reached
    monkeypatch.setattr(token_cache, "REMEMBER_FOR", FOR_EVER)
    with closing(open_ledger(settings)) as ledger, signed_in(settings, ledger) as rest:
        eventually(lambda: not _asked_for_token(rest, asked))
        end(ledger)
        assert rest.get("/status").status_code == 401


def test_where_nothing_is_announced_nothing_is_remembered(
    reached: tuple[Settings, Statements], monkeypatch: pytest.MonkeyPatch
) -> None:
    settings, asked = reached
    monkeypatch.setattr(token_cache, "REMEMBER_FOR", FOR_EVER)
    nowhere = "postgresql://postgres@127.0.0.1:9/x"
    settings = settings.model_copy(update={"database_listen_url": nowhere})
    with closing(open_ledger(settings)) as ledger, signed_in(settings, ledger) as rest:
        assert _asked_for_token(rest, asked)
        assert _asked_for_token(rest, asked)
        with closing(open_ledger(settings)) as other:
            _revoke(other)
        assert rest.get("/status").status_code == 401


def test_a_lost_connection_forgets_all(
    reached: tuple[Settings, Statements],
    facade_settings: Settings,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    settings, asked = reached
    monkeypatch.setattr(token_cache, "REMEMBER_FOR", FOR_EVER)
    with closing(open_ledger(settings)) as ledger, signed_in(settings, ledger) as rest:
        eventually(lambda: not _asked_for_token(rest, asked))
        asked.cut()
        with psycopg.connect(
            facade_settings.database_url
        ) as other:  # meanwhile, and not through what was cut
            other.execute("UPDATE token SET revoked_at = now()")
        asked.mend()
        eventually(lambda: rest.get("/status").status_code == 401)
