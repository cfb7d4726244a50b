"""Interval codes, cron expressions and zones."""

from zoneinfo import available_timezones

import pytest

from jobauto_prefect.compiler.scheduling.schedule import (
    CODES,
    NICKNAMES,
    cron_of,
    schedule_of,
    zone_of,
)
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


@pytest.mark.parametrize(
    ("cron", "meant"),
    [
        ("0 6 * * FRI-SUN", "0 6 * * FRI-7"),
        ("0 6 * * mon-sun/2", "0 6 * * mon-7/2"),
        ("0 6 * * 2,6-SUN", "0 6 * * 2,6-7"),
        ("0 6 * * SUN-TUE", "0 6 * * SUN-TUE"),
        ("0 6 * * SUN-SUN", "0 6 * * SUN-SUN"),
    ],
)
def test_sunday_at_the_end_of_a_range_is_its_last_day(cron: str, meant: str) -> None:
    assert cron_of("c", cron) == meant


@pytest.mark.parametrize(
    ("cron", "advised"),
    [
        ("0 22-2 * * *", "22-23,0-2"),
        ("0 6 * NOV-feb *", "NOV-DEC,JAN-feb"),
        ("0 6 * * FRI-MON", "FRI-SUN,MON"),
        ("0 6 * * 1,SAT-TUE", "SAT-SUN,MON-TUE"),
        ("0 6 28-3 * *", "28-31,1-3"),
    ],
)
def test_a_range_past_the_end_of_its_field_is_refused_with_what_to_write(
    cron: str, advised: str
) -> None:
    with pytest.raises(InvalidInput, match=f"write {advised}$"):
        cron_of("c", cron)
    first, _, last = advised.partition(",")
    backwards = next(part for field in cron.split() for part in field.split(",") if "-" in part)
    assert cron_of("c", cron.replace(backwards, f"{first},{last}"))


@pytest.mark.parametrize(
    "zone", ["posix/Europe/Prague", "right/UTC", "posixrules", "", "../UTC", "europe/prague"]
)
def test_what_is_no_zone_to_prefect_is_none(zone: str) -> None:
    with pytest.raises(InvalidInput, match="no time zone"):
        zone_of(zone)


def test_every_zone_of_this_machine_is_one_to_prefect() -> None:
    from prefect.server.schemas.schedules import CronSchedule

    for zone in available_timezones():
        assert zone_of(zone).key == zone
        CronSchedule(cron="* * * * *", timezone=zone)


def test_an_unknown_code_and_an_unknown_zone_are_refused() -> None:
    with pytest.raises(InvalidInput, match="'x' is not one of"):
        cron_of("x")
    with pytest.raises(InvalidInput, match="no time zone 'Mars/Olympus'"):
        schedule_of("h", None, "Mars/Olympus")
