"""`jobauto prune`: let go now of what is kept no longer."""

from collections import Counter
from typing import TYPE_CHECKING, Annotated, Any

import typer

from jobauto_prefect.cli.options import Json, Url

if TYPE_CHECKING:
    from jobauto_prefect.cli.client import Client

DryRun = Annotated[bool, typer.Option("--dry-run", help="Only say what would go.")]
Counts = Counter[tuple[str, str | None]]
"""How many records went, by kind and the slug of their company (None: of none, or of all)."""

COLUMNS = ("what", "company", "how many")
NAMES = {
    "events": "events",
    "output": "outputs of jobs",
    "jobs": "jobs",
    "tasks": "tasks",
    "runs": "flow runs in Prefect",
}


def prune(dry_run: DryRun = False, as_json: Json = False, url: Url = None) -> None:
    """Let go now of what is kept no longer.

    How long jobs, their output, tasks and events are kept is said by the settings JOBAUTO_KEEP_…,
    and by companies and run templates (key retention). The services do the same once an hour.

    Example: jobauto prune --dry-run
    """
    from jobauto_prefect.cli.client import speak
    from jobauto_prefect.cli.show import print_json

    counts = speak(url, _preview) if dry_run else speak(url, _prune, writes=True)
    if as_json:
        names = ("kind", "company", "count")
        rows = [dict(zip(names, (*key, count), strict=True)) for key, count in counts.items()]
        print_json({"dry_run": dry_run, "pruned": rows})
    else:
        _print(counts, dry_run=dry_run)


async def _preview(client: "Client") -> Counts:
    return _counts(await client.post_to("/prune.json?dry_run=true"))


async def _prune(client: "Client") -> Counts:
    from jobauto_prefect.cli.show import hint

    counts: Counts = Counter()
    while True:
        answer = await client.post_to("/prune.json")
        counts += _counts(answer)
        if answer["complete"]:
            return counts
        hint(f"{counts.total()} gone so far")


def _counts(answer: dict[str, Any]) -> Counts:
    return Counter({(row["kind"], row["company"]): row["count"] for row in answer["pruned"]})


def _print(counts: Counts, *, dry_run: bool) -> None:
    from jobauto_prefect.cli.show import hint, print_table, say

    if not counts:
        say("nothing is to go")
        return
    rows = [(NAMES[kind], company or "", count) for (kind, company), count in counts.items()]
    print_table(COLUMNS, rows)
    if dry_run:
        hint("this would go; let it go with jobauto prune")
