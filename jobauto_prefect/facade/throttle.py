"""Failed sign-ins are counted per account and per address; too many, and both are refused."""

import ipaddress
import math
import threading
from collections import OrderedDict, deque
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta

from jobauto_prefect.clock import Clock, utc_now
from jobauto_prefect.errors import TooManyRequests, Unauthorized
from jobauto_prefect.settings import Settings

MOST_COUNTED = 10_000
"""Accounts, and as many addresses, of which this process remembers failures."""

_LONGEST_LOGIN = 300


class SignInThrottle:
    """Sliding windows of failed sign-ins, in this process's memory. Safe between threads.

    While an account or an address has as many failures as the settings allow, every further
    attempt is refused, the right password too: the answer must not tell it apart.
    """

    def __init__(self, settings: Settings, clock: Clock = utc_now) -> None:
        window = timedelta(seconds=settings.sign_in_window_seconds)
        self._clock = clock
        self._accounts = _Failures(settings.sign_in_failures_per_account, window)
        self._addresses = _Failures(settings.sign_in_failures_per_address, window)
        self._lock = threading.Lock()

    @contextmanager
    def attempt(self, login: str, address: str | None) -> Iterator[None]:
        """One sign-in: the block raises Unauthorized where it fails, which is counted.

        `address` is the peer's; None where it has none. A success forgets the failures of the
        account, not those of the address.

        Raises:
            TooManyRequests: before the block, or after it where others failed meanwhile, so
                that many guesses at once tell no more than as many in a row.
        """
        account, origin = _account(login), _origin(address)
        self._require_open(account, origin)
        try:
            yield
        except Unauthorized:
            self._require_open(account, origin, failed=True)
            raise
        self._require_open(account, origin)
        with self._lock:
            self._accounts.forget(account)

    def _require_open(self, account: str, origin: str, *, failed: bool = False) -> None:
        with self._lock:
            now = self._clock()
            wait = max(
                self._accounts.seconds_to_wait(account, now),
                self._addresses.seconds_to_wait(origin, now),
            )
            if failed and not wait:
                self._accounts.add(account, now)
                self._addresses.add(origin, now)
        if wait:
            raise TooManyRequests(wait)


def _account(login: str) -> str:
    return login.casefold()[:_LONGEST_LOGIN]


def _origin(address: str | None) -> str:
    try:
        ip = ipaddress.ip_address(address or "")
    except ValueError:
        return ""
    mapped = ip.ipv4_mapped if isinstance(ip, ipaddress.IPv6Address) else ip
    if mapped is not None:
        return str(mapped)
    # Whoever has one IPv6 address has the 2^64 around it.
    return str(ipaddress.ip_network((ip, 64), strict=False))


class _Failures:
    """The latest failures of each key, the key that failed longest ago first."""

    def __init__(self, limit: int, window: timedelta) -> None:
        self._limit = limit
        self._window = window
        self._times: OrderedDict[str, deque[datetime]] = OrderedDict()

    def add(self, key: str, now: datetime) -> None:
        times = self._times.setdefault(key, deque(maxlen=self._limit))
        times.append(now)
        self._times.move_to_end(key)
        if len(self._times) > MOST_COUNTED:
            self._times.popitem(last=False)

    def seconds_to_wait(self, key: str, now: datetime) -> int:
        """Whole seconds, at least 1, until the key may try again; 0: it may now."""
        times = self._times.get(key)
        if times is None or len(times) < self._limit:
            return 0
        left = (times[0] + self._window - now).total_seconds()
        return max(0, math.ceil(left))

    def forget(self, key: str) -> None:
        self._times.pop(key, None)
