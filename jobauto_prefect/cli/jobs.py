"""`jobauto job` and `jobauto run`: start jobs, see what came of them, end them."""

from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from jobauto_prefect.cli.completing import names_of
from jobauto_prefect.cli.listing import Record, add_list
from jobauto_prefect.cli.options import Json, Url, Yes, job_or_template, numbered
from jobauto_prefect.cli.tables import JOBS

if TYPE_CHECKING:
    from jobauto_prefect.cli.client import Client

group = typer.Typer(help="Jobs: one attempt each.", no_args_is_help=True)

LIVE = ("scheduled", "running")
GOOD = ("success", "info", "warning")
"""Severities with which a job has done what it was to do."""

JobName = Annotated[str, job_or_template()]
JobNumber = Annotated[int, numbered("job")]

Wait = Annotated[bool, typer.Option("--wait", help="Show its output and end with its result.")]
EnvFile = Annotated[
    Path | None,
    typer.Option(
        "--env-file",
        metavar="FILE",
        exists=True,
        dir_okay=False,
        help="File of such values, a line each; --env wins over it.",
    ),
]
Timeout = Annotated[
    float | None,
    typer.Option(
        "--timeout",
        metavar="SECONDS",
        min=0,
        help="Wait no longer than this; the job goes on, and the exit code is 4.",
    ),
]

add_list(group, JOBS)


def duration_of(job: Record) -> str:
    """How long a job took."""
    from jobauto_prefect.cli.show import duration

    return duration(job["begin"], job["end"])


@group.command("show")
def show_job(job: JobName, as_json: Json = False, url: Url = None) -> None:
    """Show one job: its outcome, environment, output and artifacts.

    Examples: jobauto job show 12 · jobauto job show acme/backup
    """
    from jobauto_prefect.cli.client import Client, speak
    from jobauto_prefect.cli.lookup import job_number
    from jobauto_prefect.cli.show import print_json

    async def read(client: Client) -> Record:
        record: Record = await client.get(f"/job/{await job_number(client, job)}.json")
        return record

    record = speak(url, read)
    if as_json:
        print_json(record)
    else:
        _print_job(record)


def _print_job(job: Record) -> None:
    from jobauto_prefect.cli.show import moment, print_members

    times = {name: moment(job[name]) for name in ("schedule", "begin", "end")}
    artifacts = [f"{each['path']} ({each['size']} bytes)" for each in job["artifacts"]]
    print_members({**job, **times, "took": duration_of(job), "artifacts": artifacts})


@group.command()
def logs(
    job: JobName,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Go on until the job is over.")
    ] = False,
    as_json: Json = False,
    url: Url = None,
) -> None:
    """Print what a job wrote: standard output as it is, standard error in yellow.

    With --json one JSON object a line. Example: jobauto job logs acme/backup --follow
    """
    from jobauto_prefect.cli.client import Client, speak
    from jobauto_prefect.cli.lookup import job_number
    from jobauto_prefect.cli.waiting import output

    async def print_all(client: Client) -> None:
        async for line in output(client, await job_number(client, job), follow):
            _print_line(line, as_json)

    speak(url, print_all)


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
    job: JobName,
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
    from jobauto_prefect.cli.lookup import job_number
    from jobauto_prefect.cli.show import print_json, say

    async def end(client: Client) -> Record:
        fields = {"id": await job_number(client, job), "state": "cancelled"}
        said = {"reason": reason} if reason else {}
        ended: Record = await client.post("job", {**fields, **said})
        await client.wait_for_prefect()
        return ended

    ended = speak(url, end, writes=True)
    if as_json:
        print_json(ended)
    else:
        over = "is cancelled" if ended["state"] == "cancelled" else "is being ended"
        say(f"job {ended['id']} {over}")


@group.command()
def delete(job: JobNumber, yes: Yes = False, as_json: Json = False, url: Url = None) -> None:
    """Delete a job that is over; it is kept for history.

    Example: jobauto job delete 12 --yes
    """
    from jobauto_prefect.cli.editing import remove

    remove("job", str(job), yes, as_json, url)


