"""`jobauto prune`: deletes expired data now."""

from collections import Counter
from typing import TYPE_CHECKING, Annotated, Any

import typer

from jobauto_prefect.cli.options import Json, Url
from jobauto_prefect.cli.output.terminal import print_hint, print_json, print_line, print_table

if TYPE_CHECKING:
    from jobauto_prefect.cli.connection.client import Client

DryRun = Annotated[bool, typer.Option("--dry-run", help="Only show what would be deleted.")]
Counts = Counter[tuple[str, str | None]]
"""How many records were deleted, by kind and company slug (None: of none, or of all)."""

COLUMNS = ("what", "company", "how many")
NAMES = {
    "events": "events",
    "output": "outputs of jobs",
    "jobs": "jobs",
    "tasks": "tasks",
    "runs": "flow runs in Prefect",
}


def prune(dry_run: DryRun = False, as_json: Json = False, url: Url = None) -> None:
    """Delete expired data now.

    The settings JOBAUTO_KEEP_… and the retention field of companies and run templates say how long
    jobs, their output, tasks and events are kept. The services delete expired data once an hour.

    Example: jobauto prune --dry-run
    """
    from jobauto_prefect.cli.connection.client import call_facade

    async def work(client: "Client") -> Counts:
        if dry_run:
            return _parse_counts(await client.post_to("/prune.json", dry_run="true"))
        counts: Counts = Counter()
        while True:
            answer = await client.post_to("/prune.json")
            counts += _parse_counts(answer)
            if answer["complete"]:
                return counts
            print_hint(f"{counts.total()} deleted so far")

    counts = call_facade(url, work, writes=not dry_run)
    if as_json:
        names = ("kind", "company", "count")
        rows = [dict(zip(names, (*key, count), strict=True)) for key, count in counts.items()]
        print_json({"dry_run": dry_run, "pruned": rows})
    elif not counts:
        print_line("nothing to delete")
    else:
        print_table(
            COLUMNS,
            [(NAMES[kind], company or "", count) for (kind, company), count in counts.items()],
        )
        if dry_run:
            print_hint("nothing was deleted; to delete this: jobauto prune")


def _parse_counts(answer: dict[str, Any]) -> Counts:
    return Counter({(row["kind"], row["company"]): row["count"] for row in answer["pruned"]})
