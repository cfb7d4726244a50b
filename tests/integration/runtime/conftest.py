"""Workers whose facade is a recorder."""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from jobauto_prefect.runtime.protocol import Launch
from jobauto_prefect.runtime.worker_config import WorkerConfig
from jobauto_prefect.runtime.worker_context import WorkerContext, open_worker
from tests.support.podman import Podman, podman
from tests.support.recorder import Recorder

TOKEN = "the-worker-token"

Opened = Callable[..., Awaitable[WorkerContext]]


@pytest.fixture(scope="session")
def engine() -> Iterator[Podman]:
    """A container engine."""
    with podman() as running:
        yield running


@pytest.fixture
def facade() -> Iterator[Recorder]:
    recorder = Recorder()
    yield recorder
    recorder.stop()


def plan(facade: Recorder, directory: Path, **changes: Any) -> WorkerConfig:
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


@pytest.fixture
async def opened(facade: Recorder, tmp_path: Path) -> AsyncIterator[Opened]:
    """Opens workers, which are closed afterwards."""
    async with AsyncExitStack() as stack:

        async def opening(**changes: Any) -> WorkerContext:
            return await stack.enter_async_context(
                open_worker(plan(facade, tmp_path / "work", **changes))
            )

        yield opening


@pytest.fixture
async def worker(opened: Opened) -> WorkerContext:
    return await opened()


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
