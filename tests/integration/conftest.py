"""Fixtures of the integration tests."""

from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from jobauto_prefect.ledger.database import migration
from jobauto_prefect.ledger.database.engine import make_engine
from jobauto_prefect.ledger.secrets import create_key
from jobauto_prefect.ledger.store import Ledger, open_ledger
from jobauto_prefect.settings import Settings
from tests.support import contract_check
from tests.support.claims import start_workers
from tests.support.databases import KINDS, database
from tests.support.ports import free_port
from tests.support.servers import client, facade, user_token, worker_token


@pytest.fixture(scope="session", params=KINDS)
def migrated(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[str, str]]:
    """A kind of database, and the URL of one with our tables to copy."""
    with database(request.param, tmp_path_factory.mktemp("migrated")) as url:
        engine = make_engine(Settings(database_url=url).ledger_url)
        migration.upgrade(engine)
        engine.dispose()
        yield request.param, url


@pytest.fixture
def ledger_settings(migrated: tuple[str, str], tmp_path: Path) -> Iterator[Settings]:
    """Settings of an installation whose ledger is ready to be opened."""
    kind, template = migrated
    with database(kind, tmp_path, template) as url:
        settings = Settings(home=tmp_path, database_url=url)
        create_key(settings.key_path)
        yield settings


@pytest.fixture
def ledger(ledger_settings: Settings) -> Iterator[Ledger]:
    """An open, empty ledger on each kind of database."""
    ledger = open_ledger(ledger_settings)
    yield ledger
    ledger.close()


@pytest.fixture
def facade_settings(ledger_settings: Settings) -> Settings:
    """The same, with an address for the facade; Prefect does not answer."""
    return ledger_settings.model_copy(
        update={
            "url": f"http://127.0.0.1:{free_port()}",
            "prefect_api_url": "http://127.0.0.1:9/api",
        }
    )


@pytest.fixture
def facade_url(facade_settings: Settings, ledger: Ledger) -> Iterator[str]:
    """The address of a facade over the ledger."""
    with facade(facade_settings, ledger) as url:
        yield url


@pytest.fixture
def rest(facade_url: str, ledger: Ledger) -> Iterator[httpx.Client]:
    """The REST contract, signed in as a super_admin; every answer is held to the document."""
    with client(f"{facade_url}/api/v1", user_token(ledger)) as signed_in:
        signed_in.event_hooks["response"].append(contract_check.check)
        yield signed_in


@pytest.fixture
def claims(facade_url: str, ledger: Ledger) -> Iterator[httpx.Client]:
    """The claims API, with the token of a worker of the default pool."""
    start_workers(ledger)
    with client(f"{facade_url}/internal/v1", worker_token(ledger, "jobauto")) as signed_in:
        yield signed_in
