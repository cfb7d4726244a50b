"""`jobauto up` beside a bare Prefect: its start, what it holds and uses idle, and its jobs.

    python -m benchmarks.up --json [--quick] [PostgreSQL | SQLite]

On both databases, unless one is named. A bare Prefect is measured before ours and after it, with
nothing else running: the yardstick of jobs (the floor, see benchmarks/floor.py) is the mean of
both; that of a burst is the faster one. Jobs run /bin/true; those of the mixed burst are of 20 run
templates, print three lines, and one of ten fails. A burst is over when ledger and Prefect show
each end. A table has the CPU of each process by job; `jobs` is that of their processes. The
management ports are on: they say how often Prefect was asked.
"""

import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import httpx

from benchmarks.airflow import airflow_rate
from benchmarks.floor import AT_ONCE, floor, percentile
from benchmarks.installation import (
    KINDS,
    QUICK,
    Bare,
    Figures,
    Server,
    Up,
    bare,
    eventually,
    report,
    sized,
    total,
    up,
)

JOBS = sized(200, 20)
SINGLE_JOBS = sized(50, 5)
CLICKED_JOBS = sized(20, 3)
IDLE_SECONDS = sized(60, 2)
SETTLED_SECONDS = sized(10, 1)
PAUSE_SECONDS = 0.3  # between single jobs: idle means idle
TEMPLATES = 20  # of the mixed burst
POLLS = "/work_pools/{name}/get_scheduled_flow_runs"

GOAL_BURST, GOAL_MIXED, GOAL_AIRFLOW = 0.8, 0.7, 3.0
GOAL_CPU, GOAL_PREFECT, GOAL_POLLS = 1.9, 1.0, 0.05
GOAL_POSTED, GOAL_POSTED_P95, GOAL_CLICKED = 1.3, 2.0, 1.6
GOAL_START, GOAL_MB = 1.3, 430.0
GOAL_STATEMENTS, GOAL_CORES = 3.0, 0.015

MARK = 'date +%s.%N > "$STARTED.new" && mv "$STARTED.new" "$STARTED"'
PRINT = 'echo "reads"; echo "writes"; echo "is done"; exit "$CODE"'


def _milliseconds(service: Up, number: int, ask: Callable[[str], object]) -> float:
    """From just before a request to the first act of the process."""
    mark = service.home / f"started-{number}"
    ended, began = service.ended(), time.time()
    ask(str(mark))
    eventually(mark.exists)
    eventually(lambda: service.ended() > ended)
    time.sleep(PAUSE_SECONDS)
    return (float(mark.read_text()) - began) * 1000


def _single(service: Up) -> dict[str, list[float]]:
    """Milliseconds of jobs that are posted, and clicked in Prefect's UI, one after the other."""
    app = service.app(service.program_of_jobs("mark", MARK), "STARTED")
    template = service.template(app, "single", env={"STARTED": "-"})
    create = f"/deployments/{service.deployment(template)}/create_flow_run"

    def post(mark: str) -> None:
        service.post("/job/", {"runtemplate_id": template, "env": {"STARTED": mark}})

    def click(mark: str) -> None:
        body = {"parameters": {"STARTED": mark}, "state": {"type": "SCHEDULED"}}
        service.prefect.post(create, json=body).raise_for_status()

    found: dict[str, list[float]] = {}
    for name, ask, jobs in (("posted", post, SINGLE_JOBS), ("clicked", click, CLICKED_JOBS)):
        each = [_milliseconds(service, len(found) * 1000 + n, ask) for n in range(jobs + 1)]
        found[name] = each[1:]  # the first one warms
    return found


def _mixed(service: Up) -> float:
    """Jobs per second of the mixed burst."""
    app = service.app(service.program_of_jobs("mixed", PRINT), "CODE")
    made = [
        service.template(app, f"mixed {number}", env={"CODE": "3" if number % 10 == 0 else "0"})
        for number in range(TEMPLATES)
    ]
    return JOBS / service.burst(made, JOBS)


