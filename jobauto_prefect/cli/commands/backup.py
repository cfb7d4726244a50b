"""`jobauto backup` and `jobauto restore`: a whole installation in one file, and back."""

import sys
from collections.abc import Sequence
from dataclasses import asdict
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from jobauto_prefect.cli.options import Json
from jobauto_prefect.cli.output.terminal import (
    format_time,
    print_hint,
    print_json,
    print_line,
    print_table,
    show_progress,
)
from jobauto_prefect.wording import escape_controls

if TYPE_CHECKING:
    from jobauto_prefect.backup.archive import Manifest
    from jobauto_prefect.backup.restoration import RestoredInstallation

PassphraseFile = Annotated[
    Path | None,
    typer.Option("--passphrase-file", metavar="FILE", help="Its first line is the passphrase."),
]
PassphraseStdin = Annotated[
    bool, typer.Option("--passphrase-stdin", help="Read the passphrase from standard input.")
]
LOST = ("job", "run template", "worker", "time limit")
WAITING = ("job", "run template", "due")
WINDOWS = ("run template", "windows", "first", "last", "what happens to them")
DIFFERENCES = ("kind", "id", "record", "what")
SETTINGS = ("setting", "in the backup", "here")
SHOWN = 20  # rows of a table; --json has all of them


def backup(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="File to create.")],
    passphrase_file: PassphraseFile = None,
    passphrase_stdin: PassphraseStdin = False,
    as_json: Json = False,
) -> None:
    """Back up ledger, Prefect's database, key and settings, while everything runs.

    Key and settings are encrypted with the passphrase: without it the backup can't be restored. The
    databases are not encrypted; they contain job output, records and password hashes: keep the file
    private.

    Example: jobauto backup /backups/jobauto-$(date +%F).backup --passphrase-file /root/passphrase
    """
    from jobauto_prefect.backup.creation import create_backup
    from jobauto_prefect.cli.local_ledger import local_actor, open_local_ledger
    from jobauto_prefect.settings import load_settings

    passphrase = _read_passphrase(passphrase_file, stdin=passphrase_stdin, twice=True)
    with open_local_ledger() as ledger, show_progress(shown=not as_json) as progress:
        made = create_backup(load_settings(), ledger, file, passphrase, local_actor(), progress)
    if as_json:
        print_json({"path": str(made.path), "size": made.size, **_manifest_fields(made.manifest)})
    else:
        size, at = f"{made.size / 2**20:.1f} MiB", format_time(made.manifest.taken_at)
        print_line(escape_controls(f"{made.path}: {size}, as of {at}"))
        missing = made.manifest.prefect_missing
        if missing is not None:
            print_line(escape_controls(f"without Prefect: {missing}"), style="yellow")
            print_hint(
                "back it up where it is; or name its database in"
                " PREFECT_SERVER_DATABASE_CONNECTION_URL"
            )
        print_hint("it can't be restored without the passphrase: keep that elsewhere")


def restore(
    file: Annotated[
        Path, typer.Argument(metavar="FILE", exists=True, dir_okay=False, help="A backup.")
    ],
    passphrase_file: PassphraseFile = None,
    passphrase_stdin: PassphraseStdin = False,
    as_json: Json = False,
) -> None:
    """Restore a backup as a new installation, in an empty home (and empty PostgreSQL databases).

    The new installation is frozen until jobauto resume, and its workers' tokens are revoked. Stop
    the original installation, which would continue with the same work.

    Example: JOBAUTO_HOME=/srv/jobauto jobauto restore jobauto.backup
    """
    from jobauto_prefect.backup.archive import open_backup
    from jobauto_prefect.backup.restoration import restore_backup as make_anew
    from jobauto_prefect.cli.local_ledger import local_actor
    from jobauto_prefect.settings import load_settings

    settings = load_settings()
    with (
        show_progress(shown=not as_json) as progress,
        open_backup(
            file, lambda: _read_passphrase(passphrase_file, stdin=passphrase_stdin, twice=False)
        ) as archive,
    ):
        done = make_anew(settings, archive, local_actor(), lambda what: progress(what, 0, 0))
    if as_json:
        print_json(_restored_fields(done))
    else:
        _print_restored(done)


