"""`jobauto worker list|lost`: who works, and who is gone for good."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from jobauto_prefect.cli.options import Json, Url

if TYPE_CHECKING:
    from jobauto_prefect.cli.client import Client

COLUMNS = (
    "worker",
    "work pool",
    "host",
    "is",
    "last sign",
    "jobs",
    "free",
    "what is wrong with it",
)


def list_workers(as_json: Json = False, url: Url = None) -> None:
    """List the workers: where they are, their last sign of life, and what hinders them.

    Example: jobauto worker list
    """
    from jobauto_prefect.cli.client import speak
    from jobauto_prefect.cli.show import print_json, print_table

    workers = speak(url, lambda client: client.get("/workers.json"))
    if as_json:
        print_json(workers)
    else:
        print_table(COLUMNS, map(_row, workers.values()))


def _row(record: dict[str, Any]) -> tuple[Any, ...]:
    from jobauto_prefect.cli.show import moment

    limit = record["limit"]
    return (
        record["name"],
        record["pool"],
        record["host"],
        record["state"],
        moment(record["seen_at"]),
        ", ".join(map(str, record["jobs"])),
        "" if limit is None else f"{record['free']} of {limit}",
        "; ".join([*record["hindrances"].values(), *_clock(record["clock_ahead"])]),
    )


def _clock(ahead: float) -> list[str]:
    from datetime import timedelta

    from jobauto_prefect.clock import TOLERATED, ahead_of

    difference = timedelta(seconds=ahead)
    if abs(difference) <= TOLERATED:
        return []
    return [f"its clock is {ahead_of(difference)} the ledger's"]


def lose_worker(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Name of the worker.")],
    as_json: Json = False,
    url: Url = None,
) -> None:
    """Say that a worker is gone for good, with its machine: its jobs are lost, and tried again.

    Only for a machine that will not come back: should it still run a job, its repetition runs
    beside it. A worker that gave a sign of life within the last lease is refused.

    Example: jobauto worker lost "mill pool"
    """
    from urllib.parse import quote

    from jobauto_prefect.cli.client import speak
    from jobauto_prefect.cli.show import print_json, say
    from jobauto_prefect.wording import counted

    async def declare(client: "Client") -> dict[str, Any]:
        answer: dict[str, Any] = await client.post_to(f"/worker/{quote(name, safe='')}/lost.json")
        await client.wait_for_prefect()
        return answer

    answer = speak(url, declare, writes=True)
    if as_json:
        print_json(answer)
    else:
        jobs = ", ".join(map(str, answer["lost_jobs"]))
        listed = f" ({jobs})" if jobs else ""
        say(f"worker {name} is lost, with {counted(len(answer['lost_jobs']), 'job')}{listed}")
