"""The file of a backup: a tar of the manifest, the databases and, last, the sealed part.

The manifest lists the contents, with the SHA-256 of each database; the sealed part contains the
SHA-256 of the manifest, so that with the passphrase every change is detected. A reader accepts only
the bytes that `write_backup` writes: each member starts where the previous one ends, and nothing
follows the last.
"""

import base64
import hashlib
import io
import json
import os
import tarfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from datetime import datetime
from pathlib import Path
from typing import IO, Annotated, Any, Literal

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.kdf.scrypt import Scrypt
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from jobauto_prefect.backup.content import Content, Line, Member, Sum
from jobauto_prefect.backup.databases import LEDGER, POSTGRESQL, PREFECT, member_name
from jobauto_prefect.errors import BackupDamaged, Conflict, Fault, InvalidInput, NotFound
from jobauto_prefect.home import private_file

SHORTEST = 8
"""Minimum length of a passphrase in characters."""

COST = {"n": 2**16, "r": 8, "p": 1}
"""Scrypt parameters: 64 MiB of memory, and some tenths of a second."""

SUM = "sha256"
SALT, NONCE = 16, 12
ALTERED = "its sealed part was altered"


class Envelope(BaseModel):
    """What is sealed, and how: only as `seal` does it, whatever a file may ask for."""

    model_config = ConfigDict(strict=True, extra="forbid")

    kdf: Literal["scrypt"]
    n: Literal[65536]
    r: Literal[8]
    p: Literal[1]
    cipher: Literal["AES-256-GCM"]
    salt: str
    nonce: str
    sealed: str
    sha256: str


def require_passphrase(passphrase: str) -> str:
    """Return a passphrase if it may be used for a new backup.

    Raises:
        InvalidInput: it is too short.
    """
    if len(passphrase) < SHORTEST:
        message = f"the passphrase has fewer than {SHORTEST} characters; take a longer one"
        raise InvalidInput([Fault("", "length", message)], message)
    return passphrase


def seal(values: Mapping[str, Any], passphrase: str) -> bytes:
    """Seal JSON values."""
    salt, nonce = os.urandom(SALT), os.urandom(NONCE)
    content = json.dumps(values).encode()
    sealed = AESGCM(_key(passphrase, salt)).encrypt(nonce, content, None)
    binary = {"salt": salt, "nonce": nonce, "sealed": sealed}
    shown = {name: base64.b64encode(value).decode() for name, value in binary.items()}
    envelope = {"kdf": "scrypt", **COST, "cipher": "AES-256-GCM", **shown}
    return json.dumps({**envelope, SUM: _sum_of(envelope)}).encode()


def _sum_of(envelope: Mapping[str, Any]) -> str:
    """Return a check value that tells an altered sealed part from a wrong passphrase."""
    return hashlib.sha256(json.dumps(envelope, sort_keys=True).encode()).hexdigest()


def unseal(data: bytes, passphrase: str) -> bytes:
    """Return the sealed JSON.

    Raises:
        Conflict: the passphrase is wrong. BackupDamaged: it was altered after sealing.
    """
    try:
        envelope = Envelope.model_validate_json(data)
        salt, nonce, sealed = (
            base64.b64decode(text, validate=True)
            for text in (envelope.salt, envelope.nonce, envelope.sealed)
        )
    except ValueError:
        raise BackupDamaged(ALTERED) from None
    is_whole = envelope.sha256 == _sum_of(envelope.model_dump(exclude={SUM}))
    if not is_whole or (len(salt), len(nonce)) != (SALT, NONCE):
        raise BackupDamaged(ALTERED)
    try:
        return AESGCM(_key(passphrase, salt)).decrypt(nonce, sealed, None)
    except InvalidTag:
        raise Conflict("the passphrase is wrong; nothing was written, try again") from None


def _key(passphrase: str, salt: bytes) -> bytes:
    return Scrypt(salt=salt, length=32, **COST).derive(passphrase.encode())


FORMAT = 1
MANIFEST, SEALED = "manifest.json", "sealed.json"
LARGEST_TEXT = 64 * 2**20
"""Maximum size of manifest and sealed part, which are read into memory."""

MANIFEST_SUM = "manifest_sha256"


def _require_zone(text: str) -> str:
    if datetime.fromisoformat(text).tzinfo is None:
        raise ValueError("a time without a time zone")
    return text


Instant = Annotated[str, AfterValidator(_require_zone)]


@dataclass(frozen=True, slots=True)
class Manifest:
    """The description of a backup; it contains no secrets.

    It contains everything committed to the ledger by `taken_at`, and Prefect's database of
    `prefect_taken_at`; if that is None, Prefect's database is not included, and `prefect_missing`
    says why. `databases` are `ledger` and `prefect`; if both are in one database, there is only
    `ledger`, and `is_shared` is true. `settings` are those in effect, without secrets.
    """

    jobauto: Line
    prefect: Line
    migration: Annotated[str, Field(pattern="^[0-9]{4}$")]
    taken_at: Instant
    prefect_taken_at: Instant | None
    prefect_missing: str | None
    is_shared: bool
    host: str
    databases: Mapping[Annotated[str, Field(pattern="^(ledger|prefect)$")], Member]
    settings: Mapping[str, Any]
    format: int = FORMAT


@dataclass(frozen=True, slots=True)
class Secrets:
    """What only the passphrase opens: the key file, settings files, variables."""

    key: str
    files: Mapping[Annotated[str, Field(pattern=r"^(jobauto|database)\.env$")], str]
    environment: Mapping[Annotated[str, Field(pattern=r"^(JOBAUTO|PREFECT|DB)_[^=\n]*$")], str]
    manifest_sha256: Sum


@dataclass(frozen=True, slots=True)
class _Heading:
    format: int
    jobauto: Line


