"""Passwords: argon2id, the same time for every failure, and the strength they need."""

import hmac
import secrets
import threading
import unicodedata
from collections import OrderedDict
from datetime import datetime, timedelta

from anyio import CapacityLimiter
from argon2 import PasswordHasher
from argon2.exceptions import InvalidHashError, VerificationError

from jobauto_prefect.clock import Clock, utc_now
from jobauto_prefect.errors import Fault

REMEMBER_FOR = timedelta(minutes=5)
MAX_REMEMBERED = 1000
MIN_LENGTH = 8
MAX_LENGTH = 1000
MIN_SCORE = 2
"""Passwords with a lower zxcvbn score can be found with fewer than a million guesses."""

_hasher = PasswordHasher()
# Compared with the password if there is no such user, so that the answer takes as long.
_DUMMY_HASH = "$argon2id$v=19$m=65536,t=3,p=4$USihwHO8f0icj/JcW0vlAg$orfHT1h4N+zyrFvLivC3bmVYaM6hD6qEBmSqQgT2aQs"  # noqa: E501
# Each comparison takes 64 MiB and four more threads: a burst of sign-ins must not take that for
# every thread.
_CONCURRENT = 2
_concurrent = threading.BoundedSemaphore(_CONCURRENT)


def comparing_threads() -> CapacityLimiter:
    """Return the limiter of threads that compare passwords: other work must not wait for one."""
    return CapacityLimiter(2 * _CONCURRENT)  # most are cached


def hash_password(password: str) -> str:
    """Hash a password for storage."""
    return _hasher.hash(encode_password(password))


def password_matches(stored: str | None, password: str) -> bool:
    """Whether a password matches the stored hash; None: there is no such user.

    Takes tens of milliseconds: do not call it in the event loop.
    """
    try:
        with _concurrent:
            _hasher.verify(stored or _DUMMY_HASH, encode_password(password))
    except (VerificationError, InvalidHashError):
        return False
    return bool(stored)


def encode_password(password: str) -> bytes:
    """Return the bytes of a password that are hashed."""
    # Keyboards differ in how they compose an accented letter; the password is the same.
    return unicodedata.normalize("NFC", password).encode("utf-8", "surrogatepass")


class PasswordVerifier:
    """Compares passwords and caches matches for 5 minutes.

    Entries are bound to the user and the stored hash: a changed password takes effect immediately,
    and so does a disabled user, whom the caller reads each time. Only digests are kept, made with a
    random key that never leaves this process. Thread-safe.
    """

    def __init__(self, clock: Clock = utc_now) -> None:
        self._clock = clock
        self._key = secrets.token_bytes(32)
        self._until: OrderedDict[bytes, datetime] = OrderedDict()
        self._lock = threading.Lock()

    def matches(self, user_id: int | None, stored: str | None, password: str) -> bool:
        """Whether a password is right, as `password_matches`, with recent successes cached."""
        if user_id is None or not stored:
            return password_matches(None, password)
        if self.remembers(user_id, stored, password):
            return True
        matches = password_matches(stored, password)
        if matches:
            self._remember(self._digest(user_id, stored, password))
        return matches

    def remembers(self, user_id: int, stored: str | None, password: str) -> bool:
        """Whether this comparison succeeded recently; False does not mean it would fail."""
        if not stored:
            return False
        digest = self._digest(user_id, stored, password)
        with self._lock:
            until = self._until.get(digest)
            if until is None or until <= self._clock():
                return False
            self._until.move_to_end(digest)
            return True

    def _digest(self, user_id: int, stored: str, password: str) -> bytes:
        bound_to = f"{user_id}\0{stored}\0".encode()
        return hmac.digest(self._key, bound_to + encode_password(password), "sha256")

    def _remember(self, digest: bytes) -> None:
        with self._lock:
            self._until[digest] = self._clock() + REMEMBER_FOR
            self._until.move_to_end(digest)
            if len(self._until) > MAX_REMEMBERED:
                self._until.popitem(last=False)


def password_faults(password: str, login: str, shortest: int = MIN_LENGTH) -> list[Fault]:
    """Return why a new password is too weak, if it is; no reason repeats the password.

    `shortest` is in characters (setting `password_min_length`).
    """
    pointer = "/password"
    if len(password) < shortest:
        return [Fault(pointer, "min_length", f"use at least {shortest} characters")]
    if len(password) > MAX_LENGTH:
        return [Fault(pointer, "max_length", f"use at most {MAX_LENGTH} characters")]
    if any(unicodedata.category(character) in ("Cc", "Cs") for character in password):
        return [Fault(pointer, "text", "leave out control characters")]
    faults = []
    if len(login) > 2 and login.casefold() in password.casefold():
        faults.append(Fault(pointer, "login", "leave the login out of the password"))
    if weakness := _weakness(password, login):
        faults.append(Fault(pointer, "common", weakness))
    return faults


def _weakness(password: str, login: str) -> str | None:
    from zxcvbn import zxcvbn  # importing its dictionaries takes 40 ms

    judged = zxcvbn(password[:72], user_inputs=[login])
    if judged["score"] >= MIN_SCORE:
        return None
    reason = judged["feedback"]["warning"] or "This is among the first that are guessed."
    return f"{reason} Use several words that do not belong together"
