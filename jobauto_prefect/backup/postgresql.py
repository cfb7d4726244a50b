"""Databases of PostgreSQL: connecting, `pg_dump` and `pg_restore`, filling tables."""

import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import parse_qsl, urlsplit

import psycopg
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from jobauto_prefect.backup.sqlite import VERSION_TABLE
from jobauto_prefect.errors import LedgerUnavailable, NotReady

PACKAGES = Path("/usr/lib/postgresql")
"""Where Debian installs the programs of each major version."""

VARIABLES: Mapping[str, str] = {
    "host": "PGHOST",
    "hostaddr": "PGHOSTADDR",
    "port": "PGPORT",
    "user": "PGUSER",
    "password": "PGPASSWORD",
    "dbname": "PGDATABASE",
    "options": "PGOPTIONS",
    "passfile": "PGPASSFILE",
    "service": "PGSERVICE",
    "sslmode": "PGSSLMODE",
    "sslrootcert": "PGSSLROOTCERT",
    "sslcert": "PGSSLCERT",
    "sslkey": "PGSSLKEY",
}
"""The variables that libpq reads: no password is in an argument list."""

CONNECT_SECONDS = 15

HOLDS_ANYTHING = """
    SELECT count(*) FROM pg_class
    JOIN pg_namespace ON pg_namespace.oid = relnamespace
    WHERE nspname NOT IN ('pg_catalog', 'information_schema') AND nspname !~ '^pg_'
        AND relkind IN ('r', 'p', 'v', 'm', 'S', 'f')
        AND NOT EXISTS (
            SELECT FROM pg_depend WHERE objid = pg_class.oid AND deptype = 'e'
        )
"""

COLUMNS = f"""
    SELECT relname, attname, typname FROM pg_class JOIN pg_attribute ON attrelid = pg_class.oid
    JOIN pg_type ON pg_type.oid = atttypid
    WHERE relnamespace = to_regnamespace(quote_ident(%s)) AND relkind IN ('r', 'p')
        AND attnum > 0 AND NOT attisdropped AND attgenerated = ''
        AND relname <> '{VERSION_TABLE}'
"""  # noqa: S608
FOREIGN_KEYS = """
    SELECT relname, conname, pg_get_constraintdef(pg_constraint.oid) FROM pg_constraint
    JOIN pg_class ON pg_class.oid = conrelid
    WHERE contype = 'f' AND relnamespace = to_regnamespace(quote_ident(%s))
"""


def parameters(url: str) -> dict[str, str]:
    """Return what libpq needs to connect, from an SQLAlchemy URL with any driver."""
    address = urlsplit(url)
    plain = address._replace(scheme="postgresql", query="", fragment="").geturl()
    settings = {name: str(value) for name, value in conninfo_to_dict(plain).items() if value}
    query = {{"ssl": "sslmode"}.get(name, name): value for name, value in parse_qsl(address.query)}
    return settings | {name: value for name, value in query.items() if name in VARIABLES}


def same_database(url: str, other: str) -> bool:
    """Whether two URLs lead to the same database, perhaps to two schemas in it."""
    names = ("host", "port", "dbname")
    mine, theirs = parameters(url), parameters(other)
    defaults = {"host": "localhost", "port": "5432"}
    return all(
        mine.get(name, defaults.get(name)) == theirs.get(name, defaults.get(name)) for name in names
    )


def connect(url: str) -> psycopg.Connection:
    """Open a connection, each statement of which is a transaction.

    Raises:
        LedgerUnavailable: the server does not answer, or refuses the login.
    """
    try:
        address = make_conninfo(connect_timeout=CONNECT_SECONDS, **parameters(url))
        return psycopg.connect(address, autocommit=True)
    except psycopg.Error as error:
        raise LedgerUnavailable(f"PostgreSQL does not answer: {one_line(str(error))}") from error


def major_of(url: str) -> int:
    """Return the major version of a server."""
    with connect(url) as connection:
        return connection.info.server_version // 10_000


def is_empty(url: str) -> bool:
    """Whether a database has no tables; those of extensions do not count."""
    with connect(url) as connection:
        row = connection.execute(HOLDS_ANYTHING).fetchone()
        return row is not None and row[0] == 0


