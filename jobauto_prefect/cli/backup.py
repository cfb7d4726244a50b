"""`jobauto backup` and `jobauto restore`: a whole installation in one file, and a new one of it."""

import contextlib
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from jobauto_prefect.cli.options import Json

if TYPE_CHECKING:
    from jobauto_prefect.backup.archive import Manifest
    from jobauto_prefect.backup.restoring import Restored

PassphraseFile = Annotated[
    Path | None,
    typer.Option("--passphrase-file", metavar="FILE", help="Its first line is the passphrase."),
]
PassphraseStdin = Annotated[
    bool, typer.Option("--passphrase-stdin", help="Read the passphrase from standard input.")
]
LOST = ("job", "run template", "worker", "its time is up")
WAITING = ("job", "run template", "due")
WINDOWS = ("run template", "windows", "first", "last", "what becomes of them")
DIFFERENCES = ("kind", "id", "record", "what")
SETTINGS = ("setting", "in the backup", "here")
SHOWN = 20  # rows of a table; all of them with --json


def backup(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="File to write; a new one.")],
    passphrase_file: PassphraseFile = None,
    passphrase_stdin: PassphraseStdin = False,
    as_json: Json = False,
) -> None:
    """Write a backup of ledger, Prefect's database, key and settings, while everything runs.

    Key and settings are encrypted with the passphrase: without it the backup can't be restored.
    Outputs of jobs, records and hashes of passwords are in the databases as they are: keep the file
    closed to others.

    Example: jobauto backup /backups/jobauto-$(date +%F).backup --passphrase-file /root/passphrase
    """
    from jobauto_prefect.backup.making import make
    from jobauto_prefect.cli.local import opened, operator
    from jobauto_prefect.cli.show import print_json
    from jobauto_prefect.settings import load_settings

    passphrase = _passphrase(passphrase_file, stdin=passphrase_stdin, twice=True)
    with opened() as ledger, _progress(shown=not as_json) as progress:
        made = make(load_settings(), ledger, file, passphrase, operator(), progress)
    if as_json:
        print_json({"path": str(made.path), "size": made.size, **_shown(made.manifest)})
    else:
        _print_made(made.path, made.size, made.manifest)


def restore(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A backup.")],
    passphrase_file: PassphraseFile = None,
    passphrase_stdin: PassphraseStdin = False,
    as_json: Json = False,
) -> None:
    """Make a new installation of a backup, in an empty home (and empty databases of PostgreSQL).

    It is frozen until jobauto resume, and the tokens of its workers are revoked. End the
    installation that the backup is of: it would go on with the same work.

    Example: JOBAUTO_HOME=/srv/jobauto jobauto restore jobauto.backup
    """
    from jobauto_prefect.backup.archive import read
    from jobauto_prefect.backup.restoring import restore as make_anew
    from jobauto_prefect.cli.local import operator
    from jobauto_prefect.cli.show import print_json
    from jobauto_prefect.settings import load_settings

    settings = load_settings()
    with _progress(shown=not as_json) as progress:
        found = read(
            file, lambda: _passphrase(passphrase_file, stdin=passphrase_stdin, twice=False)
        )
        done = make_anew(settings, found, operator(), lambda what: progress(what, 0, 0))
    if as_json:
        print_json(_as_json(done))
    else:
        _print_restored(done)


def _passphrase(file: Path | None, *, stdin: bool, twice: bool) -> str:
    """The passphrase that is given or asked for, on a terminal alone."""
    if file is not None and stdin:
        raise typer.BadParameter("give --passphrase-file or --passphrase-stdin, not both")
    if file is not None:
        try:
            return (file.read_text().splitlines() or [""])[0]
        except OSError as error:
            message = f"{file} can't be read: {error.strerror}"
            raise typer.BadParameter(message, param_hint="--passphrase-file") from None
    if stdin:
        return sys.stdin.readline().rstrip("\r\n")
    if not sys.stdin.isatty():
        raise typer.BadParameter("there is no terminal: --passphrase-file, or --passphrase-stdin")
    return str(typer.prompt("Passphrase", hide_input=True, confirmation_prompt=twice, err=True))


