"""Whole months leave the audit trail as files, and nothing else does."""

import gzip
import hashlib
import hmac
import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from sqlalchemy import text
from sqlalchemy.exc import DBAPIError

from jobauto_prefect.errors import AuditDamaged, Conflict
from jobauto_prefect.ledger.audit import archive_files, seals
from jobauto_prefect.ledger.audit.archive_files import (
    archive,
    delete_archived,
    file_name,
    whole_months_before,
)
from jobauto_prefect.ledger.audit.seal_verification import verify, verify_newest
from jobauto_prefect.ledger.audit.seals import Sealer
from jobauto_prefect.ledger.audit.trail import SERVICE, Actor, write_entry
from jobauto_prefect.ledger.records import AuditArchive, AuditEntry, AuditSeal
from jobauto_prefect.ledger.store import Ledger
from tests.support.databases import both_databases, on_postgresql
from tests.support.ledger_rows import count_rows

ANNA = Actor("anna", "rest", 7, "192.0.2.1", "curl ☃", "r-1")
MARCH = datetime(2026, 3, 20, tzinfo=UTC)
DAYS = 60


@pytest.fixture
def trail(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> Ledger:
    """An entry on each of 60 days from 20 March on, sealed in blocks of 4."""
    monkeypatch.setattr(seals, "BLOCK", 4)
    monkeypatch.setattr(archive_files, "AT_ONCE", 3)
    for day in range(DAYS):
        at = MARCH + timedelta(days=day)
        ledger.clock = lambda at=at: at  # type: ignore[misc]
        with ledger.writing(ANNA) as session:
            write_entry(session, "Company", "update", {"name": [None, "kůň \u2028"]}, entity_id=5)
    assert Sealer(ledger).seal()
    ledger.clock = lambda: MARCH + timedelta(days=DAYS)
    return ledger


def left(ledger: Ledger) -> tuple[int, int]:
    """How many entries and seals are in the ledger."""
    return count_rows(ledger, AuditEntry), count_rows(ledger, AuditSeal)


def lines(file: Path) -> list[object]:
    """The JSON of each line."""
    return [json.loads(row) for row in gzip.open(file, "rt", encoding="utf-8")]


def may(ledger: Ledger, directory: Path) -> list[AuditArchive]:
    """Archive what was before May."""
    return list(archive(ledger, SERVICE, datetime(2026, 5, 1, tzinfo=UTC), directory))


@both_databases
def test_months_leave_whole_and_what_stays_verifies(trail: Ledger, tmp_path: Path) -> None:
    entries, sealed = left(trail)
    before = verify(trail)
    march, april = may(trail, tmp_path)
    # 20 to 31 March are 12 entries in 3 blocks; 1 April to 30 April are 7 blocks and a half.
    assert (march.month, march.entries) == ("2026-03", 12)
    assert (april.month, april.entries) == ("2026-04", 28)
    assert left(trail) == (entries - 40 + 2, sealed - 10)  # each archive has an entry
    found = verify(trail, files=[tmp_path / file_name(month) for month in ("2026-03", "2026-04")])
    assert found.damages == []
    assert (found.newest, found.archived) == (before.newest, 40)
    assert verify_newest(trail).damages == []
    assert Sealer(trail).seal()
    assert verify(trail).damages == []
    assert may(trail, tmp_path) == []
    assert not [*tmp_path.glob("*.part")]
    assert (tmp_path / "audit-2026-03.jsonl.gz").stat().st_mode & 0o777 == 0o600


@both_databases
def test_a_file_says_what_it_is_and_has_what_the_seals_are_over(
    trail: Ledger, tmp_path: Path
) -> None:
    with trail.reading() as session:
        key = seals.audit_key(trail, session) or ""
    march, _ = may(trail, tmp_path)
    content = gzip.decompress((tmp_path / "audit-2026-03.jsonl.gz").read_bytes())
    assert march.digest == hashlib.sha256(content).hexdigest()
    head, *rest = lines(tmp_path / "audit-2026-03.jsonl.gz")
    assert isinstance(head, list)
    assert (head[0]["month"], head[0]["columns"][:3]) == ("2026-03", ["id", "created_at", "actor"])

    raw = content.splitlines(keepends=True)
    assert len(raw) == 1 + 3 * (1 + 1 + 4)
    for start in range(1, len(raw), 6):
        told = json.loads(raw[start])[0]
        over = b"".join(raw[start + 1 : start + 6])
        assert hmac.new(key.encode(), over, hashlib.sha256).hexdigest() == told["hmac"]
    assert rest


@both_databases
@pytest.mark.parametrize("dies", ["before the file is named", "before the ledger knows", "half"])
def test_interrupted_the_same_command_goes_on(
    trail: Ledger, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, dies: str
) -> None:
    with monkeypatch.context() as patch:
        if dies == "before the file is named":
            patch.setattr(Path, "rename", _die)
        elif dies == "before the ledger knows":
            patch.setattr(archive_files, "_keep", _die)
        else:
            patch.setattr(archive_files, "delete_archived", _leave_some)
        with pytest.raises(InterruptedError):
            may(trail, tmp_path)
    assert all("are in archives, and here as well" in damage for damage in verify(trail).damages)
    may(trail, tmp_path)
    found = verify(trail, files=tmp_path.glob("*.gz"))
    assert (found.damages, found.archived) == ([], 40)


def _die(*_: object) -> None:
    raise InterruptedError


def _leave_some(ledger: Ledger, actor: Actor) -> None:
    if count_rows(ledger, AuditArchive) == 0:
        return
    with ledger.writing(actor) as session:
        session.connection().execute(text("DELETE FROM audit_entry WHERE id <= 2"))
    raise InterruptedError


@both_databases
def test_what_no_archive_has_does_not_leave(trail: Ledger, tmp_path: Path) -> None:
    may(trail, tmp_path)
    for statement in (
        "DELETE FROM audit_entry WHERE id > 40",
        "DELETE FROM audit_seal",
        "DELETE FROM audit_archive",
        "UPDATE audit_archive SET last_id = 1000",
        "UPDATE audit_entry SET actor = 'x'",
    ):
        with pytest.raises(DBAPIError), trail.engine.begin() as connection:
            connection.execute(text(statement))
    is_sqlite = trail.engine.dialect.name == "sqlite"
    replace = "INSERT OR REPLACE INTO audit_archive SELECT * FROM audit_archive"
    with pytest.raises(DBAPIError), trail.engine.begin() as connection:
        connection.execute(text(replace if is_sqlite else "TRUNCATE audit_archive"))
    assert verify(trail).damages == []


@on_postgresql
def test_only_the_owner_of_the_tables_lets_entries_leave(trail: Ledger, tmp_path: Path) -> None:
    may(trail, tmp_path)
    with trail.engine.connect() as connection:
        connection.execute(text("SET ROLE NONE"))
        connection.execute(text("CREATE ROLE archive_guest LOGIN"))
        try:
            granted = "SELECT, INSERT, DELETE ON ALL TABLES IN SCHEMA public"
            connection.execute(text(f"GRANT {granted} TO archive_guest"))
            connection.execute(text("SET SESSION AUTHORIZATION archive_guest"))
            with pytest.raises(DBAPIError, match="only by the owner"):
                connection.execute(text("DELETE FROM audit_entry"))
        finally:
            connection.rollback()


@both_databases
def test_an_archive_that_this_service_did_not_make_is_found(trail: Ledger, tmp_path: Path) -> None:
    forged = AuditArchive(
        id=1, month="2026-03", first_seal=1, last_seal=3, first_id=1, last_id=12, entries=12,
        digest="0" * 64, seal="0" * 64, hmac="0" * 64, archived_at=MARCH,
    )  # fmt: skip
    with trail.writing(SERVICE) as session:
        session.add(forged)
    delete_archived(trail, SERVICE)
    damages = verify(trail).damages
    assert "archive 1 (of 2026-03) was not made by this service, or was changed" in damages
    with pytest.raises(AuditDamaged, match="nothing is archived"):
        may(trail, tmp_path)


@both_databases
def test_where_nothing_is_sealed_nothing_is_archived(ledger: Ledger, tmp_path: Path) -> None:
    assert may(ledger, tmp_path) == []


@both_databases
def test_a_changed_file_is_found(trail: Ledger, tmp_path: Path) -> None:
    may(trail, tmp_path)
    march, april = tmp_path / file_name("2026-03"), tmp_path / file_name("2026-04")
    content = gzip.decompress(march.read_bytes())
    march.write_bytes(gzip.compress(content.replace(b"anna", b"adam", 1)))
    april.write_bytes(april.read_bytes()[:-20])
    damages = verify(trail, files=[march, april]).damages
    assert f"{march} is not an archive of this trail, or was changed" in damages
    assert any(damage.startswith(f"{april} can't be read") for damage in damages)
    april.write_bytes(gzip.compress(gzip.decompress(march.read_bytes())))
    march.write_bytes(gzip.compress(content, 1))  # packed again it is the same
    assert verify(trail, files=[march]).damages == []


@both_databases
def test_a_damaged_trail_is_not_archived(trail: Ledger, tmp_path: Path) -> None:
    with trail.engine.begin() as connection:
        if connection.dialect.name == "sqlite":
            connection.execute(text("DROP TRIGGER audit_entry_no_update"))
        else:
            connection.execute(text("ALTER TABLE audit_entry DISABLE TRIGGER USER"))
        connection.execute(text("UPDATE audit_entry SET actor = 'adam' WHERE id = 17"))
    with pytest.raises(AuditDamaged, match=r"entries 17 to 20 \(seal 5\)"):
        may(trail, tmp_path)
    assert left(trail)[0] == DAYS - 12 + 1
    assert not (tmp_path / file_name("2026-04")).exists()


@both_databases
def test_another_file_of_that_name_is_not_touched(trail: Ledger, tmp_path: Path) -> None:
    path = tmp_path / file_name("2026-03")
    path.write_bytes(gzip.compress(b"mine"))
    with pytest.raises(Conflict, match="another file"):
        may(trail, tmp_path)
    assert gzip.decompress(path.read_bytes()) == b"mine"
    assert left(trail)[0] == DAYS


@pytest.mark.parametrize(
    ("now", "months", "expected"),
    [
        (datetime(2026, 11, 23, 5, tzinfo=UTC), 1, datetime(2026, 10, 1, tzinfo=UTC)),
        (datetime(2026, 1, 1, tzinfo=UTC), 1, datetime(2025, 12, 1, tzinfo=UTC)),
        (datetime(2026, 12, 31, tzinfo=UTC), 24, datetime(2024, 12, 1, tzinfo=UTC)),
    ],
)
def test_whole_months_are_those_of_the_calendar(
    now: datetime, months: int, expected: datetime
) -> None:
    assert whole_months_before(now, months) == expected
