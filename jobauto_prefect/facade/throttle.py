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
"""When an account and an address failed lately, by keys of their own."""


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
        with self._ledger.reading() as session:
            self.require_open(session, login, address)
        try:
            yield
        except Unauthorized:
            self._add(login, address)
            raise
        with self._ledger.reading() as session:
            failed = self.require_open(session, login, address)
        self.forget(login, failed)

    def forget(self, login: str, failed: Failed) -> None:
        """The failures of the account count no more, where there are some."""
        if failed[_account(login)]:
            with self._ledger.writing(SERVICE) as session:
                sign_ins.forget(session, _account(login))

    def _add(self, login: str, address: str | None) -> None:
        now = self._ledger.clock()
        with self._adding, self._ledger.writing(SERVICE) as session:
            failed = self.require_open(session, login, address)
            sign_ins.add(session, failed, now, now - self._window)

    def require_open(self, session: ReadingSession, login: str, address: str | None) -> Failed:
        """When the account and the address failed lately, by their keys.

        Raises:
            TooManyRequests: too often.
        """
        now = self._ledger.clock()
        limits = {_account(login): self._of_account, _origin(address): self._of_address}
        failed = sign_ins.failures(session, limits, now - self._window)
        # The oldest of the latest failures that are too many is the first to count no more.
        ends = [times[-limits[key]] for key, times in failed.items() if len(times) >= limits[key]]
        if ends:
            left = (max(ends) + self._window - now).total_seconds()
            raise TooManyRequests(max(1, math.ceil(left)))
        return failed


def _account(login: str) -> str:
    return _digest("account", login.casefold())


def _origin(address: str | None) -> str:
    return _digest("address", _network(address))


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