@group.command()
def retry(
    job: JobName,
    env: Annotated[
        list[str] | None,
        typer.Option("--env", "-e", metavar="KEY=VALUE", help="Instead of the value it had."),
    ] = None,
    env_file: EnvFile = None,
    wait: Wait = False,
    timeout: Timeout = None,
    as_json: Json = False,
    url: Url = None,
) -> None:
    """Run a job that is over once more: its run template, with the values this job had.

    Attempts for a task are the task's: jobauto task retry.

    Examples: jobauto job retry 12 --wait · jobauto job retry acme/backup
    """
    from jobauto_prefect.cli.given_values import given_values
    from jobauto_prefect.cli.lookup import job_number

    values = given_values(env, env_file)

    async def fields(client: "Client") -> dict[str, Any]:
        return {"retry_of": await job_number(client, job), "env": values}

    _start(fields, _patience(wait, timeout), as_json, url)


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
    env_file: EnvFile = None,
    wait: Wait = False,
    timeout: Timeout = None,
    as_json: Json = False,
    url: Url = None,
) -> None:
    """Start a job of a run template.

    With --wait: exit code 0 where the job ends with success, info or warning, else 1. With
    --timeout, too: 4 where it was not over by then; it goes on.

    Example: jobauto run acme/backup --env TARGET=/mnt/backup --wait
    """
    from jobauto_prefect.cli.given_values import given_values
    from jobauto_prefect.cli.lookup import number_of

    values = given_values(env, env_file)

    async def fields(client: "Client") -> dict[str, Any]:
        return {"runtemplate_id": await number_of(client, "runtemplate", template), "env": values}

    _start(fields, _patience(wait, timeout), as_json, url)


@dataclass(frozen=True, slots=True)
class Patience:
    """That a command waits for a job; `seconds` is how long at most, None: until it is over."""

    seconds: float | None


def _patience(wait: bool, timeout: float | None) -> Patience | None:
    if timeout is not None and not wait:
        raise typer.BadParameter("there is no waiting without --wait", param_hint="--timeout")
    return Patience(timeout) if wait else None


def _start(
    fields: "Callable[[Client], Coroutine[Any, Any, dict[str, Any]]]",
    patience: Patience | None,
    as_json: bool,
    url: str | None,
) -> None:
    """Start a job of these members; with `patience` this command ends as the job does."""
    from jobauto_prefect.cli.client import Client, speak

    async def work(client: Client) -> Record:
        job: Record = await client.post("job", await fields(client))
        if patience is not None:
            return await _until_over(client, job["id"], patience, as_json)
        _tell_started(job, await client.wait_for_prefect(), as_json)
        return job

    job = speak(url, work, writes=True)
    if patience is not None:
        _end_as(job, patience, as_json)


async def _until_over(client: "Client", job_id: int, patience: Patience, as_json: bool) -> Record:
    from jobauto_prefect.cli.waiting import until_over

    def tell(line: Record) -> None:
        if not as_json:
            _print_line(line, as_json=False)

    return await until_over(client, job_id, tell, patience.seconds)


def _end_as(job: Record, patience: Patience, as_json: bool) -> None:
    from jobauto_prefect.cli.waiting import STILL_GOING, tell_unfinished

    if job["state"] in LIVE:
        if as_json:
            _tell_result(job, as_json)
        tell_unfinished(job["id"], patience.seconds or 0)
        raise typer.Exit(STILL_GOING)
    _tell_result(job, as_json)
    if job["severity"] not in GOOD:
        raise typer.Exit(1)


def _tell_started(job: Record, waiting: int, as_json: bool) -> None:
    from jobauto_prefect.cli.show import hint, print_json, say

    if as_json:
        print_json(job)
    else:
        say(f"job {job['id']} waits for a worker; follow it: jobauto job logs {job['id']} --follow")
    if waiting:
        hint("Prefect does not know of it yet; jobauto services will tell it")


def _tell_result(job: Record, as_json: bool) -> None:
    from jobauto_prefect.cli.show import STYLES, hint, print_json, printable, say
    from jobauto_prefect.cli.waiting import times_of

    if as_json:
        print_json(job)
        return
    parts = [f"job {job['id']} {job['state']}", job["message"] or ""]
    say(printable(": ".join(part for part in parts if part)), style=STYLES.get(job["state"]))
    times = times_of(job)
    if times:
        hint(f"it {times}")
