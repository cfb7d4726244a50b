"""What may be wrong with the times of a run template."""

from typing import Any

import pytest

from jobauto_prefect.compiler import schedule_faults


def test_every_error_is_found_at_once() -> None:
    members = {
        "interv": "c",
        "cron": "61 * * * *",
        "timezone": "Mars/Olympus",
        "deadline_offset": "soon",
    }
    pointers = [fault.pointer for fault in schedule_faults(members, "UTC")]
    assert pointers == ["/cron", "/timezone", "/deadline_offset"]


@pytest.mark.parametrize(
    "members",
    [
        {},
        {"interv": "h", "delay": 3599},
        {"interv": "h", "delay": 3600, "deadline_offset": "+61m"},
        {"interv": "d", "delay": 3 * 3600, "deadline_offset": "03:01", "timezone": "Asia/Tokyo"},
        {"interv": "n", "delay": 10**6},
    ],
)
def test_what_can_be_kept_has_no_error(members: dict[str, Any]) -> None:
    assert schedule_faults(members, "UTC") == []


@pytest.mark.parametrize(
    "members",
    [
        {"interv": "h", "delay": 3600},
        {"interv": "h", "delay": 60, "deadline_offset": "+60s"},
        {"interv": "c", "cron": "0 8,9 * * *", "delay": 2 * 3600},
        {"interv": "d", "delay": 3 * 3600, "deadline_offset": "03:00"},
    ],
)
def test_a_start_after_the_deadline_is_refused(members: dict[str, Any]) -> None:
    (fault,) = schedule_faults(members, "UTC")
    assert fault.pointer == "/delay"
    assert "deadline_offset" in fault.message


def test_the_zone_of_who_names_none_counts() -> None:
    assert [fault.pointer for fault in schedule_faults({}, "Mars/Olympus")] == ["/timezone"]