def _at_rest(server: Server) -> Figures:
    """Restarted on the databases that are there."""
    if not QUICK:
        server.stop()
        server.start()
    time.sleep(SETTLED_SECONDS)
    cores, statements = server.idle(IDLE_SECONDS)
    return {
        "start": server.start_seconds,
        "cores": cores,
        "statements": statements,
        "pss": server.pss(),
    }


def _jobs_of(service: Up) -> Figures:
    """Single jobs, the burst with the CPU of each process, the mixed one, and the memory then."""
    single = _single(service)
    template = service.true_template()
    service.burst([template], 16)  # warm
    before, asked = service.cpu(), service.asked_of_prefect()
    rate = JOBS / service.burst([template], JOBS)
    used = service.cpu_since(before)
    now = service.asked_of_prefect()
    each = {route: (number - asked.get(route, 0)) / JOBS for route, number in now.items()}
    return {
        **single,
        "rate": rate,
        "cpu_ms": {name: cpu / JOBS * 1000 for name, cpu in used.items()},
        "asked": {route: round(number, 2) for route, number in each.items() if number},
        "mixed": _mixed(service),
        "pss_after": service.pss(),
    }


def _floors(prefect: Bare, kind: str) -> Figures:
    deployment = prefect.deployment()
    single = floor(prefect, deployment, SINGLE_JOBS, 1)
    many = floor(prefect, deployment, JOBS, AT_ONCE[kind])
    return {
        "single": single["median"],
        "p95": single["p95"],
        "rate": JOBS / many["seconds"],
        "cpu_ms": many["cpu_ms"],
        "busy": many["busy"],
    }


def _measured(kind: str) -> list[Figures]:
    with bare(kind) as prefect:
        alone = _at_rest(prefect)
        floors = [_floors(prefect, kind)]
        prefect.stop()
        with up(kind) as service:
            ours = _at_rest(service) | _jobs_of(service)
        prefect.start()
        floors.append(_floors(prefect, kind))
    mean = {name: statistics.mean(each[name] for each in floors) for name in ("single", "p95")}
    # The faster one: on SQLite a bare Prefect stalls in some bursts, and is no yardstick then.
    fastest = max(each["rate"] for each in floors)
    rows = [
        *_starts(ours, mean, floors),
        *_bursts(ours, fastest, floors, kind),
        *_rests(ours, alone),
    ]
    suffix = "" if kind == KINDS[0] else f", {kind}"
    return [row | {"name": f"{row['name']}{suffix}"} for row in rows]


def _row(
    name: str, value: float, unit: str, yardstick: tuple[str, float], digits: int, goal: str
) -> Figures:
    return {
        "name": name,
        "value": round(value, digits),
        "unit": unit,
        "yardstick": yardstick[0],
        "yardstick_value": round(yardstick[1], digits),
        "ratio": round(value / yardstick[1], 2) if yardstick[1] else None,
        "goal": goal,
    }


def _starts(ours: Figures, mean: Mapping[str, float], floors: list[Figures]) -> list[Figures]:
    rows = []
    for name, goal in (("posted", GOAL_POSTED), ("clicked", GOAL_CLICKED)):
        median, p95 = statistics.median(ours[name]), percentile(ours[name])
        yardstick = ("the floor's whole single job", mean["single"])
        text = f"at most {goal:g} times"
        p95_met = name == "clicked" or p95 <= GOAL_POSTED_P95 * mean["p95"]
        if name == "posted":
            text += f", the 95th percentile {GOAL_POSTED_P95:g} times the floor's"
        unit = "ms until the process starts, idle, median"
        rows.append(
            _row(f"start: {name}", median, unit, yardstick, 1, text)
            | {
                "met": median <= goal * mean["single"] and p95_met,
                "p95": round(p95, 1),
                "yardstick_p95": round(mean["p95"], 1),
                "slowest": round(max(ours[name]), 1),
                "yardsticks": [round(each["single"], 1) for each in floors],
            }
        )
    return rows


