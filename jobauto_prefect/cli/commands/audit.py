"""`jobauto audit`: who changed what."""

import contextlib
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from jobauto_prefect.cli.options import Json, Limit, Url
from jobauto_prefect.cli.output.terminal import (
    format_time,
    print_hint,
    print_json,
    print_line,
    print_table,
)
from jobauto_prefect.wording import escape_controls, pluralize

if TYPE_CHECKING:
    from jobauto_prefect.ledger.audit.seal_verification import Verification

group = typer.Typer(help="The audit trail: who changed what.", no_args_is_help=True)

DEFAULT_ROWS = 25
PAGE = 1000

User = Annotated[
    str | None, typer.Option("--user", metavar="LOGIN", help="Only what this user did.")
]
Entity = Annotated[
    str | None, typer.Option("--entity", metavar="KIND", help="Only this kind: Job, Company …")
]
EntityId = Annotated[
    int | None, typer.Option("--id", metavar="ID", min=1, help="Only the record with this number.")
]
Action = Annotated[
    str | None, typer.Option("--action", help="create, update, delete, login or refuse.")
]
Since = Annotated[str | None, typer.Option("--from", metavar="TIME", help="From this time on.")]
Until = Annotated[str | None, typer.Option("--to", metavar="TIME", help="Before this time.")]


def _given_filters(**given: Any) -> dict[str, Any]:
    return {name.rstrip("_"): value for name, value in given.items() if value is not None}


@group.command("list")
def list_entries(
    user: User = None,
    entity: Entity = None,
    entity_id: EntityId = None,
    action: Action = None,
    since: Since = None,
    until: Until = None,
    as_json: Json = False,
    url: Url = None,
    limit: Limit = None,
) -> None:
    """List audit entries, the newest first.

    Example: jobauto audit list --entity RunTemplate --action delete --from "2026-05-01 00:00:00"
    """
    from jobauto_prefect.cli.connection.client import call_facade

    asked = _given_filters(
        user_id=user, entity_type=entity, entity_id=entity_id, action=action, from_=since, to=until
    )
    rows = limit or DEFAULT_ROWS
    entries = call_facade(url, lambda client: client.get("/auditlog.json", **asked, limit=rows))
    if as_json:
        print_json(entries)
        return
    print_table(
        ("id", "when", "who", "door", "what", "record", "changed"),
        [
            (
                entry["id"],
                format_time(entry["created_at"]),
                entry["actor"],
                entry["door"],
                entry["action"],
                f"{entry['entity_type']} {entry['entity_id'] or ''}".rstrip(),
                ", ".join(entry["changes"]),
            )
            for entry in entries.values()
        ],
    )
    if len(entries) >= rows:
        print_hint(f"these are the newest {rows}; more with --limit, all with jobauto audit export")


@group.command()
def export(
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="File to write; default: standard output.")
    ] = None,
    entity: Entity = None,
    action: Action = None,
    since: Since = None,
    until: Until = None,
    url: Url = None,
) -> None:
    """Write audit entries as JSON Lines, the oldest first.

    Example: jobauto audit export --from 2026-01-01 --to 2027-01-01 -o audit-2026.jsonl
    """
    from jobauto_prefect.cli.connection.client import Client, call_facade

    asked = _given_filters(entity_type=entity, action=action, from_=since, to=until)

    async def write(client: Client) -> int:
        written = 0
        with output.open("x") if output else contextlib.nullcontext(sys.stdout) as file:
            query, is_more = {**asked, "order": "id", "limit": PAGE}, True
            while is_more:
                entries, query["cursor"] = await client.page("/auditlog.json", **query)
                is_more = query["cursor"] is not None
                for entry in entries.values():
                    file.write(json.dumps(entry, ensure_ascii=False) + "\n")
                    written += 1
        return written

    try:
        written = call_facade(url, write)
    except FileExistsError:
        raise typer.BadParameter(
            f"{output} already exists; name another file", param_hint="-o"
        ) from None
    if output is not None:
        print_line(f"{pluralize(written, 'line')} in {output}")


