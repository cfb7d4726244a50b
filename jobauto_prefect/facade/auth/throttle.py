"""Failed sign-ins are counted: of an account from a network, of an account, and from a network."""

import hashlib
import hmac
import ipaddress
import math
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta

from jobauto_prefect.errors import TooManyRequests, Unauthorized
from jobauto_prefect.facade.auth.passwords import encode_password
from jobauto_prefect.ledger.access import sign_ins
from jobauto_prefect.ledger.access.sign_ins import Failure, History, Origin
from jobauto_prefect.ledger.audit.trail import SERVICE, Actor, write_entry
from jobauto_prefect.ledger.store import Ledger, ReadingSession
from jobauto_prefect.settings import Settings

UNKNOWN = Actor(name="unknown", door="rest")
"""Whom the audit trail names for a failed sign-in."""

WRONG_PASSWORD = "login or password is wrong"  # noqa: S105 - a message


class SignInThrottle:
    """Sliding windows of failed sign-ins, in the ledger: every process counts all failures.

    A network is refused an account after so many failures from it. After more failures of the
    account from all networks together, or of all accounts from this network, it is refused where
    the account was not signed in to from this network within 30 days: strangers lock out nobody
    but strangers, and one who tries a password on many accounts ends as well. The right password
    is refused, too: the answer must not tell it apart. The same wrong password of an account
    counts once and has one entry in the audit trail: a page that goes on sending it, ten times at
    once, locks nobody out. Safe between threads; processes that judge the same instant may let one
    more failure each be told, or write one more entry each.
    """

    def __init__(self, settings: Settings, ledger: Ledger) -> None:
        self._window = timedelta(seconds=settings.sign_in_window_seconds)
        self._from_network = settings.sign_in_failures_per_network
        self._from_all = settings.sign_in_failures_per_account
        self._of_network = settings.sign_in_failures_of_network
        self._ledger = ledger
        self._adding = threading.Lock()

    @contextmanager
    def attempt(
        self,
        origin: Origin,
        stored: str | None,
        password: str,
        actor: Actor = UNKNOWN,
        login: str | None = None,
    ) -> Iterator[None]:
        """Guard one sign-in: the block raises Unauthorized where it fails, which is counted.

        The first failure of a password has an audit entry, by `actor`, with the `login` that was
        named. `stored` is the hash the password is compared with; None: there is none. A success
        forgets the failures of the account from this network, not those from others.

        Raises:
            TooManyRequests: before the block, or after it where others failed meanwhile, so
                that many guesses at once tell no more than as many in a row.
            Unauthorized: before the block, where this very password failed from this network.
        """
        guess = self._digest_guess(origin, stored, password)
        self._require_open(origin)
        with self._ledger.reading() as session:
            # A comparison is costly: who may repeat it without end would hold up all others.
            if sign_ins.has_failed(session, origin, guess, self.since(self._ledger.clock())):
                raise Unauthorized(WRONG_PASSWORD)
        try:
            yield
        except Unauthorized:
            self._record_failure(origin, guess, actor, login)
            raise
        self.record_success(origin, self._require_open(origin))

    def origin(self, login: str, address: str | None) -> Origin:
        """Return the keys of an attempt's counters: one for the account, one for the network."""
        return Origin(_digest(login), _network_of(address))

    def since(self, now: datetime) -> datetime:
        """Return the instant after which failures count."""
        return now - self._window

    def is_open(self, history: History) -> bool:
        """Whether another attempt is allowed after these failures."""
        if history.from_network >= self._from_network:
            return False
        few = history.from_all < self._from_all and history.of_network < self._of_network
        return few or history.is_known(self._ledger.clock().date())

    def record_success(self, origin: Origin, history: History) -> None:
        """Make the network known; written once a day, or where there are failures to forget."""
        today = self._ledger.clock().date()
        if history.from_network or history.last_success != today:
            with self._ledger.writing(SERVICE) as session:
                sign_ins.add_success(session, origin, today)

    def _require_open(self, origin: Origin) -> History:
        with self._ledger.reading() as session:
            return self._checked_history(session, origin, self._ledger.clock())

    def _digest_guess(self, origin: Origin, stored: str | None, password: str) -> str:
        """Return what tells a guess from others, by a key that is not in the ledger.

        What is `stored` is part of it: a password that was wrong may become the right one.
        """
        key = self._ledger.box.derived("failed sign-ins").encode()
        about = f"{origin.account}\0{stored or ''}\0".encode()
        return hmac.new(key, about + encode_password(password), "sha256").hexdigest()

    def _record_failure(self, origin: Origin, guess: str, actor: Actor, login: str | None) -> None:
        now = self._ledger.clock()
        with self._adding, self._ledger.writing(actor) as session:
            self._checked_history(session, origin, now)
            if not sign_ins.has_failed(session, origin, guess, self.since(now)):
                sign_ins.add_failure(session, origin, guess, now, self.since(now))
                write_entry(session, "Login", "refuse", {"login": [None, login]})

    def _checked_history(self, session: ReadingSession, origin: Origin, now: datetime) -> History:
        failed = sign_ins.failures(session, origin, self.since(now))
        of_account = [failure for failure in failed if failure.account == origin.account]
        of_network = [failure for failure in failed if failure.network == origin.network]
        by_account, by_network = _times(of_account), _times(of_network)
        by_both = _times(failure for failure in of_account if failure.network == origin.network)
        history = History(
            len(by_both), len(by_account), len(by_network), sign_ins.last_success(session, origin)
        )
        if not self.is_open(history):
            counted = [(by_both, self._from_network)]
            if not history.is_known(now.date()):
                counted += [(by_account, self._from_all), (by_network, self._of_network)]
            # The oldest of the latest failures that are too many is the first to count no more.
            ends = max(times[-limit] for times, limit in counted if len(times) >= limit)
            left = (ends + self._window - now).total_seconds()
            raise TooManyRequests(max(1, math.ceil(left)))
        return history


def _times(failures: Iterable[Failure]) -> list[datetime]:
    """Return when each of different guesses failed last, in order."""
    return sorted({failure.guess: failure.at for failure in failures}.values())


def _network_of(address: str | None) -> str:
    """Return an IPv4 address, or the /64 of an IPv6 address; empty where there is none."""
    try:
        ip = ipaddress.ip_address(address or "")
    except ValueError:
        return ""
    mapped = ip.ipv4_mapped if isinstance(ip, ipaddress.IPv6Address) else ip
    if mapped is not None:
        return str(mapped)
    # Whoever has one IPv6 address has the 2^64 around it.
    return str(ipaddress.ip_network((ip, 64), strict=False))


def _digest(login: str) -> str:
    """Return a key of one length for every text that somebody may send as a login."""
    return hashlib.sha256(login.casefold().encode("utf-8", "surrogatepass")).hexdigest()
