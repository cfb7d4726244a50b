"""`jobauto job` and `jobauto run`: start jobs, see what came of them, end them."""

import contextlib
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from typing import TYPE_CHECKING, Annotated, Any

import typer

from jobauto_prefect.cli.completing import names_of
from jobauto_prefect.cli.listing import Record, add_list
from jobauto_prefect.cli.options import Json, Url, Yes, numbered
from jobauto_prefect.cli.tables import JOBS

if TYPE_CHECKING:
    from jobauto_prefect.cli.client import Client

group = typer.Typer(help="Jobs: one attempt each.", no_args_is_help=True)

LIVE = ("scheduled", "running")
GOOD = ("success", "info", "warning")
"""Severities with which a job has done what it was to do."""

POLL_SECONDS = 0.25
WAITS_SECONDS = 2.0

JobId = Annotated[int, numbered("job")]


Wait = Annotated[bool, typer.Option("--wait", help="Show its output and end with its result.")]

add_list(group, JOBS)


def duration_of(job: Record) -> str:
    """How long a job took."""
    from jobauto_prefect.cli.show import duration

    return duration(job["begin"], job["end"])


@group.command("show")
def show_job(job_id: JobId, as_json: Json = False, url: Url = None) -> None:
    """Show one job: its outcome, environment, output and artifacts.

    Example: jobauto job show 12
    """
    from jobauto_prefect.cli.client import speak
    from jobauto_prefect.cli.show import print_json

    job = speak(url, lambda client: client.get(f"/job/{job_id}.json"))
    if as_json:
        print_json(job)
    else:
        _print_job(job)


def _print_job(job: dict[str, Any]) -> None:
    from jobauto_prefect.cli.show import moment, print_members

    times = {name: moment(job[name]) for name in ("schedule", "begin", "end")}
    artifacts = [f"{each['path']} ({each['size']} bytes)" for each in job["artifacts"]]
    print_members(job | times | {"took": duration_of(job), "artifacts": artifacts})


@group.command()
def logs(
    job_id: JobId,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Go on until the job is over.")
    ] = False,
    as_json: Json = False,
    url: Url = None,
) -> None:
    """Print what a job wrote: standard output as it is, standard error in yellow.

    With --json one JSON object a line. Example: jobauto job logs 12 --follow
    """
    from jobauto_prefect.cli.client import Client, speak

    async def print_all(client: Client) -> None:
        async for line in output(client, job_id, follow):
            _print_line(line, as_json)

    speak(url, print_all)


async def output(client: "Client", job_id: int, follow: bool) -> AsyncIterator[Record]:
    """The lines of a job's output; with `follow` until it is over."""
    import asyncio

    last = 0
    while True:
        page = await client.get(f"/job/{job_id}/output.json", after=last)
        for line in page["lines"]:
            yield line
        last = page["last"]
        if page["lines"]:
            continue
        if not follow or page["state"] not in LIVE:
            return
        await asyncio.sleep(POLL_SECONDS)


STREAM_STYLES: Mapping[str, str] = {"stderr": "yellow", "notice": "dim"}


def _print_line(line: Record, as_json: bool) -> None:
    import json

    from jobauto_prefect.cli.show import console, printable, say

    if as_json:
        typer.echo(json.dumps(line, ensure_ascii=False))
    elif console().is_terminal:
        say(printable(line["text"]), style=STREAM_STYLES.get(line["stream"]))
    else:
        typer.echo(line["text"])


@group.command()
def cancel(
    job_id: JobId,
    reason: Annotated[
        str | None, typer.Option("--reason", help="Why; kept with the job and shown in Prefect.")
    ] = None,
    as_json: Json = False,
    url: Url = None,
) -> None:
    """End a job: one that waits does not start, one that runs is stopped with its children.

    Example: jobauto job cancel 12 --reason "Wrong data"
    """
    from jobauto_prefect.cli.client import Client, speak
    from jobauto_prefect.cli.show import print_json, say

    async def end(client: Client) -> Record:
        fields = {"id": job_id, "state": "cancelled"} | ({"reason": reason} if reason else {})
        job: Record = await client.post("job", fields)
        await client.wait_for_prefect()
        return job

    job = speak(url, end, writes=True)
    if as_json:
        print_json(job)
    else:
        over = "is cancelled" if job["state"] == "cancelled" else "is being ended"
        say(f"job {job_id} {over}")


@group.command()
def delete(job_id: JobId, yes: Yes = False, as_json: Json = False, url: Url = None) -> None:
    """Delete a job that is over; it is kept for history.

    Example: jobauto job delete 12 --yes
    """
    from jobauto_prefect.cli.editing import remove

    remove("job", str(job_id), yes, as_json, url)


