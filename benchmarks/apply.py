"""How quickly `jobauto apply` brings run templates from files into the ledger and into Prefect.

    python -m benchmarks.apply --json [TEMPLATES]

The command runs beside a facade and services, and ends when Prefect knows all of it. The yardstick
are as many `POST /deployments/` of the same content, eight at a time, in the same run.
"""

import asyncio
import json
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import httpx
import psycopg

from benchmarks.stack import Stack, report, stack

TEMPLATES = 300
AT_ONCE = 8
GOAL_RATIO = 0.85
GOAL_AGAIN_SECONDS = 10.0
KEPT = (
    "flow_id", "work_pool_name", "work_queue_name", "entrypoint", "path", "tags", "description",
    "parameters", "parameter_openapi_schema", "enforce_parameter_schema", "concurrency_limit",
)  # fmt: skip
"""What of a deployment of ours is created again for the yardstick."""

WRITTEN = "SELECT count(*) FROM audit_entry"


def _files(folder: Path, templates: int) -> Path:
    folder.mkdir()
    definition = {
        "$schema": "https://example.com/application.schema.json",
        "name": "Probe",
        "description": "Looks",
        "executable": "probe",
        "environment": {"WHERE": {"type": "string", "defval": "here"}},
    }
    (folder / "probe.app.json").write_text(json.dumps(definition))
    records: list[dict[str, Any]] = [{"kind": "company", "slug": "bench", "name": "Bench"}]
    records += [
        {"kind": "runtemplate", "company": "bench", "app": "Probe", "name": f"probe {number}"}
        for number in range(templates)
    ]
    (folder / "records.json").write_text(json.dumps(records))
    return folder


def _seconds(running: Stack, files: Path) -> float:
    began = time.perf_counter()
    running.jobauto("apply", str(files), "--yes")
    return time.perf_counter() - began


async def _created(running: Stack, count: int) -> float:
    """Seconds of as many deployments made by hand."""
    bodies = [_body(running) | {"name": f"by hand {number}"} for number in range(count)]
    limit = asyncio.Semaphore(AT_ONCE)
    async with httpx.AsyncClient(base_url=running.settings.prefect_api_url, timeout=60) as prefect:

        async def create(body: dict[str, Any]) -> None:
            async with limit:
                (await prefect.post("/deployments/", json=body)).raise_for_status()

        began = time.perf_counter()
        await asyncio.gather(*map(create, bodies))
        return time.perf_counter() - began


def _body(running: Stack) -> dict[str, Any]:
    wanted = {"limit": 1, "work_pools": {"name": {"any_": ["jobauto"]}}}
    found: Sequence[dict[str, Any]] = running.prefect.post(
        "/deployments/filter", json=wanted
    ).json()
    return {name: found[0][name] for name in KEPT if found[0].get(name) is not None}


def _entries(running: Stack) -> int:
    with psycopg.connect(running.ledger) as ledger:
        row = ledger.execute(WRITTEN).fetchone()
        return int(row[0]) if row else 0


def measure() -> list[dict[str, object]]:
    """A row for what is new, and one for the same files again."""
    templates = int(sys.argv[-1]) if sys.argv[-1].isdigit() else TEMPLATES
    with stack() as running:
        files = _files(running.home / "files", templates)
        first = _seconds(running, files)
        before = _entries(running)
        again = _seconds(running, files)
        written = _entries(running) - before
        by_hand = asyncio.run(_created(running, templates))
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
    ]


if __name__ == "__main__":
    report(measure, __doc__)
