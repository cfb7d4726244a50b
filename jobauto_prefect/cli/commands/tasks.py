"""`jobauto task`: the tasks of windows, and the attempts at each."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from jobauto_prefect.cli.options import Json, Url, number_argument
from jobauto_prefect.cli.output.results import call_and_print
from jobauto_prefect.cli.output.terminal import (
    format_duration,
    format_time,
    print_line,
    print_record,
    print_table,
)
from jobauto_prefect.cli.records.lists import Record, add_list
from jobauto_prefect.cli.records.tables import TASKS

if TYPE_CHECKING:
    from jobauto_prefect.cli.connection.client import Client


group = typer.Typer(help="Tasks: one for each window of a run template.", no_args_is_help=True)

TaskId = Annotated[int, number_argument("task")]
TIMES = ("window_start", "window_end", "deadline", "fulfilled_at", "created_at")
COLUMNS = ("job", "attempt", "state", "exit", "began", "took", "message")

add_list(group, TASKS)


@group.command()
def show(task_id: TaskId, as_json: Json = False, url: Url = None) -> None:
    """Show one task and its attempts.

    Example: jobauto task show 7
    """
    call_and_print(url, lambda client: client.get(f"/task/{task_id}.json"), as_json, _print_task)


def _print_task(task: dict[str, Any]) -> None:
    jobs = task.pop("jobs")
    print_record(task | {name: format_time(task[name]) for name in TIMES})
    if jobs:
        print_line("")
        rows = [
            (
                *(job[name] for name in ("id", "attempt", "state", "exitcode")),
                format_time(job["begin"]),
                format_duration(job["begin"], job["end"]),
                job["message"],
            )
            for job in jobs
        ]
        print_table(COLUMNS, rows)


@group.command()
def retry(task_id: TaskId, as_json: Json = False, url: Url = None) -> None:
    """Retry a failed or missed window now; the task gets the result.

    Example: jobauto task retry 7
    """

    async def start(client: "Client") -> Record:
        job: Record = await client.post_to(f"/task/{task_id}/retry.json")
        await client.wait_for_prefect()
        return job

    call_and_print(
        url,
        start,
        as_json,
        lambda job: f"attempt {job['attempt']} at task {task_id} is job {job['id']}",
        writes=True,
    )


@group.command()
def excuse(
    task_id: TaskId,
    why: Annotated[str, typer.Option("--why", help="The reason; stored with the task.")],
    as_json: Json = False,
    url: Url = None,
) -> None:
    """Excuse a failed or missed window, with a reason; its state does not change.

    Example: jobauto task excuse 7 --why "the bank was closed"
    """

    async def tell(client: "Client") -> Record:
        task: Record = await client.post_to(f"/task/{task_id}/excuse.json", {"why": why})
        return task

    call_and_print(
        url,
        tell,
        as_json,
        lambda task: f"task {task_id}, {task['state']}, is excused: {task['excuse']}",
        writes=True,
    )
