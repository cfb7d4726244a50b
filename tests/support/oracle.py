"""The boundaries of windows, found by looking at the wall clock at every single step.

It shares nothing with the code it judges but the time zone database.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from functools import cached_property, lru_cache
from itertools import pairwise
from zoneinfo import ZoneInfo, available_timezones

from hypothesis import strategies as st

MINUTE, QUARTER, DAY = timedelta(minutes=1), timedelta(minutes=15), timedelta(days=1)
MONTHS = "JAN FEB MAR APR MAY JUN JUL AUG SEP OCT NOV DEC".split()  # noqa: SIM905 - read aloud
DAYS = "SUN MON TUE WED THU FRI SAT".split()  # noqa: SIM905
FIRST, LAST = date(1990, 1, 1), date(2050, 12, 31)


@dataclass(frozen=True)
class Field:
    """A field of cron as it is written, and the numbers it stands for."""

    text: str
    numbers: frozenset[int]


@dataclass(frozen=True)
class Cron:
    """Minute, hour, day, month and day of the week, from Sunday = 0."""

    minute: Field
    hour: Field
    day: Field
    month: Field
    weekday: Field

    @property
    def text(self) -> str:
        """As it is written."""
        fields = (self.minute, self.hour, self.day, self.month, self.weekday)
        return " ".join(field.text for field in fields)

    @cached_property
    def names_times(self) -> bool:
        """Whether it names minutes and hours, and does not count them all."""
        return self.minute.text[0] != "*" and self.hour.text[0] != "*"

    def shows(self, wall: datetime) -> bool:
        """Whether a wall clock that shows this is at one of its times."""
        in_time = wall.minute in self.minute.numbers and wall.hour in self.hour.numbers
        return in_time and wall.month in self.month.numbers and self._day(wall)

    def _day(self, wall: datetime) -> bool:
        day = wall.day in self.day.numbers
        weekday = wall.isoweekday() % 7 in self.weekday.numbers
        if self.day.text[0] == "*" or self.weekday.text[0] == "*":
            return day and weekday
        return day or weekday


def boundaries(
    cron: Cron, zone: ZoneInfo, start: datetime, end: datetime, step: timedelta
) -> Iterator[datetime]:
    """Those within `[start, end)`, looking once a step."""
    instant, before = start, (start - step).astimezone(zone).replace(tzinfo=None)
    while instant < end:
        wall = instant.astimezone(zone)
        shown = wall.replace(tzinfo=None)
        if cron.names_times:
            skipped = _skipped(before + step, shown, step) if shown - before > step else ()
            begins = any(map(cron.shows, skipped)) or (not wall.fold and cron.shows(shown))
        else:
            begins = cron.shows(shown)
        if begins:
            yield instant
        instant, before = instant + step, shown


def _skipped(first: datetime, shown: datetime, step: timedelta) -> Iterator[datetime]:
    while first < shown:
        yield first
        first += step


@lru_cache(maxsize=600)
def days_of_change(zone: ZoneInfo) -> tuple[date, ...]:
    """Days in UTC at which the clock is set otherwise than a day before: nearly all there are."""
    weeks = [FIRST + timedelta(weeks=number) for number in range((LAST - FIRST).days // 7)]
    changed = [
        week
        for week, next_week in pairwise(weeks)
        if _offset(week, zone) != _offset(next_week, zone)
    ]
    days = (week + timedelta(days=number) for week in changed for number in range(7))
    return tuple(day for day in days if _offset(day, zone) != _offset(day + DAY, zone))


def _offset(day: date, zone: ZoneInfo) -> timedelta | None:
    return _at(day).astimezone(zone).utcoffset()


def _at(day: date) -> datetime:
    return datetime(day.year, day.month, day.day, tzinfo=UTC)


PECULIAR = (
    "Africa/Cairo",  # changes at midnight
    "Africa/Casablanca",  # changes around Ramadan
    "America/Havana",  # midnight comes twice
    "America/Sao_Paulo",  # midnight is skipped
    "America/St_Johns",  # changed one minute after midnight, half an hour off
    "Antarctica/Troll",  # changes by two hours
    "Asia/Beirut",
    "Asia/Kathmandu",
    "Asia/Pyongyang",  # changed by half an hour
    "Australia/Lord_Howe",  # changes by half an hour
    "Europe/London",
    "Europe/Prague",
    "Pacific/Apia",  # skipped a day
    "Pacific/Chatham",
    "UTC",
)
ZONES = st.one_of(
    st.sampled_from(PECULIAR),
    st.sampled_from(sorted(name for name in available_timezones() if "/" in name)),
).map(ZoneInfo)


@st.composite
def days(draw: st.DrawFn, zone: ZoneInfo) -> datetime:
    """The beginning of a day in UTC: any day, or one of a clock change or around it."""
    any_day = st.dates(FIRST, LAST)
    changes = days_of_change(zone)
    close_to_a_change = st.sampled_from(changes) if changes else any_day
    return _at(draw(st.one_of(any_day, close_to_a_change))) - timedelta(
        days=draw(st.integers(0, 1))
    )


@st.composite
def fields(draw: st.DrawFn, low: int, high: int, names: tuple[str, ...] = ()) -> Field:
    """A field whose numbers are from `low` to `high`, `names` for the first of them."""

    def written(number: int) -> str:
        named = number - low < len(names) and draw(st.booleans())
        return names[number - low] if named else str(number)

    parts, numbers = [], set[int]()
    for _ in range(draw(st.integers(1, 3))):
        first, last = sorted(draw(st.tuples(*[st.integers(low, high)] * 2)))
        step = draw(st.integers(1, high))
        text, meant = draw(
            st.sampled_from(
                [
                    (written(first), {first}),
                    (f"{written(first)}-{written(last)}", set(range(first, last + 1))),
                    # 5-5/2 would be 5/2: from five on.
                    (f"{first}/{step}", set(range(first, high + 1, step)))
                    if not names or names[0] != "SUN"
                    else (written(first), {first}),  # of weekdays it goes on to the second Sunday
                    (f"{low}-{last}/{step}", set(range(low, last + 1, step)))
                    if low < last
                    else (f"{first}/{step}", set(range(first, high + 1, step))),
                    ("*", set(range(low, high + 1))),
                    (f"*/{step}", set(range(low, high + 1, step))),
                ]
            )
        )
        parts.append(text)
        numbers |= meant
    return Field(",".join(parts), frozenset(numbers))


EACH = st.just(Field("*", frozenset(range(60))))


def mostly_each(field: st.SearchStrategy[Field]) -> st.SearchStrategy[Field]:
    """Two times of three `*`."""
    return st.one_of(EACH, EACH, field)


CRONS = st.builds(
    Cron,
    fields(0, 59),
    st.one_of(EACH, fields(0, 23)),
    mostly_each(fields(1, 31)),
    mostly_each(fields(1, 12, tuple(MONTHS))),
    mostly_each(fields(0, 6, tuple(DAYS))),
)


def only(number: int) -> Field:
    """A field of one number."""
    return Field(str(number), frozenset({number}))


ANY = Field("*", frozenset(range(60)))
OF_CODES = {
    "i": Cron(ANY, ANY, ANY, ANY, ANY),
    "h": Cron(only(0), ANY, ANY, ANY, ANY),
    "d": Cron(only(0), only(0), ANY, ANY, ANY),
    "w": Cron(only(0), only(0), ANY, ANY, only(1)),
    "m": Cron(only(0), only(0), only(1), ANY, ANY),
    "y": Cron(only(0), only(0), only(1), only(1), ANY),
}
