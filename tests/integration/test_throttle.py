"""Failed sign-ins are counted per account and per address."""

from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from threading import Barrier
from time import monotonic, sleep

import pytest
from sqlalchemy import func, select

from jobauto_prefect.errors import TooManyRequests, Unauthorized
from jobauto_prefect.facade.throttle import SignInThrottle
from jobauto_prefect.ledger.records import SignInFailure
from jobauto_prefect.ledger.store import Ledger
from jobauto_prefect.settings import Settings


class Time:
    """A clock that stands still until it is moved."""

    def __init__(self) -> None:
        self.now = datetime(2030, 1, 1, tzinfo=UTC)

    def __call__(self) -> datetime:
        return self.now

    def pass_(self, seconds: float) -> None:
        self.now += timedelta(seconds=seconds)


SETTINGS = Settings(sign_in_failures_per_account=3, sign_in_failures_per_address=6)


@pytest.fixture
def time(ledger: Ledger) -> Time:
    ledger.clock = Time()
    return ledger.clock


@pytest.fixture
def throttle(time: Time, ledger: Ledger) -> SignInThrottle:
    return SignInThrottle(SETTINGS, ledger)


def _counted(ledger: Ledger) -> int:
    with ledger.reading() as session:
        return session.scalar(select(func.count()).select_from(SignInFailure)) or 0


def _fail(throttle: SignInThrottle, login: str, address: str | None = "192.0.2.1") -> None:
    with pytest.raises(Unauthorized), throttle.attempt(login, address):
        raise Unauthorized("wrong")


def _succeed(throttle: SignInThrottle, login: str, address: str | None = "192.0.2.1") -> None:
    with throttle.attempt(login, address):
        pass


def _refused(throttle: SignInThrottle, login: str, address: str | None = "192.0.2.1") -> int:
    with pytest.raises(TooManyRequests) as caught, throttle.attempt(login, address):
        pytest.fail("a refused attempt must not be looked at")
    return caught.value.retry_after


def test_an_account_with_too_many_failures_is_refused_from_everywhere(
    throttle: SignInThrottle,
) -> None:
    for number in range(3):
        _fail(throttle, "eva", f"192.0.2.{number}")
    assert _refused(throttle, "eva", "198.51.100.1") == 300
    assert _refused(throttle, "EVA", None) == 300
    _succeed(throttle, "tom")


def test_an_address_with_too_many_failures_is_refused_for_everyone(
    throttle: SignInThrottle,
) -> None:
    for number in range(6):
        _fail(throttle, f"guess-{number}")
    assert _refused(throttle, "eva") == 300
    _succeed(throttle, "eva", "192.0.2.2")


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


def test_a_success_forgets_the_failures_of_the_account_not_of_the_address(
    throttle: SignInThrottle,
) -> None:
    for _ in range(2):
        _fail(throttle, "eva")
        _fail(throttle, "eva")
        _succeed(throttle, "eva")
    _fail(throttle, "tom")
    _fail(throttle, "tom")
    assert _refused(throttle, "eva") == 300


def test_an_ipv6_network_is_one_address(throttle: SignInThrottle) -> None:
    for number in range(6):
        _fail(throttle, f"guess-{number}", f"2001:db8::{number}")
    _refused(throttle, "eva", "2001:db8:0:0:1234::1")
    _succeed(throttle, "eva", "2001:db8:0:1::1")


def test_an_ipv4_address_written_as_ipv6_is_the_same(throttle: SignInThrottle) -> None:
    for number in range(6):
        _fail(throttle, f"guess-{number}", "::ffff:192.0.2.1")
    _refused(throttle, "eva", "192.0.2.1")
    _succeed(throttle, "eva", "::ffff:192.0.2.2")


def test_guesses_at_once_tell_no_more_than_guesses_in_a_row(
    throttle: SignInThrottle, ledger: Ledger
) -> None:
    """All pass the first look; the right one among them is told only before the limit."""
    begun = Barrier(6)

    def judge(right: bool) -> None:
        if not right:
            raise Unauthorized("wrong")
        until = monotonic() + 30
        while (
            _counted(ledger) < 6 and monotonic() < until
        ):  # three of the account, three of the address
            sleep(0.01)  # the right one takes longest

    def guess(number: int) -> str:
        try:
            with throttle.attempt("eva", None):
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


def test_right_passwords_at_once_are_all_let_in(throttle: SignInThrottle) -> None:
    begun = Barrier(6)

    def sign_in(_number: int) -> None:
        with throttle.attempt("eva", None):
            begun.wait()

    with ThreadPoolExecutor(6) as pool:
        list(pool.map(sign_in, range(6)))


def test_what_counts_no_more_is_forgotten(
    throttle: SignInThrottle, time: Time, ledger: Ledger
) -> None:
    for number in range(4):
        _fail(throttle, f"{number}\0" * 1000)
    assert _counted(ledger) == 8
    time.pass_(300)
    _fail(throttle, "eva")
    assert _counted(ledger) == 2
    _succeed(throttle, "eva")
    assert _counted(ledger) == 1


def test_all_processes_of_an_installation_count_together(
    throttle: SignInThrottle, ledger: Ledger
) -> None:
    other = SignInThrottle(SETTINGS, ledger)
    for one in (throttle, other, throttle):
        _fail(one, "eva")
    assert _refused(other, "eva", None) == 300


def test_other_errors_are_no_failed_sign_in(throttle: SignInThrottle) -> None:
    for _ in range(10):
        with pytest.raises(ZeroDivisionError), throttle.attempt("eva", None):
            _ = 1 / 0
    _succeed(throttle, "eva")
