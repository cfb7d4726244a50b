"""Counters of failed sign-ins: per account and network, per account, and per network."""

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
"""The audit trail's actor for a failed sign-in."""

WRONG_PASSWORD = "login or password is wrong"  # noqa: S105 - a message


class SignInThrottle:
    """Sliding windows of failed sign-ins, in the ledger: every process counts all failures.

    After a number of failures from a network, it is refused the account. After more failures of the
    account from all networks together, or of all accounts from this network, it is refused unless
    the account signed in from this network within 30 days: strangers only lock out strangers, and
    trying a password on many accounts is stopped, too. The right password is refused, too: the
    response must not reveal it. The same wrong password of an account counts once and has one audit
    entry: a page that keeps sending it, ten times at once, locks nobody out. Thread-safe; processes
    that check simultaneously may each answer one more failure, or write one more entry.
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
        """Guard one sign-in: the block raises Unauthorized if it fails, which is counted.

        The first failure of a password has an audit entry, by `actor`, with the given `login`.
        `stored` is the hash the password is compared with; None: there is none. A success resets
        the account's failures from this network, not those from others.

        Raises:
            TooManyRequests: before the block, or after it if others failed meanwhile, so that
                concurrent guesses reveal no more than sequential ones.
            Unauthorized: before the block, if this password failed from this network already.
        """
        guess = self._digest_guess(origin, stored, password)
        self._require_open(origin)
        with self._ledger.reading() as session:
            # A comparison is expensive: repeating it without limit would block everyone else.
            if sign_ins.has_failed(session, origin, guess, self.since(self._ledger.clock())):
                raise Unauthorized(WRONG_PASSWORD)
        try:
            yield
        except Unauthorized:
            self._record_failure(origin, guess, actor, login)
            raise
        self.record_success(origin, self._require_open(origin))

    def origin(self, login: str, address: str | None) -> Origin:
        """Return the keys of a sign-in's counters: one for the account, one for the network."""
        # A key of fixed length for any string sent as a login.
        named = login.casefold().encode("utf-8", "surrogatepass")
        return Origin(hashlib.sha256(named).hexdigest(), _network_of(address))

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
        """Record the network as known; written once a day, or if there are failures to reset."""
        today = self._ledger.clock().date()
        if history.from_network or history.last_success != today:
            with self._ledger.writing(SERVICE) as session:
                sign_ins.add_success(session, origin, today)

    def _require_open(self, origin: Origin) -> History:
        with self._ledger.reading() as session:
            return self._checked_history(session, origin, self._ledger.clock())

    def _digest_guess(self, origin: Origin, stored: str | None, password: str) -> str:
        """Return a guess's digest, made with a key that is not in the ledger.

        It includes `stored`: a password that was wrong may become the right one.
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
            # The oldest of the latest failures that reach the limit is the first to expire.
            ends = max(times[-limit] for times, limit in counted if len(times) >= limit)
            left = (ends + self._window - now).total_seconds()
            raise TooManyRequests(max(1, math.ceil(left)))
        return history


def _times(failures: Iterable[Failure]) -> list[datetime]:
    """Return when each distinct guess last failed, in order."""
    return sorted({failure.guess: failure.at for failure in failures}.values())


def _network_of(address: str | None) -> str:
    """Return an IPv4 address, or the /64 of an IPv6 address; empty if there is none."""
    try:
        ip = ipaddress.ip_address(address or "")
    except ValueError:
        return ""
    mapped = ip.ipv4_mapped if isinstance(ip, ipaddress.IPv6Address) else ip
    if mapped is not None:
        return str(mapped)
    # The owner of one IPv6 address has its whole /64.
    return str(ipaddress.ip_network((ip, 64), strict=False))
