"""The calendar of windows: a month, with the results of each day."""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from urllib.parse import urlencode
from zoneinfo import ZoneInfo

from fastapi import Response

from jobauto_prefect.console_addresses import list_address
from jobauto_prefect.facade.console.jobs.tasks import CALENDAR, tell_state
from jobauto_prefect.facade.console.success_chart import MONTHS
from jobauto_prefect.facade.console.visit import CurrentVisit, Visit, is_number
from jobauto_prefect.facade.http import late_routes
from jobauto_prefect.facade.resources.forecasts import count_planned
from jobauto_prefect.ledger.queries.jobs import windows_by_day
from jobauto_prefect.ledger.states import LIVE_TASKS, TaskState
from jobauto_prefect.ledger.store import ReadingSession

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
"""The entries of a day, in the order of display, and their colours."""
DayCounts = Mapping[str, int]
_MONTH = re.compile(r"(20\d\d)-(0[1-9]|1[0-2])", re.ASCII)


@dataclass(frozen=True, slots=True)
class Month:
    """A month in a time zone."""

    first: date
    zone: ZoneInfo

    @classmethod
    def parse(cls, text: str, now: datetime, zone: ZoneInfo) -> "Month":
        """Return the month of `YYYY-MM`; the current one if the text is invalid."""
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
        return Month((self.first - timedelta(days=1)).replace(day=1), self.zone)

    @property
    def after(self) -> "Month":
        return Month((self.first + timedelta(days=31)).replace(day=1), self.zone)

    @property
    def days(self) -> list[date]:
        count = (self.after.first - self.first).days
        return [self.first + timedelta(days=number) for number in range(count)]

    @property
    def midnights(self) -> list[datetime]:
        """The beginning of each day, and the end of the month."""
        return [self.midnight(day) for day in (*self.days, self.after.first)]

    def midnight(self, day: date) -> datetime:
        """The beginning of a day."""
        return datetime.combine(day, time(), self.zone)

    @property
    def weeks(self) -> list[list[date | None]]:
        """Its days by week, from Monday; None stands for a day of another month."""
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

    `counts` are numbers of tasks by day, state and whether they are excused; `planned` are numbers
    of future windows by day.
    """
    days = [Counter[str]() for _ in month.days]
    for (day, state, is_excused), count in counts.items():
        kind = OWED if state in LIVE_TASKS else EXCUSED if is_excused else state
        days[day][kind] += count
    for day, count in enumerate(planned):
        if count:
            days[day][PLANNED] = count
    return days


MAX_AHEAD = timedelta(days=366)
WEEKDAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")


router = late_routes.router(include_in_schema=False)


@dataclass(frozen=True, slots=True)
class DayEntry:
    """How many windows of a kind a day has; `href` is "" if no list shows them."""

    text: str
    tone: str
    href: str


@dataclass(frozen=True, slots=True)
class DayCell:
    """A day of the grid."""

    number: int
    label: str
    href: str
    is_today: bool
    entries: Sequence[DayEntry]


@router.get(CALENDAR)
async def show_calendar(visit: CurrentVisit) -> Response:
    translate, zone = visit.translate, visit.zone
    month = Month.parse(visit.request.query_params.get("month", ""), visit.now, zone)
    asked = visit.asked("template", "company")
    chosen = {name: text for name, text in asked.items() if is_number(text)}
    narrowed = {"company_id": chosen.get("company", "")}
    days = await visit.query(lambda session: _read_days(session, visit, month, chosen))
    cells = {
        day: _cell(day, days[number], month, chosen, visit) for number, day in enumerate(month.days)
    }
    return visit.respond(
        "tasks/calendar.html",
        translate("Calendar of windows"),
        weeks=[[cells[day] if day else None for day in week] for week in month.weeks],
        weekdays=[translate(name) for name in WEEKDAYS],
        heading=f"{translate(MONTHS[month.first.month - 1])} {month.first.year}",
        zone=zone.key,
        month=month,
        chosen=chosen,
        templates=await visit.choices("runtemplates", narrowed),
        companies=await visit.choices("companies"),
        before=_address(month.before, chosen),
        after=_address(month.after, chosen),
        has_windows=any(days),
    )


def _read_days(
    session: ReadingSession, visit: Visit, month: Month, chosen: Mapping[str, str]
) -> Sequence[DayCounts]:
    """Count the windows of each day of the month; of future ones none beyond `MAX_AHEAD`."""
    given = {"runtemplate_id": chosen.get("template"), "company_id": chosen.get("company")}
    ids = {name: int(number) if number else None for name, number in given.items()}
    companies, now = visit.who.rights.companies_with("jobs.read"), visit.now
    counts = windows_by_day(session, companies, month.midnights, **ids)
    planned: Sequence[int] = ()
    if month.midnights[-1] > now and month.midnights[0] - now <= MAX_AHEAD:
        ahead = [max(midnight, now) for midnight in month.midnights]
        planned = count_planned(session, visit.service, visit.who, ahead, **ids)
    return count_days(counts, planned, month)


def _cell(
    day: date,
    counts: DayCounts,
    month: Month,
    chosen: Mapping[str, str],
    visit: Visit,
) -> DayCell:
    translate, following = visit.translate, day + timedelta(days=1)
    query = {"from": month.midnight(day).isoformat(), "to": month.midnight(following).isoformat()}
    query |= {f"{'run' if name == 'template' else ''}{name}_id": chosen[name] for name in chosen}
    named = translate(MONTHS[day.month - 1])
    return DayCell(
        number=day.day,
        label=translate("{day} {month}", day=day.day, month=named),
        href=f"{list_address('task')}?{urlencode(query)}",
        is_today=day == visit.now.astimezone(month.zone).date(),
        entries=[
            DayEntry(f"{counts[kind]} {tell_state(kind, translate)}", tone, _list_of(kind, query))
            for kind, tone in TONES.items()
            if counts.get(kind)
        ],
    )


def _list_of(kind: str, query: Mapping[str, str]) -> str:
    if kind in (PLANNED, EXCUSED):
        return ""
    state = ",".join(LIVE_TASKS) if kind == OWED else kind
    return f"{list_address('task')}?{urlencode({'state': state, **query}, safe=',')}"


def _address(month: Month, chosen: Mapping[str, str]) -> str:
    return f"{CALENDAR}?{urlencode({'month': month.name, **chosen})}"