_HEADING, _MANIFEST, _SECRETS = TypeAdapter(_Heading), TypeAdapter(Manifest), TypeAdapter(Secrets)


@dataclass(frozen=True, slots=True)
class Backup:
    """A verified open file, and its secrets."""

    manifest: Manifest
    secrets: Secrets = field(repr=False)
    _file: IO[bytes]
    _places: Mapping[str, int]

    def content(self, database: str) -> Content:
        """Return the content of a database in it, whose checksum is verified once more."""
        return Content(self._file, self._places[database], self.manifest.databases[database])


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
    """Write a backup, 0600, to the disk. Each content is deleted once it is in the file.

    `contents` are the files of the databases that the manifest names.
    """
    described = json.dumps(asdict(manifest), indent=2).encode()
    summed = {**secrets, MANIFEST_SUM: hashlib.sha256(described).hexdigest()}
    sealed = seal(summed, passphrase)
    with open(target, "wb", opener=private_file) as file:
        with tarfile.open(fileobj=file, mode="w") as archive:
            archive.addfile(_entry(MANIFEST, len(described)), io.BytesIO(described))
            for database, path in contents.items():
                name = manifest.databases[database].name
                with path.open("rb") as content:
                    archive.addfile(_entry(name, path.stat().st_size), content)
                path.unlink()
            archive.addfile(_entry(SEALED, len(sealed)), io.BytesIO(sealed))
        file.flush()
        os.fsync(file.fileno())


def _entry(name: str, size: int) -> tarfile.TarInfo:
    entry = tarfile.TarInfo(name)
    entry.size, entry.mode = size, 0o600
    return entry


@contextmanager
def open_backup(path: Path, ask_passphrase: Callable[[], str]) -> Iterator[Backup]:
    """Open a backup and verify all of it; nothing is unpacked.

    Raises:
        NotFound: the file does not exist or can't be read.
        BackupDamaged: it is not a backup, is truncated, or was altered.
        Conflict: the passphrase is wrong, or a newer version made this file.
    """
    try:
        file = path.open("rb")
    except OSError as error:
        raise _unreadable(path, error) from None
    with file:
        try:
            backup = _read(file, ask_passphrase)
        except OSError as error:
            raise _unreadable(path, error) from None
        except BackupDamaged as error:
            raise BackupDamaged(
                f"{path} is not whole: {error}; nothing was written, take another copy of the file"
            ) from None
        yield backup


def _unreadable(path: Path, error: OSError) -> NotFound:
    return NotFound(f"{path} can't be read: {error.strerror or error}; name a backup's file")


def _read(file: IO[bytes], ask_passphrase: Callable[[], str]) -> Backup:
    described = _text(file, MANIFEST)
    manifest = _manifest(described)
    places: dict[str, int] = {}
    for database, member in manifest.databases.items():
        _require(file, _entry(member.name, member.size).tobuf(), member.name)
        places[database] = file.tell()
        content = Content(file, file.tell(), member)
        while content.read():
            pass
        file.seek(member.size, os.SEEK_CUR)
        _require(file, _padding(file, tarfile.BLOCKSIZE), member.name)
    sealed = _text(file, SEALED)
    _require(file, bytes(2 * tarfile.BLOCKSIZE), SEALED)
    _require(file, _padding(file, tarfile.RECORDSIZE), SEALED)
    if file.read(1):
        raise BackupDamaged(f"there is data after {SEALED}")
    unsealed = unseal(sealed, ask_passphrase())
    try:
        secrets = _SECRETS.validate_json(unsealed, strict=True)
    except ValidationError:
        raise BackupDamaged("its sealed part can't be read") from None
    if secrets.manifest_sha256 != hashlib.sha256(described).hexdigest():
        raise BackupDamaged("its manifest was altered")
    return Backup(manifest, secrets, file, places)


def _padding(file: IO[bytes], unit: int) -> bytes:
    return bytes(-file.tell() % unit)


def _require(file: IO[bytes], expected: bytes, name: str) -> None:
    """Read a member that must be at this position."""
    if file.read(len(expected)) != expected:
        raise BackupDamaged(f"{name} is not where it should be, or the file is truncated")


def _text(file: IO[bytes], name: str) -> bytes:
    block = file.read(tarfile.BLOCKSIZE)
    try:
        size = tarfile.TarInfo.frombuf(block, tarfile.ENCODING, "surrogateescape").size
    except tarfile.TarError:
        raise BackupDamaged("it is not a backup, or is truncated") from None
    if not 0 <= size <= LARGEST_TEXT or block != _entry(name, size).tobuf():
        raise BackupDamaged(f"{name} is not where it should be")
    content = file.read(size)
    if len(content) != size:
        raise BackupDamaged("it is truncated")
    _require(file, _padding(file, tarfile.BLOCKSIZE), name)
    return content


def _manifest(text: bytes) -> Manifest:
    """Parse a manifest.

    Raises:
        Conflict: a newer version made it.
        BackupDamaged: it can't be read.
    """
    try:
        heading = _HEADING.validate_json(text, strict=True)
        if heading.format != FORMAT:
            raise Conflict(
                f"this backup has the format {heading.format}, of jobauto {heading.jobauto};"
                " restore it with that version"
            )
        manifest = _MANIFEST.validate_json(text, strict=True)
    except ValidationError:
        raise BackupDamaged("its manifest can't be read") from None
    members = manifest.databases
    kinds = {member.kind for member in members.values()}
    if (
        LEDGER not in members
        or any(member.name != member_name(name, member.kind) for name, member in members.items())
        or (manifest.is_shared and (PREFECT in members or kinds != {POSTGRESQL}))
    ):
        raise BackupDamaged("its manifest contradicts itself")
    return manifest
