"""Requests to a watchdog, by hand."""

import os
from pathlib import Path
from uuid import uuid4

from jobauto_prefect.runtime.watchdog.client import Watchdog
from jobauto_prefect.runtime.watchdog.job_handles import ExternalJob, Group, ProcessStart


def start(directory: Path, argv: list[str], job: int = 1, **environment: str) -> ProcessStart:
    """A request for a process that works in a directory of its own."""
    directory.mkdir(exist_ok=True)
    return ProcessStart(
        job=job,
        claim=uuid4(),
        argv=argv,
        environment={
            "PATH": os.environ["PATH"],
            "JOBAUTO_JOB_DIR": str(directory),
            **environment,
        },
        directory=str(directory),
        record=str(directory) + ".json",
    )


async def begin(watchdog: Watchdog, request: ProcessStart) -> Group:
    """The process group that a watchdog has started; nobody reads its output."""
    null = os.open(os.devnull, os.O_WRONLY)
    try:
        return await watchdog.spawn(request, null, null)
    finally:
        os.close(null)


def held(directory: Path, undo: str, job: int = 1) -> ExternalJob:
    """A job outside this machine, and the shell script that ends it."""
    return ExternalJob(
        job=job,
        claim=uuid4(),
        directory=str(directory / "job"),
        record=str(directory / "record.json"),
        undo=["sh", "-c", undo],
    )
