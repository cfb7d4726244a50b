"""The mark that the tests' secrets have, and where no secret may be: answers, databases, files.

A plugin of pytest: when all tests are over, whatever they left in the temporary directory of the
session is searched.
"""

import base64
import contextlib
import os
import re
from collections.abc import Iterator
from pathlib import Path

import httpx
import psycopg
import pytest
from psycopg import sql

MARK = "q7Zk2VtR9mXw4LhB8sNd3JfC"  # only letters and digits: URLs and JSON have it as it is

JOB_DIRECTORIES = {"work", "job", "env"}
"""Folders of these names hold them, and jobs may write there what they like; or tests do.

The contents of artifacts and the data of events are left out otherwise: tests whose programs or
databases write a secret there use one without the mark.
"""

FINDINGS = pytest.StashKey[list[str]]()


def secret(text: str) -> str:
    """A secret value with the mark."""
    return f"{text}-{MARK}"


SECRET = secret("s3cret-word")


def _in_base64(before: int) -> str:
    """The digits of the mark that are the same whatever is around it."""
    digits = base64.b64encode(bytes(before) + MARK.encode()).decode()
    return digits[-(-before * 8 // 6) : (before + len(MARK)) * 8 // 6]


FORMS = (MARK, *(_in_base64(before) for before in range(3)))
NEEDLES = tuple(form.encode() for form in FORMS)


def excerpts(data: bytes) -> Iterator[str]:
    """What stands around each form of the mark that is there, once for each."""
    for needle in NEEDLES:
        at = data.find(needle)
        if at >= 0:
            around = data[max(0, at - 80) : at + len(needle) + 20]
            yield re.sub(r"[^ -~]+", " ", around.decode("ascii", "replace"))


def check(answer: httpx.Response) -> None:
    """Hook of an httpx client: no answer says a secret, but those that exist to say it."""
    request = answer.request
    address = str(request.url)
    if "follow=true" in address:
        return  # reading it here would wait for its end
    launches, revealed = "/internal/" in address, "/reveal" in address
    if launches or revealed or "include_secrets" in address + repr(request.read()):
        return
    leaked = list(excerpts(answer.read()))
    assert leaked == [], f"{request.method} {address} says a secret"


SAYS_NO_SECRET = {"response": [check]}
"""Hooks of httpx clients."""


def leaks(folder: Path) -> Iterator[str]:
    """The files below a folder that have the mark, and what stands around it."""
    for place, folders, names in os.walk(folder):
        folders[:] = sorted(set(folders) - JOB_DIRECTORIES)
        for name in sorted(names):
            path = Path(place, name)
            with contextlib.suppress(FileNotFoundError, PermissionError):
                if path.is_file() and not path.is_symlink():
                    for excerpt in excerpts(path.read_bytes()):
                        yield f"{path.relative_to(folder)}: …{excerpt}…"


def check_postgresql(connection: psycopg.Connection) -> None:
    """No table of a database has the mark; columns of bytes, as contents of artifacts, count not.

    What the server sends is text, in which bytes are hexadecimal.
    """
    tables = connection.execute(
        "SELECT schemaname, tablename FROM pg_tables"
        " WHERE schemaname NOT IN ('pg_catalog', 'information_schema')"
    ).fetchall()
    if not tables:
        return
    part = sql.SQL("SELECT {} AS place, one::text AS row FROM {} one")
    parts = [part.format(name, sql.Identifier(schema, name)) for schema, name in tables]
    query = sql.SQL("SELECT place, row FROM ({}) every WHERE row ~ {}").format(
        sql.SQL(" UNION ALL ").join(parts), "|".join(FORMS)
    )
    connection.execute("SET statement_timeout = '120s'")
    rows = connection.execute(query).fetchall()
    connection.execute("RESET statement_timeout")
    leaked = [f"{place}: …{excerpt}…" for place, row in rows for excerpt in excerpts(row.encode())]
    assert leaked == [], "a table has a secret"


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """Search what the tests left; with pytest-xdist, once all its workers are through."""
    config = session.config
    if hasattr(config, "workerinput"):
        return
    factory: pytest.TempPathFactory = config._tmp_path_factory  # type: ignore[attr-defined]
    config.stash[FINDINGS] = list(leaks(factory.getbasetemp()))
    if config.stash[FINDINGS]:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    """Say where secrets are; the first folder is named after the test that made it."""
    findings = config.stash.get(FINDINGS, [])
    if findings:
        terminalreporter.section("secrets of the tests are in files", red=True, bold=True)
        for finding in findings:
            terminalreporter.line(finding)
