"""A month of windows as a grid of weeks: what came of them, and what is ahead."""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from zoneinfo import ZoneInfo

from jobauto_prefect.ledger.states import LIVE_TASKS, TaskState

EXCUSED = "excused"
OWED = "owed"
PLANNED = "planned"
TONES: Mapping[str, str] = {
    TaskState.FULFILLED: "good",
    TaskState.FULFILLED_LATE: "warn",
    TaskState.FAILED: "bad",
    TaskState.MISSED: "bad",
    EXCUSED: "",
    OWED: "live",
    PLANNED: "",
}
"""What a day tells of, in this order, and the colour of each."""

DayCounts = Mapping[str, int]
_MONTH = re.compile(r"(20\d\d)-(0[1-9]|1[0-2])", re.ASCII)


@dataclass(frozen=True, slots=True)
class Month:
    """A month where clocks go by a zone."""

    first: date
    zone: ZoneInfo

    @classmethod
    def parse(cls, text: str, now: datetime, zone: ZoneInfo) -> "Month":
        """Return the month of `YYYY-MM`; the present one where the text is none."""
        match = _MONTH.fullmatch(text)
        today = now.astimezone(zone).date()
        first = date(int(match[1]), int(match[2]), 1) if match else today.replace(day=1)
        return cls(first, zone)

    @property
    def name(self) -> str:
        """The month as `YYYY-MM`."""
        return f"{self.first:%Y-%m}"

    @property
    def before(self) -> "Month":
        """The month before."""
        return Month((self.first - timedelta(days=1)).replace(day=1), self.zone)

    @property
    def after(self) -> "Month":
        """The month after."""
        return Month((self.first + timedelta(days=31)).replace(day=1), self.zone)

    @property
    def days(self) -> list[date]:
        """Its days."""
        count = (self.after.first - self.first).days
        return [self.first + timedelta(days=number) for number in range(count)]

    @property
    def midnights(self) -> list[datetime]:
        """When each day begins; the last one is when the month is over."""
        return [self.midnight(day) for day in (*self.days, self.after.first)]

    def midnight(self, day: date) -> datetime:
        """When a day begins."""
        return datetime.combine(day, time(), self.zone)

    @property
    def weeks(self) -> list[list[date | None]]:
        """Its days by weeks, which begin with Monday; None: a day of another month."""
        days: list[date | None] = [None] * self.first.weekday()
        days += self.days
        days += [None] * (-len(days) % 7)
        return [days[at : at + 7] for at in range(0, len(days), 7)]


def count_days(
    counts: Mapping[tuple[int, str, bool], int],
    planned: Sequence[int],
    month: Month,
) -> Sequence[DayCounts]:
    """Return for each day of a month how many windows of each kind begin on it.

    `counts` are those of tasks by day, state and whether they are excused; `planned` those of the
    windows that are ahead, by day.
    """
    days = [Counter[str]() for _ in month.days]
    for (day, state, is_excused), count in counts.items():
        kind = OWED if state in LIVE_TASKS else EXCUSED if is_excused else state
        days[day][kind] += count
    for day, count in enumerate(planned):
        if count:
            days[day][PLANNED] = count
    return days
