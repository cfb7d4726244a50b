"""Loads the rows of a PostgreSQL dump into tables of our own.

A dump is a list of statements: functions, triggers, views and whatever somebody wrote into it. None
is executed. `pg_restore` writes the dump as text, of which only rows and positions of sequences are
used, by statements built here for tables that our own migrations created.
"""

import contextlib
import re
import shutil
import subprocess
import tempfile
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from itertools import takewhile
from typing import IO

import psycopg
from psycopg import sql

from jobauto_prefect.backup import postgresql
from jobauto_prefect.backup.content import CHUNK, Content
from jobauto_prefect.backup.sqlite import VERSION_TABLE
from jobauto_prefect.errors import BackupDamaged

IDENTIFIER = rb'(?:[a-z_][a-z0-9_$]*|"(?:[^"]|"")+")'
QUALIFIED = rb"(?P<schema>%b)\.(?P<name>%b)" % (IDENTIFIER, IDENTIFIER)
TABLE = re.compile(
    rb"COPY %b \((?P<columns>%b(?:, %b)*)\) FROM stdin;\n" % (QUALIFIED, IDENTIFIER, IDENTIFIER)
)
SEQUENCE = re.compile(
    rb"SELECT pg_catalog\.setval\('%b', (?P<number>[0-9]{1,19}), (?P<is_called>true|false)\);\n"
    % QUALIFIED
)
ENCODING = re.compile(rb"SET client_encoding = '([A-Z0-9_]+)';\n")
"""The only lines of `pg_restore` that are interpreted."""

SEQUENCES = """
    SELECT relname FROM pg_class
    WHERE relkind = 'S' AND relnamespace = to_regnamespace(quote_ident(%s))
"""


def restore(
    url: str, made_by: str, open_content: Callable[[], Content], make_tables: Callable[[str], None]
) -> None:
    """Fill an empty database with the rows of a dump. The URL's user will own all of it.

    `make_tables` creates the tables of a revision; only their rows and the positions of their
    sequences come from the dump, in one transaction. No statement of the dump is ever executed.

    Raises:
        NotReady: no suitable `pg_restore` is installed, or that revision has no tables.
        BackupDamaged: the dump does not match such tables.
    """
    path = postgresql.restorer(url, made_by)
    with postgresql.connect(url) as connection:
        schema = postgresql.make_schema(connection)
    make_tables(_revision(path, open_content(), schema))
    try:
        with (
            postgresql.connect(url) as connection,
            connection.transaction(),
            postgresql.bare_tables(connection, schema) as tables,
            _script(path, open_content()) as script,
        ):
            _copy(connection, schema, tables, script)
    except psycopg.Error as error:  # its message may contain values of rows
        where = error.diag.table_name or "its tables"
        raise BackupDamaged(
            f"rows of the dump do not fit {where} (SQLSTATE {error.sqlstate}); nothing of them was"
            " kept; take another backup"
        ) from None


@contextmanager
def _script(program: str, content: Content, *options: str) -> Iterator[IO[bytes]]:
    """Open the rows of a dump as written by `pg_restore`, without a server.

    Raises:
        BackupDamaged: it can't be read, or was altered.
    """
    with (
        tempfile.TemporaryFile() as messages,
        ThreadPoolExecutor(1) as pool,
        subprocess.Popen(
            [program, "--data-only", "--file=-", *options],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=messages,
        ) as reading,
    ):
        assert reading.stdin is not None  # noqa: S101 - it was asked for
        assert reading.stdout is not None  # noqa: S101 - likewise
        feeding = pool.submit(_feed, content, reading.stdin)
        try:
            yield reading.stdout
        except BaseException:
            reading.kill()
            raise
        feeding.result()
        if reading.wait():
            messages.seek(0)
            said = postgresql.one_line(messages.read().decode(errors="replace"))
            raise BackupDamaged(f"pg_restore can't read the dump: {said}; take another backup")


def _feed(content: Content, pipe: IO[bytes]) -> None:
    with contextlib.suppress(BrokenPipeError), pipe:  # its exit code and its message explain it
        shutil.copyfileobj(content, pipe, CHUNK)
    while content.read():
        pass  # to verify the checksum of all of it


def _revision(program: str, content: Content, schema: str) -> str:
    found = ""
    with _script(program, content, f"--table={VERSION_TABLE}") as script:
        for line in script:
            if (table := TABLE.fullmatch(line)) and _names(table) == (schema, VERSION_TABLE):
                row = next(script, b"").decode(errors="replace").strip()
                found = row.partition("\t")[0]  # the ledger's has a second column
    if not found:
        raise BackupDamaged(
            f"the dump has no table {schema}.{VERSION_TABLE}; name the dump's schema"
            " (search_path), or take a backup of a whole installation"
        )
    return found


def _copy(
    connection: psycopg.Connection,
    schema: str,
    tables: Mapping[str, Mapping[str, str]],
    script: IO[bytes],
) -> None:
    """Copy the rows of these tables and set their sequences; ignore the rest of the script."""
    filled: set[str] = set()
    sequences = {row[0] for row in connection.execute(SEQUENCES, (schema,))}
    for line in script:
        if encoding := ENCODING.fullmatch(line):
            name = encoding[1].decode()
            connection.execute("SELECT set_config('client_encoding', %s, true)", (name,))
        elif (value := SEQUENCE.fullmatch(line)) and _names(value)[1] in sequences:
            if _names(value)[0] == schema:
                name = sql.Identifier(*_names(value)).as_string(connection)
                number, is_called = int(value["number"]), value["is_called"] == b"true"
                connection.execute("SELECT setval(%s::regclass, %s, %s)", (name, number, is_called))
        elif table := TABLE.fullmatch(line):
            rows = takewhile(lambda row: row != b"\\.\n", script)
            named, name = _names(table)
            if named == schema and name in tables:
                columns = [_name(column) for column in table["columns"].split(b", ")]
                if name in filled or tables[name].keys() != set(columns):
                    raise BackupDamaged(
                        f"the dump has the table {name} twice, or other columns; take another"
                        " backup"
                    )
                filled.add(name)
                statement = sql.SQL("COPY {} ({}) FROM STDIN").format(
                    sql.Identifier(schema, name), sql.SQL(", ").join(map(sql.Identifier, columns))
                )
                with connection.cursor().copy(statement) as copy:
                    for row in rows:
                        copy.write(row)
            deque(rows, maxlen=0)
    if missing := tables.keys() - filled:
        raise BackupDamaged(
            f"the dump has no rows of {min(missing)}; take a backup of a whole installation"
        )


def _names(found: re.Match[bytes]) -> tuple[str, str]:
    return _name(found["schema"]), _name(found["name"])


def _name(written: bytes) -> str:
    return written.decode(errors="replace").strip('"').replace('""', '"')
