"""Backups: made while others write, whole or refused, and new installations made of them."""

import errno
import json
import os
import signal
import sqlite3
import stat
import subprocess
import threading
from collections.abc import Iterator
from contextlib import closing
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import httpx
import pytest
from sqlalchemy import select

from jobauto_prefect.backup import postgresql, restoration, sqlite
from jobauto_prefect.backup.archive import open_backup
from jobauto_prefect.backup.creation import CreatedBackup, create_backup
from jobauto_prefect.cli.service.installation import prepare_home
from jobauto_prefect.engine.prefect_server.database import (
    make_prefect_tables,
    newest_prefect_revision,
)
from jobauto_prefect.errors import BackupDamaged, Conflict, JobautoError, NotFound, NotReady
from jobauto_prefect.home import RESTORING
from jobauto_prefect.ledger.access.tokens import bearer
from jobauto_prefect.ledger.audit.seal_verification import verify
from jobauto_prefect.ledger.audit.seals import Sealer
from jobauto_prefect.ledger.audit.trail import SERVICE
from jobauto_prefect.ledger.jobs.freezes import present_freeze
from jobauto_prefect.ledger.opening import open_ledger
from jobauto_prefect.ledger.records import (
    AuditEntry,
    Company,
    Job,
    OutboxMessage,
    RunTemplate,
    Task,
)
from jobauto_prefect.ledger.secrets import rotation_lock
from jobauto_prefect.ledger.store import Ledger
from tests.support.backups import PASSPHRASE, Installations
from tests.support.claims import granted, own_run_of, refused, start_workers
from tests.support.databases import both_databases, on_postgresql, on_sqlite
from tests.support.homes import InProcessHome
from tests.support.ledger_rows import fetch_all, fetch_one
from tests.support.prefect_database import provide_prefect_database
from tests.support.secrets import secret
from tests.support.servers import client, facade, worker_token

HOUR = timedelta(hours=1)


def companies(ledger: Ledger) -> set[str]:
    return set(fetch_all(ledger, select(Company.slug)))


@both_databases
def test_all_that_was_acknowledged_is_in_it_and_the_trail_is_whole(
    installations: Installations, rest: httpx.Client
) -> None:
    written: dict[str, datetime] = {}
    ends = threading.Event()

    def write() -> None:
        number = 0
        while not ends.is_set():
            number += 1
            slug = f"c{number}"
            rest.post("/company/", json={"slug": slug, "name": slug}).raise_for_status()
            written[slug] = installations.ledger.clock()
            if number == 20:
                Sealer(installations.ledger).seal()

    writing = threading.Thread(target=write)
    writing.start()
    while len(written) < 30:
        assert writing.is_alive()
        ends.wait(0.01)
    try:
        made = installations.make()
    finally:
        ends.set()
        writing.join()
    assert stat.S_IMODE(installations.file.stat().st_mode) == 0o600
    assert [*installations.file.parent.glob(".*partial")] == []
    assert made.manifest.prefect_missing is not None
    before = {
        slug for slug, at in written.items() if at <= datetime.fromisoformat(made.manifest.taken_at)
    }

    done = installations.restore()
    ledger = open_ledger(installations.empty)
    assert before
    assert before <= companies(ledger)
    found = verify(ledger)
    assert (found.damages, found.seals > 0) == ([], True)
    assert done.begun.frozen_since is not None
    entry = fetch_one(
        installations.ledger, select(AuditEntry).where(AuditEntry.entity_type == "Backup")
    )
    assert (entry.action, entry.changes["size"]) == ("create", [None, made.size])
    ledger.close()


