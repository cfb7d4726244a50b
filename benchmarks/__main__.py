"""The whole suite: each benchmark in a process of its own, one after the other.

    python -m benchmarks [NAME… | others]

Writes benchmarks/results.json and docs/performance.md with its chart; rows of benchmarks that did
not run stay. One that fails, or takes longer than its share, is a row without a value; the others
go on.
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

from benchmarks.pages import chart, page

HERE = Path(__file__).parent
RESULTS = HERE / "results.json"
DOCS = HERE.parent / "docs"
SUITE = (
    "start_latency",
    "burst",
    "replicas",
    "punctuality",
    "idle",
    "up",
    "ladder",
    "sqlite",
    "sleeping",
    "output",
    "grown",
    "apply",
)
OTHERS = (
    "commands",
    "console",
    "events",
    "gateway",
    "lists",
    "masking",
    "outbox",
    "scrape",
    "windows",
)
"""Of single surfaces; the suite would take twice as long with them."""

ALL = (*SUITE, *OTHERS, "growth")

LONGEST_SECONDS = 240
LONGEST: Mapping[str, int] = {"burst": 420, "sleeping": 420, "growth": 4200}
"""Seconds that one may take, where it needs more."""
PACKAGES = ("jobauto-prefect", "prefect", "fastapi", "sqlalchemy", "uvicorn")

Row = dict[str, Any]


def _rows(name: str) -> list[Row]:
    longest = LONGEST.get(name, LONGEST_SECONDS)
    argv = [sys.executable, "-m", f"benchmarks.{name}", "--json"]
    process = subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        printed, errors = process.communicate(timeout=longest)
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGINT)  # it ends what it has started
        process.communicate()
        return [_missing(name, f"took longer than {longest} s")]
    if process.returncode:
        why = (errors.strip().splitlines() or ["no reason was given"])[-1]
        return [_missing(name, why)]
    found = (json.loads(line) for line in printed.splitlines() if line.startswith("{"))
    return [{"benchmark": name, **row} for row in found]


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
    names = OTHERS if sys.argv[1:] == ["others"] else sys.argv[1:] or SUITE
    rows = json.loads(RESULTS.read_text()) if RESULTS.exists() else []
    for name in names:
        sys.stderr.write(f"{time.monotonic() - began:6.0f} s  {name}\n")
        rows = [row for row in rows if row["benchmark"] != name]
        rows += [{**row, **machine} for row in _rows(name)]
        rows.sort(key=lambda row: ALL.index(row["benchmark"]))
        _publish(rows, machine)  # one that is broken off leaves what it has found
    sys.stderr.write(f"{time.monotonic() - began:6.0f} s\n")


def _publish(rows: list[Row], machine: dict[str, Any]) -> None:
    RESULTS.write_text(json.dumps(rows, indent=2, ensure_ascii=False) + "\n")
    (DOCS / "performance.md").write_text(page(rows, machine))
    (DOCS / "images" / "performance.svg").write_text(chart(rows))


if __name__ == "__main__":
    main()
