"""Failed sign-ins are counted: of an account from a network, of an account, and from a network."""

from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from threading import Barrier
from time import monotonic, sleep
from uuid import uuid4

import pytest

from jobauto_prefect.errors import TooManyRequests, Unauthorized
from jobauto_prefect.facade.auth.throttle import SignInThrottle
from jobauto_prefect.ledger.records import SignInFailure, SignInSuccess
from jobauto_prefect.ledger.store import Ledger
from jobauto_prefect.settings import Settings
from tests.support.databases import both_databases
from tests.support.ledger_rows import count_rows, fetch_all


class Time:
    """A clock that stands still until it is moved."""

    def __init__(self) -> None:
        self.now = datetime(2030, 1, 1, tzinfo=UTC)

    def __call__(self) -> datetime:
        return self.now

    def pass_(self, seconds: float) -> None:
        self.now += timedelta(seconds=seconds)


SETTINGS = Settings(
    sign_in_failures_per_network=3, sign_in_failures_per_account=6, sign_in_failures_of_network=10
)


@pytest.fixture
def time(ledger: Ledger) -> Time:
    ledger.clock = Time()
    return ledger.clock


@pytest.fixture
def throttle(time: Time, ledger: Ledger) -> SignInThrottle:
    return SignInThrottle(SETTINGS, ledger)


def _attempt(
    throttle: SignInThrottle, login: str, address: str | None, password: str | None = None
) -> AbstractContextManager[None]:
    """An attempt; where no password is named, with one that nobody has tried."""
    return throttle.attempt(throttle.origin(login, address), None, password or uuid4().hex)


def _fail(
    throttle: SignInThrottle,
    login: str,
    address: str | None = "192.0.2.1",
    password: str | None = None,
) -> None:
    with pytest.raises(Unauthorized), _attempt(throttle, login, address, password):
        raise Unauthorized("wrong")


def _succeed(throttle: SignInThrottle, login: str, address: str | None = "192.0.2.1") -> None:
    with _attempt(throttle, login, address):
        pass


def _refused(throttle: SignInThrottle, login: str, address: str | None = "192.0.2.1") -> int:
    with pytest.raises(TooManyRequests) as caught, _attempt(throttle, login, address):
        pytest.fail("a refused attempt must not be looked at")
    return caught.value.retry_after


HOME, AWAY = "192.0.2.1", "198.51.100.1"


def _attack(throttle: SignInThrottle, login: str) -> None:
    """As many failures as lock an account, from networks that nobody else is in."""
    for number in range(6):
        _fail(throttle, login, f"203.0.113.{number}")


def test_an_account_with_too_many_failures_is_refused_from_networks_it_never_signed_in_from(
    throttle: SignInThrottle,
) -> None:
    _succeed(throttle, "eva", HOME)
    _attack(throttle, "eva")
    assert _refused(throttle, "eva", AWAY) == 300
    assert _refused(throttle, "EVA", None) == 300
    _succeed(throttle, "eva", HOME)
    assert _refused(throttle, "eva", AWAY) == 300  # a success at home opens no other network
    _succeed(throttle, "tom", AWAY)


def test_a_network_with_too_many_failures_is_refused_this_account_alone(
    throttle: SignInThrottle,
) -> None:
    _succeed(throttle, "eva", HOME)
    for _ in range(3):
        _fail(throttle, "eva", HOME)
    assert _refused(throttle, "eva", HOME) == 300
    _succeed(throttle, "eva", AWAY)
    _succeed(throttle, "tom", HOME)


def test_the_same_wrong_password_counts_once(
    throttle: SignInThrottle, time: Time, ledger: Ledger
) -> None:
    """A forgotten page sends it every few seconds, here from several networks."""
    for number in range(40):
        _fail(throttle, "eva", f"203.0.113.{number % 8}", "old password")
        _fail(throttle, "eva", HOME, "old password")
        time.pass_(10)
    _succeed(throttle, "eva", AWAY)
    _fail(throttle, "eva", HOME)
    _fail(throttle, "eva", HOME)
    assert _refused(throttle, "eva", HOME) > 0
    _succeed(throttle, "tom", HOME)
    kept = {failure.guess for failure in fetch_all(ledger, SignInFailure)}
    plain = {sha256(text).hexdigest() for text in (b"old password", b"eva\0\0old password")}
    assert len(kept) == 3
    assert not kept & plain


