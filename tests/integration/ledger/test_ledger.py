"""The ledger on real databases: audit in the transaction, guarded rows, sealed secrets."""

from concurrent.futures import ThreadPoolExecutor, wait
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import urlsplit
from uuid import UUID

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import insert, select, text, update
from sqlalchemy.exc import DBAPIError

from jobauto_prefect.definitions import Severity
from jobauto_prefect.errors import Conflict, KeyMissing, NotReady
from jobauto_prefect.jobs.claims.decision import Grant, grant_job
from jobauto_prefect.jobs.outcome.results import JobResult, record_end
from jobauto_prefect.ledger.audit.trail import SERVICE, Actor, UnauditedWrite
from jobauto_prefect.ledger.database import migration
from jobauto_prefect.ledger.database.engine import make_engine
from jobauto_prefect.ledger.jobs.attempts import new_job
from jobauto_prefect.ledger.opening import open_ledger
from jobauto_prefect.ledger.outbox import OutboxKind, complete, enqueue, retry_later
from jobauto_prefect.ledger.records import (
    App,
    AuditEntry,
    Base,
    Company,
    InstallationValue,
    Job,
    Lease,
    OutboxMessage,
    RunTemplate,
    User,
    UserRole,
    WorkerRecord,
)
from jobauto_prefect.ledger.secrets import create_key, load_key
from jobauto_prefect.ledger.states import JobState
from jobauto_prefect.ledger.store import KEY_FACT, Ledger
from jobauto_prefect.settings import Settings
from tests.support.databases import both_databases, database, database_of_encoding
from tests.support.ledger_rows import claim_next, fetch_all, fetch_one
from tests.support.ports import free_port
from tests.support.secrets import SECRET

ANNA = Actor(name="anna", door="rest", user_id=7, address="127.0.0.1", request_id="r-1")


def _company(slug: str = "acme") -> Company:
    return Company(slug=slug, name=slug.title())


@pytest.mark.parametrize("kind", ["postgresql", "sqlite"])
def test_an_empty_database_is_migrated_once_by_whomever_begins_at_once(
    kind: str, tmp_path: Path
) -> None:
    with database(kind, tmp_path) as url:
        engines = [make_engine(Settings(database_url=url).ledger_url) for _ in range(4)]
        with ThreadPoolExecutor() as threads:
            upgraded = list(threads.map(migration.upgrade, engines))
        newest = migration.newest()
        assert sorted(upgraded, key=str) == [(newest, newest)] * 3 + [(None, newest)]
        for engine in engines:
            engine.dispose()


@both_databases
def test_migrating_an_empty_database_gives_the_models(ledger: Ledger) -> None:
    with ledger.engine.connect() as connection:
        assert compare_metadata(MigrationContext.configure(connection), Base.metadata) == []


@both_databases
@pytest.mark.spec("1.9")
def test_a_write_has_exactly_one_audit_entry_whatever_it_flushes(ledger: Ledger) -> None:
    with ledger.writing(ANNA) as session:
        company = _company()
        session.add(company)
        session.flush()
        company.name = "Acme Ltd"
        session.flush()
        company.email = "a@example.com"
    (entry,) = fetch_all(ledger, AuditEntry)
    assert (entry.actor, entry.door, entry.user_id, entry.request_id) == ("anna", "rest", 7, "r-1")
    assert (entry.entity_type, entry.entity_id, entry.action) == ("Company", company.id, "create")
    assert entry.changes["name"] == [None, "Acme Ltd"]
    assert entry.changes["email"] == [None, "a@example.com"]


@both_databases
def test_an_update_names_before_and_after_and_nothing_else(ledger: Ledger) -> None:
    with ledger.writing(ANNA) as session:
        session.add(_company())
    with ledger.writing(ANNA) as session:
        session.scalars(select(Company)).one().name = "New"
    assert fetch_all(ledger, AuditEntry)[-1].changes == {"name": ["Acme", "New"]}


@both_databases
def test_a_write_that_changes_nothing_has_no_entry(ledger: Ledger) -> None:
    with ledger.writing(ANNA) as session:
        session.add(_company())
    with ledger.writing(ANNA) as session:
        session.scalars(select(Company)).one().name = "Acme"
    assert len(fetch_all(ledger, AuditEntry)) == 1


@both_databases
def test_a_failed_transaction_leaves_neither_record_nor_entry(ledger: Ledger) -> None:
    with pytest.raises(RuntimeError), ledger.writing(ANNA) as session:
        session.add(_company())
        session.flush()
        raise RuntimeError
    assert fetch_all(ledger, Company) == []
    assert fetch_all(ledger, AuditEntry) == []


@both_databases
def test_a_delete_keeps_what_was_there(ledger: Ledger) -> None:
    with ledger.writing(ANNA) as session:
        session.add(_company())
    with ledger.writing(ANNA) as session:
        session.delete(session.scalars(select(Company)).one())
    entry = fetch_all(ledger, AuditEntry)[-1]
    assert entry.action == "delete"
    assert entry.changes["slug"] == ["acme", None]


