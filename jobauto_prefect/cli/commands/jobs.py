"""`jobauto job` and `jobauto run`: start jobs, see their results, end them."""

from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from jobauto_prefect.cli.completion import complete_names
from jobauto_prefect.cli.options import Json, Url, Yes, job_argument, number_argument
from jobauto_prefect.cli.output.results import call_and_print
from jobauto_prefect.cli.output.terminal import (
    format_duration,
    format_time,
    print_record,
)
from jobauto_prefect.cli.records.lists import Record, add_list
from jobauto_prefect.cli.records.lookup import find_id, find_job_id
from jobauto_prefect.cli.records.tables import JOBS

if TYPE_CHECKING:
    from jobauto_prefect.cli.connection.client import Client

group = typer.Typer(help="Jobs: each is one run of a run template.", no_args_is_help=True)

JobName = Annotated[str, job_argument()]
JobNumber = Annotated[int, number_argument("job")]


def _values_option(help_: str) -> Any:
    return typer.Option("--env", "-e", metavar="KEY=VALUE", help=help_)


Wait = Annotated[
    bool, typer.Option("--wait", help="Show the job's output; the exit code is that of the job.")
]
EnvFile = Annotated[
    Path | None,
    typer.Option(
        "--env-file",
        metavar="FILE",
        exists=True,
        dir_okay=False,
        help="File of values, one KEY=VALUE per line; --env overrides it.",
    ),
]
Timeout = Annotated[
    float | None,
    typer.Option(
        "--timeout",
        metavar="SECONDS",
        min=0,
        help="Wait at most this long; the job continues, and the exit code is 4.",
    ),
]

add_list(group, JOBS)


@group.command("show")
def show_job(job: JobName, as_json: Json = False, url: Url = None) -> None:
    """Show one job: its outcome, environment, output and artifacts.

    Examples: jobauto job show 12 · jobauto job show acme/backup
    """

    async def read(client: "Client") -> Record:
        record: Record = await client.get(f"/job/{await find_job_id(client, job)}.json")
        return record

    def show(record: Record) -> None:
        times = {name: format_time(record[name]) for name in ("schedule", "begin", "end")}
        took = format_duration(record["begin"], record["end"])
        artifacts = [f"{each['path']} ({each['size']} bytes)" for each in record["artifacts"]]
        print_record({**record, **times, "took": took, "artifacts": artifacts})

    call_and_print(url, read, as_json, show)


@group.command()
def logs(
    job: JobName,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Continue until the job has ended.")
    ] = False,
    as_json: Json = False,
    url: Url = None,
) -> None:
    """Print a job's output: standard output as it is, standard error in yellow.

    With --json, one JSON object per line. Example: jobauto job logs acme/backup --follow
    """
    from jobauto_prefect.cli.connection.client import Client, call_facade
    from jobauto_prefect.cli.output.job_progress import print_output_line, stream_output

    async def print_all(client: Client) -> None:
        async for line in stream_output(client, await find_job_id(client, job), follow):
            print_output_line(line, as_json)

    call_facade(url, print_all)


@group.command()
def cancel(
    job: JobName,
    reason: Annotated[
        str | None,
        typer.Option("--reason", help="The reason; kept with the job and shown in Prefect."),
    ] = None,
    as_json: Json = False,
    url: Url = None,
) -> None:
    """Cancel a job: a waiting one will not start, a running one is stopped with its subprocesses.

    Example: jobauto job cancel 12 --reason "Wrong data"
    """

    async def end(client: "Client") -> Record:
        fields = {"id": await find_job_id(client, job), "state": "cancelled"}
        why = {"reason": reason} if reason else {}
        ended: Record = await client.post("job", {**fields, **why})
        await client.wait_for_prefect()
        return ended

    def describe(ended: Record) -> str:
        over = "is cancelled" if ended["state"] == "cancelled" else "is being cancelled"
        return f"job {ended['id']} {over}"

    call_and_print(url, end, as_json, describe, writes=True)


@group.command()
def delete(job: JobNumber, yes: Yes = False, as_json: Json = False, url: Url = None) -> None:
    """Delete a job that has ended: lists no longer show it, but it is kept for history.

    Example: jobauto job delete 12 --yes
    """
    from jobauto_prefect.cli.records.edits import delete_record

    delete_record("job", str(job), yes, as_json, url)


@group.command()
def retry(
    job: JobName,
    env: Annotated[
        list[str] | None, _values_option("A value that replaces the one this job had.")
    ] = None,
    env_file: EnvFile = None,
    wait: Wait = False,
    timeout: Timeout = None,
    as_json: Json = False,
    url: Url = None,
) -> None:
    """Repeat a job that has ended: start its run template with the values given for it alone.

    For a job of a task use: jobauto task retry.

    Examples: jobauto job retry 12 --wait · jobauto job retry acme/backup
    """

    async def named(client: "Client") -> dict[str, Any]:
        return {"retry_of": await find_job_id(client, job)}

    _start(named, (env, env_file), (wait, timeout), as_json, url)


def run(
    template: Annotated[
        str,
        typer.Argument(
            metavar="TEMPLATE",
            help="Number, or company/name, of a run template.",
            autocompletion=complete_names("runtemplate"),
        ),
    ],
    env: Annotated[list[str] | None, _values_option("A value for this job only.")] = None,
    env_file: EnvFile = None,
    wait: Wait = False,
    timeout: Timeout = None,
    as_json: Json = False,
    url: Url = None,
) -> None:
    """Start a job of a run template.

    With --wait, the exit code is 0 if the job ends with success, info or warning, otherwise 1. With
    --timeout, it is 4 if the job has not ended after that time; the job continues.

    Example: jobauto run acme/backup --env TARGET=/mnt/backup --wait
    """

    async def named(client: "Client") -> dict[str, Any]:
        return {"runtemplate_id": await find_id(client, "runtemplate", template)}

    _start(named, (env, env_file), (wait, timeout), as_json, url)


def _start(
    named: "Callable[[Client], Coroutine[Any, Any, dict[str, Any]]]",
    given: tuple[list[str] | None, Path | None],
    waiting: tuple[bool, float | None],
    as_json: bool,
    url: str | None,
) -> None:
    """Start a job, with the values from the command line and a file."""
    from jobauto_prefect.cli.files.job_values import read_job_values
    from jobauto_prefect.cli.output.job_progress import WaitOptions, start_job

    values = read_job_values(*given)
    wait, timeout = waiting
    if timeout is not None and not wait:
        raise typer.BadParameter("it needs --wait", param_hint="--timeout")

    async def fields(client: "Client") -> dict[str, Any]:
        return {**await named(client), "env": values}

    start_job(fields, WaitOptions(timeout) if wait else None, as_json, url)
