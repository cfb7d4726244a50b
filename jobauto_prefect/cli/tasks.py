"""`jobauto task`: the obligations of windows, and the attempts for each."""

from typing import Annotated, Any

import typer

from jobauto_prefect.cli.listing import Record, add_list
from jobauto_prefect.cli.options import Json, Url
from jobauto_prefect.cli.tables import TASKS

group = typer.Typer(help="Tasks: one for each window of a run template.", no_args_is_help=True)

TaskId = Annotated[int, typer.Argument(metavar="TASK", min=1, help="Number of the task.")]
TIMES = ("window_start", "window_end", "deadline", "fulfilled_at", "created_at")

COLUMNS = ("job", "attempt", "state", "exit", "began", "took", "message")

add_list(group, TASKS)


@group.command()
def show(task_id: TaskId, as_json: Json = False, url: Url = None) -> None:
    """Show one task and its attempts.

    Example: jobauto task show 7
    """
    from jobauto_prefect.cli.client import speak
    from jobauto_prefect.cli.show import print_json

    task = speak(url, lambda client: client.get(f"/task/{task_id}.json"))
    if as_json:
        print_json(task)
    else:
        _print_task(task)


def _print_task(task: dict[str, Any]) -> None:
    from jobauto_prefect.cli.show import moment, print_members, print_table, say

    jobs = task.pop("jobs")
    print_members(task | {name: moment(task[name]) for name in TIMES})
    if jobs:
        say("")
        print_table(
            ("job", "attempt", "state", "exit", "began", "took", "message"), map(_row, jobs)
        )


def _row(job: Record) -> tuple[Any, ...]:
    from jobauto_prefect.cli.show import duration, moment

    took = duration(job["begin"], job["end"])
    what = (job["id"], job["attempt"], job["state"], job["exitcode"])
    return (*what, moment(job["begin"]), took, job["message"])