def program(name: str, major: int) -> tuple[str, int]:
    """Return path and version of `pg_dump` or `pg_restore`: of this version or the next newer.

    Raises:
        NotReady: no such or newer version is installed.
    """
    paths = [str(path) for path in sorted(PACKAGES.glob(f"*/bin/{name}"))]
    on_path = shutil.which(name)
    versions: dict[int, str] = {}
    for path in [*paths, *([on_path] if on_path else [])]:
        answer = subprocess.run([path, "--version"], capture_output=True, text=True, check=False)
        found = re.search(r"\b(\d+)(\.|devel|beta|rc|\b)", answer.stdout)
        if answer.returncode == 0 and found and int(found[1]) >= major:
            versions[int(found[1])] = path
    if not versions:
        raise NotReady(
            f"{name} of PostgreSQL {major} is missing here; install the package"
            f" postgresql-client-{major} (or put {name} on PATH) and run this again"
        )
    version = min(versions)
    return versions[version], version


def dump(url: str, target: Path) -> str:
    """Write a database, as of one instant, to a file; return which program and version wrote it.

    Raises:
        NotReady: no `pg_dump` for this server is installed. LedgerUnavailable: it failed.
    """
    path, version = program("pg_dump", major_of(url))
    options = ["--format=custom", "--no-password", "--lock-wait-timeout=60000"]
    variables = {VARIABLES[name]: value for name, value in parameters(url).items()}
    done = subprocess.run(
        [path, *options, f"--file={target}"],
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise LedgerUnavailable(f"pg_dump failed: {one_line(done.stderr)}")
    return f"pg_dump {version}"


def restorer(url: str, made_by: str) -> str:
    """Return the path of a `pg_restore` that fits the dump's program and the target's server.

    Raises:
        NotReady: none is installed.
    """
    needed = max(major_of(url), int(made_by.removeprefix("pg_dump ")))
    return program("pg_restore", needed)[0]


def make_schema(connection: psycopg.Connection) -> str:
    """Return the schema in which this connection creates tables, created if missing."""
    row = connection.execute(
        "SELECT btrim(name, ' \"') FROM regexp_split_to_table(current_setting('search_path'), ',')"
        " AS name WHERE btrim(name, ' \"') <> '$user' OR to_regnamespace(quote_ident(current_user))"
        " IS NOT NULL LIMIT 1"
    ).fetchone()
    name = "public" if row is None else str(row[0])
    if name == "$user":
        name = connection.info.user
    if connection.execute("SELECT to_regnamespace(quote_ident(%s))", (name,)).fetchone() == (None,):
        connection.execute(sql.SQL("CREATE SCHEMA {}").format(sql.Identifier(name)))
    return name


@contextmanager
def bare_tables(connection: psycopg.Connection, schema: str) -> Iterator[dict[str, dict[str, str]]]:
    """Empty the tables of a schema; within the block they have no triggers and foreign keys.

    Yields the type of each column, by table and column.
    """
    tables: dict[str, dict[str, str]] = {}
    for table, column, kind in connection.execute(COLUMNS, (schema,)):
        tables.setdefault(table, {})[column] = kind
    keys = connection.execute(FOREIGN_KEYS, (schema,)).fetchall()
    named = {table: sql.Identifier(schema, table) for table in tables}

    def alter(table: str, change: sql.Composable) -> None:
        connection.execute(sql.SQL("ALTER TABLE {} {}").format(named[table], change))

    for table, key, _ in keys:
        alter(table, sql.SQL("DROP CONSTRAINT {}").format(sql.Identifier(key)))
    for table in tables:
        alter(table, sql.SQL("DISABLE TRIGGER USER"))
    connection.execute(sql.SQL("TRUNCATE {}").format(sql.SQL(", ").join(named.values())))
    yield tables
    for table, key, definition in keys:
        known = sql.SQL(definition)  # in this database's notation
        alter(table, sql.SQL("ADD CONSTRAINT {} {}").format(sql.Identifier(key), known))
    for table in tables:
        alter(table, sql.SQL("ENABLE TRIGGER USER"))


def one_line(text: str) -> str:
    """Return the beginning of a program's output, on one line."""
    return " ".join(text.split())[:500]
