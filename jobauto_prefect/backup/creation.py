"""Backs up a running installation."""

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from pathlib import Path

from jobauto_prefect.backup import archive
from jobauto_prefect.backup.archive import Manifest, require_passphrase
from jobauto_prefect.backup.content import Member
from jobauto_prefect.backup.databases import LEDGER, SQLITE, Database, databases_of
from jobauto_prefect.backup.installation import (
    effective_settings,
    read_settings_files,
    service_environment,
    versions,
)
from jobauto_prefect.errors import Conflict, LedgerUnavailable, NotReady
from jobauto_prefect.home import PRIVATE, sync_folder
from jobauto_prefect.ledger.audit.trail import Actor, write_entry
from jobauto_prefect.ledger.database import migration
from jobauto_prefect.ledger.secrets import rotation_lock
from jobauto_prefect.ledger.store import Ledger
from jobauto_prefect.settings import Settings, host_name

Progress = Callable[[str, int, int], None]
"""Called with the name of the current step, how much of it is done, and of what (0: unknown)."""


@dataclass(frozen=True, slots=True)
class CreatedBackup:
    """A finished backup: the file, its size, and its description."""

    path: Path
    size: int
    manifest: Manifest


def create_backup(
    settings: Settings,
    ledger: Ledger,
    target: Path,
    passphrase: str,
    actor: Actor,
    progress: Progress = lambda _name, _done, _of: None,
) -> CreatedBackup:
    """Write a backup to a new file, 0600: Prefect's database first, the ledger's last.

    So the ledger never knows less than Prefect, and what Prefect lacks is sent to it after a
    restore. The key is read after the ledger, under the lock of its rotation, so it opens
    everything sealed there.

    Raises:
        Conflict: the file exists, or another backup or a rotation is in progress.
        InvalidInput: the passphrase is too short.
        NotReady: a required program or the folder is missing.
        LedgerUnavailable: a database does not answer.
    """
    require_passphrase(passphrase)
    target = target.absolute()
    with rotation_lock(ledger.box.path), _staging(target) as folder:
        manifest, contents = _dump(settings, ledger, folder, progress)
        secrets = {
            "key": ledger.box.path.read_text(),
            "files": read_settings_files(),
            "environment": service_environment(),
        }
        progress("writing the file", 0, 0)
        whole = folder / "whole"
        archive.write_backup(whole, manifest, contents, secrets, passphrase)
        size = whole.stat().st_size
        with ledger.writing(actor) as session:
            made = {"file": [None, str(target)], "size": [None, size]}
            write_entry(session, "Backup", "create", made)
        _require_new(target)
        whole.rename(target)
        sync_folder(target.parent)
    return CreatedBackup(target, size, manifest)


@contextmanager
def _staging(target: Path) -> Iterator[Path]:
    """Make a temporary folder beside the file, 0700; first delete what a killed backup left.

    Raises:
        Conflict: the file exists.
        NotReady: nothing can be written there.
    """
    _require_new(target)
    folder = target.with_name(f".{target.name}.partial")
    try:
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(PRIVATE)
    except OSError as error:
        raise NotReady(
            f"nothing can be written to {target.parent}: {error.strerror}; name another folder"
        ) from None
    try:
        yield folder
    except OSError as error:
        raise NotReady(
            f"the backup can't be written to {target.parent}: {error.strerror or error}; it takes"
            " twice its size while it is made"
        ) from error
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _require_new(target: Path) -> None:
    if target.exists():
        raise Conflict(f"{target} already exists; name another file, or move that one away")


def _dump(
    settings: Settings, ledger: Ledger, folder: Path, progress: Progress
) -> tuple[Manifest, dict[str, Path]]:
    of_prefect, of_ledger = databases_of(settings)
    is_shared = of_ledger.is_same(of_prefect)
    missing = None if is_shared else _missing(of_prefect)
    contents: dict[str, Path] = {}
    members: dict[str, Member] = {}
    times: dict[str, datetime] = {}
    for database in (of_ledger,) if is_shared or missing else (of_prefect, of_ledger):
        path = contents[database.name] = folder / database.member
        times[database.name] = ledger.clock()
        what = f"copying the database of {database.name}"
        progress(what, 0, 0)
        tool = database.dump(path, partial(progress, what))
        size = path.stat().st_size
        members[database.name] = Member(
            database.member, database.kind, size, archive.sha256_of(path), tool
        )
    jobauto, prefect = versions()
    of_prefect_at = times[LEDGER] if is_shared else times.get(of_prefect.name)
    return (
        Manifest(
            jobauto=jobauto,
            prefect=prefect,
            migration=migration.newest(),
            taken_at=times[LEDGER].isoformat(),
            prefect_taken_at=of_prefect_at.isoformat() if of_prefect_at else None,
            prefect_missing=missing,
            is_shared=is_shared,
            host=host_name(),
            databases=members,
            settings=effective_settings(settings),
        ),
        contents,
    )


def _missing(database: Database) -> str | None:
    """Return why Prefect has nothing to copy here, or None if it has."""
    if database.kind == SQLITE:
        if database.file.exists():
            return None
        return f"there is no Prefect database at {database.file}"
    try:
        if database.holds_anything():
            return None
    except LedgerUnavailable as error:
        return f"Prefect's database can't be reached: {error}"
    return "Prefect's database is empty"
