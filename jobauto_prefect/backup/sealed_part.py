"""What of a backup is secret, under a passphrase: scrypt makes the key, AES-GCM seals with it."""

import base64
import hashlib
import json
import os
from collections.abc import Mapping
from typing import Any

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.kdf.scrypt import Scrypt

from jobauto_prefect.errors import BackupDamaged, Conflict, Fault, InvalidInput

SHORTEST = 8
"""Characters of a passphrase, at least."""

COST = {"n": 2**16, "r": 8, "p": 1}
"""Of scrypt: 64 MiB of memory, and some tenths of a second."""

SUM = "sha256"
ALTERED = "its sealed part is not as it was written"

MOST_MEMORY = 2**30
"""Bytes that a file may ask scrypt to take."""


def require_passphrase(passphrase: str) -> str:
    """Return a passphrase that may be used for a new backup.

    Raises:
        InvalidInput: it is too short.
    """
    if len(passphrase) < SHORTEST:
        message = f"the passphrase has fewer than {SHORTEST} characters; take a longer one"
        raise InvalidInput([Fault("", "length", message)], message)
    return passphrase


def seal(values: Mapping[str, Any], passphrase: str) -> bytes:
    """Seal JSON values."""
    salt, nonce = os.urandom(16), os.urandom(12)
    content = json.dumps(values).encode()
    sealed = AESGCM(_key(passphrase, salt, **COST)).encrypt(nonce, content, None)
    binary = {"salt": salt, "nonce": nonce, "sealed": sealed}
    shown = {name: base64.b64encode(value).decode() for name, value in binary.items()}
    envelope = {"kdf": "scrypt", **COST, "cipher": "AES-256-GCM", **shown}
    return json.dumps({**envelope, SUM: _sum_of(envelope)}).encode()


def _sum_of(envelope: Mapping[str, Any]) -> str:
    """Return what tells an altered sealed part from another passphrase."""
    return hashlib.sha256(json.dumps(envelope, sort_keys=True).encode()).hexdigest()


def unseal(data: bytes, passphrase: str) -> dict[str, Any]:
    """Return what was sealed.

    Raises:
        Conflict: the passphrase is another one.
        BackupDamaged: it is not as it was sealed.
    """
    try:
        envelope = json.loads(data)
        is_whole = envelope.pop(SUM) == _sum_of(envelope)
        salt, nonce, sealed = (
            base64.b64decode(envelope[name], validate=True) for name in ("salt", "nonce", "sealed")
        )
        n, r, p = (int(envelope[name]) for name in ("n", "r", "p"))
    except (ValueError, KeyError, TypeError, AttributeError):
        raise BackupDamaged(ALTERED) from None
    if not is_whole or 128 * n * r * p > MOST_MEMORY:
        raise BackupDamaged(ALTERED)
    try:
        cipher = AESGCM(_key(passphrase, salt, n, r, p))
        values: dict[str, Any] = json.loads(cipher.decrypt(nonce, sealed, None))
    except InvalidTag:
        raise Conflict(
            "the passphrase is not the one of this backup; nothing was written, try again"
        ) from None
    return values


def _key(passphrase: str, salt: bytes, n: int, r: int, p: int) -> bytes:
    return Scrypt(salt=salt, length=32, n=n, r=r, p=p).derive(passphrase.encode())
