"""The garbage of a process does not stop its event loop (docs/decisions/0005-garbage.md)."""

import subprocess
import sys
from pathlib import Path

LIMIT_SECONDS = 120  # less than the writer below is ready to wait for its lock

CHAIN = """
import sqlite3, sys, threading, time
from jobauto_prefect.engine.prefect_server.app import collect_in_thread

collect_in_thread()
path = sys.argv[1]
holder = sqlite3.connect(path, isolation_level=None)
holder.execute("PRAGMA journal_mode = WAL")
holder.execute("CREATE TABLE entry (id)")
writer = sqlite3.connect(path, timeout=0, check_same_thread=False, isolation_level=None)

class Cycle: pass
cycle = Cycle()
cycle.itself, cycle.cursor = cycle, writer.cursor()
holder.execute("BEGIN IMMEDIATE")
try:
    cycle.cursor.execute("INSERT INTO entry VALUES (1)")  # fails, and keeps its statement
except sqlite3.OperationalError:
    pass

writer.execute("PRAGMA busy_timeout = 600000")
waiting = threading.Thread(target=writer.execute, args=("BEGIN IMMEDIATE",), daemon=True)
waiting.start()
time.sleep(1)  # until it waits inside SQLite, which shows nothing of it
del cycle
until = time.monotonic() + 3
while time.monotonic() < until:
    [[] for _ in range(10_000)]  # what lets Python collect
holder.execute("COMMIT")
waiting.join()
print("committed")
"""


def test_a_failed_statement_in_a_cycle_does_not_stop_the_thread_that_has_to_commit(
    tmp_path: Path,
) -> None:
    ran = subprocess.run(
        [sys.executable, "-c", CHAIN, str(tmp_path / "chain.db")],
        capture_output=True,
        text=True,
        timeout=LIMIT_SECONDS,
        check=False,
    )

    assert ran.stdout == "committed\n", ran.stderr
