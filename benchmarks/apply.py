"""How quickly `jobauto apply` brings run templates from files into the ledger and into Prefect.

    python -m benchmarks.apply --json [--quick] [TEMPLATES]

On PostgreSQL, beside a running `jobauto up`; the command ends when Prefect knows all of it. The
yardstick are as many `POST /deployments/` of the same content at a bare Prefect, eight at a time.
The same files again write nothing. Of a job that is posted meanwhile counts how long it waits for
its flow run; the yardstick are jobs where nothing is being applied.
"""

import asyncio
import json
import sys
import threading
import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import httpx

from benchmarks.installation import Figures, Up, bare, eventually, report, sized, up

TEMPLATES = sized(300, 10)
AT_ONCE = 8
PROBES = sized(6, 2)
GOAL_RATIO = 0.85
GOAL_AGAIN_SECONDS = 10.0
GOAL_WAIT_MS = 1000.0  # more than without
KEPT = (
    "entrypoint", "path", "tags", "description", "parameters", "parameter_openapi_schema",
    "enforce_parameter_schema", "concurrency_limit",
)  # fmt: skip
"""What of a deployment of ours is created again for the yardstick."""


def _files(folder: Path, templates: int) -> Path:
    folder.mkdir()
    definition = {
        "$schema": "https://example.com/application.schema.json",
        "name": "Probe",
        "description": "Looks",
        "executable": "/bin/true",
        "environment": {"WHERE": {"type": "string", "defval": "here"}},
    }
    (folder / "probe.app.json").write_text(json.dumps(definition))
    records: list[dict[str, Any]] = [{"kind": "company", "slug": "bench", "name": "Bench"}]
    records += [
        {"kind": "runtemplate", "company": "bench", "app": "Probe", "name": f"{folder.name} {n}"}
        for n in range(templates)
    ]
    (folder / "records.json").write_text(json.dumps(records))
    return folder


def _seconds(service: Up, files: Path) -> float:
    began = time.perf_counter()
    service.jobauto("apply", str(files), "--yes")
    return time.perf_counter() - began


def _kept(service: Up) -> dict[str, Any]:
    """What is created again, of one deployment of ours."""
    wanted = {"limit": 1, "work_pools": {"name": {"any_": ["jobauto"]}}}
    (found,) = service.prefect.post("/deployments/filter", json=wanted).json()
    return {name: found[name] for name in KEPT if found.get(name) is not None}


def _created(body: Mapping[str, Any], count: int) -> float:
    """Seconds of as many deployments made by hand."""

    async def create_all(url: httpx.URL, common: Mapping[str, Any]) -> None:
        left = iter(range(count))
        async with httpx.AsyncClient(base_url=url, timeout=60) as prefect:

            async def create() -> None:
                for number in left:
                    one = {**common, "name": f"by hand {number}"}
                    (await prefect.post("/deployments/", json=one)).raise_for_status()

            await asyncio.gather(*(create() for _ in range(AT_ONCE)))

    with bare() as prefect:
        flow = prefect.create("/flows/", {"name": "probe"})
        prefect.create("/work_pools/", {"name": "jobauto", "type": "process"})
        common = {**body, "flow_id": flow, "work_pool_name": "jobauto"}
        began = time.perf_counter()
        asyncio.run(create_all(prefect.prefect.base_url, common))
        return time.perf_counter() - began


def _waits(service: Up, goes_on: Callable[[int], bool]) -> list[float]:
    """Milliseconds from a request until the ledger knows the job's flow run, as long as wanted."""
    found: list[float] = []
    while goes_on(len(found)):
        began = time.monotonic()
        job = service.post("/job/", {"runtemplate_id": 1})["id"]
        query = f"SELECT flow_run_id FROM job WHERE id = {job} AND flow_run_id IS NOT NULL"
        eventually(partial(service.ledger.one, query))
        found.append((time.monotonic() - began) * 1000)
        time.sleep(1)
    return found


def _meanwhile(service: Up, templates: int) -> tuple[list[float], list[float]]:
    """The waits where nothing is being applied, and while as many more are."""
    idle = _waits(service, lambda number: number < PROBES)
    applying = threading.Thread(
        target=_seconds, args=(service, _files(service.home / "more", templates))
    )
    applying.start()
    time.sleep(1)  # the command has begun
    busy = _waits(service, lambda number: applying.is_alive() or not number)
    return idle, busy


def measure() -> list[Figures]:
    """A row for what is new, one for the same files again, one for a job meanwhile."""
    templates = int(sys.argv[-1]) if sys.argv[-1].isdigit() else TEMPLATES
    with up() as service:
        files = _files(service.home / "files", templates)
        first = _seconds(service, files)
        before = service.ledger.one("SELECT count(*) FROM audit_entry")
        again = _seconds(service, files)
        written = service.ledger.one("SELECT count(*) FROM audit_entry") - before
        idle, busy = _meanwhile(service, templates)
        body = _kept(service)
    by_hand = _created(body, templates)
    return [
        {
            "name": "apply",
            "value": round(templates / first, 1),
            "unit": f"new run templates per second, of {templates}, until Prefect knows them",
            "yardstick": "Prefect's own create calls, eight at a time",
            "yardstick_value": round(templates / by_hand, 1),
            "ratio": round(by_hand / first, 2),
            "goal": f"at least {GOAL_RATIO:g} of it",
            "met": by_hand / first >= GOAL_RATIO,
        },
        {
            "name": "apply: again",
            "value": round(again, 2),
            "unit": f"seconds for {templates} run templates that are as the files say",
            "yardstick": "the first time",
            "yardstick_value": round(first, 2),
            "ratio": round(again / first, 2),
            "goal": f"at most {GOAL_AGAIN_SECONDS:g} s and no write",
            "met": again <= GOAL_AGAIN_SECONDS and written == 0,
        },
        {
            "name": "apply: a job meanwhile",
            "value": round(max(busy), 1),
            "unit": f"ms until its flow run, the longest of {len(busy)}",
            "yardstick": "nothing is being applied",
            "yardstick_value": round(max(idle), 1),
            "ratio": round(max(busy) / max(idle), 2),
            "goal": f"at most {GOAL_WAIT_MS:g} ms more",
            "met": max(busy) <= max(idle) + GOAL_WAIT_MS,
        },
    ]


if __name__ == "__main__":
    report(measure, __doc__)
