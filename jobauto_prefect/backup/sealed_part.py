"""What of a backup is secret, under a passphrase: scrypt makes the key, AES-GCM seals with it."""

import base64
import hashlib
import json
import os
from collections.abc import Mapping
from typing import Any, Literal

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.kdf.scrypt import Scrypt
from pydantic import BaseModel, ConfigDict

from jobauto_prefect.errors import BackupDamaged, Conflict, Fault, InvalidInput

SHORTEST = 8
"""Characters of a passphrase, at least."""

COST = {"n": 2**16, "r": 8, "p": 1}
"""Of scrypt: 64 MiB of memory, and some tenths of a second."""

SUM = "sha256"
SALT, NONCE = 16, 12
ALTERED = "its sealed part is not as it was written"


class Envelope(BaseModel):
    """What is sealed, and how: as `seal` does it, in no other way that a file may ask for."""

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
    salt, nonce = os.urandom(SALT), os.urandom(NONCE)
    content = json.dumps(values).encode()
    sealed = AESGCM(_key(passphrase, salt)).encrypt(nonce, content, None)
    binary = {"salt": salt, "nonce": nonce, "sealed": sealed}
    shown = {name: base64.b64encode(value).decode() for name, value in binary.items()}
    envelope = {"kdf": "scrypt", **COST, "cipher": "AES-256-GCM", **shown}
    return json.dumps({**envelope, SUM: _sum_of(envelope)}).encode()


def _sum_of(envelope: Mapping[str, Any]) -> str:
    """Return what tells an altered sealed part from another passphrase."""
    return hashlib.sha256(json.dumps(envelope, sort_keys=True).encode()).hexdigest()


def unseal(data: bytes, passphrase: str) -> bytes:
    """Return the JSON that was sealed.

    Raises:
        Conflict: the passphrase is another one.
        BackupDamaged: it is not as it was sealed.
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
        raise Conflict(
            "the passphrase is not the one of this backup; nothing was written, try again"
        ) from None


def _key(passphrase: str, salt: bytes) -> bytes:
    return Scrypt(salt=salt, length=32, **COST).derive(passphrase.encode())
