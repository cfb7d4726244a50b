"""The audit trail can't be changed unseen: its seals, and what verifying them finds."""

import json
import logging
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path
from threading import Barrier
from typing import Any
from uuid import uuid4

import pytest
from sqlalchemy import Connection, select, text
from sqlalchemy.exc import DBAPIError

from jobauto_prefect.engine.services import background
from jobauto_prefect.errors import AuditDamaged
from jobauto_prefect.ledger.audit import seal_verification, seals
from jobauto_prefect.ledger.audit.seal_verification import Verification, verify, verify_newest
from jobauto_prefect.ledger.audit.seals import MARK_NAME, Mark, Sealer, gaps_in, log_mark, marks_in
from jobauto_prefect.ledger.audit.trail import SERVICE, Actor, write_entry
from jobauto_prefect.ledger.database.engine import make_engine
from jobauto_prefect.ledger.key_rotation import rotate
from jobauto_prefect.ledger.opening import open_ledger
from jobauto_prefect.ledger.records import AuditEntry, AuditSeal, Base, Company, InstallationValue
from jobauto_prefect.ledger.store import Ledger
from jobauto_prefect.settings import Settings
from tests.support.databases import both_databases, database
from tests.support.homes import InProcessHome
from tests.support.ledger_rows import fetch, fetch_all

NEW_YEAR = datetime(2026, 1, 1, tzinfo=UTC)
ANNA = Actor("anna", "rest", 7, "192.0.2.1", "curl ☃", "r-1")
ODD: dict[str, Any] = {
    "z": [None, "\ud83d\ude00 kůň \x7f \u2028"],
    "a": [1.0, 1],
    "number": [0.1 + 0.2, -0.0],
    "big": [2**53 + 1, 1e300],
    "nested": [{"b": 1, "a": [True, None]}, []],
}


def _write(ledger: Ledger, count: int = 1) -> None:
    for _ in range(count):
        with ledger.writing(ANNA) as session:
            write_entry(session, "Company", "update", ODD, entity_id=5, company_id=5)


def _blocks(ledger: Ledger) -> list[tuple[int, int, Any]]:
    return [(seal.first_id, seal.last_id, seal.gaps) for seal in fetch_all(ledger, AuditSeal)]


def _seal_all(ledger: Ledger) -> None:
    assert Sealer(ledger).seal()


def _intact(ledger: Ledger) -> Verification:
    found = verify(ledger)
    assert found.damages == []
    return found


@pytest.fixture
def unguarded(ledger: Ledger) -> Ledger:
    """A ledger without its triggers, as its database's owner can make it."""
    with ledger.engine.begin() as connection:
        if connection.dialect.name == "sqlite":
            found = "SELECT name FROM sqlite_master WHERE type = 'trigger'"
            for name in connection.scalars(text(found)).all():
                connection.execute(text(f"DROP TRIGGER {name}"))
        else:
            for table in ("audit_entry", "audit_seal"):
                connection.execute(text(f"ALTER TABLE {table} DISABLE TRIGGER USER"))
    return ledger


@pytest.fixture
def sealed(unguarded: Ledger, monkeypatch: pytest.MonkeyPatch) -> Ledger:
    """Ten entries in five seals."""
    monkeypatch.setattr(seals, "BLOCK", 2)
    _write(unguarded, 10)
    _seal_all(unguarded)
    assert _blocks(unguarded) == [(1, 2, []), (3, 4, []), (5, 6, []), (7, 8, []), (9, 10, [])]
    return unguarded


def _do(ledger: Ledger, *statements: str) -> None:
    with ledger.engine.begin() as connection:
        for statement in statements:
            connection.execute(text(statement))


@both_databases
def test_entries_are_sealed_in_blocks_that_follow_each_other(
    ledger: Ledger, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "jobauto_prefect.ledger.audit.seals")
    sealer = Sealer(ledger)
    assert sealer.seal()
    assert _intact(ledger).seals == 0
    _write(ledger, 3)
    assert (_intact(ledger).unsealed, sealer.seal(), sealer.seal()) == (3, True, True)
    _write(ledger, 2)
    assert sealer.seal()
    first, second = fetch_all(ledger, AuditSeal)
    assert _blocks(ledger) == [(1, 3, []), (4, 5, [])]
    assert (first.previous, second.previous) == ("", first.hmac)
    found = _intact(ledger)
    assert (found.seals, found.entries, found.unsealed) == (2, 5, 0)
    logged = list(marks_in(caplog.messages))
    assert logged == [Mark(1, 3, first.hmac), Mark(2, 5, second.hmac)] == [logged[0], found.newest]
    assert verify(ledger, logged).damages == []