def _bursts(ours: Figures, fastest: float, floors: list[Figures], kind: str) -> list[Figures]:
    airflow = _airflow(ours["rate"]) if kind == KINDS[0] else {"airflow_met": True}
    floor_cpu = {
        name: statistics.mean(each["cpu_ms"][name] for each in floors)
        for name in floors[0]["cpu_ms"]
    }
    cpu_ratio = sum(ours["cpu_ms"].values()) / sum(floor_cpu.values())
    of_prefect = ours["cpu_ms"]["prefect"] / floor_cpu["prefect"]
    polls = sum(number for route, number in ours["asked"].items() if route.endswith(POLLS))
    yardstick = ("the floor: create, Running, /bin/true, Completed", fastest)
    goal = (
        f"at least {GOAL_BURST:.0%} of the floor and {GOAL_AIRFLOW:g} times Airflow, at most"
        f" {GOAL_CPU:g} times the CPU, {GOAL_PREFECT:g} times Prefect's, {GOAL_POLLS:g} polls a job"
    )
    unit = f"jobs per second, {JOBS} at once"
    rows = [
        _row("burst", ours["rate"], unit, yardstick, 2, goal),
        _row("burst: mixed", ours["mixed"], unit, yardstick, 2, f"at least {GOAL_MIXED:.0%}"),
    ]
    rows[0] |= {
        "met": ours["rate"] >= GOAL_BURST * fastest
        and airflow["airflow_met"]
        and cpu_ratio <= GOAL_CPU
        and of_prefect <= GOAL_PREFECT
        and polls <= GOAL_POLLS,
        "yardsticks": [round(each["rate"], 2) for each in floors],
        "floor_busy_answers": [each["busy"] for each in floors],
        "cpu_ratio": round(cpu_ratio, 2),
        "prefect_cpu_ratio": round(of_prefect, 2),
        "cpu_ms": total(ours["cpu_ms"]),
        "floor_cpu_ms": total(floor_cpu),
        "polls_per_job": round(polls, 3),
        "asked_of_prefect_per_job": ours["asked"],
        **airflow,
    }
    rows[1]["met"] = ours["mixed"] >= GOAL_MIXED * fastest
    return rows


def _airflow(rate: float) -> dict[str, Any]:
    """Airflow's rate beside ours, or what it failed with; not installed, it is no obstacle."""
    try:
        theirs = airflow_rate()
    except (TimeoutError, httpx.HTTPError, subprocess.CalledProcessError) as error:
        return {"airflow_met": False, "airflow_error": f"{type(error).__name__}: {error}"}
    if theirs is None:
        return {"airflow_met": True}
    return {
        "airflow_met": rate >= GOAL_AIRFLOW * theirs,
        "airflow_per_second": round(theirs, 2),
        "airflow_ratio": round(rate / theirs, 1),
    }


def _rests(ours: Figures, alone: Figures) -> list[Figures]:
    likewise = "a bare Prefect server, likewise"
    rows = [
        _row(
            "up: start", ours["start"], "s from start to ready", (likewise, alone["start"]),
            1, f"at most {GOAL_START:g} times as long",
        ),
        _row(
            "up: memory", sum(ours["pss"].values()), "MB PSS, idle",
            (likewise, sum(alone["pss"].values())), 0, f"at most {GOAL_MB:g} MB",
        ),
    ]  # fmt: skip
    rows[0]["met"] = ours["start"] <= GOAL_START * alone["start"]
    rows[1] |= {
        "met": sum(ours["pss"].values()) <= GOAL_MB,
        "pss_mb": total(ours["pss"], 0),
        "pss_mb_after_jobs": total(ours["pss_after"], 0),
    }
    for name, goal, unit in (
        ("statements", GOAL_STATEMENTS, "transactions of PostgreSQL per second, above it"),
        ("cores", GOAL_CORES, "cores, above it"),
    ):
        if ours[name] is None:
            continue
        above = ours[name] - alone[name]
        row = _row(f"idle: {name}", above, unit, (likewise, alone[name]), 3, "")
        row |= {"ratio": round(ours[name] / alone[name], 2) if alone[name] else None}
        rows.append(row | {"goal": f"at most {goal:g} above", "met": above <= goal})
    return rows


def measure() -> Iterator[Figures]:
    """The figures of both databases, or of the one that is named."""
    for kind in [kind for kind in KINDS if kind in sys.argv] or KINDS:
        yield from _measured(kind)


if __name__ == "__main__":
    report(measure, __doc__)
