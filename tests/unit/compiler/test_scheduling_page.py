"""The examples in docs/scheduling.md are true."""

from collections.abc import Iterator
from datetime import datetime, timedelta

import pytest

from jobauto_prefect.compiler import cron_of, schedule_of, window_at
from jobauto_prefect.definitions import retry_wait
from tests.support.paths import ROOT

PAGE = ROOT / "docs" / "scheduling.md"


def rows(head: str) -> Iterator[list[str]]:
    """The rows of the table whose first column has that head."""
    lines = iter(PAGE.read_text().splitlines())
    for line in lines:
        if line.startswith(f"| {head} |"):
            next(lines)
            for row in lines:
                if not row.startswith("|"):
                    return
                yield [cell.strip().strip("`") for cell in row.strip("|").split("|")]


EXAMPLES = list(rows("interval"))


def length(text: str) -> timedelta:
    parts = text.split()
    units = {"d": "days", "h": "hours", "min": "minutes"}
    pairs = zip(parts[::2], parts[1::2], strict=True)
    return timedelta(**{units[unit]: int(number) for number, unit in pairs})


@pytest.mark.parametrize("row", EXAMPLES, ids=lambda row: f"{row[0]} {row[-1]}")
def test_an_example_of_a_window_is_true(row: list[str]) -> None:
    interval, zone, at, start, end, long, _why = row
    code, cron = (interval, None) if len(interval) == 1 else ("c", interval)
    schedule = schedule_of(code, cron, zone)
    assert schedule is not None
    for shown in (at, start, end):
        instant = datetime.fromisoformat(shown)
        assert instant.astimezone(schedule.zone).strftime("%Y-%m-%d %H:%M %z") == shown
    window = window_at(schedule, datetime.fromisoformat(at))
    assert window.start == datetime.fromisoformat(start)
    assert window.end == datetime.fromisoformat(end)
    assert window.end - window.start == length(long)


def test_there_are_examples_of_every_kind() -> None:
    assert {*"hdwmy"} <= {row[0] for row in EXAMPLES}
    assert len(EXAMPLES) >= 20


def test_the_codes_are_those_there_are() -> None:
    for code, _often, cron in rows("code"):
        assert cron_of(code) == (cron or None)


def test_the_waits_are_those_that_are_kept() -> None:
    for names, *waits in rows("`retry_backoff`"):
        for name in names.replace("`", "").split(", "):
            made = [retry_wait(name, 60, number) for number in (1, 2, 3)]
            assert [f"{wait.seconds} s" for wait in made] == waits
