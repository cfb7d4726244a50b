"""Whoever owned a database may have put anything into it: rows of ours alone are restored."""

import re
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import httpx
import pytest
from psycopg import sql

from jobauto_prefect.backup import postgresql, sqlite
from jobauto_prefect.backup.archive import sha256_of
from jobauto_prefect.backup.content import Content, Member
from jobauto_prefect.backup.databases import Database
from jobauto_prefect.engine.prefect_server.database import (
    make_prefect_tables,
    newest_prefect_revision,
)
from jobauto_prefect.errors import BackupDamaged, NotReady
from jobauto_prefect.ledger.audit.seal_verification import verify
from jobauto_prefect.ledger.audit.seals import Sealer
from jobauto_prefect.ledger.database import migration
from jobauto_prefect.ledger.database.engine import make_engine
from jobauto_prefect.ledger.opening import open_ledger
from jobauto_prefect.settings import Settings
from tests.support.backups import Installations, two_for_prefect
from tests.support.databases import both_databases, database, on_postgresql
from tests.support.prefect_database import provide_prefect_database
from tests.support.waits import eventually

HOSTILE_SQLITE = """
    CREATE VIEW everybody AS SELECT * FROM user;
    CREATE TRIGGER company_made AFTER INSERT ON company BEGIN UPDATE user SET is_active = 0; END;
    CREATE TRIGGER login AFTER UPDATE ON user BEGIN UPDATE user SET role = 'super_admin'; END;
    CREATE TABLE further (id integer, twice integer GENERATED ALWAYS AS (id * 2) STORED);
    CREATE INDEX by_words ON company (lower(name) || hex(slug));
"""

HOSTILE_POSTGRESQL = """
    CREATE FUNCTION make_role() RETURNS void LANGUAGE plpgsql AS $$
    BEGIN
        IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = '{role}') THEN
            CREATE ROLE {role};
        END IF;
    END $$;
    CREATE FUNCTION indexed(text) RETURNS text LANGUAGE plpgsql IMMUTABLE AS $$
    BEGIN PERFORM public.make_role(); RETURN $1; END $$;
    CREATE FUNCTION triggered() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN PERFORM public.make_role(); RETURN NEW; END $$;
    CREATE FUNCTION commanded() RETURNS event_trigger LANGUAGE plpgsql AS $$
    BEGIN PERFORM public.make_role(); END $$;
    CREATE INDEX by_words ON company (indexed(name));
    CREATE TRIGGER a_company BEFORE INSERT OR UPDATE ON company FOR EACH ROW
        EXECUTE FUNCTION triggered();
    ALTER TABLE company ENABLE ALWAYS TRIGGER a_company;
    CREATE TABLE further (id integer, twice text GENERATED ALWAYS AS (indexed('x')) STORED);
    ALTER TABLE company ADD CONSTRAINT words CHECK (indexed(name) IS NOT NULL);
    ALTER TABLE company ALTER COLUMN name SET DEFAULT indexed('x');
    CREATE VIEW everybody AS SELECT * FROM "user";
    CREATE MATERIALIZED VIEW words AS SELECT indexed(name) FROM company;
    CREATE RULE other AS ON INSERT TO further DO ALSO SELECT make_role();
    CREATE POLICY none ON company USING (indexed(name) IS NOT NULL);
    CREATE SCHEMA beside CREATE TABLE company (id integer);
    INSERT INTO beside.company VALUES (1), (2);
"""


def objects(url: str) -> set[Any]:
    """All that a database has beside rows."""
    if url.startswith("sqlite"):
        with closing(sqlite3.connect(sqlite.file_of(url))) as connection:
            found = connection.execute("SELECT type, name, tbl_name, sql FROM sqlite_master")
            # Migrations copy tables, and write their constraints in no certain order.
            return {(*row[:3], *sorted(re.split(r",?\s*\n", row[3] or ""))) for row in found}
    with postgresql.connect(url) as connection:
        return set(
            connection.execute(
                "SELECT 'class', oid::regclass::text, relkind::text, reltriggers FROM ("
                "  SELECT oid, relkind, (SELECT string_agg(pg_get_triggerdef(t.oid) ||"
                "  tgenabled::text, ',' ORDER BY tgname) FROM pg_trigger t WHERE tgrelid = c.oid"
                "  AND NOT tgisinternal) AS reltriggers FROM pg_class c"
                "  WHERE relnamespace NOT IN (SELECT oid FROM pg_namespace"
                "  WHERE nspname IN ('pg_catalog', 'information_schema', 'pg_toast'))) AS classes"
                " UNION ALL SELECT 'function', oid::regprocedure::text, prosrc, '' FROM pg_proc"
                "  WHERE pronamespace = 'public'::regnamespace"
                " UNION ALL SELECT 'default', adrelid::regclass::text, adnum::text,"
                "  pg_get_expr(adbin, adrelid) FROM pg_attrdef"
                " UNION ALL SELECT 'constraint', conrelid::regclass::text, conname,"
                "  pg_get_constraintdef(oid) FROM pg_constraint"
                "  WHERE connamespace = 'public'::regnamespace"
                " UNION ALL SELECT 'index', indexrelid::regclass::text, '',"
                "  pg_get_indexdef(indexrelid) FROM pg_index"
                "  WHERE indrelid >= 16384 AND indrelid::regclass::text !~ 'pg_toast'"
                " UNION ALL SELECT 'event trigger', evtname, '', '' FROM pg_event_trigger"
                " UNION ALL SELECT 'schema', nspname, '', '' FROM pg_namespace"
            )
        )


