"""Waiting at the command line until a job is over: what is said meanwhile, and how it ends."""

import asyncio
import contextlib
import sys
import time
from collections.abc import AsyncIterator, Callable, Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any

import typer

from jobauto_prefect.cli.jobs import LIVE
from jobauto_prefect.cli.show import hint, seconds
from jobauto_prefect.errors import JobautoError, Unavailable

if TYPE_CHECKING:
    from jobauto_prefect.cli.client import Client

Record = Mapping[str, Any]

STILL_GOING = 4
"""Exit code where the job was not over in time."""

INTERRUPTED = 130
POLL_SECONDS = 0.25
FIRST_TOLD_SECONDS = 3.0
TOLD_SECONDS = 2.0
AWAY_SECONDS = 60.0
"""How long a facade may not answer somebody who waits for a job."""

NOT_TAKEN = "no worker has taken it yet"


async def output(client: "Client", job_id: int, follow: bool) -> AsyncIterator[Record]:
    """The lines of a job's output; with `follow` until it is over."""
    last, answered = 0, time.monotonic()
    while True:
        try:
            page = await client.get(f"/job/{job_id}/output.json", after=last)
        except Unavailable:
            # The job goes on while the service is started anew.
            if not follow or time.monotonic() - answered > AWAY_SECONDS:
                raise
            await asyncio.sleep(TOLD_SECONDS)
            continue
        answered = time.monotonic()
        for line in page["lines"]:
            yield line
        last = page["last"]
        if page["lines"]:
            continue
        if not follow or page["state"] not in LIVE:
            return
        await asyncio.sleep(POLL_SECONDS)


async def until_over(
    client: "Client", job_id: int, tell_line: Callable[[Record], None], within: float | None
) -> Record:
    """The job once it is over, or as it is after `within` seconds. Its output is told meanwhile,
    and what it waits for.

    Raises:
        typer.Exit: somebody has interrupted it, and was told, or asked, what becomes of the job.
    """
    telling = asyncio.create_task(_tell_waits(client, job_id))
    try:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(within):
                async for line in output(client, job_id, follow=True):
                    tell_line(line)
        job: Record = await client.get(f"/job/{job_id}.json")
    except asyncio.CancelledError:
        _go_on_after_interrupt()
        telling.cancel()
        await _settle_interrupted(client, job_id)
        raise typer.Exit(INTERRUPTED) from None
    finally:
        telling.cancel()
    return job


def _go_on_after_interrupt() -> None:
    """Ctrl-C cancels the task once; what is still to be asked and told is its work, too."""
    task = asyncio.current_task()
    if task is not None:
        task.uncancel()


async def _settle_interrupted(client: "Client", job_id: int) -> None:
    if sys.stdin.isatty() and typer.confirm(f"\nCancel job {job_id}?", err=True):
        await client.post("job", {"id": job_id, "state": "cancelled"})
        await client.wait_for_prefect()
        hint(f"job {job_id} is cancelled, or ends in a moment")
    else:
        hint(f"job {job_id} goes on; end it: jobauto job cancel {job_id}")


async def _tell_waits(client: "Client", job_id: int) -> None:
    """Say what a job waits for, whenever that changes, until it begins."""
    told, pause = None, FIRST_TOLD_SECONDS
    while True:
        await asyncio.sleep(pause)
        pause = TOLD_SECONDS
        with contextlib.suppress(JobautoError):
            job: Record = await client.get(f"/job/{job_id}.json")
            if job["state"] != "scheduled":
                return
            now = job["waits_for"] or told or NOT_TAKEN
            if now != told:
                told = now
                hint(f"job {job_id} waits: {told}")


def tell_unfinished(job_id: int, timeout: float) -> None:
    """The waiting is over, and the job is not."""
    hint(
        f"job {job_id} is not over after {seconds(timeout)} and goes on; "
        f"follow it: jobauto job logs {job_id} --follow; end it: jobauto job cancel {job_id}"
    )


def times_of(job: Record) -> str:
    """How long a job waited and ran, as far as it came: `waited 3.1 s, ran 0.4 s`."""
    due, begin, end = (_instant(job[name]) for name in ("schedule", "begin", "end"))
    created = _instant(job["created_at"])
    asked = max((each for each in (due, created) if each), default=None)
    parts = {"waited": (asked, begin or end), "ran": (begin, end)}
    return ", ".join(
        f"{word} {seconds(max(0.0, (after - before).total_seconds()))}"
        for word, (before, after) in parts.items()
        if before and after
    )


def _instant(text: str | None) -> datetime | None:
    return datetime.fromisoformat(text) if text else None