@both_databases
@pytest.mark.parametrize(
    "statement",
    [
        update(Company).values(name="x"),
        insert(Company).values(slug="x", name="x", env={}, secrets={}, enabled=True),
        update(Company.__table__).values(name="x"),
        text("UPDATE company SET name = 'x'"),
        update(AuditEntry).values(actor="x"),
    ],
    ids=["orm update", "orm insert", "core update", "text", "audit"],
)
def test_statements_that_would_bypass_the_audit_trail_are_refused(
    ledger: Ledger, statement: object
) -> None:
    with pytest.raises(UnauditedWrite), ledger.writing(ANNA) as session:
        session.execute(statement)  # type: ignore[call-overload]


@both_databases
@pytest.mark.parametrize(
    "statement",
    ["UPDATE audit_entry SET actor = 'x'", "DELETE FROM audit_entry", "TRUNCATE audit_entry"],
)
def test_audit_rows_cannot_be_changed_even_by_sql(ledger: Ledger, statement: str) -> None:
    with ledger.writing(ANNA) as session:
        session.add(_company())
    with pytest.raises(DBAPIError), ledger.engine.begin() as connection:
        connection.execute(text(statement))
    assert len(fetch_all(ledger, AuditEntry)) == 1


@both_databases
def test_secret_values_are_sealed_in_the_database_and_masked_in_the_trail(ledger: Ledger) -> None:
    with ledger.writing(ANNA) as session:
        company = _company()
        company.secrets = ledger.box.seal({"TOKEN": SECRET})
        session.add(company)
    with ledger.engine.connect() as connection:
        dump = repr(connection.execute(text("SELECT * FROM company")).all())
        dump += repr(connection.execute(text("SELECT * FROM audit_entry")).all())
    assert SECRET not in dump
    assert fetch_all(ledger, AuditEntry)[0].changes["secrets"] == [None, {"TOKEN": "********"}]
    assert ledger.box.open(company.secrets) == {"TOKEN": SECRET}


@both_databases
def test_times_come_back_in_utc_and_naive_ones_are_refused(ledger: Ledger) -> None:
    with ledger.writing(ANNA) as session:
        session.add(_company())
    assert fetch_one(ledger, Company).created_at.tzinfo is UTC
    with pytest.raises(Exception, match="without a zone"), ledger.writing(ANNA) as session:
        session.add(Company(slug="x", name="x", created_at=datetime(2026, 1, 1)))  # noqa: DTZ001


def _running_job(ledger: Ledger) -> int:
    with ledger.writing(SERVICE) as session:
        app = App(name="a", source="{}", document={})
        template = RunTemplate(name="t", app=app, company=_company())
        session.add(template)
        session.flush()
        job = new_job(template, schedule=ledger.clock(), schedule_type="adhoc")
        session.add(job)
        grant_job(session, job, _grant(1))
        return job.id


def _uuid(number: int) -> UUID:
    return UUID(int=number)


def _grant(number: int) -> Grant:
    return Grant(
        _uuid(number),
        worker=WorkerRecord(name="w", instance=_uuid(0), renewal=0),
        directory="/d",
        starts_at=datetime.now(UTC),
        timeout_seconds=60,
    )


@both_databases
def test_a_settled_job_stays_settled(ledger: Ledger) -> None:
    job_id = _running_job(ledger)
    end = JobResult(
        state=JobState.SUCCEEDED,
        severity=Severity.SUCCESS,
        message="",
        ended_at=ledger.clock(),
    )
    with ledger.writing(SERVICE) as session:
        record_end(session, session.get_one(Job, job_id), end)
        assert session.scalars(select(Lease)).all() == []
    with pytest.raises(Conflict), ledger.writing(SERVICE) as session:
        record_end(session, session.get_one(Job, job_id), end)


@both_databases
def test_the_database_allows_one_live_job_of_a_flow_run(ledger: Ledger) -> None:
    first = _running_job(ledger)
    with ledger.writing(SERVICE) as session:
        job = session.get_one(Job, first)
        job.flow_run_id, job.run_number = _uuid(9), 1
    with pytest.raises(Conflict), ledger.writing(SERVICE) as session:
        job = session.get_one(Job, first)
        twin = new_job(job.runtemplate, schedule=ledger.clock(), schedule_type="adhoc")
        twin.flow_run_id, twin.run_number = _uuid(9), 2
        session.add(twin)
        grant_job(session, twin, _grant(2))


@both_databases
def test_a_message_is_claimed_once_and_comes_again_when_put_off(ledger: Ledger) -> None:
    with ledger.writing(SERVICE) as session:
        enqueue(session, OutboxKind.CREATE_RUN, 5)
    taken = claim_next(ledger)
    assert taken is not None
    assert claim_next(ledger) is None
    retry_later(ledger, taken, "no answer")
    again = fetch_one(ledger, OutboxMessage)
    assert (again.attempts, again.error, again.taken_until) == (1, "no answer", None)
    assert again.not_before > taken.not_before
    complete(ledger, again)
    assert fetch_all(ledger, OutboxMessage) == []


