"""What commands take before and until their answer is there, beside a running service and alone.

    python -m benchmarks.commands --json [--quick]

CPU seconds of the process, the median of the rounds. The yardstick is `prefect --version`,
once in each round. Alone means: in a home where no facade listens, on the same ledger.
"""

import json
import os
import shutil
import statistics
import subprocess
from collections.abc import Mapping, Sequence
from typing import Any

from benchmarks.installation import Figures, Up, program, report, sized, up

ROUNDS = sized(5, 1)
GOAL_BESIDE = 0.3
GOAL_ALONE = 1.0
YARDSTICK = "prefect --version"

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


def _measured(service: Up) -> tuple[dict[str, list[float]], list[float]]:
    """CPU seconds by what was done, and those of the yardstick."""
    files = service.home / "records.json"
    files.write_text(json.dumps(RECORDS))
    service.jobauto("apply", str(files), "--yes")
    alone = service.home / "alone"
    alone.mkdir(mode=0o700)
    shutil.copy(service.home / "secret.key", alone)
    kept = service.environment
    homes = {"beside a service": kept, "alone": kept | {"JOBAUTO_HOME": str(alone)}}
    commands = {
        "company list": ["company", "list"],
        "job list": ["job", "list"],
        "run": ["run", "bench/probe"],
        "plan": ["plan", str(files)],
        "apply": ["apply", str(files), "--yes"],
    }
    taken: dict[str, list[float]] = {}
    yardstick: list[float] = []
    for _ in range(ROUNDS):
        yardstick.append(_cpu_seconds([program("prefect"), "--version"], kept))
        for where, environment in homes.items():
            for name, words in commands.items():
                seconds = _cpu_seconds([program("jobauto"), *words], environment)
                taken.setdefault(f"{name}, {where}", []).append(seconds)
    return taken, yardstick


def measure() -> list[Figures]:
    """A row for each command and place."""
    with up() as service:
        taken, yardstick = _measured(service)
    measured_by = statistics.median(yardstick)
    return [_row(name, statistics.median(each), measured_by) for name, each in taken.items()]


def _row(name: str, seconds: float, yardstick: float) -> Figures:
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