def test_the_same_wrong_password_of_many_accounts_counts_for_each(throttle: SignInThrottle) -> None:
    for number in range(10):
        _fail(throttle, f"somebody-{number}", AWAY, "spring2026")
    _refused(throttle, "eva", AWAY)


def test_a_password_that_became_the_right_one_is_not_known_as_wrong(
    throttle: SignInThrottle,
) -> None:
    origin = throttle.origin("eva", HOME)
    with pytest.raises(Unauthorized), throttle.attempt(origin, "hash of before", "new one"):
        raise Unauthorized("wrong")
    with throttle.attempt(origin, "hash of now", "new one"):
        pass


def test_the_defaults_are_5_from_a_network_and_20_from_all(ledger: Ledger, time: Time) -> None:
    throttle = SignInThrottle(Settings(), ledger)
    _succeed(throttle, "eva", HOME)
    for network in range(4):
        for _ in range(5):
            _fail(throttle, "eva", f"203.0.113.{network}")
        _refused(throttle, "eva", f"203.0.113.{network}")
    _refused(throttle, "eva", AWAY)
    for _ in range(5):
        _fail(throttle, "eva", HOME)
    _refused(throttle, "eva", HOME)


def test_the_default_is_50_from_a_network_of_all_accounts(ledger: Ledger, time: Time) -> None:
    throttle = SignInThrottle(Settings(), ledger)
    for number in range(50):
        _fail(throttle, f"somebody-{number}", AWAY)
    _refused(throttle, "eva", AWAY)


def test_a_network_that_guesses_at_many_accounts_is_refused_those_it_never_signed_in_to(
    throttle: SignInThrottle, time: Time
) -> None:
    _succeed(throttle, "eva", AWAY)
    for number in range(10):
        _fail(throttle, f"somebody-{number}", AWAY)
        time.pass_(1)
    assert _refused(throttle, "somebody-10", AWAY) == 290  # until the first counts no more
    assert _refused(throttle, "somebody-3", AWAY) == 290
    _succeed(throttle, "eva", AWAY)
    _refused(throttle, "tom", AWAY)  # the attacker's own account does not open it either
    _succeed(throttle, "tom", HOME)
    time.pass_(290)
    _succeed(throttle, "tom", AWAY)


def test_who_guesses_at_many_accounts_can_not_start_anew_with_an_account_of_their_own(
    throttle: SignInThrottle,
) -> None:
    _succeed(throttle, "mallory", AWAY)
    for number in range(10):
        _fail(throttle, f"somebody-{number}", AWAY)
        _succeed(throttle, "mallory", AWAY)
    _refused(throttle, "somebody-10", AWAY)


def test_a_network_is_known_to_an_account_for_30_days(throttle: SignInThrottle, time: Time) -> None:
    _succeed(throttle, "eva", HOME)
    time.pass_(30 * 86400)
    _attack(throttle, "eva")
    _succeed(throttle, "eva", HOME)
    time.pass_(31 * 86400)
    _attack(throttle, "eva")
    _refused(throttle, "eva", HOME)
    time.pass_(300)
    _succeed(throttle, "eva", HOME)


@both_databases
def test_a_success_is_written_down_once_a_day_and_forgotten_after_30(
    throttle: SignInThrottle, time: Time, ledger: Ledger
) -> None:
    def known() -> dict[str, str]:
        rows = fetch_all(ledger, SignInSuccess)
        return {row.network: row.day.isoformat() for row in rows}

    for _ in range(3):
        _succeed(throttle, "eva", HOME)
    _succeed(throttle, "eva", "2001:db8::1")
    assert known() == {HOME: "2030-01-01", "2001:db8::/64": "2030-01-01"}
    time.pass_(86400)
    _succeed(throttle, "eva", HOME)
    assert known()[HOME] == "2030-01-02"
    time.pass_(30 * 86400)
    _fail(throttle, "eva", HOME)
    assert known() == {HOME: "2030-01-02"}


