"""Launches as a worker gets them, and the worker they are for."""

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any
from uuid import uuid4

from jobauto_prefect.runtime.protocol import (
    KubernetesTerms,
    Launch,
)
from jobauto_prefect.runtime.worker_config import WorkerConfig
from jobauto_prefect.runtime.worker_context import WorkerContext
from tests.support.container_engines import EXECUTOR_SETTINGS, IMAGE
from tests.support.recorder import Recorder

TOKEN = "the-worker-token"
POD_IMAGE = "docker.io/example/app:1"

Opened = Callable[..., Awaitable[WorkerContext]]
"""What opens a worker with changes to its configuration."""


def plan(facade: Recorder, directory: Path, **changes: Any) -> WorkerConfig:
    """The configuration of a worker whose facade is the recorder."""
    values: dict[str, Any] = {
        "url": facade.url,
        "token": TOKEN,
        "worker": "w/1",
        "pool": "default",
        "host": "here",
        "directory": directory,
        "stop_seconds": 1.0,
    }
    return WorkerConfig(**(values | changes))


def launch(
    worker: WorkerContext | str, command: str | list[str], job: int = 1, **changes: Any
) -> Launch:
    """A launch of a shell script or an argument vector."""
    work = worker if isinstance(worker, str) else worker.work_directory
    directory = f"{work}/job-{job}"
    values: dict[str, Any] = {
        "job_id": job,
        "claim_id": uuid4(),
        "title": f"company / template #{job}",
        "argv": ["sh", "-c", command] if isinstance(command, str) else command,
        "command_shown": "sh",
        "environment": {"JOBAUTO_JOB_DIR": directory, "TMPDIR": f"{directory}/tmp"},
        "directory": directory,
        "timeout_seconds": 60,
        "lease_seconds": 6,
        "output_limit_bytes": 1_000_000,
        "artifact_limit_bytes": 1_000_000,
    }
    values["environment"] |= changes.pop("environment", {})
    return Launch(**(values | changes))


def left_in(worker: WorkerContext) -> list[str]:
    """What jobs left in a worker's directory."""
    work = Path(worker.work_directory)
    return [path.name for path in (*work.glob("job-*"), *work.glob("records/*"))]


def in_cluster(
    worker: WorkerContext, command: str | list[str], job: int = 1, **changes: Any
) -> Launch:
    """A launch that runs in the cluster; `terms` are members of its KubernetesTerms."""
    terms = KubernetesTerms(**changes.pop("terms", {}))
    members = {"image": POD_IMAGE, "executor": "Kubernetes", "kubernetes": terms}
    return launch(worker, command, job, **(members | changes))


def contained(
    worker: WorkerContext, command: str | list[str], *, executor: str = "Docker", **changes: Any
) -> Launch:
    """A launch that runs in a container."""
    settings = {**EXECUTOR_SETTINGS, **changes.pop("executor_settings", {})}
    members = {"image": IMAGE, "executor": executor, "executor_settings": settings}
    return launch(worker, command, **(members | changes))