def test_nothing_starts_before_resume_and_workers_of_before_are_refused(
    installations: Installations, rest: httpx.Client, claims: httpx.Client, template: dict[str, Any]
) -> None:
    ran, waits = (
        rest.post("/job/", json={"runtemplate_id": template["id"]}).json()["id"] for _ in range(2)
    )
    granted(claims, own_run_of(installations.ledger, ran))
    token = claims.headers["Authorization"].removeprefix("Bearer ")
    installations.make()

    done = installations.restore()
    assert [one.job_id for one in done.begun.lost] == [ran]
    assert [(one.job_id, one.runtemplate) for one in done.waiting] == [(waits, "acme/daily")]
    ledger = open_ledger(installations.empty)
    with ledger.reading() as session:
        freeze = present_freeze(session, ledger.clock())
        assert freeze is not None
        assert freeze.reason.startswith("restored from a backup of 20")
        assert bearer(session, token, ledger.clock()) is None
        assert session.get_one(Job, ran).state == "lost"
        assert "it ran when the backup was made" in str(session.get_one(Job, ran).message)
    root = rest.headers["Authorization"].removeprefix("Bearer ")
    start_workers(ledger)  # of the same names: those of before are silent
    new = worker_token(ledger, "jobauto")
    with (
        facade(installations.empty, ledger) as url,
        client(f"{url}/internal/v1", new) as worker,
        client(f"{url}/api/v1", root) as person,
    ):
        assert client(f"{url}/internal/v1", token).post("/claims", json={}).status_code == 401
        claim = own_run_of(ledger, waits)
        assert refused(worker, claim)[0] == "maintenance"
        person.delete("/maintenance.json").raise_for_status()
        assert granted(worker, claim)["job_id"] == waits
    ledger.close()


def test_windows_since_the_backup_do_what_their_templates_say(
    installations: Installations, rest: httpx.Client, template: dict[str, Any]
) -> None:
    rest.post("/runtemplate/", json={"id": template["id"], "interv": "h"}).raise_for_status()
    with installations.ledger.writing(SERVICE) as session:
        record = session.get_one(RunTemplate, template["id"])
        assert record.next_window is not None
        record.next_window -= 4 * HOUR  # as if the backup were so old
        record.next_schedule = record.next_window
    installations.make()
    done = installations.restore()
    found = {one.state: (one.runtemplate, one.count) for one in done.windows}
    assert found == {"missed": ("acme/daily", 3), "open": ("acme/daily", 1)}
    ledger = open_ledger(installations.empty)
    with ledger.reading() as session:
        (owed,) = session.scalars(select(Task).where(Task.state == "open"))
        (job,) = session.scalars(select(Job))
        assert (job.task_id, job.state) == (owed.id, "scheduled")
    ledger.close()


def test_a_copy_is_of_one_instant_however_much_is_written_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, steps = tmp_path / "source.db", 0
    monkeypatch.setattr(sqlite, "PAGES", 1)
    with closing(sqlite3.connect(source, isolation_level=None)) as writer:
        writer.execute("PRAGMA journal_mode = WAL")
        writer.execute("CREATE TABLE line (text)")
        writer.executemany("INSERT INTO line VALUES (?)", [("x" * 3000,)] * 50)

        def write(_done: int, _of: int) -> None:
            nonlocal steps
            steps += 1
            writer.execute("UPDATE line SET text = 'y'")
            writer.execute("INSERT INTO line VALUES ('z')")

        sqlite.copy(source, tmp_path / "copy.db", write)
    assert 40 < steps < 80
    with closing(sqlite3.connect(tmp_path / "copy.db")) as copy:
        assert copy.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        rows = copy.execute("SELECT DISTINCT substr(text, 1, 1), count(*) FROM line GROUP BY 1")
        assert rows.fetchall() == [("x", 50)]


@pytest.fixture
def with_prefect(
    tmp_path_factory: pytest.TempPathFactory, installations: Installations
) -> Installations:
    """The same, beside a real Prefect's database."""
    home = tmp_path_factory.mktemp("prefect")
    provide_prefect_database(home)
    made = installations.make

    class WithPrefect(Installations):
        def make(self) -> CreatedBackup:
            with pytest.MonkeyPatch.context() as patch:
                url = f"sqlite+aiosqlite:///{home}/prefect/prefect.db"
                patch.setenv("PREFECT_SERVER_DATABASE_CONNECTION_URL", url)
                return made()

    return WithPrefect(
        installations.settings, installations.ledger, installations.empty, installations.file
    )


