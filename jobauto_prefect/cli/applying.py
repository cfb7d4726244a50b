"""`jobauto plan` and `jobauto apply`: make the records what the files say."""

import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from jobauto_prefect.cli.options import Json, Paths, Url, Yes
from jobauto_prefect.errors import Conflict, Fault, InvalidInput, StalePlan

if TYPE_CHECKING:
    from jobauto_prefect.cli.client import Client

Plan = Mapping[str, Any]
"""As `POST /apply` answers it."""

MOST_PLANS = 5
"""So many plans are carried out, or asked about, where others are quicker each time."""

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

    wanted = Wanted.of(paths, label or (), prune)
    planned = speak(url, wanted.planned, takes_long=True)
    if as_json:
        _print_json(planned, {})
    else:
        print_plan(planned)
        _hint_forbidden(planned["forbidden"])
        _say_counts(planned, would=True)
    if changes_in(planned):
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

    if not (yes or dry_run) and (as_json or not sys.stdin.isatty()):
        raise typer.BadParameter(
            "there is nobody to ask: confirm with --yes, or look with --dry-run",
            param_hint="--yes",
        )
    wanted = Wanted.of(paths, label or (), prune)

    async def work(client: Client) -> None:
        planned, waiting = await wanted.planned(client), 0
        if not as_json:
            print_plan(planned)
        if not dry_run:
            agree = None if yes else _confirm
            planned, waiting = await carry_out(client, wanted, planned, agree, quiet=as_json)
        if as_json:
            _print_json(planned, {"dry_run": dry_run, "waiting_for_prefect": waiting})
        else:
            _say_counts(planned, would=dry_run)
            _hint_waiting(waiting)

    speak(url, work, writes=not dry_run, takes_long=True)


def _confirm(planned: Plan) -> None:
    from jobauto_prefect.wording import counted

    typer.confirm(f"Make {counted(len(changes_in(planned)), 'change')}?", abort=True)


@dataclass(frozen=True, slots=True)
class Wanted:
    """What is to be applied, as `POST /apply` takes it."""

    files: Sequence[Mapping[str, str]] = field(repr=False)
    unread: Sequence[Fault] = ()
    labels: Sequence[str] = ()
    prune: bool = False

    @classmethod
    def of(cls, paths: Iterable[Path], labels: Sequence[str] = (), prune: bool = False) -> "Wanted":
        """What is in files.

        Raises:
            BadParameter: a label is none.
        """
        from jobauto_prefect.cli.files import texts_of

        _check_labels(labels)
        return cls(*texts_of(paths), labels, prune)

    async def planned(self, client: "Client") -> Plan:
        """What would change.

        Raises:
            InvalidInput: with every fault of every file.
        """
        return await self._asked(client)

    async def carried_out(self, client: "Client", digest: str) -> Plan:
        """What was changed.

        Raises:
            StalePlan: the plan is another one by now.
        """
        return await self._asked(client, digest=digest)

    async def _asked(self, client: "Client", **more: str) -> Plan:
        members = {"files": self.files, "labels": self.labels, "prune": self.prune}
        try:
            planned: Plan = await client.apply(members | more)
        except InvalidInput as error:
            # What refers to a file that can't be read is not wrong for that.
            faults = [one for one in error.faults if not self.unread or one.rule != "reference"]
            raise InvalidInput([*self.unread, *faults], str(error)) from None
        if self.unread:
            raise InvalidInput(self.unread, "not all files can be read; nothing was changed")
        return planned


def _check_labels(labels: Sequence[str]) -> None:
    import re

    for label in labels:
        if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}", label):
            message = f"{label!r} has other characters than letters, digits, ., - and _"
            raise typer.BadParameter(message, param_hint="--label")


def changes_in(planned: Plan) -> list[Any]:
    """Those that change something."""
    return [change for change in planned["changes"] if change["action"] != "unchanged"]