def _read_passphrase(file: Path | None, *, stdin: bool, twice: bool) -> str:
    """Read the passphrase from a file or standard input, or ask for it on a terminal."""
    if file is not None and stdin:
        raise typer.BadParameter("give --passphrase-file or --passphrase-stdin, not both")
    if file is not None:
        try:
            return (file.read_text().splitlines() or [""])[0]
        except (OSError, UnicodeError) as error:
            reason = getattr(error, "strerror", None) or "it is not UTF-8 text"
            message = f"{file} can't be read: {reason}"
            raise typer.BadParameter(message, param_hint="--passphrase-file") from None
    if stdin:
        return sys.stdin.readline().rstrip("\r\n")
    if not sys.stdin.isatty():
        raise typer.BadParameter(
            "there is no terminal: use --passphrase-file or --passphrase-stdin"
        )
    return str(typer.prompt("Passphrase", hide_input=True, confirmation_prompt=twice, err=True))


def _manifest_fields(manifest: "Manifest") -> dict[str, Any]:
    fields = asdict(manifest)
    return {name: fields[name] for name in fields if name not in ("settings", "format")}


def _restored_fields(done: "RestoredInstallation") -> dict[str, Any]:
    begun = done.begun
    return {
        "home": str(done.home),
        **_manifest_fields(done.manifest),
        "frozen_since": begun.frozen_since.isoformat(),
        "tokens_revoked": begun.revoked,
        "lost": [_plain_fields(job) for job in begun.lost],
        "waiting": [_plain_fields(job) for job in done.waiting],
        "windows": [_plain_fields(window) for window in done.windows],
        "differences": [_plain_fields(difference) for difference in done.differences],
        "told_again": begun.told_again,
        "differing_settings": {
            name: {"backup": before, "here": here} for name, (before, here) in done.settings.items()
        },
        "files": [{"path": str(file.path), "not_in_effect": file.why} for file in done.files],
    }


def _plain_fields(record: Any) -> dict[str, Any]:
    return {
        name: value.isoformat() if isinstance(value, datetime) else value
        for name, value in asdict(record).items()
    }


def _print_restored(done: "RestoredInstallation") -> None:
    begun, manifest = done.begun, done.manifest
    print_line(
        escape_controls(f"restored into {done.home}, as of {format_time(manifest.taken_at)}")
    )
    print_line("frozen until jobauto resume: nothing starts")
    if manifest.prefect_missing is not None:
        print_line(escape_controls(f"without Prefect: {manifest.prefect_missing}"), style="yellow")
    print_line(f"worker tokens revoked: {begun.revoked}; new ones: jobauto token issue --worker")
    _print_rows(
        "These jobs were running; they are lost, and retried (docs/tasks.md, Lost attempts):",
        LOST,
        [
            (job.job_id, job.runtemplate, job.worker, _format_time(job.ends_by))
            for job in begun.lost
        ],
    )
    _print_rows(
        "These jobs were waiting for a worker; they start after jobauto resume:",
        WAITING,
        [(job.job_id, job.runtemplate, _format_time(job.schedule)) for job in done.waiting],
    )
    _print_rows(
        "These windows have passed since:",
        WINDOWS,
        [
            (
                window.runtemplate,
                window.count,
                _format_time(window.first),
                _format_time(window.last),
                _disposition_text(window),
            )
            for window in done.windows
        ],
    )
    _print_rows(
        "Ledger and Prefect differ:",
        DIFFERENCES,
        [
            (difference.kind, difference.id, difference.record, difference.what)
            for difference in done.differences
        ],
    )
    _print_rows(
        "These settings have changed:",
        SETTINGS,
        [(name, before, here) for name, (before, here) in done.settings.items()],
    )
    for file in done.files:
        state = "in effect" if file.why is None else f"not in effect: {file.why}"
        print_line(escape_controls(f"{file.path} ({state})"))
    print_hint(
        "start it: jobauto up; check it: jobauto doctor; then let it run jobs: jobauto resume"
    )


def _disposition_text(windows: Any) -> str:
    """Describe what will happen to windows whose tasks have this state."""
    if windows.state == "open":
        return "start after jobauto resume"
    return f"{windows.state} ({windows.reason})" if windows.reason else str(windows.state)


def _format_time(instant: datetime | None) -> str:
    return "" if instant is None else format_time(instant.isoformat())


def _print_rows(title: str, columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
    if not rows:
        return
    print_line(title)
    print_table(columns, rows[:SHOWN])
    if len(rows) > SHOWN:
        print_hint(f"these are the first {SHOWN} of {len(rows)}; all of them with --json")
