"""Interval codes, cron expressions and zones."""

import pytest

from jobauto_prefect.compiler.scheduling.schedule import CODES, NICKNAMES, cron_of, schedule_of
from jobauto_prefect.errors import InvalidInput


def test_every_code_but_never_has_five_fields() -> None:
    assert all(len((cron_of(code) or "").split()) == 5 for code in CODES if code not in "nc")
    assert cron_of("n") is None
    assert schedule_of("n", None, "UTC") is None


def test_an_empty_custom_interval_has_no_schedule() -> None:
    assert cron_of("c", " ") is None
    assert cron_of("c", None) is None


def test_names_and_spaces_and_nicknames_are_cron() -> None:
    assert cron_of("c", " 0  6 * JAN-mar mon,FRI ") == "0 6 * JAN-mar mon,FRI"
    assert [cron_of("c", name) for name in NICKNAMES] == [*NICKNAMES.values()]
    assert cron_of("c", "@Daily") == "0 0 * * *"


@pytest.mark.parametrize(
    "cron", ["* * * *", "0 0 31 2 *", "61 * * * *", "@reboot", "0 0 0 0 0 0", "0 0 * * 0,", "@"]
)
def test_what_is_no_cron_expression_is_refused_by_name(cron: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        cron_of("c", cron)
    assert caught.value.faults[0].pointer == "/cron"
    assert cron in caught.value.faults[0].message


def test_an_unknown_code_and_an_unknown_zone_are_refused() -> None:
    with pytest.raises(InvalidInput, match="'x' is none of"):
        cron_of("x")
    with pytest.raises(InvalidInput, match="no time zone 'Mars/Olympus'"):
        schedule_of("h", None, "Mars/Olympus")