def names(url: str) -> set[Any]:
    """The same by name: Prefect's migrations write the same tables of SQLite in several ways."""
    return {row[:2] if url.startswith("sqlite") else row for row in objects(url)}


def rows(url: str) -> dict[str, set[str]]:
    """All rows of the ledger's tables but those a restore adds to."""
    tables = ("company", "user", "app", "credential", "audit_seal", "token")
    source = Database("ledger", url)
    return {
        table: {repr(row) for row in source.select(f'SELECT * FROM "{table}" ORDER BY id')}
        for table in tables
    }


def attack(url: str, role: str) -> None:
    """Put all of it into a database."""
    if url.startswith("sqlite"):
        with closing(sqlite3.connect(sqlite.file_of(url))) as connection:
            connection.executescript(HOSTILE_SQLITE)
        return
    with postgresql.connect(url) as connection:
        connection.execute(HOSTILE_POSTGRESQL.format(role=role).encode())
        connection.execute(f"DROP ROLE IF EXISTS {role}".encode())
        connection.execute(
            b"CREATE EVENT TRIGGER commanded ON ddl_command_start EXECUTE FUNCTION commanded()"
        )


def run(target: Database, statements: str) -> None:
    """Run statements in a database of either kind."""
    if target.kind == "sqlite":
        with closing(sqlite3.connect(target.file)) as connection:
            connection.executescript(statements)
        return
    with postgresql.connect(target.url) as connection:
        connection.execute(statements.encode())


def has_role(url: str, role: str) -> bool:
    if url.startswith("sqlite"):
        return False
    with postgresql.connect(url) as connection:
        found = connection.execute("SELECT FROM pg_roles WHERE rolname = %s", (role,))
        return found.fetchone() is not None


@both_databases
def test_a_restore_takes_rows_and_no_function_trigger_view_index_or_default(
    installations: Installations,
    rest: httpx.Client,
    template: dict[str, Any],
    migrated: tuple[str, str],
) -> None:
    source, target = installations.settings.ledger_url, installations.empty.ledger_url
    rest.post("/company/", json={"slug": "tab", "name": "a\tb\\.\n\\N ř"}).raise_for_status()
    rest.post("/job/", json={"runtemplate_id": template["id"]}).raise_for_status()
    assert Sealer(installations.ledger).seal()
    role = "jobauto_test_hostile"
    flow_name = 'SELECT flow_name FROM "app"'  # the facade writes it meanwhile
    eventually(lambda: [*Database("ledger", source).select(flow_name)] != [(None,)])
    before = rows(source)
    try:
        attack(source, role)
        installations.make()
        done = installations.restore()
        assert not has_role(target, role)
    finally:
        if not source.startswith("sqlite"):
            with postgresql.connect(source) as connection:
                connection.execute(b"DROP EVENT TRIGGER commanded")
                connection.execute(f"DROP ROLE IF EXISTS {role}".encode())
    assert done.begun.lost == ()
    changed = rows(target)
    assert changed.pop("token") != {}
    assert changed == {table: before[table] for table in changed}
    assert objects(target) == objects(migrated[1])
    ledger = open_ledger(installations.empty)
    found = verify(ledger)
    assert (found.damages, found.seals) == ([], 1)
    with ledger.engine.connect() as connection, pytest.raises(Exception, match="audit"):
        connection.exec_driver_sql("UPDATE audit_entry SET action = 'x'")
    ledger.close()


@on_postgresql
def test_a_name_that_looks_like_rows_is_refused(installations: Installations) -> None:
    name = "x\nCOPY public.company (id) FROM stdin;\n7\n"
    table = sql.SQL("CREATE TABLE {} (id integer)").format(sql.Identifier(name))
    with postgresql.connect(installations.settings.ledger_url) as connection:
        connection.execute(table)
    installations.make()
    with pytest.raises(BackupDamaged, match="the table company twice, or other columns"):
        installations.restore()


@on_postgresql
def test_numbers_are_not_given_again(installations: Installations) -> None:
    with postgresql.connect(installations.settings.ledger_url) as connection:
        connection.execute("SELECT setval('company_id_seq', 700), setval('job_id_seq', 9, false)")
    installations.make()
    installations.restore()
    with postgresql.connect(installations.empty.ledger_url) as connection:
        numbers = connection.execute("SELECT nextval('company_id_seq'), nextval('job_id_seq')")
        assert numbers.fetchone() == (701, 9)