@on_sqlite
def test_what_the_copy_of_prefect_does_not_know_is_made_anew_and_told_again(
    with_prefect: Installations, rest: httpx.Client, template: dict[str, Any]
) -> None:
    installations = with_prefect
    job_id = rest.post("/job/", json={"runtemplate_id": template["id"]}).json()["id"]
    unknown = uuid4()
    with installations.ledger.writing(SERVICE) as session:
        session.get_one(Job, job_id).flow_run_id = unknown
        for message in session.scalars(select(OutboxMessage)):
            session.delete(message)
    made = installations.make()
    assert made.manifest.prefect_missing is None
    assert [*made.manifest.databases] == ["prefect", "ledger"]
    done = installations.restore()
    assert (installations.empty.home / "prefect" / "prefect.db").exists()
    found = {(one.kind, one.id) for one in done.differences}
    assert found == {("flow run", str(unknown)), ("deployment", str(UUID(int=1)))}
    ledger = open_ledger(installations.empty)
    with ledger.reading() as session:
        assert session.get_one(Job, job_id).flow_run_id is None
        pending = {
            (message.kind, message.subject_id) for message in session.scalars(select(OutboxMessage))
        }
    assert {("create_run", job_id), ("apply_template", template["id"])} <= pending
    ledger.close()


@on_postgresql
def test_ledger_and_prefect_in_two_schemas_of_one_database_are_one_dump(
    installations: Installations, monkeypatch: pytest.MonkeyPatch, other_user: str
) -> None:
    variable = "PREFECT_SERVER_DATABASE_CONNECTION_URL"
    both = [
        f"postgresql+asyncpg://{other_user}@{settings.ledger_url.rpartition('@')[2]}"
        for settings in (installations.settings, installations.empty)
    ]
    with postgresql.connect(both[0]) as connection:
        connection.execute("CREATE SCHEMA prefect")
    make_prefect_tables(both[0], newest_prefect_revision("postgresql"))
    monkeypatch.setenv(variable, both[0])
    made = installations.make()
    assert ([*made.manifest.databases], made.manifest.is_shared) == (["ledger"], True)
    with pytest.raises(Conflict, match="ledger and Prefect in one database"):
        installations.restore()
    monkeypatch.setenv(variable, both[1])
    assert installations.restore().differences == ()
    open_ledger(installations.empty).close()
    with postgresql.connect(both[1]) as connection:
        found = connection.execute("SELECT count(*) FROM prefect.alembic_version")
        assert found.fetchone() == (1,)
    with postgresql.connect(both[0]) as connection:
        connection.execute("DROP SCHEMA prefect CASCADE")  # the next one has this database


@pytest.fixture
def other_user(installations: Installations) -> Iterator[str]:
    """A user of PostgreSQL whose tables are in a schema of their own."""
    name = f"jobauto_test_{uuid4().hex}"
    with postgresql.connect(installations.settings.ledger_url) as connection:
        connection.execute(f"CREATE ROLE {name} LOGIN SUPERUSER".encode())
        connection.execute(f"ALTER ROLE {name} SET search_path = prefect".encode())
        yield name
        for settings in (installations.empty, installations.settings):
            with postgresql.connect(settings.ledger_url) as owner:
                owner.execute(f"DROP OWNED BY {name} CASCADE".encode())
        connection.execute(f"DROP ROLE {name}".encode())


def damaged(file: Path, *, at: int | None = None, end: int | None = None) -> bytes:
    whole = file.read_bytes()
    content = bytearray(whole[:end])
    if at is not None:
        content[at] ^= 1
    file.write_bytes(content)
    return whole


