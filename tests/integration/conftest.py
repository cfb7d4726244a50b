"""Fixtures of the integration tests."""

import functools
import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import httpx
import pytest
from argon2 import PasswordHasher

from jobauto_prefect.facade.auth import passwords
from jobauto_prefect.ledger.audit.trail import SERVICE
from jobauto_prefect.ledger.opening import open_ledger
from jobauto_prefect.ledger.records import RunTemplate
from jobauto_prefect.ledger.secrets import create_key
from jobauto_prefect.ledger.store import Ledger
from jobauto_prefect.settings import Settings
from tests.support import contract_check
from tests.support.beginnings import begin_with
from tests.support.claims import DEPLOYMENT, start_workers
from tests.support.company_pair import CompanyPair, make_company_pair
from tests.support.counting_proxy import counted
from tests.support.databases import database, migrated_database, usual_kind
from tests.support.homes import Home, InProcessHome
from tests.support.job_records import JobRecords, make_job_template
from tests.support.permission_table import make_company_records
from tests.support.ports import free_port
from tests.support.prefect_home import PrefectHome
from tests.support.record_files import FilesHome
from tests.support.records import make_everything, make_template
from tests.support.secrets import SECRET
from tests.support.servers import client, facade, prefect_client, user_token, worker_token


@pytest.fixture(scope="package", autouse=True)
def cheap_passwords() -> Iterator[None]:
    """Passwords are compared by the same function at the least cost; else each takes 0.2 s."""
    cheap = PasswordHasher(time_cost=1, memory_cost=8, parallelism=1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(passwords, "_hasher", cheap)
        patch.setattr(passwords, "_DUMMY_HASH", cheap.hash("nobody's"))
        yield


@pytest.fixture(scope="session")
def migrate_once(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], str]]:
    """Give, for a kind of database, the URL of one with our tables to copy."""
    with ExitStack() as databases:

        @functools.cache
        def migrate(kind: str) -> str:
            folder = tmp_path_factory.mktemp("migrated")
            return databases.enter_context(migrated_database(kind, folder))

        yield migrate


@pytest.fixture(scope="session")
def migrated(request: pytest.FixtureRequest, migrate_once: Callable[[str], str]) -> tuple[str, str]:
    """A kind of database, and the URL of one with our tables to copy.

    PostgreSQL's, unless a test is marked with `both_databases` or `on_sqlite`.
    """
    kind: str = getattr(request, "param", None) or usual_kind()
    return kind, migrate_once(kind)


@pytest.fixture(scope="session")
def key_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The key of all ledgers: rows of one can be put into another."""
    path = tmp_path_factory.mktemp("key") / "key"
    create_key(path)
    return path


@pytest.fixture
def ledger_settings(
    migrated: tuple[str, str], key_file: Path, tmp_path: Path
) -> Iterator[Settings]:
    """Settings of an installation whose ledger is ready to be opened."""
    kind, template = migrated
    with database(kind, tmp_path, template) as url:
        settings = Settings(home=tmp_path, database_url=url, database_connect_seconds=60)
        shutil.copy(key_file, settings.key_path)
        yield settings


@pytest.fixture
def ledger(ledger_settings: Settings) -> Iterator[Ledger]:
    """An open, empty ledger."""
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
    token = begin_with(ledger, "root", lambda: user_token(ledger))
    with client(f"{facade_url}/api/v1", token) as signed_in:
        signed_in.event_hooks["response"].append(contract_check.check)
        yield signed_in


@pytest.fixture
def claims(facade_url: str, ledger: Ledger) -> Iterator[httpx.Client]:
    """The claims API, with the token of a worker of the default pool."""
    start_workers(ledger)
    with client(f"{facade_url}/internal/v1", worker_token(ledger, "jobauto")) as signed_in:
        yield signed_in


@pytest.fixture
def everything(rest: httpx.Client, ledger: Ledger) -> dict[str, int]:
    """One record of each kind that clients write: kind -> id."""
    return begin_with(ledger, "everything", lambda: make_everything(rest))


@pytest.fixture
def template(rest: httpx.Client, ledger: Ledger) -> dict[str, Any]:
    """A run template that Prefect knows by a deployment."""

    def make() -> dict[str, Any]:
        made = make_template(rest, env={"PASSWORD": SECRET, "COUNT": 4})
        with ledger.writing(SERVICE) as session:
            record = session.get_one(RunTemplate, made["id"])
            record.deployment_id = DEPLOYMENT
            record.applied_parameters = {"GREETING": "hello", "COUNT": 4, "LOUD": False}
        return made

    return begin_with(ledger, "template", make)


@pytest.fixture
def prefect(prefect_server: str) -> Iterator[httpx.Client]:
    """A client of the real Prefect's API."""
    with prefect_client(prefect_server) as http:
        yield http


@pytest.fixture
def empty_home(tmp_path: Path) -> Home:
    """A home with nothing in it."""
    return Home(tmp_path)


@pytest.fixture(scope="session")
def prepared_home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home with key and tables, to copy: making one takes seconds."""
    home = InProcessHome(tmp_path_factory.mktemp("prepared"))
    assert home.run("secrets", "init").returncode == 0
    assert home.run("db", "upgrade").returncode == 0
    return home.path / "home"


@pytest.fixture
def place(tmp_path: Path, prepared_home: Path, prefect_server: str) -> Iterator[PrefectHome]:
    """A home whose commands reach Prefect through a counter."""
    shutil.copytree(prepared_home, tmp_path / "home")
    with counted(prefect_server, tmp_path) as prefect:
        yield PrefectHome(tmp_path, prefect, prefect_server)


@pytest.fixture
def files(prepared_home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FilesHome:
    """A home for files of records; nobody waits for Prefect, which is away."""
    monkeypatch.setattr("jobauto_prefect.cli.connection.client.PATIENCE_SECONDS", 0.0)
    shutil.copytree(prepared_home, tmp_path / "home")
    return FilesHome(tmp_path)


@pytest.fixture
def record_ids(rest: httpx.Client, ledger: Ledger) -> dict[str, int]:
    """One record of each kind, all of one company; nothing depends on any of them."""
    return begin_with(ledger, "records", lambda: make_company_records(rest, ledger))


@pytest.fixture
def jobs(rest: httpx.Client, ledger: Ledger) -> JobRecords:
    """A company with a run template, for jobs and windows of it."""
    ids = begin_with(ledger, "jobs", lambda: make_job_template(rest))
    return JobRecords(ledger, *ids)


@pytest.fixture
def pair(facade_url: str, rest: httpx.Client, ledger: Ledger) -> CompanyPair:
    """Each of two companies has one record of each kind, and one of each is shared."""
    made = begin_with(ledger, "pair", lambda: make_company_pair(rest, ledger))
    return CompanyPair(facade_url, ledger, rest, *made)
