"""What will run when, from the windows themselves."""

import heapq
from collections.abc import Iterator, Mapping
from datetime import datetime

from jobauto_prefect.compiler.schedule import Schedule
from jobauto_prefect.compiler.windows import Window, windows_between

Launch = tuple[int, Window]


def forecast(
    schedules: Mapping[int, Schedule], after: datetime, until: datetime
) -> Iterator[Launch]:
    """The windows of these schedules whose jobs start within `(after, until]`.

    In the order of their starts, each with the key of its schedule.
    """
    each = (_launches(key, schedule, after, until) for key, schedule in schedules.items())
    return heapq.merge(*each, key=lambda launch: (launch[1].launch_at, launch[0]))


def _launches(
    key: int, schedule: Schedule, after: datetime, until: datetime
) -> Iterator[tuple[int, Window]]:
    for window in windows_between(schedule, after - schedule.delay, until - schedule.delay):
        yield key, window
