"""The key of the secret values, and sealing with it.

The key is a file of its own, mode 0600, outside the database: whoever copies the database alone
can read no secret.
"""

import hashlib
import os
from collections.abc import Mapping
from pathlib import Path

from cryptography.fernet import Fernet, InvalidToken

from jobauto_prefect.errors import KeyMissing

MASK = "********"


class SecretBox:
    """Seals and opens secret values."""

    def __init__(self, key: bytes) -> None:
        self._fernet = Fernet(key)
        self.fingerprint = hashlib.sha256(b"jobauto key:" + key).hexdigest()[:16]

    def seal(self, values: Mapping[str, str]) -> dict[str, str]:
        """The values, encrypted one by one."""
        return {
            name: self._fernet.encrypt(value.encode()).decode() for name, value in values.items()
        }

    def open(self, sealed: Mapping[str, str]) -> dict[str, str]:
        """The values in clear.

        Raises:
            KeyMissing: they were sealed with another key.
        """
        try:
            return {name: self._fernet.decrypt(value).decode() for name, value in sealed.items()}
        except InvalidToken:
            raise KeyMissing(
                "secret values can't be read: the key file is not the one they were stored with; "
                "restore that file"
            ) from None


def create_key(path: Path) -> bool:
    """Make a new key file, mode 0600; False where there is one already."""
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        return False
    with os.fdopen(descriptor, "wb") as file:
        file.write(Fernet.generate_key() + b"\n")
        file.flush()
        os.fsync(file.fileno())
    return True


def load_key(path: Path) -> SecretBox:
    """Read the key file.

    Raises:
        KeyMissing: it is not there, is not a key, or other people can read it.
    """
    try:
        content = path.read_bytes().strip()
        mode = path.stat().st_mode & 0o077
    except OSError as error:
        raise KeyMissing(
            f"the key of the secret values can't be read ({path}: {error.strerror}); "
            "restore the file, or make a new key with: jobauto secrets init"
        ) from None
    if mode:
        raise KeyMissing(f"others can read the key file {path}; run: chmod 600 {path}")
    try:
        return SecretBox(content)
    except ValueError:
        raise KeyMissing(f"{path} holds no key; restore the file it was") from None
