"""`jobauto apply`: make the records what the files say."""

import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any

import typer

from jobauto_prefect.cli.options import Json, Paths, Url
from jobauto_prefect.errors import InvalidInput, JobautoError

if TYPE_CHECKING:
    from jobauto_prefect.cli.client import Client
    from jobauto_prefect.cli.documents import Document
    from jobauto_prefect.cli.plans import Change

SHOWN_LENGTH = 60  # characters of a value in the list of changes


def apply(
    paths: Paths,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show what would change, and change nothing.")
    ] = False,
    as_json: Json = False,
    url: Url = None,
) -> None:
    """Create and update applications, companies and run templates from files.

    A fault in any file stops before the first change. What the files do not name stays as it is.

    Examples: jobauto apply deployments/ · jobauto apply templates.yaml --yes
    """
    from jobauto_prefect.cli.client import Client, speak
    from jobauto_prefect.cli.plans import documents_in
    from jobauto_prefect.cli.show import counted

    if not (yes or dry_run) and (as_json or not sys.stdin.isatty()):
        raise typer.BadParameter(
            "there is nobody to ask: confirm with --yes, or look with --dry-run",
            param_hint="--yes",
        )
    documents = documents_in(paths)

    async def work(client: Client) -> None:
        changes = await plan_of(client, documents)
        wanted = [change for change in changes if change.action != "unchanged"]
        if not as_json:
            print_changes(changes)
        waiting = 0
        if wanted and not dry_run:
            if not yes:
                typer.confirm(f"Make {counted(len(wanted), 'change')}?", abort=True)
            waiting = await carry_out(client, wanted)
        _tell(changes, waiting, dry_run, as_json)

    speak(url, work, writes=not dry_run)


async def plan_of(client: "Client", documents: Sequence[Any]) -> list["Change"]:
    """What applying these documents would change."""
    from jobauto_prefect.cli.plans import Known, Planner

    return await Planner(client, await Known.of(client), documents).plan()


async def carry_out(client: "Client", changes: Sequence["Change"]) -> int:
    """Make the changes and wait for Prefect; how many of them Prefect does not know yet."""
    from rich.progress import Progress

    from jobauto_prefect.cli.show import messages

    terminal = messages().is_terminal
    with Progress(console=messages(), transient=True, disable=not terminal) as progress:
        writing = progress.add_task("Records", total=len(changes))
        writer = Writer(client)
        for done, change in enumerate(changes):
            await writer.write(change, done)
            progress.advance(writing)
        telling = progress.add_task("Prefect", total=None)
        most = 0

        def advance(left: int) -> None:
            nonlocal most
            most = max(most, left)
            progress.update(telling, total=most, completed=most - left)

        return await client.wait_for_prefect(advance)


class Writer:
    """Writes records one after the other."""

    def __init__(self, client: "Client") -> None:
        self._client = client
        self._apps: Mapping[int, Any] | None = None

    async def write(self, change: "Change", done: int) -> None:
        """Write one; `done` is how many were written before it.

        Raises:
            InvalidInput: with its place in the file.
        """
        try:
            await self._post(change)
        except InvalidInput as error:
            document = change.document
            faults = [document.placed(replace(fault, line=None)) for fault in error.faults]
            raise InvalidInput(faults, _stopped(change, "is refused", done)) from None
        except JobautoError as error:
            raise type(error)(_stopped(change, f"is refused: {error}", done)) from None

    async def _post(self, change: "Change") -> None:
        document = change.document
        if change.kind == "app" and document.raw is not None:
            await self._client.post_raw("app", document.raw)
        elif change.kind == "app":
            await self._client.post("app", document.content)
        elif change.kind == "company":
            await self._client.post("company", _members(document))
        else:
            await self._client.post("runtemplate", await self._with_app_id(_members(document)))

    async def _with_app_id(self, members: dict[str, Any]) -> dict[str, Any]:
        """The service knows names in its own language only; a file may use any."""
        from jobauto_prefect.cli.plans import means

        if self._apps is None:  # all applications are written by now
            self._apps = await self._client.list("apps")
        (app_id,) = [number for number, app in self._apps.items() if means(members, app)][:1]
        named = {name: value for name, value in members.items() if name not in ("app", "app_uuid")}
        return named | {"app_id": app_id}


def _members(document: "Document") -> dict[str, Any]:
    from jobauto_prefect.cli.plans import NOT_MEMBERS

    return {name: value for name, value in document.content.items() if name not in NOT_MEMBERS}


def _stopped(change: "Change", reason: str, done: int) -> str:
    from jobauto_prefect.cli.show import counted

    return f"{change.kind} {change.title} {reason}; {counted(done, 'change')} made before it"


def print_changes(changes: Sequence["Change"]) -> None:
    """The changes, those that are updates member by member."""
    from jobauto_prefect.cli.show import STYLES, printable, say

    for change in changes:
        words = f"{change.action:10}{change.kind:12}{change.title}"
        say(printable(words), style=STYLES[change.action])
        for name, (before, after) in change.fields.items():
            say(printable(f"            {name}: {_shown(before)} → {_shown(after)}"))


def _shown(value: Any) -> str:
    text = "nothing" if value is None else str(value)
    return text if len(text) <= SHOWN_LENGTH else text[: SHOWN_LENGTH - 1] + "…"


def _tell(changes: Sequence["Change"], waiting: int, dry_run: bool, as_json: bool) -> None:
    from jobauto_prefect.cli.show import counted, hint, print_json, say

    if as_json:
        listed = [change.as_dict() for change in changes]
        print_json({"dry_run": dry_run, "changes": listed, "waiting_for_prefect": waiting})
        return
    counts = Counter(change.action for change in changes)
    named = ", ".join(
        f"{counts[action]} {word}" for action, word in _words(dry_run).items() if counts[action]
    )
    say(named or "the files hold no records")
    if waiting:
        hint(
            f"Prefect does not know {counted(waiting, 'change')} yet; it is told when it answers, "
            "by jobauto services or jobauto up"
        )


def _words(dry_run: bool) -> dict[str, str]:
    if dry_run:
        return {"create": "to create", "update": "to update", "unchanged": "unchanged"}
    return {"create": "created", "update": "updated", "unchanged": "unchanged"}
