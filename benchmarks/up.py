"""`jobauto up`: from its start until it is ready, and what it holds in memory then.

    python -m benchmarks.up --json

On PostgreSQL, with databases that are migrated already. Memory is PSS of all its processes, twenty
seconds after it is ready. The yardstick is a bare Prefect server, started and measured likewise.
"""

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx

from benchmarks.stack import (
    Stack,
    database,
    environment_of,
    eventually,
    free_port,
    report,
    running_process,
    settings_in,
    sign_in,
)

GOAL_MB = 400.0
GOAL_RATIO = 1.3
SETTLED_SECONDS = 20.0
STARTS = 3


def pss_mb(pid: int, without: str | None = None) -> float:
    """What a process and all below it hold, in MB; pages that are shared count by their share.

    `without`: processes of this program do not count.
    """
    total = 0
    for process in _family(pid):
        with contextlib.suppress(OSError):
            if Path(f"/proc/{process}/comm").read_text().strip() == without:
                continue
            rollup = Path(f"/proc/{process}/smaps_rollup").read_text().splitlines()
            total += sum(int(line.split()[1]) for line in rollup if line.startswith("Pss:"))
    return total / 1024


def _family(pid: int) -> Iterator[int]:
    yield pid
    for children in Path(f"/proc/{pid}/task").glob("*/children"):
        for child in children.read_text().split():
            yield from _family(int(child))


@contextlib.contextmanager
def _started(argv: list[str], environment: dict[str, str]) -> Iterator["subprocess.Popen[str]"]:
    process = subprocess.Popen(
        argv, env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    try:
        yield process
    finally:
        process.send_signal(signal.SIGTERM)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(60)
        process.kill()


def _clean(home: Path) -> dict[str, str]:
    foreign = ("JOBAUTO_", "PREFECT_", "DB_")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(foreign)}
    return kept | {"PREFECT_HOME": str(home / "prefect"), "DO_NOT_TRACK": "1"}


def _of_prefect(url: str) -> dict[str, str]:
    return {
        "PREFECT_SERVER_DATABASE_CONNECTION_URL": url.replace("postgresql:", "postgresql+asyncpg:"),
        "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
    }


def _up(home: Path, ledger: str, prefect: str, *, settle: bool) -> tuple[float, float]:
    """Seconds until it is ready, and its memory."""
    environment = _clean(home) | _of_prefect(prefect)
    environment |= {"JOBAUTO_HOME": str(home), "JOBAUTO_CONFIG_DIR": str(home)}
    environment["JOBAUTO_DATABASE_URL"] = ledger
    argv = [sys.executable, "-m", "jobauto_prefect.cli", "up", "--json"]
    argv += ["--api-port", str(free_port()), "--prefect-port", str(free_port())]
    began = time.perf_counter()
    with _started(argv, environment) as process:
        assert process.stdout is not None
        while json.loads(process.stdout.readline())["event"] != "ready":
            pass
        seconds = time.perf_counter() - began
        time.sleep(SETTLED_SECONDS if settle else 0)
        return seconds, pss_mb(process.pid)


@contextlib.contextmanager
def running_up() -> Iterator[Stack]:
    """A running `jobauto up` on PostgreSQL."""
    with (
        tempfile.TemporaryDirectory(prefix="jobauto-bench-") as folder,
        database() as ledger,
        database() as prefect,
        contextlib.ExitStack() as exits,
    ):
        home = Path(folder)
        settings = settings_in(home, ledger)
        environment = environment_of(settings) | _of_prefect(prefect)
        # It says itself where its Prefect is.
        given = {name: text for name, text in environment.items() if name != "PREFECT_API_URL"}
        argv = [sys.executable, "-m", "jobauto_prefect.cli", "up", "--json"]
        argv += ["--prefect-port", str(settings.prefect_port)]
        argv += ["--api-port", str(settings.api_port)]
        rest = exits.enter_context(httpx.Client(base_url=f"{settings.url}/api/v1", timeout=30))
        api = exits.enter_context(httpx.Client(base_url=settings.prefect_api_url, timeout=30))
        pid = exits.enter_context(running_process(argv, given, home / "up.log"))
        eventually(lambda: '"ready"' in (home / "up.log").read_text(), 120)
        running = Stack(settings, given, rest, api, home, ledger, prefect, exits, {"up": pid})
        sign_in(running)
        api.headers["Authorization"] = rest.headers["Authorization"]
        yield running


def _bare(home: Path, prefect: str, *, settle: bool) -> tuple[float, float]:
    port = free_port()
    argv = [sys.executable, "-m", "prefect", "server", "start", "--port", str(port)]
    began = time.perf_counter()
    with _started(argv, _clean(home) | _of_prefect(prefect)) as process:
        eventually(lambda: httpx.get(f"http://127.0.0.1:{port}/api/health").is_success)
        seconds = time.perf_counter() - began
        time.sleep(SETTLED_SECONDS if settle else 0)
        return seconds, pss_mb(process.pid)


def _measured() -> dict[str, Any]:
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="jobauto-bench-")))
        ledger, ours, bare = (stack.enter_context(database()) for _ in range(3))
        _up(folder / "up", ledger, ours, settle=False)  # migrates
        _bare(folder / "bare", bare, settle=False)
        up = [_up(folder / "up", ledger, ours, settle=turn == 0) for turn in range(STARTS)]
        alone = [_bare(folder / "bare", bare, settle=turn == 0) for turn in range(STARTS)]
    return {
        "seconds": min(seconds for seconds, _ in up),
        "bare_seconds": min(seconds for seconds, _ in alone),
        "mb": up[0][1],
        "bare_mb": alone[0][1],
    }


def measure() -> list[dict[str, object]]:
    """The figures of the start and of the memory."""
    found = _measured()
    ratio = found["seconds"] / found["bare_seconds"]
    return [
        {
            "name": "up: start",
            "value": round(found["seconds"], 1),
            "unit": f"s from start to ready, best of {STARTS}",
            "yardstick": "a bare Prefect server, likewise",
            "yardstick_value": round(found["bare_seconds"], 1),
            "ratio": round(ratio, 2),
            "goal": f"at most {GOAL_RATIO:g} times as long",
            "met": ratio <= GOAL_RATIO,
        },
        {
            "name": "up: memory",
            "value": round(found["mb"]),
            "unit": "MB PSS, idle",
            "yardstick": "a bare Prefect server, likewise",
            "yardstick_value": round(found["bare_mb"]),
            "ratio": round(found["mb"] / found["bare_mb"], 2),
            "goal": f"at most {GOAL_MB:g} MB",
            "met": found["mb"] <= GOAL_MB,
        },
    ]


if __name__ == "__main__":
    report(measure, __doc__)
