"""How long a job may run until it is slow."""

from datetime import timedelta

import pytest

from jobauto_prefect.definitions.records.notices import slow_after


@pytest.mark.parametrize(
    ("seconds", "after"),
    [
        ([], None),
        ([10] * 4, None),
        ([10] * 5, 70),  # a minute more at least
        ([100] * 20, 200),
        ([100] * 18 + [900] * 2, 200),  # two in twenty that took long are not usual
        ([100] * 17 + [900] * 3, 1800),
        (list(range(1, 21)), 78),
    ],
)
def test_slow_is_twice_of_what_nine_in_ten_take(seconds: list[int], after: int | None) -> None:
    found = slow_after([timedelta(seconds=one) for one in seconds])
    assert found == (None if after is None else timedelta(seconds=after))