@both_databases
def test_a_trail_that_was_altered_before_the_backup_is_found_after_the_restore(
    installations: Installations, rest: httpx.Client
) -> None:
    rest.post("/company/", json={"slug": "acme2", "name": "A"}).raise_for_status()
    Sealer(installations.ledger).seal()
    with installations.ledger.engine.begin() as connection:
        if connection.dialect.name == "sqlite":
            connection.exec_driver_sql("DROP TRIGGER audit_entry_no_update")
        else:
            connection.exec_driver_sql("ALTER TABLE audit_entry DISABLE TRIGGER USER")
        connection.exec_driver_sql("UPDATE audit_entry SET actor = 'nobody'")
    installations.make()
    installations.restore()
    ledger = open_ledger(installations.empty)
    assert verify(ledger).damages
    ledger.close()


HOSTILE_PREFECT = {
    "sqlite": """
        CREATE TRIGGER a_flow AFTER INSERT ON flow BEGIN DELETE FROM flow; END;
        CREATE VIEW everything AS SELECT * FROM flow_run;
    """,
    "postgresql": """
        CREATE FUNCTION emptied() RETURNS trigger LANGUAGE plpgsql AS $$
        BEGIN DELETE FROM flow_run; RETURN NEW; END $$;
        CREATE TRIGGER a_flow AFTER INSERT ON flow FOR EACH ROW EXECUTE FUNCTION emptied();
        CREATE VIEW everything AS SELECT * FROM flow_run;
    """,
}
FLOW = "INSERT INTO flow (id, name, tags, labels, created, updated)"


@both_databases
def test_of_prefects_database_rows_are_taken_too(
    installations: Installations, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kind = installations.ledger.engine.dialect.name
    with two_for_prefect(kind, tmp_path) as (before, after):
        if kind == "sqlite":
            provide_prefect_database(tmp_path)
            shutil.copyfile(tmp_path / "prefect" / "prefect.db", before.file)
        else:
            make_prefect_tables(before.url, newest_prefect_revision(kind))
        run(before, FLOW + " VALUES ('9b2e9c3e-7d5f-4f6e-8d5e-0c7b7f3b1a11', 'x', '[]', '{}',"
            " '2026-01-01 00:00:00+00:00', '2026-01-01 00:00:00+00:00')")  # fmt: skip
        plain = names(before.url)
        run(before, HOSTILE_PREFECT[kind])
        monkeypatch.setenv("PREFECT_SERVER_DATABASE_CONNECTION_URL", before.url)
        assert [*installations.make().manifest.databases] == ["prefect", "ledger"]
        monkeypatch.setenv("PREFECT_SERVER_DATABASE_CONNECTION_URL", after.url)
        installations.restore()
        assert [row[0] for row in after.select("SELECT name FROM flow")] == ["x"]
        assert names(after.url) == plain


@both_databases
@pytest.mark.parametrize(
    "statements",
    [
        "ALTER TABLE company RENAME TO c; CREATE VIEW company AS SELECT * FROM c;",
        "ALTER TABLE company DROP COLUMN ic;"
        " ALTER TABLE company ADD COLUMN ic text GENERATED ALWAYS AS ('x') {stored};",
        "ALTER TABLE company RENAME COLUMN ic TO other;",
    ],
)
def test_a_view_or_a_computed_or_missing_column_is_refused(
    installations: Installations, statements: str
) -> None:
    source = Database("ledger", installations.settings.ledger_url)
    run(source, statements.format(stored="VIRTUAL" if source.kind == "sqlite" else "STORED"))
    installations.make()
    with pytest.raises(BackupDamaged, match="company"):
        installations.restore()
    assert not installations.empty.key_path.exists()


@both_databases
def test_tables_of_a_former_version_are_filled_and_upgraded_then(
    migrated: tuple[str, str], tmp_path: Path
) -> None:
    kind, _ = migrated
    (tmp_path / "before").mkdir()
    (tmp_path / "after").mkdir()
    with database(kind, tmp_path / "before") as before, database(kind, tmp_path / "after") as after:
        source, target = (
            Database("ledger", Settings(database_url=url).ledger_url) for url in (before, after)
        )
        engine = make_engine(source.url)
        migration.upgrade(engine, "0029")
        run(source, "INSERT INTO installation_value (name, value) VALUES ('x', 'y')")
        engine.dispose()
        file = tmp_path / "dump"
        tool = source.dump(file, lambda _done, _of: None)
        member = Member("x", kind, file.stat().st_size, sha256_of(file), tool)
        with file.open("rb") as content:
            target.restore(tool, lambda: Content(content, 0, member))
        engine = make_engine(target.url)
        assert migration.current(engine) == "0029"
        assert target.select("SELECT value FROM installation_value") == [("y",)]
        migration.upgrade(engine)
        engine.dispose()
        with pytest.raises(NotReady, match="up to revision"):
            migration.upgrade(engine, "9999")
