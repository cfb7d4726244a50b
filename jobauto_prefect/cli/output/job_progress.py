"""Follows a job on the command line: its output, what it waits for, its result."""

import asyncio
import contextlib
import json
import sys
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

import typer

from jobauto_prefect.cli.output.terminal import (
    LIVE,
    STYLES,
    console,
    format_seconds,
    print_hint,
    print_json,
    print_line,
)
from jobauto_prefect.errors import JobautoError, Unavailable
from jobauto_prefect.wording import escape_controls

if TYPE_CHECKING:
    from jobauto_prefect.cli.connection.client import Client

Record = Mapping[str, Any]

STILL_GOING = 4
"""Exit code if the job has not ended in time."""

INTERRUPTED = 130
POLL_SECONDS = 0.25
FIRST_TOLD_SECONDS = 3.0
TOLD_SECONDS = 2.0
AWAY_SECONDS = 60.0
"""How long to wait for a facade that does not answer while following a job."""

NOT_TAKEN = "no worker has taken it yet"


async def stream_output(client: "Client", job_id: int, follow: bool) -> AsyncIterator[Record]:
    """Yield the lines of a job's output; with `follow` until the job has ended."""
    last, answered = 0, time.monotonic()
    while True:
        try:
            page = await client.get(f"/job/{job_id}/output.json", after=last)
        except Unavailable:
            # The job continues while the service restarts.
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


async def _wait_until_over(
    client: "Client", job_id: int, tell_line: Callable[[Record], None], within: float | None
) -> Record:
    """Wait until a job has ended, or `within` seconds have passed, and return it.

    Meanwhile it prints the job's output, and what it waits for.

    Raises:
        typer.Exit: the user interrupted it, and saw, or was asked, what happens to the job.
    """
    telling = asyncio.create_task(_report_waiting(client, job_id))
    try:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(within):
                async for line in stream_output(client, job_id, follow=True):
                    tell_line(line)
        job: Record = await client.get(f"/job/{job_id}.json")
    except asyncio.CancelledError:
        # Undo the cancellation by Ctrl-C: this task continues to ask and print.
        task = asyncio.current_task()
        if task is not None:
            task.uncancel()
        telling.cancel()
        if sys.stdin.isatty() and typer.confirm(f"\nCancel job {job_id}?", err=True):
            await client.post("job", {"id": job_id, "state": "cancelled"})
            await client.wait_for_prefect()
            print_hint(f"job {job_id} is cancelled, or ends in a moment")
        else:
            print_hint(f"job {job_id} continues; cancel it: jobauto job cancel {job_id}")
        raise typer.Exit(INTERRUPTED) from None
    finally:
        telling.cancel()
    return job


async def _report_waiting(client: "Client", job_id: int) -> None:
    """Print what a job waits for, whenever that changes, until it starts."""
    reported, pause = None, FIRST_TOLD_SECONDS
    while True:
        await asyncio.sleep(pause)
        pause = TOLD_SECONDS
        with contextlib.suppress(JobautoError):
            job: Record = await client.get(f"/job/{job_id}.json")
            if job["state"] != "scheduled":
                return
            reason = job["waits_for"] or reported or NOT_TAKEN
            if reason != reported:
                reported = reason
                print_hint(f"job {job_id} waits: {reported}")


def _format_times(job: Record) -> str:
    """Format how long a job waited and ran, as far as known: `waited 3.1 s, ran 0.4 s`."""
    due, begin, end = (_parse_time(job[name]) for name in ("schedule", "begin", "end"))
    created = _parse_time(job["created_at"])
    asked = max((instant for instant in (due, created) if instant), default=None)
    parts = {"waited": (asked, begin or end), "ran": (begin, end)}
    return ", ".join(
        f"{word} {format_seconds(max(0.0, (after - before).total_seconds()))}"
        for word, (before, after) in parts.items()
        if before and after
    )


def _parse_time(text: str | None) -> datetime | None:
    return datetime.fromisoformat(text) if text else None


GOOD = ("success", "info", "warning")
"""Severities of jobs that did their work."""


STREAM_STYLES: Mapping[str, str] = {"stderr": "yellow", "notice": "dim"}


def print_output_line(line: Record, as_json: bool) -> None:
    """Print a line of output by its stream, or as JSON."""
    if as_json:
        typer.echo(json.dumps(line, ensure_ascii=False))
    elif console().is_terminal:
        print_line(escape_controls(line["text"]), style=STREAM_STYLES.get(line["stream"]))
    else:
        typer.echo(line["text"])


@dataclass(frozen=True, slots=True)
class WaitOptions:
    """How long a command waits for a job: at most `seconds`; None: until it has ended."""

    seconds: float | None


def start_job(
    fields: "Callable[[Client], Coroutine[Any, Any, dict[str, Any]]]",
    patience: WaitOptions | None,
    as_json: bool,
    url: str | None,
) -> None:
    """Start a job with these fields; with `patience` wait for it and exit with its result."""
    from jobauto_prefect.cli.connection.client import Client, call_facade

    def tell_line(line: Record) -> None:
        if not as_json:
            print_output_line(line, as_json=False)

    async def work(client: Client) -> Record:
        job: Record = await client.post("job", await fields(client))
        if patience is not None:
            return await _wait_until_over(client, job["id"], tell_line, patience.seconds)
        _print_started(job, await client.wait_for_prefect(), as_json)
        return job

    job = call_facade(url, work, writes=True)
    if patience is not None:
        if job["state"] in LIVE:
            if as_json:
                _print_result(job, as_json)
            job_id, waited = job["id"], format_seconds(patience.seconds or 0)
            print_hint(
                f"job {job_id} has not ended after {waited} and continues; follow it:"
                f" jobauto job logs {job_id} --follow; cancel it: jobauto job cancel {job_id}"
            )
            raise typer.Exit(STILL_GOING)
        _print_result(job, as_json)
        if job["severity"] not in GOOD:
            raise typer.Exit(1)


def _print_started(job: Record, waiting: int, as_json: bool) -> None:
    if as_json:
        print_json(job)
    else:
        print_line(
            f"job {job['id']} waits for a worker; follow it: jobauto job logs {job['id']} --follow"
        )
    if waiting:
        print_hint("Prefect does not have it yet; jobauto services will send it")


def _print_result(job: Record, as_json: bool) -> None:
    if as_json:
        print_json(job)
        return
    parts = [f"job {job['id']} {job['state']}", job["message"] or ""]
    print_line(
        escape_controls(": ".join(part for part in parts if part)), style=STYLES.get(job["state"])
    )
    times = _format_times(job)
    if times:
        print_hint(f"it {times}")
