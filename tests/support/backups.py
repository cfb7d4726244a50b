"""An installation, its backup, and a new one that is made of it."""

import io
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jobauto_prefect.backup.archive import Backup, open_backup
from jobauto_prefect.backup.creation import CreatedBackup, create_backup
from jobauto_prefect.backup.databases import Database
from jobauto_prefect.backup.restoration import RestoredInstallation, restore_backup
from jobauto_prefect.errors import BackupDamaged, Conflict, NotFound
from jobauto_prefect.ledger.audit.trail import SERVICE
from jobauto_prefect.ledger.store import Ledger
from jobauto_prefect.settings import Settings
from tests.support.databases import database
from tests.support.secrets import secret

PASSPHRASE = secret("correct horse")
REFUSALS = (BackupDamaged, Conflict, NotFound)
Entry = tuple[tarfile.TarInfo, bytes]
"""A member of a backup."""


@dataclass(frozen=True, slots=True)
class Installations:
    """An installation to be backed up, and room for a new one with databases of the same kind."""

    settings: Settings
    ledger: Ledger
    empty: Settings
    file: Path

    def make(self) -> CreatedBackup:
        return create_backup(self.settings, self.ledger, self.file, PASSPHRASE, SERVICE)

    @contextmanager
    def opened(self) -> Iterator[Backup]:
        with open_backup(self.file, lambda: PASSPHRASE) as backup:
            yield backup

    def restore(self, settings: Settings | None = None) -> RestoredInstallation:
        with self.opened() as backup:
            return restore_backup(settings or self.empty, backup, SERVICE)


@contextmanager
def opened(path: Path) -> Iterator[Backup]:
    """A file, with the passphrase."""
    with open_backup(path, lambda: PASSPHRASE) as backup:
        yield backup


def taken(path: Path) -> tuple[Any, ...] | None:
    """What a reader gets of a file; None: one clear line."""
    try:
        with opened(path) as backup:
            return (
                backup.manifest,
                backup.secrets,
                [
                    b"".join(iter(backup.content(name).read, b""))
                    for name in backup.manifest.databases
                ],
            )
    except REFUSALS as error:
        said = str(error)
    assert "\n" not in said
    assert len(said) < 500
    return None


def entries(content: bytes) -> list[Entry]:
    """The members of a file."""
    with tarfile.open(fileobj=io.BytesIO(content)) as archive:
        return [
            (entry, archive.extractfile(entry).read())  # type: ignore[union-attr]
            for entry in archive
        ]


def archive_of(
    members: list[Entry], form: int = tarfile.PAX_FORMAT, headers: dict[str, str] | None = None
) -> bytes:
    """A file of members, in a form of tar."""
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w", format=form, pax_headers=headers) as archive:
        for entry, content in members:
            archive.addfile(entry, io.BytesIO(content))
    return file.getvalue()


def renamed(entry: Entry, **changes: Any) -> Entry:
    """A member with another header."""
    copy = tarfile.TarInfo.frombuf(entry[0].tobuf(), "utf-8", "strict")
    for name, value in changes.items():
        setattr(copy, name, value)
    return copy, entry[1]


@contextmanager
def two_for_prefect(kind: str, folder: Path) -> Iterator[list[Database]]:
    """Two empty databases, by the drivers of Prefect."""
    for name in ("before", "after"):
        (folder / name).mkdir()
    with database(kind, folder / "before") as before, database(kind, folder / "after") as after:
        drivers = {"sqlite": "sqlite+aiosqlite", "postgresql": "postgresql+asyncpg"}
        yield [Database("prefect", url.replace(kind, drivers[kind], 1)) for url in (before, after)]
