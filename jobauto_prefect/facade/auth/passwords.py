"""Passwords: argon2id, the same time for every failure, and which ones are good enough."""

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
"""Passwords that zxcvbn scores lower fall to fewer than a million guesses."""

_hasher = PasswordHasher()
# What a password is compared with where there is no user: the answer takes as long.
_DUMMY_HASH = "$argon2id$v=19$m=65536,t=3,p=4$USihwHO8f0icj/JcW0vlAg$orfHT1h4N+zyrFvLivC3bmVYaM6hD6qEBmSqQgT2aQs"  # noqa: E501
# Each comparison takes 64 MiB and four threads of its own: a burst of sign-ins must not take that
# for every thread.
_CONCURRENT = 2
_concurrent = threading.BoundedSemaphore(_CONCURRENT)


def comparing_threads() -> CapacityLimiter:
    """Return what lets so many threads compare passwords: others must not wait for a free one."""
    return CapacityLimiter(2 * _CONCURRENT)  # most are remembered


def hash_password(password: str) -> str:
    """Hash a password for storage."""
    return _hasher.hash(encode_password(password))


def password_matches(stored: str | None, password: str) -> bool:
    """Whether a password is the one of the stored hash; None: there is no such user.

    Takes tens of milliseconds: not for the event loop.
    """
    try:
        with _concurrent:
            _hasher.verify(stored or _DUMMY_HASH, encode_password(password))
    except (VerificationError, InvalidHashError):
        return False
    return bool(stored)


def encode_password(password: str) -> bytes:
    """Return what is hashed of a password."""
    # Keyboards differ in how they compose a letter with its accent: one password all the same.
    return unicodedata.normalize("NFC", password).encode("utf-8", "surrogatepass")


class PasswordVerifier:
    """Compares passwords and remembers for 5 minutes which ones matched.

    What is remembered is bound to the user and to the stored hash: a changed password counts at
    once, and so does a disabled user, whom the caller reads anew each time. Only digests are
    kept, made with a key that this process alone has and forgets. Safe between threads.
    """

    def __init__(self, clock: Clock = utc_now) -> None:
        self._clock = clock
        self._key = secrets.token_bytes(32)
        self._until: OrderedDict[bytes, datetime] = OrderedDict()
        self._lock = threading.Lock()

    def matches(self, user_id: int | None, stored: str | None, password: str) -> bool:
        """Whether a password is right, as `password_matches`, but a recent success is cached."""
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
    """Return why a new password is not good enough; nothing if it is. None repeats it.

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
    from zxcvbn import zxcvbn  # its dictionaries take 40 ms to import

    judged = zxcvbn(password[:72], user_inputs=[login])
    if judged["score"] >= MIN_SCORE:
        return None
    reason = judged["feedback"]["warning"] or "This is among the first that are guessed."
    return f"{reason} Use several words that do not belong together"
