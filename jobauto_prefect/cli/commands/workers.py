"""`jobauto worker list|lost`: the workers, and declaring one lost."""

from typing import TYPE_CHECKING, Annotated, Any
from urllib.parse import quote

import typer

from jobauto_prefect.cli.options import Json, Url
from jobauto_prefect.cli.output.results import call_and_print
from jobauto_prefect.cli.output.terminal import format_time, print_table
from jobauto_prefect.wording import pluralize

if TYPE_CHECKING:
    from jobauto_prefect.cli.connection.client import Client

COLUMNS = (
    "worker",
    "work pool",
    "host",
    "is",
    "last sign of life",
    "jobs",
    "free",
    "problems",
)


def list_workers(as_json: Json = False, url: Url = None) -> None:
    """List the workers: where they are, their last sign of life, and their problems.

    Example: jobauto worker list
    """
    call_and_print(
        url,
        lambda client: client.get("/workers.json"),
        as_json,
        lambda workers: print_table(COLUMNS, map(_worker_row, workers.values())),
    )


def _worker_row(record: dict[str, Any]) -> tuple[Any, ...]:
    limit = record["limit"]
    return (
        record["name"],
        record["pool"],
        record["host"],
        record["state"],
        format_time(record["seen_at"]),
        ", ".join(map(str, record["jobs"])),
        "" if limit is None else f"{record['free']} of {limit}",
        "; ".join([*record["hindrances"].values(), *_clock_notes(record["clock_ahead"])]),
    )


def _clock_notes(ahead: float) -> list[str]:
    from datetime import timedelta

    from jobauto_prefect.clock import TOLERATED, offset_text

    difference = timedelta(seconds=ahead)
    if abs(difference) <= TOLERATED:
        return []
    return [f"its clock is {offset_text(difference)} the ledger's"]


def mark_worker_lost(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Name of the worker.")],
    as_json: Json = False,
    url: Url = None,
) -> None:
    """Declare that a worker and its machine are lost: its jobs count as lost and are retried.

    Only for a machine that will not come back: if it still runs a job, the retry runs at the same
    time. Refused if the worker gave a sign of life in the last JOBAUTO_LEASE_SECONDS.

    Example: jobauto worker lost "mill pool"
    """

    async def declare(client: "Client") -> dict[str, Any]:
        answer: dict[str, Any] = await client.post_to(f"/worker/{quote(name, safe='')}/lost.json")
        await client.wait_for_prefect()
        return answer

    def describe(answer: dict[str, Any]) -> str:
        jobs = answer["lost_jobs"]
        listed = f" ({', '.join(map(str, jobs))})" if jobs else ""
        return f"worker {name} is lost, with {pluralize(len(jobs), 'job')}{listed}"

    call_and_print(url, declare, as_json, describe, writes=True)
