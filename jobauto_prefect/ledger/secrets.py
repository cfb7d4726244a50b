"""The key of the secret values, and encryption with it.

The key is in a separate file, mode 0600, outside the database: a copy of the database alone reveals
no secret. During a rotation the file has the new key and, below it, the old one.
"""

import base64
import contextlib
import fcntl
import hashlib
import hmac
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from cryptography.fernet import Fernet, InvalidToken, MultiFernet

from jobauto_prefect.errors import Conflict, KeyMissing
from jobauto_prefect.home import make_folder, sync_folder


@dataclass(frozen=True, slots=True)
class KeyRing:
    """The keys of a file, the newest first; `stamp` changes whenever the file does."""

    keys: tuple[bytes, ...] = field(repr=False)
    stamp: tuple[int, ...]

    @property
    def fingerprints(self) -> list[str]:
        """Return identifiers of the keys that do not reveal them."""
        return [hashlib.sha256(b"jobauto key:" + key).hexdigest()[:16] for key in self.keys]


class SecretBox:
    """Encrypts with the newest key of a file, decrypts with any of its keys.

    It notices changes of the file: a rotation needs no restart. `confirm` checks whether a
    completely different key is the ledger's; None: it can't be.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._ring = _read(path)
        self.confirm: Callable[[str], bool] | None = None

    @property
    def ring(self) -> KeyRing:
        """Return the keys of the file; those read earlier if the file is gone.

        Raises:
            KeyMissing: the file holds something other than this ledger's keys.
        """
        try:
            stamp = _stamp(self.path)
        except OSError:
            return self._ring
        if stamp != self._ring.stamp:
            self._ring = self._accepted(_read(self.path))
        return self._ring

    def _accepted(self, ring: KeyRing) -> KeyRing:
        shared = set(ring.keys) & set(self._ring.keys)
        if shared or (self.confirm is not None and self.confirm(ring.fingerprints[0])):
            return ring
        raise KeyMissing(f"{self.path} no longer holds this ledger's key; restore that file")

    @property
    def fingerprint(self) -> str:
        """Return the fingerprint of the newest key."""
        return self.ring.fingerprints[0]

    def derived(self, purpose: str) -> str:
        """Derive a secret for one purpose, the same in all processes of this installation."""
        key = base64.urlsafe_b64decode(self.ring.keys[0])
        return hmac.new(key, purpose.encode(), hashlib.sha256).hexdigest()

    def seal(self, values: Mapping[str, str]) -> dict[str, str]:
        """Encrypt values one by one."""
        fernet = Fernet(self.ring.keys[0]) if values else None
        return {
            name: fernet.encrypt(value.encode()).decode()
            for name, value in values.items()
            if fernet
        }

    def open(self, sealed: Mapping[str, str]) -> dict[str, str]:
        """Decrypt values.

        Raises:
            KeyMissing: they were encrypted with another key.
        """
        if not sealed:
            return {}
        fernet = MultiFernet([Fernet(key) for key in self.ring.keys])
        try:
            return {name: fernet.decrypt(value).decode() for name, value in sealed.items()}
        except InvalidToken:
            raise KeyMissing(
                "secret values can't be read: the key file is not the one they were stored with; "
                "restore that file"
            ) from None

    def resealed(self, sealed: Mapping[str, str]) -> dict[str, str]:
        """Encrypt with the newest key those values that it does not decrypt; return only these.

        Raises:
            KeyMissing: no key decrypts one.
        """
        newest = Fernet(self.ring.keys[0])
        older = {name: value for name, value in sealed.items() if not _opens(newest, value)}
        return self.seal(self.open(older))


def _opens(fernet: Fernet, value: str) -> bool:
    try:
        fernet.decrypt(value)
    except InvalidToken:
        return False
    return True


def create_key(path: Path) -> bool:
    """Create a key file, mode 0600; return False if there is one already."""
    make_folder(path.parent)
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        return False
    _write(descriptor, [Fernet.generate_key()])
    return True


def replace_keys(path: Path, keys: Sequence[bytes]) -> None:
    """Replace a key file, the newest key first: readers see either the old file or this one."""
    beside = path.with_name(f".{path.name}.new")
    beside.unlink(missing_ok=True)
    _write(os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), keys)
    owner = path.stat()
    if (owner.st_uid, owner.st_gid) != (os.geteuid(), os.getegid()):
        os.chown(beside, owner.st_uid, owner.st_gid)
    beside.replace(path)
    sync_folder(path.parent)


def _write(descriptor: int, keys: Sequence[bytes]) -> None:
    with os.fdopen(descriptor, "wb") as file:
        file.writelines(key + b"\n" for key in keys)
        file.flush()
        os.fsync(file.fileno())


@contextlib.contextmanager
def rotation_lock(path: Path) -> Iterator[None]:
    """Hold the lock shared by rotations of a key file and backups that include it.

    Raises:
        Conflict: another one is running.
    """
    lock = os.open(path.with_name(f".{path.name}.lock"), os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    except BlockingIOError:
        raise Conflict(
            "another command is rotating the key or making a backup; wait until it has ended"
        ) from None
    finally:
        os.close(lock)


def load_key(path: Path) -> SecretBox:
    """Read the key file.

    Raises:
        KeyMissing: it is missing, is not a key, or other people can read it.
    """
    return SecretBox(path)


def _read(path: Path) -> KeyRing:
    try:
        stamp = _stamp(path)
        content = path.read_bytes()
        mode = path.stat().st_mode & 0o077
    except OSError as error:
        raise KeyMissing(
            f"the key of the secret values can't be read ({path}: {error.strerror}); "
            "restore your copy of that file"
        ) from None
    if mode:
        raise KeyMissing(f"others can read the key file {path}; run: chmod 600 {path}")
    keys = tuple(content.split())
    try:
        for key in keys:
            Fernet(key)
    except ValueError:
        keys = ()
    if not keys:
        raise KeyMissing(f"{path} holds no key; restore the original file") from None
    return KeyRing(keys, stamp)


def _stamp(path: Path) -> tuple[int, ...]:
    status = path.stat()
    return status.st_ino, status.st_mtime_ns, status.st_size
