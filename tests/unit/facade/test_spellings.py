"""Numbers, yes and no, and times, as clients may and may not write them."""

from datetime import UTC, datetime
from typing import Any

import pytest

from jobauto_prefect.facade.http.field_types import as_bool, as_datetime, as_integer, as_number

TEN = datetime(2026, 5, 1, 10, tzinfo=UTC)


@pytest.mark.parametrize(
    ("given", "read"), [(5, 5), ("5", 5), ("-7", -7), (5.0, 5), ("0", 0), (0, 0)]
)
def test_whole_numbers_come_as_numbers_or_digits(given: Any, read: int) -> None:
    assert as_integer(given) == read


@pytest.mark.parametrize(
    "given",
    [True, None, "", " 5", "+5", "05", "1_000", "5.0", "\u0665", "1e3", 1.5, [], {}, "9" * 20],
)
def test_nothing_else_is_a_whole_number(given: Any) -> None:
    with pytest.raises(ValueError, match=r"whole number|too large"):
        as_integer(given)


@pytest.mark.parametrize(("given", "read"), [(1.5, 1.5), ("1.5", 1.5), (2, 2), ("2", 2)])
def test_numbers_come_as_numbers_or_digits(given: Any, read: float) -> None:
    assert as_number(given) == read


@pytest.mark.parametrize("given", [True, None, "", "1e3", "nan", "inf", ".5", "5.", [], "0x1"])
def test_nothing_else_is_a_number(given: Any) -> None:
    with pytest.raises(ValueError, match="number"):
        as_number(given)


def test_yes_and_no_come_in_three_spellings() -> None:
    assert [as_bool(each) for each in (True, 1, "1", "true", "True")] == [True] * 5
    assert [as_bool(each) for each in (False, 0, "0", "false", "FALSE")] == [False] * 5
    for each in (2, "yes", "", None, [], "on"):
        with pytest.raises(ValueError, match="true or false"):
            as_bool(each)


@pytest.mark.parametrize(
    "text",
    [
        "2026-05-01T10:00:00Z",
        "2026-05-01T12:00:00+02:00",
        "2026-05-01T12:00:00.000000+0200",
        "2026-05-01T12:00:00 02:00",  # a plus sign that was not encoded
        "2026-05-01 10:00:00",
        "2026-05-01t10:00z",
    ],
)
def test_a_time_has_many_spellings(text: str) -> None:
    assert as_datetime(text) == TEN


def test_a_day_alone_is_its_midnight() -> None:
    assert as_datetime("2026-05-01") == datetime(2026, 5, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    "given",
    [
        "yesterday", "0", "1777600000", "20260501", "2026-W18", "2026-02-30", "2026-05-01T25:00",
        "0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-14:00", "", 5, None,
        "2026-05-01T10:00:00+99",
    ],
)  # fmt: skip
def test_what_is_no_time_is_refused(given: Any) -> None:
    with pytest.raises(ValueError, match="must be a time"):
        as_datetime(given)
