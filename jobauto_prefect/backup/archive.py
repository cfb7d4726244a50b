"""The file of a backup: a tar with the manifest first, the databases, and the sealed part last.

The manifest says what is in it, with SHA-256 of each database; the sealed part holds the SHA-256
of the manifest, so that with the passphrase nothing can be changed unseen.
"""

import hashlib
import io
import json
import os
import tarfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import IO, Any

from jobauto_prefect.backup.sealed_part import seal, unseal
from jobauto_prefect.errors import BackupDamaged, Conflict, NotFound
from jobauto_prefect.home import private_file

FORMAT = 1
MANIFEST, SEALED = "manifest.json", "sealed.json"
LARGEST_TEXT = 64 * 2**20
"""Bytes of manifest and sealed part that are read into memory."""

CHUNK = 2**20
MANIFEST_SUM = "manifest_sha256"


@dataclass(frozen=True, slots=True)
class Member:
    """A database in a backup: the file in the archive, its bytes, and what made it."""

    name: str
    kind: str
    size: int
    sha256: str
    tool: str


@dataclass(frozen=True, slots=True)
class Manifest:
    """What a backup says of itself; nothing of it is secret.

    All of the ledger that was committed by `taken_at` is in it; Prefect's database is that of
    `prefect_taken_at`, None: it is not in here, and `prefect_missing` says why. `databases` are
    `ledger` and `prefect`; where both are in one database there is `ledger` only, and
    `is_shared`. `settings` are those in effect, without secrets.
    """

    jobauto: str
    prefect: str
    migration: str
    taken_at: str
    prefect_taken_at: str | None
    prefect_missing: str | None
    is_shared: bool
    host: str
    databases: Mapping[str, Member]
    settings: Mapping[str, Any]
    format: int = FORMAT


@dataclass(frozen=True, slots=True)
class Backup:
    """A file that was read and found whole, and its secrets."""

    path: Path
    manifest: Manifest
    secrets: Mapping[str, Any] = field(repr=False)

    @contextmanager
    def member(self, database: str) -> Iterator[IO[bytes]]:
        """Open the content of a database in it."""
        with tarfile.open(self.path, "r:") as archive:
            content = archive.extractfile(self.manifest.databases[database].name)
            assert content is not None  # noqa: S101 - `read` has found it
            yield content


def sha256_of(path: Path) -> str:
    """Return the SHA-256 of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def write_backup(
    target: Path,
    manifest: Manifest,
    contents: Mapping[str, Path],
    secrets: Mapping[str, Any],
    passphrase: str,
) -> None:
    """Write a backup, 0600, to the disk. Each content goes once it is in the file.

    `contents` are the files of the databases that the manifest names.
    """
    described = json.dumps(asdict(manifest), indent=2).encode()
    summed = {**secrets, MANIFEST_SUM: hashlib.sha256(described).hexdigest()}
    sealed = seal(summed, passphrase)
    with open(target, "wb", opener=private_file) as file:
        with tarfile.open(fileobj=file, mode="w") as archive:
            _add(archive, MANIFEST, described)
            for database, path in contents.items():
                _add_file(archive, manifest.databases[database].name, path)
                path.unlink()
            _add(archive, SEALED, sealed)
        file.flush()
        os.fsync(file.fileno())


def _add(archive: tarfile.TarFile, name: str, content: bytes) -> None:
    entry = tarfile.TarInfo(name)
    entry.size, entry.mode = len(content), 0o600
    archive.addfile(entry, io.BytesIO(content))


def _add_file(archive: tarfile.TarFile, name: str, path: Path) -> None:
    entry = tarfile.TarInfo(name)
    entry.size, entry.mode = path.stat().st_size, 0o600
    with path.open("rb") as content:
        archive.addfile(entry, content)


def read_backup(path: Path, ask_passphrase: Callable[[], str]) -> Backup:
    """Read a whole backup and find out whether it is as it was written; nothing is unpacked.

    Raises:
        NotFound: there is no such file, or it can't be read.
        BackupDamaged: it is no backup, is cut off, or was altered.
        Conflict: the passphrase is another one, or a newer version made this file.
    """
    try:
        with tarfile.open(path, "r:") as archive:
            described = _text(archive, MANIFEST)
            manifest = _manifest(described)
            for member in manifest.databases.values():
                _check(archive, member)
            sealed = _text(archive, SEALED)
    except OSError as error:
        raise NotFound(f"{path} can't be read: {error.strerror or error}") from None
    except (tarfile.TarError, EOFError):
        raise BackupDamaged(_damaged(path, "it is no backup, or is cut off")) from None
    except BackupDamaged as error:
        raise BackupDamaged(_damaged(path, str(error))) from None
    try:
        secrets = unseal(sealed, ask_passphrase())
    except BackupDamaged as error:
        raise BackupDamaged(_damaged(path, str(error))) from None
    if secrets.pop(MANIFEST_SUM, None) != hashlib.sha256(described).hexdigest():
        raise BackupDamaged(_damaged(path, "its manifest was altered"))
    return Backup(path, manifest, secrets)


def _damaged(path: Path, why: str) -> str:
    return f"{path} is not whole: {why}; nothing was written, take another copy of the file"


def _text(archive: tarfile.TarFile, name: str) -> bytes:
    entry = archive.next()
    content = archive.extractfile(entry) if entry and entry.name == name else None
    if entry is None or content is None:
        raise BackupDamaged(f"{name} is not where it should be")
    if entry.size > LARGEST_TEXT:
        raise BackupDamaged(f"{name} is too large")
    return content.read()


def _check(archive: tarfile.TarFile, member: Member) -> None:
    entry = archive.next()
    content = archive.extractfile(entry) if entry and entry.name == member.name else None
    if content is None:
        raise BackupDamaged(f"{member.name} is not where it should be")
    digest = hashlib.sha256()
    while chunk := content.read(CHUNK):
        digest.update(chunk)
    if digest.hexdigest() != member.sha256:
        raise BackupDamaged(f"{member.name} is not as it was written")


def _manifest(text: bytes) -> Manifest:
    """Return the manifest that a text says.

    Raises:
        Conflict: a newer version made it.
        BackupDamaged: it can't be read.
    """
    try:
        fields = json.loads(text)
        if fields["format"] != FORMAT:
            raise Conflict(
                f"this backup has the format {fields['format']}, of jobauto {fields['jobauto']};"
                " restore it with that version"
            )
        databases = {name: Member(**member) for name, member in fields.pop("databases").items()}
        return Manifest(**fields, databases=databases)
    except (ValueError, KeyError, TypeError, AttributeError):
        raise BackupDamaged("its manifest can't be read") from None
