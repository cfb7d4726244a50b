"""Failed sign-ins are counted per account and per address; too many, and both are refused."""

import hashlib
import ipaddress
import math
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime, timedelta

from jobauto_prefect.errors import TooManyRequests, Unauthorized
from jobauto_prefect.ledger import sign_ins
from jobauto_prefect.ledger.audit import SERVICE
from jobauto_prefect.ledger.store import Ledger, ReadingSession
from jobauto_prefect.settings import Settings

Failed = Mapping[str, Sequence[datetime]]
"""When an account and an address failed lately, by their keys."""


class SignInThrottle:
    """Sliding windows of failed sign-ins, in the ledger: every process counts all failures.

    While an account or an address has as many failures as the settings allow, every further
    attempt is refused, the right password too: the answer must not tell it apart. Safe between
    threads; processes that judge the same instant may let one more failure each be told.
    """

    def __init__(self, settings: Settings, ledger: Ledger) -> None:
        self._window = timedelta(seconds=settings.sign_in_window_seconds)
        self._of_account = settings.sign_in_failures_per_account
        self._of_address = settings.sign_in_failures_per_address
        self._ledger = ledger
        self._adding = threading.Lock()

    @contextmanager
    def attempt(self, login: str, address: str | None) -> Iterator[None]:
        """One sign-in: the block raises Unauthorized where it fails, which is counted.

        `address` is the peer's; None where it has none. A success forgets the failures of the
        account, not those of the address.

        Raises:
            TooManyRequests: before the block, or after it where others failed meanwhile, so
                that many guesses at once tell no more than as many in a row.
        """
        keys = self.keys(login, address)
        self._require_open(keys)
        try:
            yield
        except Unauthorized:
            self._add(keys)
            raise
        if self._require_open(keys)[keys[0]]:
            self.forget(login)

    def keys(self, login: str, address: str | None) -> tuple[str, str]:
        """By which the failures of the account, and those from the address, are counted."""
        return _digest("account", login.casefold()), _digest("address", _network(address))

    def since(self, now: datetime) -> datetime:
        """After which instant a failure counts."""
        return now - self._window

    def is_open(self, of_account: int, of_address: int) -> bool:
        """Whether there may be another attempt after so many failures."""
        return of_account < self._of_account and of_address < self._of_address

    def forget(self, login: str) -> None:
        """The failures of the account count no more."""
        with self._ledger.writing(SERVICE) as session:
            sign_ins.forget(session, self.keys(login, None)[0])

    def _require_open(self, keys: tuple[str, str]) -> Failed:
        with self._ledger.reading() as session:
            return self._counted(session, keys, self._ledger.clock())

    def _add(self, keys: tuple[str, str]) -> None:
        now = self._ledger.clock()
        with self._adding, self._ledger.writing(SERVICE) as session:
            self._counted(session, keys, now)
            sign_ins.add(session, keys, now, self.since(now))

    def _counted(self, session: ReadingSession, keys: tuple[str, str], now: datetime) -> Failed:
        limits = dict(zip(keys, (self._of_account, self._of_address), strict=True))
        failed = sign_ins.failures(session, keys, self.since(now))
        # The oldest of the latest failures that are too many is the first to count no more.
        ends = [times[-limits[key]] for key, times in failed.items() if len(times) >= limits[key]]
        if ends:
            left = (max(ends) + self._window - now).total_seconds()
            raise TooManyRequests(max(1, math.ceil(left)))
        return failed


def _network(address: str | None) -> str:
    try:
        ip = ipaddress.ip_address(address or "")
    except ValueError:
        return ""
    mapped = ip.ipv4_mapped if isinstance(ip, ipaddress.IPv6Address) else ip
    if mapped is not None:
        return str(mapped)
    # Whoever has one IPv6 address has the 2^64 around it.
    return str(ipaddress.ip_network((ip, 64), strict=False))


def _digest(kind: str, name: str) -> str:
    """A key of one length for every text that somebody may send as a login."""
    return hashlib.sha256(f"{kind}\0{name}".encode("utf-8", "surrogatepass")).hexdigest()