@group.command()
def retry(
    job_id: JobId,
    env: Annotated[
        list[str] | None,
        typer.Option("--env", "-e", metavar="KEY=VALUE", help="Instead of the value it had."),
    ] = None,
    wait: Wait = False,
    as_json: Json = False,
    url: Url = None,
) -> None:
    """Run a job that is over once more: its run template, with the values this job had.

    Attempts for a task are the task's: jobauto task retry.

    Example: jobauto job retry 12 --wait
    """
    fields = {"retry_of": job_id, "env": dict(_assignment(each) for each in env or ())}
    _start(lambda _client: _ready(fields), wait, as_json, url)


async def _ready(fields: dict[str, Any]) -> dict[str, Any]:
    return fields


def run(
    template: Annotated[
        str,
        typer.Argument(
            metavar="TEMPLATE",
            help="Number, or company/name, of a run template.",
            autocompletion=names_of("runtemplate"),
        ),
    ],
    env: Annotated[
        list[str] | None,
        typer.Option("--env", "-e", metavar="KEY=VALUE", help="A value for this job alone."),
    ] = None,
    wait: Wait = False,
    as_json: Json = False,
    url: Url = None,
) -> None:
    """Start a job of a run template.

    With --wait: exit code 0 where the job ends with success, info or warning, else 1.

    Example: jobauto run acme/backup --env TARGET=/mnt/backup --wait
    """
    from jobauto_prefect.cli.lookup import number_of

    values = dict(_assignment(each) for each in env or ())

    async def fields(client: "Client") -> dict[str, Any]:
        return {"runtemplate_id": await number_of(client, "runtemplate", template), "env": values}

    _start(fields, wait, as_json, url)


def _start(
    fields: "Callable[[Client], Coroutine[Any, Any, dict[str, Any]]]",
    wait: bool,
    as_json: bool,
    url: str | None,
) -> None:
    """Start a job of these members; with `wait` this command ends as the job does."""
    from jobauto_prefect.cli.client import Client, speak

    async def work(client: Client) -> Record:
        job: Record = await client.post("job", await fields(client))
        waiting = await client.wait_for_prefect()
        if not wait:
            _tell_started(job, waiting, as_json)
            return job
        return await _until_over(client, job["id"], as_json)

    job = speak(url, work, writes=True)
    if wait:
        _tell_result(job, as_json)
        if job["severity"] not in GOOD:
            raise typer.Exit(1)


def _assignment(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise typer.BadParameter(f"{text!r} is not KEY=VALUE", param_hint="--env")
    return name, value


def _tell_started(job: Record, waiting: int, as_json: bool) -> None:
    from jobauto_prefect.cli.show import hint, print_json, say

    if as_json:
        print_json(job)
    else:
        say(f"job {job['id']} waits for a worker; follow it: jobauto job logs {job['id']} --follow")
    if waiting:
        hint("Prefect does not know of it yet; jobauto services will tell it")


async def _until_over(client: "Client", job_id: int, as_json: bool) -> Record:
    import asyncio

    telling = asyncio.create_task(_tell_waits(client, job_id))
    try:
        async for line in output(client, job_id, follow=True):
            if not as_json:
                _print_line(line, as_json=False)
        job: Record = await client.get(f"/job/{job_id}.json")
    except asyncio.CancelledError:
        from jobauto_prefect.cli.show import hint

        hint(f"job {job_id} goes on; end it: jobauto job cancel {job_id}")
        raise
    finally:
        telling.cancel()
    return job


async def _tell_waits(client: "Client", job_id: int) -> None:
    """Say what a job waits for, whenever that changes, until it begins."""
    import asyncio

    from jobauto_prefect.cli.show import hint
    from jobauto_prefect.errors import JobautoError

    told = None
    while True:
        await asyncio.sleep(WAITS_SECONDS)
        with contextlib.suppress(JobautoError):
            job: Record = await client.get(f"/job/{job_id}.json")
            if job["state"] != "scheduled":
                return
            if job["waits_for"] not in (None, told):
                told = job["waits_for"]
                hint(f"job {job_id} waits: {told}")


def _tell_result(job: Record, as_json: bool) -> None:
    from jobauto_prefect.cli.show import STYLES, hint, print_json, printable, say

    if as_json:
        print_json(job)
        return
    took = duration_of(job)
    parts = [f"job {job['id']} {job['state']}", job["message"] or "", took and f"took {took}"]
    say(printable(": ".join(part for part in parts[:2] if part)), style=STYLES.get(job["state"]))
    if took:
        hint(f"it took {took}")
