"""`jobauto plan` and `jobauto apply`: make the records match files."""

import contextlib
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from jobauto_prefect.cli.options import Json, Paths, Url, Yes
from jobauto_prefect.cli.output.plan import (
    Plan,
    hint_forbidden,
    hint_new_plan,
    hint_waiting,
    print_counts,
    print_plan,
    print_plan_json,
)
from jobauto_prefect.cli.output.terminal import error_console
from jobauto_prefect.errors import Conflict, Fault, InvalidInput, StalePlan
from jobauto_prefect.wording import pluralize

if TYPE_CHECKING:
    from jobauto_prefect.cli.connection.client import Client


MOST_PLANS = 5
"""How many plans to try or ask about if records keep changing meanwhile."""

WOULD_CHANGE = 3
"""Exit code of `plan` if something would change."""

Prune = Annotated[
    bool,
    typer.Option(
        "--prune",
        help="Delete each record that is in no file, if it has labels and all of them are in the "
        "files.",
    ),
]
Labels = Annotated[
    list[str] | None,
    typer.Option(
        "--label",
        metavar="LABEL",
        help="Give every record in the files this label, too; may be repeated.",
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

    It compares the files with the records, and the records with Prefect: apply restores what
    somebody changed in Prefect. Exit code 0: nothing would change; 3: something would.

    Examples: jobauto plan deployments/ · jobauto plan deployments/ --prune --label finance
    """
    from jobauto_prefect.cli.connection.client import call_facade

    wanted = ApplyRequest.of(paths, label or (), prune)
    planned = call_facade(url, wanted.planned, takes_long=True)
    if as_json:
        print_plan_json(planned, {})
    else:
        print_plan(planned)
        hint_forbidden(planned["forbidden"])
        print_counts(planned, would=True)
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
    """Make the records match the files.

    An error in any file stops the command before the first change. Records and fields that the
    files do not name stay as they are. After an interruption, repeat the command to continue. Files
    contain no secrets.

    Examples: jobauto apply deployments/ · jobauto apply team.yaml --prune --label team --yes
    """
    from jobauto_prefect.cli.connection.client import Client, call_facade

    if not (yes or dry_run) and (as_json or not sys.stdin.isatty()):
        raise typer.BadParameter(
            "there is no terminal to ask on: confirm with --yes, or preview with --dry-run",
            param_hint="--yes",
        )
    wanted = ApplyRequest.of(paths, label or (), prune)

    async def work(client: Client) -> None:
        approved, waiting = yes and not dry_run, 0
        planned = await (wanted.approved(client) if approved else wanted.planned(client))
        if not as_json:
            print_plan(planned)
        if approved:
            _require_permitted(planned)
            waiting = await _wait_for_prefect(client) if planned["applied"] else 0
        elif not dry_run:
            planned, waiting = await apply_plan(client, wanted, planned, _confirm, quiet=as_json)
        if as_json:
            print_plan_json(planned, {"dry_run": dry_run, "waiting_for_prefect": waiting})
        else:
            print_counts(planned, would=dry_run)
            hint_waiting(waiting)

    call_facade(url, work, writes=not dry_run, takes_long=True)


def _confirm(planned: Plan) -> None:
    typer.confirm(f"Make {pluralize(len(changes_in(planned)), 'change')}?", abort=True)


@dataclass(frozen=True, slots=True)
class ApplyRequest:
    """The files to apply, with labels and pruning, as the body of `POST /apply`."""

    files: Sequence[Mapping[str, str]] = field(repr=False)
    unread: Sequence[Fault] = ()
    labels: Sequence[str] = ()
    prune: bool = False

    @classmethod
    def of(
        cls, paths: Iterable[Path], labels: Sequence[str] = (), prune: bool = False
    ) -> "ApplyRequest":
        """Read the files.

        Raises:
            BadParameter: a label is invalid.
        """
        import re

        from jobauto_prefect.cli.files.reader import read_texts

        for label in labels:
            if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}", label):
                message = f"{label!r} may only have letters, digits, ., - and _"
                raise typer.BadParameter(message, param_hint="--label")
        return cls(*read_texts(paths), labels, prune)

    async def planned(self, client: "Client") -> Plan:
        """Request the plan.

        Raises:
            InvalidInput: all errors of all files.
        """
        return await self._asked(client)

    async def carried_out(self, client: "Client", digest: str) -> Plan:
        """Carry out the plan with this digest.

        Raises:
            StalePlan: the plan has changed meanwhile.
        """
        return await self._asked(client, digest=digest)

    async def approved(self, client: "Client") -> Plan:
        """Carry out whatever the plan is, unless it has forbidden changes.

        Raises:
            InvalidInput: all errors of all files.
        """
        with _progress("Records"):
            return await self._asked(client, auto_approve=not self.unread)

    async def _asked(self, client: "Client", **more: str | bool) -> Plan:
        members = {"files": self.files, "labels": self.labels, "prune": self.prune}
        try:
            planned: Plan = await client.apply(members | more)
        except InvalidInput as error:
            # A reference to an unreadable file is not an error itself.
            faults = [
                fault for fault in error.faults if not self.unread or fault.rule != "reference"
            ]
            raise InvalidInput([*self.unread, *faults], str(error)) from None
        if self.unread:
            raise InvalidInput(self.unread, "not all files can be read; nothing was changed")
        return planned


def changes_in(planned: Plan) -> list[Any]:
    """Select the actual changes of a plan."""
    return [change for change in planned["changes"] if change["action"] != "unchanged"]


async def apply_plan(
    client: "Client",
    wanted: ApplyRequest,
    planned: Plan,
    agree: Callable[[Plan], None] | None = None,
    *,
    quiet: bool = False,
) -> tuple[Plan, int]:
    """Make the changes of a plan and wait for Prefect.

    `agree` must confirm each plan. If somebody changed the records meanwhile there is a new plan,
    which is shown unless `quiet`, up to `MOST_PLANS` times.

    Raises:
        InvalidInput: this user may not make some of the changes.
        Conflict: the records changed meanwhile each time.
    """
    for _ in range(MOST_PLANS):
        if not changes_in(planned):
            return planned, 0
        _require_permitted(planned)
        if agree is not None:
            agree(planned)
        try:
            with _progress("Records"):
                done = await wanted.carried_out(client, planned["digest"])
            return done, await _wait_for_prefect(client)
        except StalePlan as stale:
            planned = dict(stale.plan)
            hint_new_plan()
            if not quiet:
                print_plan(planned)
    raise Conflict(
        f"somebody else changed the same records {MOST_PLANS} times meanwhile; "
        "nothing was changed; try again"
    )


def _require_permitted(planned: Plan) -> None:
    """Require that this user may make all changes of a plan.

    Raises:
        InvalidInput: names those that are not allowed.
    """
    if planned["forbidden"]:
        faults = [Fault(**fields) for fields in planned["forbidden"]]
        raise InvalidInput(faults, "you may not make all of these changes; nothing was changed")


@contextlib.contextmanager
def _progress(what: str) -> Iterator[Callable[[int], None]]:
    """Show progress on a terminal; the yielded function takes how much is left."""
    from rich.progress import Progress

    terminal = error_console().is_terminal
    with Progress(console=error_console(), transient=True, disable=not terminal) as progress:
        task = progress.add_task(what, total=None)
        most = 0

        def advance(left: int) -> None:
            nonlocal most
            most = max(most, left)
            progress.update(task, total=most, completed=most - left)

        yield advance


async def _wait_for_prefect(client: "Client") -> int:
    """Wait until Prefect has all changes; return how many it lacks."""
    with _progress("Prefect") as advance:
        return await client.wait_for_prefect(advance)