@on_sqlite
def test_what_is_not_as_it_was_written_is_refused_before_anything_is_written(
    installations: Installations,
) -> None:
    installations.make()
    whole = installations.file.read_bytes()
    key_at = whole.index(b'"sealed": "') + 20
    salt_at = whole.index(b'"salt": "') + 10
    manifest_at = whole.index(b'"host": "') + 10
    database_at = len(whole) // 2
    for at in (manifest_at, database_at, salt_at, key_at):
        damaged(installations.file, at=at)
        with pytest.raises(BackupDamaged, match="nothing was written"):
            installations.restore()
        installations.file.write_bytes(whole)
    for end in (0, 100, 5000, database_at, salt_at):
        damaged(installations.file, end=end)
        with pytest.raises(BackupDamaged, match="not whole"):
            installations.restore()
        installations.file.write_bytes(whole)
    with pytest.raises(Conflict, match="passphrase is wrong"):
        open_backup(installations.file, lambda: secret("another")).__enter__()
    with pytest.raises(NotFound, match="can't be read"):
        open_backup(installations.file.with_name("nowhere"), lambda: PASSPHRASE).__enter__()
    assert not installations.empty.home.exists()
    assert b"secret.key" not in whole
    assert installations.settings.key_path.read_bytes().strip() not in whole
    installations.restore()


@both_databases
def test_what_holds_something_is_left_alone(installations: Installations, tmp_path: Path) -> None:
    installations.make()
    with pytest.raises(Conflict, match="already exists; name another file"):
        installations.make()
    with pytest.raises(Conflict, match="an installation already exists"):
        installations.restore(installations.settings)
    own = installations.settings.model_copy(update={"home": tmp_path / "third"})
    with pytest.raises(Conflict, match="of ledger is not empty"):
        installations.restore(own)
    assert not own.home.exists()
    other = {"sqlite": "postgresql://nobody@127.0.0.1:1/none", "postgresql": "sqlite:////tmp/no.db"}
    kind = installations.ledger.engine.dialect.name
    with pytest.raises(Conflict, match="in this backup is"):
        installations.restore(own.model_copy(update={"database_url": other[kind]}))
    with (
        rotation_lock(installations.ledger.box.path),
        pytest.raises(Conflict, match="rotating the key"),
    ):
        create_backup(
            installations.settings,
            installations.ledger,
            tmp_path / "two.backup",
            PASSPHRASE,
            SERVICE,
        )


@both_databases
@pytest.mark.parametrize("at", ["ledger_at", "put_files"])
def test_a_restore_that_died_is_used_by_nothing_and_says_what_helps(
    installations: Installations, at: str
) -> None:
    """Killed before anything is written to the ledger; and with all in place but the key."""
    installations.make()
    child = os.fork()
    if child == 0:
        try:
            setattr(restoration, at, lambda *_: os.kill(os.getpid(), signal.SIGKILL))
            installations.restore()
        finally:  # else it would go on with the tests
            os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL
    assert (installations.empty.home / RESTORING).exists()
    assert not installations.empty.key_path.exists()
    for work in (
        installations.restore,
        lambda: open_ledger(installations.empty),
        lambda: prepare_home(installations.empty),
    ):
        with pytest.raises(NotReady, match="did not finish; nothing has run with it"):
            work()