@both_databases
def test_a_message_with_the_number_of_a_completed_one_is_nobody_elses(ledger: Ledger) -> None:
    with ledger.writing(SERVICE) as session:
        enqueue(session, OutboxKind.RETIRE_DEPLOYMENT, 5)
    former = claim_next(ledger)
    assert former is not None
    complete(ledger, former)
    with ledger.writing(SERVICE) as session:
        enqueue(session, OutboxKind.APPLY_TEMPLATE, 6)
        session.flush()
        session.execute(update(OutboxMessage).values(id=former.id))  # as SQLite does
    retry_later(ledger, former, "late")
    complete(ledger, former)
    taken = claim_next(ledger)
    assert taken is not None
    assert (taken.id, taken.kind, taken.attempts) == (former.id, OutboxKind.APPLY_TEMPLATE, 0)


def test_a_ledger_does_not_open_without_its_key(settings: Settings) -> None:
    with pytest.raises(NotReady, match=r"there is no installation in .*jobauto up"):
        open_ledger(settings)
    create_key(settings.key_path)
    assert settings.key_path.stat().st_mode & 0o777 == 0o600
    with pytest.raises(NotReady, match="jobauto db upgrade"):
        open_ledger(settings)
    engine = make_engine(settings.ledger_url)
    migration.upgrade(engine)
    engine.dispose()
    settings.key_path.unlink()
    with pytest.raises(KeyMissing, match="restore your copy of that file"):
        open_ledger(settings)


def test_a_ledger_does_not_open_with_another_key_or_one_others_can_read(settings: Settings) -> None:
    create_key(settings.key_path)
    migration.upgrade(make_engine(settings.ledger_url))
    open_ledger(settings).close()
    settings.key_path.chmod(0o644)
    with pytest.raises(KeyMissing, match="chmod 600"):
        open_ledger(settings)
    settings.key_path.unlink()
    create_key(settings.key_path)
    with pytest.raises(KeyMissing, match="restore that file"):
        open_ledger(settings)


def test_of_several_hosts_the_one_that_takes_writes_is_used(tmp_path: Path) -> None:
    with database("postgresql", tmp_path) as url:
        server, name = urlsplit(url), url.rpartition("/")[2]
        nobody = f"host=127.0.0.1:{free_port()}"
        hosts = f"{nobody}&host={server.hostname}:{server.port or 5432}"
        login = server.netloc.rpartition("@")[0]
        address = f"postgresql://{login}@/{name}?{hosts}&target_session_attrs=read-write"
        settings = Settings(home=tmp_path, database_url=address)
        create_key(settings.key_path)
        engine = make_engine(settings.ledger_url)
        migration.upgrade(engine)
        engine.dispose()
        open_ledger(settings).close()


@both_databases
def test_a_new_ledger_opens_while_another_part_opens_it(ledger_settings: Settings) -> None:
    fingerprint = load_key(ledger_settings.key_path).fingerprint
    remember_key = insert(InstallationValue).values(name=KEY_FACT, value=fingerprint)
    other_part = make_engine(ledger_settings.ledger_url)
    with ThreadPoolExecutor(1) as thread:
        with other_part.begin() as connection:
            connection.execute(remember_key)
            opening = thread.submit(open_ledger, ledger_settings)
            wait([opening], timeout=1)
        opening.result(timeout=30).close()
    other_part.dispose()


def test_making_a_key_never_replaces_one(tmp_path: Path) -> None:
    path = tmp_path / "key"
    assert create_key(path)
    before = path.read_bytes()
    assert not create_key(path)
    assert path.read_bytes() == before


@both_databases
def test_a_user_is_an_entity_without_its_password(ledger: Ledger) -> None:
    with ledger.writing(ANNA) as session:
        session.add(User(login="eva", password_hash="$argon2id$x"))
    assert fetch_all(ledger, AuditEntry)[0].changes["password_hash"] == [None, "********"]


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(home=tmp_path, database_url=f"sqlite:///{tmp_path / 'l.db'}")


@both_databases
def test_what_a_parent_lets_go_of_has_its_entry_too(ledger: Ledger) -> None:
    with ledger.writing(ANNA) as session:
        user = User(login="eva")
        user.role_assignments = [UserRole(role="viewer", assigned_at=ledger.clock())]
        session.add(user)
    with ledger.writing(ANNA) as session:
        session.scalars(select(User)).one().role_assignments = []
    assert [(one.entity_type, one.action) for one in fetch_all(ledger, AuditEntry)] == [
        ("User", "create"),
        ("UserRole", "create"),
        ("UserRole", "delete"),
    ]


@pytest.mark.parametrize("encoding", ["SQL_ASCII", "LATIN2"])
def test_a_database_that_cannot_hold_every_text_is_refused_with_what_to_do(encoding: str) -> None:
    with database_of_encoding(encoding) as url:
        engine = make_engine(Settings(database_url=url).ledger_url)
        with pytest.raises(NotReady, match=f"{encoding}.*CREATE DATABASE ... ENCODING 'UTF8'"):
            migration.upgrade(engine)
        engine.dispose()