def test_the_wait_is_until_the_oldest_failure_counts_no_more(
    throttle: SignInThrottle, time: Time
) -> None:
    _fail(throttle, "eva")
    time.pass_(100.5)
    _fail(throttle, "eva")
    _fail(throttle, "eva")
    assert _refused(throttle, "eva") == 200
    time.pass_(199)
    assert _refused(throttle, "eva") == 1
    time.pass_(1)
    _fail(throttle, "eva")
    assert _refused(throttle, "eva") == 100


def test_refused_attempts_do_not_prolong_the_wait(throttle: SignInThrottle, time: Time) -> None:
    for _ in range(3):
        _fail(throttle, "eva")
    for _ in range(10):
        _refused(throttle, "eva")
    time.pass_(300)
    _succeed(throttle, "eva")


def test_a_success_forgets_the_failures_from_its_network_not_from_others(
    throttle: SignInThrottle,
) -> None:
    for _ in range(2):
        _fail(throttle, "eva", AWAY)
    for _ in range(3):
        _fail(throttle, "eva", HOME)
        _fail(throttle, "eva", HOME)
        _succeed(throttle, "eva", HOME)
    _fail(throttle, "eva", AWAY)
    _refused(throttle, "eva", AWAY)
    _succeed(throttle, "eva", HOME)


def test_an_ipv6_network_is_one_network(throttle: SignInThrottle) -> None:
    for number in range(3):
        _fail(throttle, "eva", f"2001:db8::{number}")
    _refused(throttle, "eva", "2001:db8:0:0:1234::1")
    _succeed(throttle, "eva", "2001:db8:0:1::1")


def test_an_ipv4_address_written_as_ipv6_is_the_same(throttle: SignInThrottle) -> None:
    for _ in range(3):
        _fail(throttle, "eva", "::ffff:192.0.2.1")
    _refused(throttle, "eva", "192.0.2.1")
    _succeed(throttle, "eva", "::ffff:192.0.2.2")


@both_databases
def test_guesses_at_once_tell_no_more_than_guesses_in_a_row(
    throttle: SignInThrottle, ledger: Ledger
) -> None:
    """All pass the first look; the right one among them is told only before the limit."""
    begun = Barrier(6)

    def judge(right: bool) -> None:
        if not right:
            raise Unauthorized("wrong")
        until = monotonic() + 30
        while count_rows(ledger, SignInFailure) < 3 and monotonic() < until:
            sleep(0.01)  # the right one takes longest

    def guess(number: int) -> str:
        try:
            with _attempt(throttle, "eva", None):
                begun.wait()
                judge(number == 5)
        except Unauthorized:
            return "wrong"
        except TooManyRequests:
            return "refused"
        return "right"

    with ThreadPoolExecutor(6) as pool:
        answers = list(pool.map(guess, range(6)))
    assert answers.count("wrong") == 3
    assert answers[5] == "refused"


@both_databases
def test_right_passwords_at_once_are_all_let_in(throttle: SignInThrottle) -> None:
    begun = Barrier(6)

    def sign_in(_number: int) -> None:
        with _attempt(throttle, "eva", None):
            begun.wait()

    with ThreadPoolExecutor(6) as pool:
        list(pool.map(sign_in, range(6)))


@both_databases
def test_what_counts_no_more_is_forgotten(
    throttle: SignInThrottle, time: Time, ledger: Ledger
) -> None:
    for number in range(4):
        _fail(throttle, f"{number}\0" * 1000)
    assert count_rows(ledger, SignInFailure) == 4
    time.pass_(300)
    _fail(throttle, "eva")
    assert count_rows(ledger, SignInFailure) == 1
    _succeed(throttle, "eva")
    assert count_rows(ledger, SignInFailure) == 0


@both_databases
def test_all_processes_of_an_installation_count_together(
    throttle: SignInThrottle, ledger: Ledger
) -> None:
    other = SignInThrottle(SETTINGS, ledger)
    for one in (throttle, other, throttle):
        _fail(one, "eva")
    assert _refused(other, "eva") == 300


def test_other_errors_are_no_failed_sign_in(throttle: SignInThrottle) -> None:
    for _ in range(10):
        with pytest.raises(ZeroDivisionError), _attempt(throttle, "eva", None):
            _ = 1 / 0
    _succeed(throttle, "eva")
