"""What commands take before and until their answer is there, beside a running service and alone.

    python -m benchmarks.commands --json

CPU seconds of the process, the median of the rounds. The yardstick is `prefect --version`,
once in each round. Alone means: in a home where no facade listens, on the same ledger.
"""

import json
import os
import shutil
import statistics
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.stack import Stack, report, stack

ROUNDS = 5
GOAL_BESIDE = 0.3
GOAL_ALONE = 1.0
YARDSTICK = "prefect --version"

JOBAUTO = (sys.executable, "-m", "jobauto_prefect.cli")
RECORDS: Sequence[Mapping[str, Any]] = (
    {
        "$schema": "https://example.com/application.schema.json",
        "name": "Probe",
        "description": "Looks",
        "executable": "probe",
        "environment": {},
    },
    {"kind": "company", "slug": "bench", "name": "Bench"},
    {"kind": "runtemplate", "company": "bench", "app": "Probe", "name": "probe"},
)


def _cpu_seconds(argv: Sequence[str], environment: Mapping[str, str]) -> float:
    process = subprocess.Popen(
        argv, env=dict(environment), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL
    )
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise RuntimeError(f"{' '.join(argv)} ended with {process.returncode}")
    return used.ru_utime + used.ru_stime


def _commands(files: Path) -> dict[str, list[str]]:
    return {
        "company list": ["company", "list"],
        "job list": ["job", "list"],
        "run": ["run", "bench/probe"],
        "plan": ["plan", str(files)],
        "apply": ["apply", str(files), "--yes"],
    }


def _measured(running: Stack) -> tuple[dict[str, list[float]], list[float]]:
    """CPU seconds by what was done, and those of the yardstick."""
    files = running.home / "records.json"
    files.write_text(json.dumps(RECORDS))
    running.jobauto("apply", str(files), "--yes")
    alone = running.home / "alone"
    alone.mkdir(mode=0o700)
    shutil.copy(running.settings.key_path, alone / "secret.key")
    homes = {
        "beside a service": running.environment,
        "alone": running.environment | {"JOBAUTO_HOME": str(alone)},
    }
    taken: dict[str, list[float]] = {}
    yardstick: list[float] = []
    prefect = [str(Path(sys.executable).parent / "prefect"), "--version"]
    for _ in range(ROUNDS):
        yardstick.append(_cpu_seconds(prefect, running.environment))
        for where, environment in homes.items():
            for name, words in _commands(files).items():
                seconds = _cpu_seconds([*JOBAUTO, *words], environment)
                taken.setdefault(f"{name}, {where}", []).append(seconds)
    return taken, yardstick


def measure() -> list[dict[str, object]]:
    """A row for each command and place."""
    with stack() as running:
        taken, yardstick = _measured(running)
    measured_by = statistics.median(yardstick)
    return [_row(name, statistics.median(each), measured_by) for name, each in taken.items()]


def _row(name: str, seconds: float, yardstick: float) -> dict[str, object]:
    goal = GOAL_ALONE if name.endswith("alone") else GOAL_BESIDE
    ratio = seconds / yardstick
    return {
        "name": f"commands: {name}",
        "value": round(seconds, 3),
        "unit": "CPU seconds",
        "yardstick": f"`{YARDSTICK}` in the same rounds",
        "yardstick_value": round(yardstick, 3),
        "ratio": round(ratio, 2),
        "goal": f"at most {goal:g} times the yardstick",
        "met": ratio <= goal,
    }


if __name__ == "__main__":
    report(measure, __doc__)
