"""Prefect's own worker beside a plant, and what comes of its runs."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from subprocess import Popen
from typing import Any

from tests.support.processes import running
from tests.support.waits import eventually
from tests.support.workers import Plant


@contextmanager
def stock_worker(plant: Plant, **environment: str) -> Iterator[Popen[bytes]]:
    """Prefect's process worker, told nothing but Prefect's settings, the address and a token."""
    pool = f"{plant.pool}-stock"
    argv = [sys.executable, "-m", "prefect", "worker", "start", "--type", "process"]
    argv += ["--pool", pool, "--name", "stock"]
    log = plant.home / "worker-stock.log"
    with running(argv, plant.environment(**environment), log) as process:
        plant.until_online("stock", pool)
        yield process


def artifacts(plant: Plant, flow_run_id: str, severity: str) -> list[dict[str, Any]]:
    """The pages of a run, once it has the one that all but plain successes have."""
    eventually(lambda: severity == "success" or plant.artifacts_of(flow_run_id))
    return plant.artifacts_of(flow_run_id)


def told(plant: Plant, flow_run_id: str) -> dict[str, Any]:
    """What Prefect shows of a run that is over, and what the ledger keeps, numbers left out."""
    run = plant.run_in(flow_run_id, "COMPLETED", "FAILED", "CRASHED", "CANCELLED")
    (job,) = eventually(lambda: plant.jobs_of(flow_run_id))
    job = plant.ended(job["id"])
    suffix = " (warning)" if job["severity"] == "warning" else ""
    plant.run_named(flow_run_id, f"#{job['id']}{suffix}")
    eventually(lambda: "jobauto.severity" in plant.flow_run(flow_run_id)["labels"])
    logs = eventually(lambda: len(lines := plant.logs_of(flow_run_id)) >= 2 and lines)
    labels = plant.flow_run(flow_run_id)["labels"]
    return {
        "state": (run["state_type"], run["state_name"], run["state"]["message"]),
        "run_count": run["run_count"],
        "tags": sorted(plant.flow_run(flow_run_id)["tags"]),
        "labels": {name for name in labels if name.startswith("jobauto.")},
        "logs": sorted((line["level"], line["message"]) for line in logs),
        "artifact": len(artifacts(plant, flow_run_id, job["severity"])),
        "job": {key: job[key] for key in ("state", "severity", "exitcode", "message")},
    }