async def carry_out(
    client: "Client",
    wanted: Wanted,
    planned: Plan,
    agree: Callable[[Plan], None] | None = None,
    *,
    quiet: bool = False,
) -> tuple[Plan, int]:
    """Make the changes and wait for Prefect; the plan that was carried out, and how many changes
    Prefect does not know yet.

    `agree` is asked about each plan that is carried out. Where somebody else was quicker there is a
    new one, which is shown unless `quiet`; so it goes on `MOST_PLANS` times.

    Raises:
        InvalidInput: some of the changes are not for who asks to make.
        Conflict: somebody else was quicker each time.
    """
    for _ in range(MOST_PLANS):
        if not changes_in(planned):
            return planned, 0
        if planned["forbidden"]:
            raise _forbidden(planned)
        if agree is not None:
            agree(planned)
        try:
            return await _carried_out(client, wanted, planned["digest"])
        except StalePlan as stale:
            planned = dict(stale.plan)
            _hint_new_plan()
            if not quiet:
                print_plan(planned)
    raise Conflict(
        f"somebody else changed the same records {MOST_PLANS} times meanwhile; "
        "nothing was changed; try again"
    )


def _forbidden(planned: Plan) -> InvalidInput:
    faults = [Fault(**each) for each in planned["forbidden"]]
    return InvalidInput(faults, "you may not make all of these changes; nothing was changed")


async def _carried_out(client: "Client", wanted: Wanted, digest: str) -> tuple[Plan, int]:
    from rich.progress import Progress

    from jobauto_prefect.cli.show import messages

    terminal = messages().is_terminal
    with Progress(console=messages(), transient=True, disable=not terminal) as progress:
        writing = progress.add_task("Records", total=None)
        done = await wanted.carried_out(client, digest)
        progress.update(writing, total=1, completed=1)
        telling = progress.add_task("Prefect", total=None)
        most = 0

        def advance(left: int) -> None:
            nonlocal most
            most = max(most, left)
            progress.update(telling, total=most, completed=most - left)

        return done, await client.wait_for_prefect(advance)


def print_plan(planned: Plan) -> None:
    """The changes, and on standard error what the service warns of."""
    print_changes(planned["changes"])
    _hint_warnings(planned["warnings"])


def _hint_warnings(warnings: Sequence[Mapping[str, Any]]) -> None:
    from jobauto_prefect.cli.show import hint_in_common
    from jobauto_prefect.facade.apply.kinds import NOUNS

    hint_in_common((NOUNS[one["kind"]], one["title"], one["message"]) for one in warnings)


def _hint_forbidden(faults: Sequence[Mapping[str, Any]]) -> None:
    from jobauto_prefect.cli.show import hint_in_common

    places = ((":".join(str(one[name]) for name in ("file", "line") if name in one), one)
              for one in faults)  # fmt: skip
    hint_in_common((("change", place, one["message"]) for place, one in places), "not yours")


def _hint_new_plan() -> None:
    from jobauto_prefect.cli.show import hint

    hint("somebody else changed records meanwhile, and nothing was changed; this is the new plan:")


def print_changes(changes: Sequence[Mapping[str, Any]]) -> None:
    """The changes, those that are updates member by member."""
    from jobauto_prefect.cli.show import STYLES, printable, say

    for change in changes:
        action = change["action"]
        words = f"{action:10}{change['kind']:16}{change['title']}"
        say(printable(words), style=STYLES[action])
        for name, one in change["fields"].items():
            words = f"          {name}: {_shown(one['before'])} → {_shown(one['after'])}"
            say(printable(words))
        for name, one in change["drift"].items():
            before, after = _shown(one["prefect"]), _shown(one["record"])
            words = f"          in Prefect {name}: {before} → {after}"
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


def _say_counts(planned: Plan, would: bool) -> None:
    from jobauto_prefect.cli.show import hint, say

    counts = planned["counts"]
    named = [f"{counts[one]} {words[not would]}" for one, words in WORDS.items() if counts[one]]
    say(", ".join(named) or "the files hold no records")
    if planned["prefect_away"] and would:
        hint(f"Prefect was not compared: {planned['prefect_away']}")


def _print_json(planned: Plan, more: Mapping[str, Any]) -> None:
    from jobauto_prefect.cli.show import print_json

    _hint_warnings(planned["warnings"])
    names = ("changes", "counts", "prefect_compared")
    print_json({**more, **{name: planned[name] for name in names}})


def _hint_waiting(waiting: int) -> None:
    from jobauto_prefect.cli.show import hint
    from jobauto_prefect.wording import counted

    if waiting:
        hint(
            f"Prefect does not know {counted(waiting, 'change')} yet; it is told when it answers, "
            "by jobauto services or jobauto up"
        )
