"""The calendar of windows: a month of tasks by day, and what the forecast says is ahead."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from urllib.parse import urlencode
from zoneinfo import ZoneInfo

from fastapi import Request, Response
from starlette.concurrency import run_in_threadpool

from jobauto_prefect.facade.console.contract import Contract, CurrentContract
from jobauto_prefect.facade.console.moments import CurrentTime
from jobauto_prefect.facade.console.page_response import respond_in_console
from jobauto_prefect.facade.console.records.choices import read_choices
from jobauto_prefect.facade.console.records.record_views import (
    language_parts,
)
from jobauto_prefect.facade.console.success_chart import MONTHS
from jobauto_prefect.facade.console.tasks.task_list_page import CALENDAR, TASKS
from jobauto_prefect.facade.console.tasks.window_calendar import (
    EXCUSED,
    OWED,
    PLANNED,
    TONES,
    DayCounts,
    Month,
    count_days,
)
from jobauto_prefect.facade.console.tasks.window_words import tell_state
from jobauto_prefect.facade.formats.html.page_language import Translator
from jobauto_prefect.facade.http import late_routes
from jobauto_prefect.facade.resources.forecasts import count_planned
from jobauto_prefect.facade.service import CurrentService, Service
from jobauto_prefect.ledger.queries.jobs import windows_by_day
from jobauto_prefect.ledger.states import LIVE_TASKS

MAX_AHEAD = timedelta(days=366)
WEEKDAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")

router = late_routes.router(include_in_schema=False)


@dataclass(frozen=True, slots=True)
class DayEntry:
    """How many windows of a kind a day has; `href` is "" where there is no list of them."""

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
async def show_calendar(
    request: Request, contract: CurrentContract, service: CurrentService, now: CurrentTime
) -> Response:
    """Show a month of windows."""
    translate, languages = language_parts(request)
    zone = ZoneInfo(service.settings.timezone)
    query = request.query_params
    month = Month.parse(query.get("month", ""), now, zone)
    chosen = {
        name: query[name]
        for name in ("template", "company")
        if query.get(name, "").isascii() and query.get(name, "").isdecimal()
    }
    narrowed = {"company_id": chosen.get("company", "")}
    templates = await read_choices(contract, "runtemplates", languages, narrowed)
    counts = await run_in_threadpool(_count_tasks, service, contract, month, chosen)
    ahead = await run_in_threadpool(_count_planned, service, contract, month, now, chosen)
    days = count_days(counts, ahead, month)
    names = [translate(name) for name in WEEKDAYS]
    cells = {
        day: _cell(day, days[number], month, now, chosen, translate)
        for number, day in enumerate(month.days)
    }
    return respond_in_console(
        request,
        contract.who,
        "tasks/calendar.html",
        translate("Calendar of windows"),
        here="Tasks",
        weeks=[[cells[day] if day else None for day in week] for week in month.weeks],
        weekdays=names,
        heading=f"{translate(MONTHS[month.first.month - 1])} {month.first.year}",
        zone=zone.key,
        month=month,
        chosen=chosen,
        templates=templates,
        companies=await read_choices(contract, "companies", languages),
        before=_address(month.before, chosen),
        after=_address(month.after, chosen),
        has_windows=any(days),
    )


def _count_tasks(
    service: Service, contract: Contract, month: Month, chosen: Mapping[str, str]
) -> Mapping[tuple[int, str, bool], int]:
    companies = contract.who.rights.companies_with("jobs.read")
    with service.ledger.reading() as session:
        return windows_by_day(
            session,
            companies,
            month.midnights,
            **_ids(chosen),
        )


def _count_planned(
    service: Service, contract: Contract, month: Month, now: datetime, chosen: Mapping[str, str]
) -> list[int]:
    """Count the windows that are ahead on each day of the month; years ahead nobody looks."""
    days = len(month.days)
    if month.midnights[-1] <= now or month.midnights[0] - now > MAX_AHEAD:
        return [0] * days
    with service.ledger.reading() as session:
        return count_planned(
            session,
            service,
            contract.who,
            [max(midnight, now) for midnight in month.midnights],
            **_ids(chosen),
        )


def _ids(chosen: Mapping[str, str]) -> dict[str, int | None]:
    given = {"runtemplate_id": chosen.get("template"), "company_id": chosen.get("company")}
    return {name: int(number) if number else None for name, number in given.items()}


def _cell(
    day: date,
    counts: DayCounts,
    month: Month,
    now: datetime,
    chosen: Mapping[str, str],
    translate: Translator,
) -> DayCell:
    following = day + timedelta(days=1)
    query = {"from": month.midnight(day).isoformat(), "to": month.midnight(following).isoformat()}
    query |= {f"{'run' if name == 'template' else ''}{name}_id": chosen[name] for name in chosen}
    named = translate(MONTHS[day.month - 1])
    return DayCell(
        number=day.day,
        label=translate("{day} {month}", day=day.day, month=named),
        href=f"{TASKS}?{urlencode(query)}",
        is_today=day == now.astimezone(month.zone).date(),
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
    return f"{TASKS}?{urlencode({'state': state, **query}, safe=',')}"


def _address(month: Month, chosen: Mapping[str, str]) -> str:
    return f"{CALENDAR}?{urlencode({'month': month.name, **chosen})}"
