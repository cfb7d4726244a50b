"""The whole suite: each benchmark in a process of its own, one after the other.

    python -m benchmarks [--quick] [NAME… | others]

Installs this checkout once, for all of them. Writes benchmarks/results.json and docs/performance.md
with its chart; rows of benchmarks that did not run stay. One that fails, or takes longer than its
share, is a row without a value; the others go on. `--quick` does little of each, to see that it
works, prints the rows and writes nothing.
"""

import json
import os
import platform
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any

from benchmarks.installation import QUICK, programs
from benchmarks.pages import chart, page

HERE = Path(__file__).parent
RESULTS = HERE / "results.json"
DOCS = HERE.parent / "docs"
SUITE = ("up", "punctuality", "ladder", "sleeping", "output", "grown", "apply")
OTHERS = ("commands", "events", "gateway", "memory", "windows")
"""Of single surfaces; the suite would take twice as long with them."""

ALL = (*SUITE, *OTHERS, "growth")

LONGEST_SECONDS = 240
LONGEST: Mapping[str, int] = {
    "up": 1200,
    "ladder": 420,
    "sleeping": 420,
    "grown": 420,
    "events": 900,
    "memory": 900,
    "growth": 8400,
}
"""Seconds that one may take, where it needs more."""
PACKAGES = ("jobauto-prefect", "prefect", "fastapi", "sqlalchemy", "uvicorn")

Row = dict[str, Any]


def _rows(name: str) -> list[Row]:
    longest = LONGEST.get(name, LONGEST_SECONDS)
    argv = [sys.executable, "-m", f"benchmarks.{name}", "--json", *(["--quick"] if QUICK else [])]
    process = subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        printed, errors = process.communicate(timeout=longest)
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGINT)  # it ends what it has started
        process.communicate()
        return [_missing(name, f"took longer than {longest} s")]
    found = (json.loads(line) for line in printed.splitlines() if line.startswith("{"))
    rows = [{"benchmark": name, **row} for row in found]
    if process.returncode:
        sys.stderr.write(errors)
        why = (errors.strip().splitlines() or ["no reason was given"])[-1]
        rows.append(_missing(name, why))
    return rows


def _missing(name: str, why: str) -> Row:
    empty = dict.fromkeys(("value", "unit", "yardstick", "yardstick_value", "ratio", "goal"))
    return {"benchmark": name, "name": name, **empty, "met": False, "error": why}


def _machine() -> dict[str, Any]:
    return {
        "cores": os.cpu_count(),
        "architecture": platform.machine(),
        "python": platform.python_version(),
        "system": platform.system(),
        "versions": {name: version(name) for name in PACKAGES},
    }


def main() -> None:
    """Run those that are named, or the suite."""
    # In the background interrupts are ignored, and what is started would ignore ours.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    began, machine = time.monotonic(), _machine()
    given = [word for word in sys.argv[1:] if not word.startswith("-")]
    names = OTHERS if given == ["others"] else given or SUITE
    os.environ["JOBAUTO_BENCH_PROGRAMS"] = str(programs())
    rows = json.loads(RESULTS.read_text()) if RESULTS.exists() else []
    for name in names:
        sys.stderr.write(f"{time.monotonic() - began:6.0f} s  {name}\n")
        found = _rows(name)
        if QUICK:
            print(*map(json.dumps, found), sep="\n", flush=True)
            continue
        rows = [row for row in rows if row["benchmark"] in ALL and row["benchmark"] != name]
        rows += [{**row, **machine} for row in found]
        rows.sort(key=lambda row: ALL.index(row["benchmark"]))
        _publish(rows, machine)  # one that is broken off leaves what it has found
    sys.stderr.write(f"{time.monotonic() - began:6.0f} s\n")


def _publish(rows: list[Row], machine: dict[str, Any]) -> None:
    RESULTS.write_text(json.dumps(rows, indent=2, ensure_ascii=False) + "\n")
    (DOCS / "performance.md").write_text(page(rows, machine))
    (DOCS / "images" / "performance.svg").write_text(chart(rows))


if __name__ == "__main__":
    main()
