"""`jobauto task`: the obligations of windows, and the attempts for each."""

from typing import Annotated, Any

import typer

from jobauto_prefect.cli.listing import Record, add_list
from jobauto_prefect.cli.options import Json, Url, numbered
from jobauto_prefect.cli.tables import TASKS

group = typer.Typer(help="Tasks: one for each window of a run template.", no_args_is_help=True)

TaskId = Annotated[int, numbered("task")]
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
        print_table(COLUMNS, map(_row, jobs))


def _row(job: Record) -> tuple[Any, ...]:
    from jobauto_prefect.cli.show import duration, moment

    took = duration(job["begin"], job["end"])
    what = (job["id"], job["attempt"], job["state"], job["exitcode"])
    return (*what, moment(job["begin"]), took, job["message"])


@group.command()
def retry(task_id: TaskId, as_json: Json = False, url: Url = None) -> None:
    """Try a failed or missed window once more, now; its outcome settles the task anew.

    Example: jobauto task retry 7
    """
    from jobauto_prefect.cli.client import Client, speak
    from jobauto_prefect.cli.show import print_json, say

    async def start(client: Client) -> Record:
        job: Record = await client.post_to(f"/task/{task_id}/retry.json")
        await client.wait_for_prefect()
        return job

    job = speak(url, start, writes=True)
    if as_json:
        print_json(job)
    else:
        say(f"attempt {job['attempt']} at task {task_id} is job {job['id']}")


@group.command()
def excuse(
    task_id: TaskId,
    why: Annotated[str, typer.Option("--why", help="Why it is all right; kept with the task.")],
    as_json: Json = False,
    url: Url = None,
) -> None:
    """Say why it is all right that a window failed or was missed; its state stays.

    Example: jobauto task excuse 7 --why "the bank was closed"
    """
    from jobauto_prefect.cli.client import Client, speak
    from jobauto_prefect.cli.show import print_json, say

    async def tell(client: Client) -> Record:
        task: Record = await client.post_to(f"/task/{task_id}/excuse.json", {"why": why})
        return task

    task = speak(url, tell, writes=True)
    if as_json:
        print_json(task)
    else:
        say(f"task {task_id}, {task['state']}, is excused: {task['excuse']}")
