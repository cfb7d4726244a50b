"""Databases are moved from SQLite to PostgreSQL: whole, or not at all."""

import json
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

import psycopg
import pytest
import sqlalchemy as sa
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict
from sqlalchemy.dialects import postgresql

from jobauto_prefect.backup import move
from jobauto_prefect.cli.service.addresses import hold_home
from jobauto_prefect.engine.prefect_server.database import (
    make_prefect_tables,
    newest_prefect_revision,
)
from jobauto_prefect.ledger.audit.seals import Sealer
from jobauto_prefect.ledger.audit.trail import SERVICE
from jobauto_prefect.ledger.base import Base
from jobauto_prefect.ledger.opening import open_ledger
from jobauto_prefect.settings import Settings, load_settings
from tests.support.databases import POSTGRESQL, database
from tests.support.homes import InProcessHome, replaced
from tests.support.prefect_database import provide_prefect_database
from tests.support.secrets import secret

ROWS = 3  # of each table
TEXT = "a\tb\\.\n\\N 'ř' \U0001f600"


class Installation(InProcessHome):
    """A home with databases on SQLite, and two empty ones of PostgreSQL."""

    def __init__(self, path: Path, targets: dict[str, str]) -> None:
        super().__init__(path)
        self.home, self.targets = path / "home", targets

    @property
    def files(self) -> dict[str, Path]:
        return {
            "ledger": self.home / "ledger.db",
            "prefect": self.home / "prefect" / "prefect.db",
        }

    def contents(self) -> dict[str, bytes]:
        return {name: file.read_bytes() for name, file in self.files.items()}

    def move(self, **targets: str) -> Any:
        urls = self.targets | targets
        return self.run(
            "db", "move", "--json", *(f"--{name}={url}" for name, url in urls.items() if url)
        )

    def refused(self, **targets: str) -> str:
        """What the command says; it has changed nothing."""
        before = self.contents()
        done = self.move(**targets)
        assert done.returncode == 1, done.stderr
        assert "Traceback" not in done.stderr
        assert self.contents() == before
        assert not (self.home / "database.env").exists()
        return str(done.stderr)

    def die(self, at: str) -> None:
        """Move them in a process that is killed at a step."""
        child = os.fork()
        if child == 0:

            def kill_there(what: str, *_: int) -> None:
                if what == at:
                    os.kill(os.getpid(), signal.SIGKILL)

            try:
                move.AT_ONCE = 1
                with replaced({}, self.environment):
                    move.move_databases(load_settings(), self.targets, SERVICE, kill_there)
            finally:  # else it would go on with the tests
                os._exit(1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL

    def run_sql(self, name: str, *statements: str) -> None:
        """Change the former database, without a check of foreign keys."""
        with closing(sqlite3.connect(self.files[name])) as connection, connection:
            for statement in statements:
                connection.execute(statement)


@pytest.fixture(scope="module")
def prefect_on_postgresql(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A database with Prefect's tables, to copy: to make them takes seconds."""
    with database("postgresql", tmp_path_factory.mktemp("prefect")) as url:
        make_prefect_tables(
            url.replace("postgresql:", "postgresql+asyncpg:"),
            newest_prefect_revision("postgresql"),
        )
        yield url


@pytest.fixture
def installation(
    tmp_path: Path,
    prepared_home: Path,
    migrate_once: Callable[[str], str],
    prefect_on_postgresql: str,
) -> Iterator[Installation]:
    shutil.copytree(prepared_home, tmp_path / "home")
    provide_prefect_database(tmp_path / "home")
    open_ledger(Settings(home=tmp_path / "home")).close()  # it knows its key now
    with ExitStack() as databases:
        made = {"ledger": migrate_once("postgresql"), "prefect": prefect_on_postgresql}
        targets = {
            name: databases.enter_context(database("postgresql", tmp_path, template))
            for name, template in made.items()
        }
        yield Installation(tmp_path, targets)


def value(column: sa.Column[Any], number: int) -> Any:
    """A value that is easily altered on its way, different for each row."""
    if column.foreign_keys:
        (key,) = column.foreign_keys
        other = column.name == "reference_block_document_id"  # a block does not refer to itself
        return value(key.column, number % ROWS + 1 if other else number)
    if column.nullable and number == ROWS:
        return sa.null()
    kind = column.type
    if isinstance(kind, sa.Enum):
        return kind.enums[number % len(kind.enums)]
    return {
        "BOOLEAN": number % 2 == 0,
        "FLOAT": number / 3,
        "VARCHAR": f"{TEXT}{number}",
        "TEXT": f"{TEXT}{number}",
        "BYTEA": b"\0\xff\\x" + bytes([number]),
        "UUID": UUID(int=number),
        "DATE": date(2026, 2, number),
        "TIMESTAMP WITH TIME ZONE": datetime(2026, 3, 29, 1, 59, 59, number, tzinfo=UTC),
        "INTERVAL": timedelta(days=-number, microseconds=number),
        "JSON": {"z": [1.5, None, TEXT, {"a": number}], "a": True},
        "JSONB": {"z": [1.5, None, TEXT, {"a": number}], "a": True},
    }.get(kind.compile(dialect=postgresql.dialect()), number)


def fill(url: str, tables: sa.MetaData) -> None:
    """Fill all tables with rows that refer to each other by their numbers."""
    engine = sa.create_engine(url)
    with engine.begin() as connection:
        for table in tables.tables.values():
            held = connection.scalar(sa.select(sa.func.count()).select_from(table))
            for number in range(1, ROWS + 1) if not held else ():
                row = {column.name: value(column, number) for column in table.columns}
                connection.execute(sa.insert(table).values(row))
    engine.dispose()


def rows(url: str, tables: sa.MetaData) -> dict[str, list[dict[str, Any]]]:
    engine = sa.create_engine(url)
    with engine.connect() as connection:
        found = {
            table.name: sorted(
                (dict(row) for row in connection.execute(sa.select(table)).mappings()), key=repr
            )
            for table in tables.tables.values()
        }
    engine.dispose()
    return found


def prefect_tables() -> sa.MetaData:
    """Prefect's tables; what Pydantic would check when it is read is JSON."""
    from prefect.server.database.orm_models import Base as PrefectBase
    from prefect.server.utilities.database import JSON, Pydantic

    tables = sa.MetaData()
    for table in PrefectBase.metadata.tables.values():
        for column in table.to_metadata(tables).columns:
            if isinstance(column.type, Pydantic):
                column.type = JSON()
    return tables


def test_every_row_of_every_table_is_the_same_afterwards(installation: Installation) -> None:
    of_both = {"ledger": Base.metadata, "prefect": prefect_tables()}
    before = {}
    for name, tables in of_both.items():
        url = f"sqlite:///{installation.files[name]}"
        fill(url, tables)
        before[name] = rows(url, tables)
        assert all(before[name].values())
    contents = installation.contents()
    done = installation.move()
    assert done.returncode == 0, done.stderr
    assert installation.contents() == contents
    for name, tables in of_both.items():
        url = installation.targets[name].replace("postgresql:", "postgresql+psycopg:")
        moved = rows(url, tables)
        if name == "ledger":
            entry, tally = moved["audit_entry"].pop(), moved["audit_tally"].pop()
            assert (tally["entity_type"], tally["number"]) == ("Database", 1)
            assert (entry["entity_type"], entry["actor"][:3]) == ("Database", "os:")
            assert entry["changes"]["ledger"] == [str(installation.files[name]), "PostgreSQL"]
        for table, expected in before[name].items():
            assert moved[table] == expected, table
        told = json.loads(done.stdout)["databases"][name]["rows"]
        assert {table: told[table] for table in moved} == {
            table: len(found) for table, found in moved.items()
        }


LOG = (
    "INSERT INTO log (id, name, level, message, timestamp, flow_run_id) VALUES"
    " ('00000000-0000-0000-0000-000000000001', 'x', 20, 'a' || char(0) || 'b',"
    " '2026-05-01 10:00:00.000000', NULL)"
)
FLOW = (
    "INSERT INTO flow (id, name, tags, labels) VALUES ('00000000-0000-0000-0000-000000000001',"
    """ 'x', '["\\u0000 \\\\u0000 \\ud83d\\ude00 \\ud83d"]', '5')"""
)


def test_a_killed_move_is_repeated_and_numbers_and_seals_go_on(installation: Installation) -> None:
    assert installation.run("company", "create", "acme", "name=Acme").returncode == 0
    with closing(open_ledger(Settings(home=installation.home))) as ledger:
        assert Sealer(ledger).seal()
    before = installation.contents()
    installation.die("copying the database of ledger")
    assert installation.contents() == before
    assert not (installation.home / "database.env").exists()

    done = installation.move()
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert (told["seals"], told["damages"], told["overriding"]) == (1, [], [])
    assert installation.contents() == before
    made = installation.run("company", "create", "other", "name=Other", "--json")
    assert json.loads(made.stdout)["id"] == 2, made.stderr
    verified = json.loads(installation.run("audit", "verify", "--json").stdout)
    assert (verified["intact"], verified["seals"]) == (True, 1)
    assert "is not on SQLite (it is PostgreSQL)" in installation.move().stderr


def _kill(*_: object) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


COPIED = move._copied


@contextmanager
def _killed_after_commit(*args: Any) -> Iterator[dict[str, int]]:
    """The first database to be committed is the only one."""
    with COPIED(*args) as counts:
        yield counts
    _kill()


def _recreate(url: str) -> None:
    """What dropdb and createdb do."""
    name = sql.Identifier(conninfo_to_dict(url)["dbname"])
    with psycopg.connect(POSTGRESQL, autocommit=True) as connection:
        connection.execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(name))
        connection.execute(sql.SQL("CREATE DATABASE {}").format(name))


@pytest.mark.parametrize("whole", [["ledger"], ["prefect", "ledger"]])
def test_a_move_that_was_killed_at_its_end_says_what_to_clear_and_is_repeated(
    installation: Installation, whole: list[str]
) -> None:
    installation.run_sql("prefect", FLOW)
    before = installation.contents()
    with pytest.MonkeyPatch.context() as patch:
        if len(whole) == 2:
            patch.setattr(move, "store_variables", _kill)
        else:
            patch.setattr(move, "_copied", _killed_after_commit)
        installation.die("")
    for name in whole:
        said = installation.refused()
        assert f"the new database of {name} is not empty" in said
        assert "drop it first (dropdb)" in said
        _recreate(installation.targets[name])
    done = installation.move()
    assert done.returncode == 0, done.stderr
    assert installation.contents() == before


def test_characters_that_postgresql_does_not_hold_are_replaced(installation: Installation) -> None:
    installation.run_sql("prefect", LOG, FLOW)
    done = installation.move()
    assert done.returncode == 0, done.stderr
    with psycopg.connect(installation.targets["prefect"]) as connection:
        found = connection.execute("SELECT message, tags, labels FROM log, flow").fetchall()
    assert found == [("a\ufffdb", ["\ufffd \\u0000 \U0001f600 \ufffd"], 5)]


def test_rows_that_do_not_fit_are_refused_and_nothing_is_moved(installation: Installation) -> None:
    plain = secret("hidden")
    installation.run_sql(
        "prefect",
        "INSERT INTO flow_run_state (id, flow_run_id, type, name, timestamp) VALUES"
        " ('00000000-0000-0000-0000-000000000001', '00000000-0000-0000-0000-000000000009',"
        f" 'RUNNING', '{plain}', '2026-05-01 10:00:00')",
    )
    said = installation.refused()
    assert "rows of flow_run_state in the database of prefect do not fit PostgreSQL" in said
    assert plain not in said
    installation.run_sql("prefect", "DELETE FROM flow_run_state")
    assert installation.move().returncode == 0


def test_what_is_not_to_be_moved_is_refused(installation: Installation) -> None:
    ledger, prefect = installation.targets.values()
    password = secret("word")
    shared = f"{ledger}?options=-csearch_path%3Dshared"
    for url, why in (
        (f"mysql://a:{password}@b/c", "--ledger is not an address of PostgreSQL"),
        (f"postgresql://a:{password}%zz@b/c", "--ledger is not an address of PostgreSQL"),
        (f"postgresql://a:{password}@127.0.0.1:9/c", "PostgreSQL does not answer"),
        (prefect, "the new database of ledger has the tables of another program"),
        ("", "the database of ledger is on SQLite, too"),
    ):
        said = installation.refused(ledger=url)
        assert why in said
        assert password not in said
    assert "both new databases are the same" in installation.refused(ledger=shared, prefect=shared)

    idle = f"import sqlite3, time; sqlite3.connect({str(installation.files['prefect'])!r}).execute("
    idle += "'SELECT * FROM flow'); print(flush=True); time.sleep(60)"
    with subprocess.Popen([sys.executable, "-c", idle], stdout=subprocess.PIPE) as other:
        assert other.stdout is not None
        other.stdout.readline()
        assert "the database of prefect is in use" in installation.refused()
        other.kill()
    with hold_home(installation.home, {}):
        assert "jobauto up already runs" in installation.refused()

    with psycopg.connect(ledger, autocommit=True) as connection:
        connection.execute("CREATE TABLE theirs AS SELECT 1")
        assert "the table theirs has rows" in installation.refused()
        connection.execute("DROP TABLE theirs")
    installation.run_sql("prefect", "UPDATE alembic_version SET version_num = 'abcdefabcdef'")
    assert "tables of prefect are of another version" in installation.refused()
    installation.run_sql("ledger", "UPDATE alembic_version SET version_num = '0001'")
    assert "run: jobauto db upgrade" in installation.refused()


def test_settings_that_can_not_be_written_are_named_without_a_password(
    installation: Installation,
) -> None:
    password = secret("word")
    urls = [
        f"--{name}={url.replace('@', f':{password}@')}"
        for name, url in installation.targets.items()
    ]
    former = f"sqlite:///{installation.files['ledger']}"
    places = {"JOBAUTO_CONFIG_DIR": "/dev/null/none", "JOBAUTO_DATABASE_URL": former}
    done = installation.run("db", "move", *urls, **places)
    assert done.returncode == 0, done.stderr
    both = "PREFECT_SERVER_DATABASE_CONNECTION_URL and JOBAUTO_DATABASE_URL"
    assert f"can't be written; set {both} to the new addresses" in done.stderr
    assert "former addresses, which take precedence: JOBAUTO_DATABASE_URL" in done.stderr
    assert password not in done.stdout + done.stderr