@group.command()
def verify(
    log: Annotated[
        list[typer.FileText] | None,
        typer.Option(
            "--log",
            metavar="FILE",
            errors="replace",
            help="A log of the services, or - for standard input; the seals that it names must be"
            " in the ledger.",
        ),
    ] = None,
    archive: Annotated[
        list[Path] | None,
        typer.Option(
            "--archive",
            metavar="FILE",
            exists=True,
            dir_okay=False,
            help="A file of jobauto audit archive: it must match the ledger.",
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """Check whether anything in the audit trail was changed, removed or cut off.

    If so, the exit code is 1. It reads the ledger of this machine and needs its key. Only --log,
    with a log of the services, reveals that the whole database was replaced by an older copy.

    Example: journalctl -u jobauto-services | jobauto audit verify --log -
    """
    from itertools import chain

    from jobauto_prefect.cli.local_ledger import open_local_ledger
    from jobauto_prefect.ledger.audit.seal_verification import verify as compare
    from jobauto_prefect.ledger.audit.seals import marks_in

    with open_local_ledger() as ledger:
        result = compare(ledger, marks_in(chain.from_iterable(log or ())), archive or ())
    if as_json:
        newest = result.newest._asdict() if result.seals else None
        print_json(
            {
                "intact": not result.damages,
                "damages": list(result.damages),
                "entries": result.entries,
                "seals": result.seals,
                "archived": result.archived,
                "newest": newest,
                "unsealed": result.unsealed,
                "unsealed_since": result.unsealed_since and result.unsealed_since.isoformat(),
            }
        )
    else:
        _print_verification(result)
    if result.damages:
        raise typer.Exit(1)


@group.command("archive")
def archive_months(
    directory: Annotated[
        Path,
        typer.Argument(
            metavar="DIRECTORY", exists=True, file_okay=False, help="Folder for the files."
        ),
    ],
    keep: Annotated[
        int | None,
        typer.Option(
            "--keep",
            metavar="MONTHS",
            min=1,
            help="Whole months to leave in the ledger; default: JOBAUTO_KEEP_AUDIT_MONTHS.",
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """Move old months of the audit trail from the ledger to files, with their seals.

    Writes a file for each month, such as audit-2026-05.jsonl.gz. The ledger keeps the digests of
    the files: the trail can be verified without the files, and the files against the trail. After
    an interruption, repeat the command to continue. It must connect as the owner of the database.

    Example: jobauto audit archive /srv/audit --keep 12
    """
    from jobauto_prefect.cli.local_ledger import local_actor, open_local_ledger
    from jobauto_prefect.ledger.audit.archive_files import archive, file_name, whole_months_before
    from jobauto_prefect.settings import load_settings

    months = keep or load_settings().keep_audit_months
    made = []
    with open_local_ledger() as ledger:
        before = whole_months_before(ledger.clock(), months)
        for month in archive(ledger, local_actor(), before, directory):
            path = directory / file_name(month.month)
            made.append({"file": str(path), "entries": month.entries, "digest": month.digest})
            if not as_json:
                print_line(f"{path}; entries: {month.entries}")
    if as_json:
        print_json({"archived": made})
    elif not made:
        print_line(f"nothing is older than {pluralize(months, 'whole month')}")


def _print_verification(result: "Verification") -> None:
    from jobauto_prefect.ledger.audit.seals import log_mark

    for damage in result.damages:
        print_line(escape_controls(damage), style="bold red")
    state = "NOT intact" if result.damages else "intact"
    sealed = f"entries: {result.entries} in {pluralize(result.seals, 'seal')}"
    print_line(f"the audit trail is {state}; {sealed}")
    if result.archived:
        print_line(f"in archives: {result.archived}")
    if result.seals:
        print_line(f"newest: {log_mark(result.newest)}")
    if result.unsealed_since is not None:
        since = format_time(result.unsealed_since.isoformat())
        print_hint(
            f"not in a seal yet: {result.unsealed} since {since}; jobauto services start seals them"
        )
