"""Connections of one process to one SQLite file."""

import os
from pathlib import Path

from jobauto_prefect.ledger.audit.trail import SERVICE
from jobauto_prefect.ledger.records import Company
from jobauto_prefect.ledger.store import Ledger
from tests.support.databases import on_sqlite


def _locks(path: Path) -> int:
    """How many locks this process has on a file, as the kernel knows them."""
    inode, process = path.stat().st_ino, os.getpid()
    rows = [line.split() for line in Path("/proc/locks").read_text().splitlines()]
    return sum(
        row[1] == "POSIX" and row[4] == str(process) and row[5].endswith(f":{inode}")
        for row in rows
        if "->" not in row
    )


@on_sqlite
def test_a_further_connection_leaves_the_locks_of_the_others(ledger: Ledger) -> None:
    """Without them another process that leaves takes the write-ahead log away from this one."""
    path = Path(str(ledger.engine.url.database))
    with ledger.writing(SERVICE) as session:
        session.add(Company(slug="first", name="First"))
        session.flush()
        held = _locks(path)
        assert held > 0
        with ledger.reading() as other:
            assert other.query(Company).count() == 0
        assert _locks(path) >= held
