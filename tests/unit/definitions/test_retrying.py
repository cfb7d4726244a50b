"""When an attempt is followed by another."""

from datetime import UTC, datetime, timedelta

import pytest

from jobauto_prefect.definitions import Backoff, attempts_of, retry_at, retry_wait
from jobauto_prefect.definitions.records.policies import LONGEST

ENDED = datetime(2024, 5, 15, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("backoff", "minutes"),
    [("none", [2, 2, 2]), ("fixed", [2, 2, 2]), ("linear", [2, 4, 6]), ("exponential", [4, 8, 16])],
)
def test_waits_grow_as_their_backoff_says(backoff: str, minutes: list[int]) -> None:
    waits = [retry_wait(backoff, 120, made) for made in (1, 2, 3)]
    assert waits == [timedelta(minutes=each) for each in minutes]


@pytest.mark.parametrize("backoff", [*Backoff])
def test_without_a_gap_there_is_no_wait_and_none_is_longer_than_a_year(backoff: str) -> None:
    assert retry_wait(backoff, 0, 1000) == timedelta()
    assert retry_wait(backoff, LONGEST, 1_000_000) == timedelta(seconds=LONGEST)
    assert retry_wait(backoff, 1, 10**9) <= timedelta(seconds=LONGEST)


def test_no_attempt_begins_when_it_is_too_late() -> None:
    def begin(until: datetime | None) -> datetime | None:
        return retry_at("linear", 60, 2, ENDED, until)

    assert begin(None) == ENDED + timedelta(minutes=2)
    assert begin(ENDED + timedelta(minutes=3)) == ENDED + timedelta(minutes=2)
    assert begin(ENDED + timedelta(minutes=2)) is None


def test_what_is_worth_another_attempt_has_three() -> None:
    assert attempts_of(None) == 3
    assert attempts_of(1) == 1
