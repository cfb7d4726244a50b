"""CPU seconds of processes, and of what PostgreSQL does for a database."""

import os
from collections.abc import Mapping
from pathlib import Path

import psycopg

from benchmarks.stack import POSTGRESQL, Stack

TICKS = os.sysconf("SC_CLK_TCK")
OF_DATABASES = "SELECT pid FROM pg_stat_activity WHERE datname = ANY(%s)"


def cpu_seconds(pid: int) -> float:
    """What a process and its children that have ended have used; 0: it is gone."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return sum(int(field) for field in fields[11:15]) / TICKS


def cpu_of(running: Stack) -> Mapping[str, float]:
    """CPU seconds so far, by the name of the process; PostgreSQL's connections as one."""
    used = {name: cpu_seconds(pid) for name, pid in running.pids.items()}
    names = [url.rpartition("/")[2] for url in (running.ledger, running.prefect_database)]
    with psycopg.connect(POSTGRESQL) as connection:
        found = connection.execute(OF_DATABASES, (names,)).fetchall()
    return used | {"postgresql": sum(cpu_seconds(pid) for (pid,) in found)}


def used_between(before: Mapping[str, float], after: Mapping[str, float]) -> dict[str, float]:
    """The differences, and their sum as `all`."""
    used = {name: round(after[name] - before.get(name, 0.0), 2) for name in after}
    return used | {"all": round(sum(used.values()), 2)}