@both_databases
def test_a_trail_that_is_there_already_is_sealed_in_several_blocks(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(seals, "BLOCK", 3)
    monkeypatch.setattr(seal_verification, "PAGE", 2)
    _write(ledger, 10)
    _seal_all(ledger)
    assert _blocks(ledger) == [(1, 3, []), (4, 6, []), (7, 9, []), (10, 10, [])]
    assert _intact(ledger).entries == 10


CHANGES = [
    "actor = 'tom'", "user_id = NULL", "door = 'cli'", "address = '192.0.2.2'",
    "user_agent = NULL", "request_id = 'r-2'", "entity_type = 'Job'", "entity_id = 6",
    "company_id = NULL", "action = 'delete'", """changes = '{"a": [1, 1]}'""",
    "created_at = '2020-01-01 00:00:00.000000'",
]  # fmt: skip


@both_databases
def test_a_change_of_any_field_is_found(sealed: Ledger) -> None:
    changed = {change.partition(" ")[0] for change in CHANGES}
    assert changed == {column.name for column in AuditEntry.__table__.columns} - {"id"}
    _do(sealed, "CREATE TABLE kept AS SELECT * FROM audit_entry")
    for change in CHANGES:
        _do(sealed, f"UPDATE audit_entry SET {change} WHERE id = 3")
        damages = ["entries 3 to 4 (seal 2): an entry or the seal was changed"]
        assert verify(sealed).damages == damages, change
        _do(sealed, "DELETE FROM audit_entry", "INSERT INTO audit_entry SELECT * FROM kept")
    _intact(sealed)


COPY = (
    "INSERT INTO audit_entry SELECT {id}, created_at, actor, user_id, door, address, user_agent, "
    "request_id, entity_type, entity_id, company_id, action, changes FROM audit_entry WHERE id = 9"
)


@both_databases
@pytest.mark.parametrize(
    ("statements", "found"),
    [
        (["DELETE FROM audit_entry WHERE id = 3"], ["entry 3 is missing (seal 2)"]),
        (
            ["DELETE FROM audit_entry WHERE id BETWEEN 3 AND 5"],
            ["entries 3 to 4 are missing (seal 2)", "entry 5 is missing (seal 3)"],
        ),
        (["DELETE FROM audit_entry WHERE id >= 9"], ["entries 9 to 10 are missing (seal 5)"]),
        (
            ["DELETE FROM audit_seal WHERE id = 3"],
            ["seal 3 is missing"],
        ),
        (
            ["DELETE FROM audit_entry WHERE id <= 2", "DELETE FROM audit_seal WHERE id = 1"],
            ["seal 1 is missing"],
        ),
        (
            ["DELETE FROM audit_entry WHERE id >= 7", "DELETE FROM audit_seal WHERE id >= 4"],
            ["seals 4 to 5 are missing: the end is cut off (it went up to entry 10)"],
        ),
        (
            ["DELETE FROM audit_entry", "DELETE FROM audit_seal"],
            ["seals 1 to 5 are missing: the end is cut off (it went up to entry 10)"],
        ),
        (
            [f"DELETE FROM installation_value WHERE name = '{MARK_NAME}'"],
            ["the key of the seals, or the mark of the newest, is missing"],
        ),
        (
            [f"UPDATE installation_value SET value = '3:6:x:y' WHERE name = '{MARK_NAME}'"],
            ["the key of the seals, or the mark of the newest, is missing"],
        ),
        (
            ["DELETE FROM installation_value WHERE name = 'audit_key'"],
            ["the key of the seals, or the mark of the newest, is missing"],
        ),
        (
            ["UPDATE audit_seal SET sealed_at = '2020-01-01 00:00:00.000000' WHERE id = 2"],
            ["entries 3 to 4 (seal 2): an entry or the seal was changed"],
        ),
        (
            ["UPDATE audit_seal SET hmac = previous WHERE id = 2"],
            [
                "entries 3 to 4 (seal 2): an entry or the seal was changed",
                "seal 3 does not follow the seal before",
            ],
        ),
        (
            ["UPDATE audit_seal SET first_id = 2 WHERE id = 2"],
            [
                "seal 2 does not follow the seal before",
                "entries 2 to 4 (seal 2): an entry or the seal was changed",
            ],
        ),
        (
            ["UPDATE audit_seal SET gaps = '[[3, 3]]' WHERE id = 2"],
            ["entry 3 was added later (seal 2)"],
        ),
        (["UPDATE audit_seal SET gaps = '7' WHERE id = 2"], ["seal 2 can no longer be read"]),
        ([COPY.format(id=-5)], ["there are entries before the first one"]),
    ],
)  # fmt: skip
def test_what_is_changed_removed_cut_off_or_added_is_found(
    sealed: Ledger, statements: list[str], found: list[str]
) -> None:
    _do(sealed, *statements)
    damages = verify(sealed).damages
    assert len(damages) == len(found), damages
    for damage, expected in zip(damages, found, strict=True):
        assert damage.startswith(expected)


@both_databases
@pytest.mark.parametrize(
    ("statement", "found"),
    [
        (
            "UPDATE audit_entry SET actor = 'tom' WHERE id = 9",
            "entries 9 to 10 (seal 5): an entry or the seal was",
        ),
        ("DELETE FROM audit_entry WHERE id = 10", "entry 10 is missing (seal 5)"),
        ("UPDATE audit_seal SET hmac = 'x' WHERE id = 4", "seal 5 does not follow the seal before"),
        ("DELETE FROM audit_seal WHERE id = 4", "seal 4 is missing"),
        ("DELETE FROM audit_seal WHERE id = 5", "seal 5 is missing: the end is cut off"),
        ("DELETE FROM audit_seal", "seals 1 to 5 are missing: the end is cut off"),
        (
            f"DELETE FROM installation_value WHERE name = '{MARK_NAME}'",
            "the key of the seals, or the mark",
        ),
    ],
)
def test_at_the_end_of_the_trail_the_newest_seal_alone_finds_it(
    sealed: Ledger, statement: str, found: str
) -> None:
    _write(sealed)
    newest = verify_newest(sealed)
    assert (newest.damages, newest.seals, newest.entries) == ([], 1, 2)
    assert (newest.newest, newest.unsealed) == (_intact(sealed).newest, 1)
    _do(sealed, statement)
    assert verify_newest(sealed).damages[0].startswith(found)


@both_databases
def test_a_trail_of_no_seal_or_one_has_a_newest_end_too(ledger: Ledger) -> None:
    assert verify_newest(ledger).damages == []
    _write(ledger, 2)
    _seal_all(ledger)
    assert (verify_newest(ledger).damages, verify_newest(ledger).entries) == ([], 2)


@both_databases
def test_what_can_not_be_read_any_more_is_found(sealed: Ledger) -> None:
    if sealed.engine.dialect.name != "sqlite":
        pytest.skip("PostgreSQL keeps nothing that is no JSON")
    _do(sealed, "UPDATE audit_entry SET changes = '{' WHERE id = 3")
    _do(sealed, "UPDATE audit_entry SET created_at = 'never' WHERE id = 7")
    assert verify(sealed).damages == [
        "entries 3 to 4 (seal 2): one can no longer be read",
        "entries 7 to 8 (seal 4): one can no longer be read",
    ]


@both_databases
def test_what_can_not_be_read_is_named_and_the_others_are_sealed(
    unguarded: Ledger, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(seals, "BLOCK", 3)
    _write(unguarded, 6)
    is_sqlite = unguarded.engine.dialect.name == "sqlite"
    poison = "changes = '{'" if is_sqlite else "created_at = 'infinity'"
    _do(unguarded, f"UPDATE audit_entry SET {poison} WHERE id IN (2, 6)")
    sealer = Sealer(unguarded)
    assert sealer.seal()
    assert _blocks(unguarded) == [(1, 3, [[2, 2]]), (4, 6, [[6, 6]])]
    assert "audit entry 2 can't be read" in caplog.text
    assert verify(unguarded).damages == [
        "entries 1 to 3 (seal 1): one can no longer be read",
        "entries 4 to 6 (seal 2): one can no longer be read",
    ]
    caplog.clear()
    _write(unguarded)
    assert sealer.seal()
    assert _blocks(unguarded)[2:] == [(7, 7, [])]
    assert "can't be read" not in caplog.text


@both_databases
def test_an_entry_in_a_gap_is_found(unguarded: Ledger) -> None:
    _write(unguarded, 3)
    _do(unguarded, "DELETE FROM audit_entry WHERE id = 2")
    _write(unguarded)
    _seal_all(unguarded)
    assert _blocks(unguarded) == [(1, 4, [[2, 2]])]
    _intact(unguarded)
    _do(unguarded, COPY.format(id=2).replace("id = 9", "id = 4"))
    assert verify(unguarded).damages == ["entry 2 was added later (seal 1)"]


@both_databases
def test_a_cut_end_stays_visible_whatever_is_sealed_after(
    sealed: Ledger, caplog: pytest.LogCaptureFixture
) -> None:
    sealer = Sealer(sealed)
    _write(sealed)
    sealer.seal()
    logged = verify(sealed).newest
    cut = ["DELETE FROM audit_entry WHERE id >= 9", "DELETE FROM audit_seal WHERE id >= 5"]
    _do(sealed, *cut)
    _write(sealed, 5)
    sealer.seal()
    assert f"{log_mark(logged)}: it is missing" in caplog.text
    assert any(damage.startswith("seals 5 to 6 are missing") for damage in verify(sealed).damages)


@both_databases
def test_an_older_copy_of_the_whole_database_is_found_by_the_log(sealed: Ledger) -> None:
    """Nothing inside of a database can tell that all of it is older."""
    mark = fetch(sealed, InstallationValue, MARK_NAME).value
    _write(sealed)
    _seal_all(sealed)
    newest = verify(sealed).newest
    _do(
        sealed, "DELETE FROM audit_entry WHERE id > 10", "DELETE FROM audit_seal WHERE id > 5",
        f"UPDATE installation_value SET value = '{mark}' WHERE name = '{MARK_NAME}'",
    )  # fmt: skip
    _intact(sealed)
    log = ["2026 INFO jobauto_prefect.ledger.audit.seals: " + log_mark(newest), "something else"]
    (damage,) = verify(sealed, marks_in(log)).damages
    assert damage.startswith("seal 6 is in the log and not in the ledger")
    _write(sealed)
    _seal_all(sealed)
    assert verify(sealed, [newest]).damages == ["seal 6 differs between the log and the ledger"]


@both_databases
def test_nothing_is_sealed_on_top_of_a_mark_that_is_not_ours(sealed: Ledger) -> None:
    _do(sealed, f"DELETE FROM installation_value WHERE name = '{MARK_NAME}'")
    _write(sealed)
    with pytest.raises(AuditDamaged, match="run: jobauto audit verify"):
        Sealer(sealed).seal()
    assert len(fetch_all(sealed, AuditSeal)) == 5


@both_databases
def test_a_mark_that_is_set_back_is_found_and_nothing_is_sealed_on_top(sealed: Ledger) -> None:
    mark = fetch(sealed, InstallationValue, MARK_NAME).value
    _write(sealed)
    _seal_all(sealed)
    _do(sealed, f"UPDATE installation_value SET value = '{mark}' WHERE name = '{MARK_NAME}'")
    (damage,) = verify(sealed).damages
    assert damage.startswith("the mark of the newest seal, 6, was set back to 5")
    _write(sealed)
    with pytest.raises(AuditDamaged, match="set back"):
        Sealer(sealed).seal()


@both_databases
def test_seals_survive_a_new_key(ledger: Ledger, ledger_settings: Settings) -> None:
    _write(ledger, 2)
    _seal_all(ledger)
    for _ in range(2):
        rotate(ledger, SERVICE, 0)
        _write(ledger, 2)
        _seal_all(ledger)
    assert _intact(ledger).seals == 3
    other = open_ledger(ledger_settings)
    assert _intact(other).entries == 8  # the rotations' own entries among them
    other.close()


def _add_entry(connection: Connection) -> None:
    """An entry of a transaction that goes on."""
    table = Base.metadata.tables["audit_entry"]
    row = {"created_at": NEW_YEAR, "actor": "slow", "door": "rest"}
    connection.execute(
        table.insert().values(entity_type="Company", action="update", changes={}, **row)
    )


@both_databases
def test_a_transaction_that_goes_on_is_waited_for_and_its_entry_sealed(ledger: Ledger) -> None:
    """Its id is lower than those of entries that were committed before it."""
    if ledger.engine.dialect.name != "postgresql":
        pytest.skip("SQLite has one writer at a time")
    sealer = Sealer(ledger)
    _write(ledger)
    with ledger.engine.connect() as slow, slow.begin():
        _add_entry(slow)
        _write(ledger, 2)
        for _ in range(3):
            assert not sealer.seal()
        assert _blocks(ledger) == []
        _write(ledger, 2)  # writers wait for nobody meanwhile
        assert not Sealer(ledger).seal()
        assert _blocks(ledger) == []
    assert sealer.seal()
    assert sealer.seal()
    assert _blocks(ledger) == [(1, 6, [])]
    assert _intact(ledger).entries == 6


@both_databases
def test_a_transaction_that_is_never_ended_is_told_of(
    ledger: Ledger, caplog: pytest.LogCaptureFixture
) -> None:
    if ledger.engine.dialect.name != "postgresql":
        pytest.skip("SQLite has one writer at a time")
    now = datetime(2026, 1, 1, tzinfo=UTC)
    ledger.clock = lambda: now
    sealer = Sealer(ledger)
    with ledger.engine.connect() as slow, slow.begin():
        _add_entry(slow)
        _write(ledger)
        for seconds in (0, 59, 61, 62):
            now = datetime(2026, 1, 1, tzinfo=UTC) + timedelta(seconds=seconds)
            assert not sealer.seal()
    warnings = [one.getMessage() for one in caplog.records if one.levelno == logging.WARNING]
    assert len(warnings) == 1
    assert "since 2026-01-01T00:00:00+00:00" in warnings[0]


@both_databases
def test_ids_of_transactions_that_were_rolled_back_are_listed(ledger: Ledger) -> None:
    sealer = Sealer(ledger)
    _write(ledger)
    with ledger.engine.connect() as slow:
        if ledger.engine.dialect.name == "postgresql":
            transaction = slow.begin()
            for _ in range(3):
                _add_entry(slow)
            _write(ledger, 2)
            assert not sealer.seal()
            transaction.rollback()
            expected = [(1, 6, [[2, 4]])]
        else:  # ids of what was rolled back are given again
            _write(ledger, 2)
            expected = [(1, 3, [])]
    with pytest.raises(RuntimeError), ledger.writing(ANNA) as session:
        write_entry(session, "Company", "update", {})
        raise RuntimeError
    assert sealer.seal()
    assert _blocks(ledger) == expected
    _intact(ledger)


@both_databases
def test_a_transaction_that_only_reads_is_not_waited_for(ledger: Ledger) -> None:
    _write(ledger)
    assert fetch_all(ledger, AuditEntry)
    assert Sealer(ledger).seal()
    assert _blocks(ledger) == [(1, 1, [])]


@both_databases
def test_services_at_once_and_writers_make_one_chain(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(seals, "BLOCK", 3)
    begun = Barrier(4)

    def seal() -> None:
        sealer = Sealer(ledger)
        begun.wait()
        for _ in range(15):
            sealer.seal()

    def write() -> None:
        begun.wait()
        for _ in range(15):
            with ledger.writing(ANNA) as session:
                session.add(Company(slug=f"c-{uuid4().hex}", name="C"))

    with ThreadPoolExecutor(4) as pool:
        for future in [pool.submit(work) for work in (seal, seal, write, write)]:
            future.result()
    sealer = Sealer(ledger)
    while not sealer.seal():
        pass
    found = _intact(ledger)
    assert (found.entries, found.unsealed) == (30, 0)
    numbers = [seal.id for seal in fetch_all(ledger, AuditSeal)]
    assert numbers == list(range(1, len(numbers) + 1))


@both_databases
@pytest.mark.parametrize("look", ["seal", "verify", "verify_newest"])
def test_a_first_seal_made_meanwhile_is_no_damage(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch, look: str
) -> None:
    module = seals if look == "seal" else seal_verification
    original, others = module.audit_key, [Sealer(ledger)]

    def audit_key(*read: Any) -> str | None:
        known = original(*read)
        if others:  # another service makes the first seal between this look and the next
            others.pop().seal()
        return known

    _write(ledger)
    monkeypatch.setattr(module, "audit_key", audit_key)
    if look == "seal":
        Sealer(ledger).seal()
    else:
        assert not getattr(seal_verification, look)(ledger).damages
    monkeypatch.undo()
    _seal_all(ledger)
    assert len(fetch_all(ledger, AuditSeal)) == 1
    _intact(ledger)


@both_databases
def test_a_trail_that_moves_to_another_kind_of_database_stays_sealed(
    ledger: Ledger,
    ledger_settings: Settings,
    migrate_once: Callable[[str], str],
    tmp_path: Path,
) -> None:
    other = {"sqlite": "postgresql", "postgresql": "sqlite"}[ledger.engine.dialect.name]
    _write(ledger, 3)
    _seal_all(ledger)
    folder = tmp_path / "moved"
    folder.mkdir()
    with database(other, folder, migrate_once(other)) as url:
        engine = make_engine(Settings(database_url=url).ledger_url)
        tables = [
            Base.metadata.tables[name]
            for name in ("installation_value", "audit_entry", "audit_seal")
        ]
        with ledger.engine.connect() as source, engine.begin() as target:
            for table in tables:
                rows = [dict(row._mapping) for row in source.execute(select(table))]
                target.execute(table.insert(), rows)
        engine.dispose()
        moved = open_ledger(ledger_settings.model_copy(update={"database_url": url}))
        assert _intact(moved).entries == 3
        moved.close()


@both_databases
async def test_the_services_seal_what_is_written(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert background.SEAL_SECONDS + background.SEAL_LOOKS * background.SEAL_LOOK_SECONDS < 10
    _write(ledger)
    await background._seal(Sealer(ledger))
    assert _intact(ledger).unsealed == 0


@both_databases
def test_the_command_tells_what_it_found(sealed: Ledger, ledger_settings: Settings) -> None:
    home = InProcessHome(ledger_settings.home)
    home.environment |= {
        "JOBAUTO_HOME": str(ledger_settings.home),
        "JOBAUTO_DATABASE_URL": ledger_settings.database_url,
    }

    def run(*options: str, log: str = "") -> tuple[int, str]:
        done = home.run("audit", "verify", *options, stdin=log)
        return done.returncode, done.stdout + done.stderr

    newest = verify(sealed).newest
    code, output = run("--json", "--log", "-", log=f"INFO {log_mark(newest)}\n")
    assert (code, json.loads(output)["intact"], json.loads(output)["seals"]) == (0, True, 5)
    assert json.loads(output)["newest"] == newest._asdict()
    code, output = run("--log", "-", log=f"INFO {log_mark(newest._replace(number=6))}\n")
    assert (code, "seal 6 is in the log" in output) == (1, True)
    _do(sealed, "DELETE FROM audit_entry WHERE id = 3")
    _write(sealed)
    code, output = run()
    assert code == 1
    assert "entry 3 is missing (seal 2)" in output
    assert "NOT intact" in output
    assert "not in a seal yet: 1 since" in output


@both_databases
@pytest.mark.parametrize(
    "statement",
    [
        "INSERT OR REPLACE INTO audit_entry SELECT id, created_at, 'tom', user_id, door, address, "
        "user_agent, request_id, entity_type, entity_id, company_id, action, changes "
        "FROM audit_entry",
        "REPLACE INTO audit_seal SELECT id, first_id, last_id, gaps, '', 'x', sealed_at "
        "FROM audit_seal",
        "INSERT INTO audit_seal SELECT * FROM audit_seal WHERE true "
        "ON CONFLICT (id) DO UPDATE SET hmac = 'x'",
        "UPDATE audit_seal SET hmac = 'x'",
        "UPDATE OR REPLACE audit_entry SET id = 2 WHERE id = 1",
        "DELETE FROM audit_seal",
        "TRUNCATE audit_seal",
    ],
)
def test_neither_entries_nor_seals_can_be_replaced_or_changed(
    ledger: Ledger, statement: str
) -> None:
    _write(ledger, 2)
    _seal_all(ledger)
    with pytest.raises(DBAPIError), ledger.engine.begin() as connection:
        connection.execute(text(statement))
    assert _intact(ledger).entries == 2
    _write(ledger)  # a new id is no replacement


def test_gaps_are_ranges_of_what_is_not_there() -> None:
    assert gaps_in(1, 3, [1, 2, 3]) == []
    assert gaps_in(1, 9, [2, 5, 6, 9]) == [[1, 1], [3, 4], [7, 8]]
    assert gaps_in(4, 9, []) == [[4, 9]]