@both_databases
def test_what_fails_before_anything_is_in_place_leaves_nothing(
    installations: Installations, monkeypatch: pytest.MonkeyPatch
) -> None:
    installations.make()

    def fail(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr(restoration, "prepare_restored", fail)
        with pytest.raises(NotReady, match="No space left on device"):
            installations.restore()
    if installations.ledger.engine.dialect.name == "sqlite":
        installations.restore()
        open_ledger(installations.empty).close()
    else:  # its database is full
        with pytest.raises(NotReady, match="create the databases of ledger again"):
            installations.restore()


@on_sqlite
def test_settings_come_along_but_for_places(
    installations: Installations, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = installations.settings.home / "env"
    folder.mkdir()
    (folder / "jobauto.env").write_text("JOBAUTO_TIMEZONE=Europe/Prague\nJOBAUTO_LANGUAGE=cs\n")
    (folder / "database.env").write_text(f"DB_PASSWORD={secret('db')}\n")
    with monkeypatch.context() as patch:
        patch.setenv("JOBAUTO_CONFIG_DIR", str(folder))
        settings = installations.settings.model_copy(
            update={"timezone": "Europe/Prague", "language": "cs", "pool": "own"}
        )
        create_backup(settings, installations.ledger, installations.file, PASSPHRASE, SERVICE)
    done = installations.restore()
    home = installations.empty.home
    assert "Europe/Prague" in (home / "jobauto.env").read_text()
    assert not (home / "database.env").exists()
    assert (home / "restored" / "database.env").exists()
    assert {path.path.name: path.why is None for path in done.files} == {
        "jobauto.env": True,
        "database.env": False,
        "environment": False,
    }
    assert "timezone" not in done.settings
    assert done.settings["pool"] == ("own", "jobauto")
    (home / "restored" / "database.env").unlink()  # it has a secret, as it should
    opened = [path for path in home.rglob("*") if path.stat().st_mode & 0o077]
    assert opened == []


def old(folder: Path, name: str) -> None:
    folder.mkdir(exist_ok=True)
    (folder / name).write_text(f"#!/bin/sh\necho '{name} (PostgreSQL) 9.6.24'\n")
    (folder / name).chmod(0o755)


@on_postgresql
def test_without_the_programs_of_the_server_a_word_says_which(
    installations: Installations, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = installations.settings.ledger_url
    major = postgresql.major_of(url)
    installations.make()
    monkeypatch.setattr(postgresql, "PACKAGES", tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    helps = f"postgresql-client-{major}"
    for _ in range(2):
        with pytest.raises(NotReady, match=f"pg_dump of PostgreSQL {major} is missing .*{helps}"):
            create_backup(
                installations.settings,
                installations.ledger,
                tmp_path / "two.backup",
                PASSPHRASE,
                SERVICE,
            )
        with pytest.raises(NotReady, match=f"pg_restore of PostgreSQL .*{helps}"):
            installations.restore()
        old(tmp_path / "bin", "pg_dump")
        old(tmp_path / "bin", "pg_restore")
    assert not installations.empty.home.exists()
    assert [*tmp_path.glob("*two*")] == []


def test_the_commands_say_what_they_did(tmp_path: Path) -> None:
    def run(home: str, *words: str) -> "subprocess.CompletedProcess[str]":
        (tmp_path / home).mkdir(exist_ok=True)
        return InProcessHome(tmp_path / home).run(*words, stdin=f"{PASSPHRASE}\n")

    file = str(tmp_path / "a.backup")
    assert run("here", "secrets", "init").returncode == 0
    assert run("here", "db", "upgrade").returncode == 0
    made = run("here", "backup", file, "--passphrase-stdin", "--json")
    assert made.returncode == 0, made.stderr
    assert json.loads(made.stdout)["databases"]["ledger"]["kind"] == "sqlite"
    assert run("here", "backup", file).returncode == 2  # there is no terminal to ask at
    done = run("there", "restore", file, "--passphrase-stdin")
    assert (done.returncode, "frozen until jobauto resume" in done.stdout) == (0, True)
    again = run("there", "restore", file, "--passphrase-stdin")
    assert (again.returncode, "an installation already exists" in again.stderr) == (1, True)
    assert "Traceback" not in made.stderr + done.stderr + again.stderr
    assert run("there", "resume").returncode == 0


@on_sqlite
def test_a_passphrase_has_a_length(installations: Installations) -> None:
    with pytest.raises(JobautoError, match="fewer than 8 characters"):
        create_backup(
            installations.settings, installations.ledger, installations.file, "short", SERVICE
        )
    assert not installations.file.exists()