@contextlib.contextmanager
def _progress(*, shown: bool) -> Iterator[Callable[[str, int, int], None]]:
    """What is being done, on a terminal."""
    if not (shown and sys.stderr.isatty()):
        yield lambda _what, _done, _of: None
        return
    from rich.progress import Progress

    from jobauto_prefect.cli.show import messages

    tasks: dict[str, Any] = {}
    with Progress(console=messages(), transient=True) as bars:

        def tell(what: str, done: int, of: int) -> None:
            if what not in tasks:
                for task in tasks.values():
                    bars.update(task, total=1, completed=1)
                tasks[what] = bars.add_task(what, total=None)
            if of:
                bars.update(tasks[what], total=of, completed=done)

        yield tell


def _shown(manifest: "Manifest") -> dict[str, Any]:
    said = asdict(manifest)
    return {name: said[name] for name in said if name not in ("settings", "format")}


def _print_made(path: Path, size: int, manifest: "Manifest") -> None:
    from jobauto_prefect.cli.show import hint, moment, printable, say

    say(printable(f"{path}: {size / 2**20:.1f} MiB, as of {moment(manifest.taken_at)}"))
    if manifest.prefect_missing is not None:
        say(printable(f"without Prefect: {manifest.prefect_missing}"), style="yellow")
        hint(
            "back it up where it is; or name its database in PREFECT_SERVER_DATABASE_CONNECTION_URL"
        )
    hint("it can't be restored without the passphrase: keep that elsewhere")


def _as_json(done: "Restored") -> dict[str, Any]:
    begun = done.begun
    return {
        "home": str(done.home),
        **_shown(done.manifest),
        "frozen_since": begun.frozen_since.isoformat(),
        "tokens_revoked": begun.revoked,
        "lost": [_plain(one) for one in begun.lost],
        "waiting": [_plain(one) for one in done.waiting],
        "windows": [_plain(one) for one in done.windows],
        "differences": [_plain(one) for one in done.differences],
        "told_again": begun.told_again,
        "differing_settings": {
            name: {"backup": before, "here": here} for name, (before, here) in done.settings.items()
        },
        "files": [{"path": str(one.path), "not_in_effect": one.why} for one in done.files],
    }


def _plain(record: Any) -> dict[str, Any]:
    return {
        name: value.isoformat() if isinstance(value, datetime) else value
        for name, value in asdict(record).items()
    }


def _print_restored(done: "Restored") -> None:
    from jobauto_prefect.cli.show import hint, moment, printable, say

    begun, manifest = done.begun, done.manifest
    say(printable(f"restored into {done.home}, as of {moment(manifest.taken_at)}"))
    say("frozen until jobauto resume: nothing starts")
    if manifest.prefect_missing is not None:
        say(printable(f"without Prefect: {manifest.prefect_missing}"), style="yellow")
    say(f"worker tokens revoked: {begun.revoked}; new ones: jobauto token issue --worker")
    _table(
        "These jobs ran; they are lost, and tried again as docs/tasks.md says (Lost attempts):",
        LOST,
        [(one.job_id, one.runtemplate, one.worker, _time(one.ends_by)) for one in begun.lost],
    )
    _table(
        "These jobs waited for a worker; they start after jobauto resume:",
        WAITING,
        [(one.job_id, one.runtemplate, _time(one.schedule)) for one in done.waiting],
    )
    _table(
        "These windows passed since:",
        WINDOWS,
        [
            (one.runtemplate, one.count, _time(one.first), _time(one.last), _fate(one))
            for one in done.windows
        ],
    )
    _table(
        "Ledger and Prefect differ:",
        DIFFERENCES,
        [(one.kind, one.id, one.record, one.what) for one in done.differences],
    )
    _table(
        "These settings are not what they were:",
        SETTINGS,
        [(name, before, here) for name, (before, here) in done.settings.items()],
    )
    for one in done.files:
        state = "in effect" if one.why is None else f"not in effect: {one.why}"
        say(printable(f"{one.path} ({state})"))
    hint("start it: jobauto up; look at it: jobauto doctor; then let it work: jobauto resume")


def _fate(windows: Any) -> str:
    """What becomes of windows in this state of their tasks."""
    if windows.state == "open":
        return "start after jobauto resume"
    return f"{windows.state} ({windows.reason})" if windows.reason else str(windows.state)


def _time(instant: datetime | None) -> str:
    from jobauto_prefect.cli.show import moment

    return "" if instant is None else moment(instant.isoformat())


def _table(title: str, columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
    from jobauto_prefect.cli.show import hint, print_table, say

    if not rows:
        return
    say(title)
    print_table(columns, rows[:SHOWN])
    if len(rows) > SHOWN:
        hint(f"these are the first {SHOWN} of {len(rows)}; all of them with --json")
