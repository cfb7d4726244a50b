"""`jobauto plan` and `jobauto apply`: make the records what the files say."""

import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from jobauto_prefect.cli.options import Json, Paths, Url, Yes

if TYPE_CHECKING:
    from jobauto_prefect.cli.client import Client
    from jobauto_prefect.facade.apply.documents import Document
    from jobauto_prefect.facade.apply.plans import Change, Fields

SHOWN_LENGTH = 60  # characters of a value in the list of changes
WOULD_CHANGE = 3
"""Exit code of `plan` where something would change."""

Prune = Annotated[
    bool,
    typer.Option(
        "--prune", help="Delete what bears only labels that the files own, and is in no file."
    ),
]
Labels = Annotated[
    list[str] | None,
    typer.Option(
        "--label",
        metavar="LABEL",
        help="Give every record of the files this label too; may be given repeatedly.",
    ),
]


def plan(
    paths: Paths,
    prune: Prune = False,
    label: Labels = None,
    as_json: Json = False,
    url: Url = None,
) -> None:
    """Show what applying files would change, and change nothing.

    Compares the files with the records, and the records with Prefect: where somebody changed
    something there, apply restores it. Exit code 0: nothing would change; 3: something would.

    Examples: jobauto plan deployments/ · jobauto plan deployments/ --prune --label finance
    """
    from jobauto_prefect.cli.client import speak
    from jobauto_prefect.cli.files import contents_of
    from jobauto_prefect.facade.apply.plans import documents_in

    documents = documents_in(contents_of(paths))
    planned = speak(
        url, lambda client: plan_of(client, documents, label or (), prune), takes_long=True
    )
    if as_json:
        _print_json(planned, {})
    else:
        print_changes(planned.changes)
        _say_counts(planned, would=True)
    if planned.wanted:
        raise typer.Exit(WOULD_CHANGE)


def apply(
    paths: Paths,
    yes: Yes = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show what would change, and change nothing.")
    ] = False,
    prune: Prune = False,
    label: Labels = None,
    as_json: Json = False,
    url: Url = None,
) -> None:
    """Make the records what the files say.

    A fault in any file stops before the first change. What the files do not name stays as it is.
    Where it was interrupted, the same command goes on. Files hold no secrets.

    Examples: jobauto apply deployments/ · jobauto apply team.yaml --prune --label team --yes
    """
    from jobauto_prefect.cli.client import Client, speak
    from jobauto_prefect.cli.files import contents_of
    from jobauto_prefect.cli.show import counted
    from jobauto_prefect.facade.apply.plans import documents_in

    if not (yes or dry_run) and (as_json or not sys.stdin.isatty()):
        raise typer.BadParameter(
            "there is nobody to ask: confirm with --yes, or look with --dry-run",
            param_hint="--yes",
        )
    documents = documents_in(contents_of(paths))

    async def work(client: Client) -> None:
        planned = await plan_of(client, documents, label or (), prune)
        if not as_json:
            print_changes(planned.changes)
        waiting = 0
        if planned.wanted and not dry_run:
            if not yes:
                typer.confirm(f"Make {counted(len(planned.wanted), 'change')}?", abort=True)
            waiting = await carry_out(client, planned)
        if as_json:
            _print_json(planned, {"dry_run": dry_run, "waiting_for_prefect": waiting})
        else:
            _say_counts(planned, would=dry_run)
            _hint_waiting(waiting)

    speak(url, work, writes=not dry_run, takes_long=True)


class Planned:
    """The changes, and what was known when they were planned; `away` says why Prefect was not
    compared, None: it was.
    """

    def __init__(self, changes: Sequence["Change"], known: Any, away: str | None) -> None:
        self.changes, self.known, self.away = changes, known, away

    @property
    def wanted(self) -> list["Change"]:
        """Those that change something."""
        return [change for change in self.changes if change.action != "unchanged"]


async def plan_of(
    client: "Client",
    documents: Sequence["Document"],
    labels: Sequence[str] = (),
    prune: bool = False,
) -> Planned:
    """What applying these documents would change."""
    from jobauto_prefect.cli.known import known_of
    from jobauto_prefect.facade.apply.plans import Planner

    _check_labels(labels)
    known = await known_of(client)
    numbers = {known.id_of("app", one.content) for one in documents if one.kind == "app"}
    drift, away = await _drift(client)
    planner = Planner(
        known,
        documents,
        definitions={
            number: await client.get(f"/app/{number}/definition.json")
            for number in numbers
            if number is not None
        },
        labels=labels,
        prune=prune,
        drift=drift,
    )
    return Planned(planner.plan(), known, away)


def _check_labels(labels: Sequence[str]) -> None:
    import re

    for label in labels:
        if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}", label):
            message = f"{label!r} has other characters than letters, digits, ., - and _"
            raise typer.BadParameter(message, param_hint="--label")


async def _drift(client: "Client") -> tuple[dict[int, "Fields"], str | None]:
    from jobauto_prefect.errors import Unavailable

    try:
        found: Mapping[str, Any] = await client.get("/drift.json")
    except Unavailable as error:
        return {}, str(error)
    drift: dict[int, Fields] = {
        int(number): {
            name: (each["prefect"], each["record"]) for name, each in one["differences"].items()
        }
        for number, one in found.items()
    }
    return drift, None


async def carry_out(client: "Client", planned: Planned) -> int:
    """Make the changes and wait for Prefect; how many of them Prefect does not know yet."""
    from rich.progress import Progress

    from jobauto_prefect.cli.show import messages
    from jobauto_prefect.cli.writing import Writer

    terminal = messages().is_terminal
    with Progress(console=messages(), transient=True, disable=not terminal) as progress:
        writing = progress.add_task("Records", total=len(planned.wanted))
        writer = Writer(client, planned.known)
        for done, change in enumerate(planned.wanted):
            await writer.write(change, done)
            progress.advance(writing)
        await writer.finish()
        telling = progress.add_task("Prefect", total=None)
        most = 0

        def advance(left: int) -> None:
            nonlocal most
            most = max(most, left)
            progress.update(telling, total=most, completed=most - left)

        return await client.wait_for_prefect(advance)


def print_changes(changes: Sequence["Change"]) -> None:
    """The changes, those that are updates member by member."""
    from jobauto_prefect.cli.show import STYLES, printable, say

    for change in changes:
        words = f"{change.action:10}{change.kind:16}{change.title}"
        say(printable(words), style=STYLES[change.action])
        for name, (before, after) in change.fields.items():
            say(printable(f"          {name}: {_shown(before)} → {_shown(after)}"))
        for name, (there, here) in change.drift.items():
            words = f"          in Prefect {name}: {_shown(there)} → {_shown(here)}"
            say(printable(words), style=STYLES["restore"])


def _shown(value: Any) -> str:
    text = "nothing" if value is None else str(value)
    return text if len(text) <= SHOWN_LENGTH else text[: SHOWN_LENGTH - 1] + "…"


WORDS: Mapping[str, tuple[str, str]] = {
    "create": ("to create", "created"),
    "update": ("to update", "updated"),
    "restore": ("to restore in Prefect", "restored in Prefect"),
    "delete": ("to delete", "deleted"),
    "unchanged": ("unchanged", "unchanged"),
}
"""What is said of a number of changes: before and after."""


def _say_counts(planned: Planned, would: bool) -> None:
    from jobauto_prefect.cli.show import hint, say

    counts = Counter(change.action for change in planned.changes)
    named = [f"{counts[one]} {words[not would]}" for one, words in WORDS.items() if counts[one]]
    say(", ".join(named) or "the files hold no records")
    if planned.away and would:
        hint(f"Prefect was not compared: {planned.away}")


def _print_json(planned: Planned, more: Mapping[str, Any]) -> None:
    from jobauto_prefect.cli.show import print_json

    counts = Counter(change.action for change in planned.changes)
    print_json(
        {
            **more,
            "changes": [change.as_dict() for change in planned.changes],
            "counts": {action: counts[action] for action in WORDS},
            "prefect_compared": planned.away is None,
        }
    )


def _hint_waiting(waiting: int) -> None:
    from jobauto_prefect.cli.show import counted, hint

    if waiting:
        hint(
            f"Prefect does not know {counted(waiting, 'change')} yet; it is told when it answers, "
            "by jobauto services or jobauto up"
        )
