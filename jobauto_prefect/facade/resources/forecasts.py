"""Forecasts: which windows start when."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from itertools import islice
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request, Response
from pydantic import Field

from jobauto_prefect.compiler.scheduling.deadlines import deadline_of
from jobauto_prefect.compiler.scheduling.forecast import PlannedLaunch, Timing, forecast
from jobauto_prefect.compiler.scheduling.schedule import Schedule
from jobauto_prefect.compiler.scheduling.windows import count_windows
from jobauto_prefect.engine.sync.deployment_plans import template_schedule
from jobauto_prefect.errors import Fault, InvalidInput
from jobauto_prefect.facade.answers import Answer
from jobauto_prefect.facade.auth.identity import CurrentUser, Identity
from jobauto_prefect.facade.http.field_types import READ_INTEGER
from jobauto_prefect.facade.http.operations import SERVICE, answered, operation
from jobauto_prefect.facade.http.responses import respond_plain
from jobauto_prefect.facade.kinds.natural_keys import find_id, parse_key
from jobauto_prefect.facade.service import CurrentService, Service
from jobauto_prefect.jobs.windows.closed_time import closed_times
from jobauto_prefect.ledger.jobs.attempts import is_active
from jobauto_prefect.ledger.queries.run_templates import templates_with_context
from jobauto_prefect.ledger.records import RunTemplate
from jobauto_prefect.ledger.store import ReadingSession

MAX_WINDOWS = 10_000
MAX_NAMED = 100  # run templates; each name takes a query
Days = Annotated[
    int, Query(ge=1, le=3660, description="How many days to look ahead."), READ_INTEGER
]
Limit = Annotated[
    int,
    Query(ge=1, le=MAX_WINDOWS, description="At most this many windows, the first ones."),
    READ_INTEGER,
]
Ids = Annotated[
    str | None,
    Query(
        pattern=r"^[^,]{1,320}(,[^,]{1,320})*$",
        description="Only these run templates: ids or `company/name`, separated by commas.",
    ),
]


router = APIRouter()


class Launch(Answer):
    """A window of a run template, and when its job starts."""

    runtemplate_id: int = Field(description="The run template.")
    launch_at: datetime = Field(description="When its job starts.")
    moved_from: datetime | None = Field(
        description="When the job would start if no time were closed; null: the window is not "
        "moved."
    )
    closed: str | None = Field(
        description="Why the time at which the job is due is closed; null: it is open."
    )
    excused: bool = Field(description="Whether no job starts because of closed time.")
    window_start: datetime = Field(description="Beginning of the window.")
    window_end: datetime = Field(description="End of the window, exclusive.")
    deadline: datetime = Field(description="The time by which the window's task must be fulfilled.")
    timezone: str = Field(description="IANA name of the schedule's time zone.")


class Forecast(Answer):
    """The windows of a period; `more`: there are more than `limit`."""

    from_: datetime = Field(
        alias="from", description="Start of the period: the time of the request."
    )
    until: datetime = Field(description="End of the period.")
    more: bool = Field(description="Whether there are more windows than `limit`.")
    windows: list[Launch] = Field(description="The windows, ordered by the start of their jobs.")


@operation(
    router, "GET /forecast.{suffix}", "forecast", "Forecast windows",
    "The windows whose jobs start within `days`, ordered by the start of their jobs, for the "
    "active run templates that you may see.",
    tag=SERVICE, answer=answered("The windows.", Forecast),
)  # fmt: skip
def list_forecast(
    request: Request,
    who: CurrentUser,
    service: CurrentService,
    days: Days = 7,
    runtemplate_id: Ids = None,
    limit: Limit = 1000,
) -> Response:
    """Return the windows of active run templates one may see that start within `days`."""
    now = service.ledger.clock()
    until = now + timedelta(days=days)
    wanted = runtemplate_id and runtemplate_id.split(",")
    if wanted and len(wanted) > MAX_NAMED:
        message = f"names {len(wanted)} run templates; ask for at most {MAX_NAMED} at once"
        raise InvalidInput([Fault("/runtemplate_id", "items", message)])
    with service.ledger.reading() as session:
        ids = None
        if wanted:
            ids = {
                find_id(session, who, RunTemplate, key) if isinstance(key, str) else key
                for word in wanted
                for key in [parse_key("runtemplate_id", word)]
            }
        templates, timings = _load_timings(session, service, who, ids, now)
    launches = list(islice(forecast(timings, now, until), limit + 1))
    data = {
        "from": now.isoformat(),
        "until": until.isoformat(),
        "more": len(launches) > limit,
        "windows": [
            _window_fields(templates[launch.key], timings[launch.key].schedule, launch)
            for launch in launches[:limit]
        ],
    }
    return respond_plain(request, who, "Forecast", data)


NEAREST = timedelta(days=366)
"""How far ahead the next launch of a run template is searched."""

MAX_EXCUSED = 500
"""How many windows in closed time are skipped to find one outside it."""


def next_launches(
    session: ReadingSession, service: Service, who: Identity, ids: Collection[int]
) -> Mapping[int, PlannedLaunch]:
    """Return the next launch of each of these run templates, by id; those without are left out.

    If all near windows are in closed time, it is the first of them.
    """
    now = service.ledger.clock()
    _, timings = _load_timings(session, service, who, ids, now)
    launches = {
        template_id: _first_launch(forecast({template_id: timing}, now, now + NEAREST))
        for template_id, timing in timings.items()
    }
    return {template_id: launch for template_id, launch in launches.items() if launch}


def count_planned(
    session: ReadingSession,
    service: Service,
    who: Identity,
    edges: Sequence[datetime],
    *,
    runtemplate_id: int | None = None,
    company_id: int | None = None,
) -> list[int]:
    """Return how many windows begin from each of these instants to the next.

    It covers the active run templates that the caller may see, of one company or one id if given.
    """
    ids = None if runtemplate_id is None else [runtemplate_id]
    templates, timings = _load_timings(session, service, who, ids, edges[0])
    days = [0] * (len(edges) - 1)
    for template_id, timing in timings.items():
        if company_id in (None, templates[template_id].company_id):
            counts = count_windows(timing.schedule, edges)
            days = [day + count for day, count in zip(days, counts, strict=True)]
    return days


def _first_launch(launches: Iterator[PlannedLaunch]) -> PlannedLaunch | None:
    first = next(launches, None)
    if first is not None and first.excused:
        later = (launch for launch in islice(launches, MAX_EXCUSED) if not launch.excused)
        return next(later, first)
    return first


def _load_timings(
    session: ReadingSession,
    service: Service,
    who: Identity,
    ids: Collection[int | None] | None,
    now: datetime,
) -> tuple[Mapping[int, RunTemplate], Mapping[int, Timing]]:
    """Return the active run templates, and the timings of those with a schedule, by id.

    `ids` None: of all that the caller may see.
    """
    companies = who.rights.companies_with("jobs.read")
    among = None if ids is None else [number for number in ids if number is not None]
    templates = {
        template.id: template
        for template in templates_with_context(session, companies, among)
        if is_active(template)
    }
    closed = closed_times(session, templates.values(), now)
    timings = {
        template.id: Timing(schedule, closed[template.id], template.misfire, template.next_window)
        for template in templates.values()
        if (schedule := template_schedule(template, service.settings.timezone)) is not None
    }
    return templates, timings


def _window_fields(
    template: RunTemplate, schedule: Schedule, launch: PlannedLaunch
) -> dict[str, Any]:
    window = launch.window
    deadline = deadline_of(template.deadline_offset, schedule, window)
    if launch.is_moved:
        deadline = launch.at + (window.end - window.start)
    return {
        "runtemplate_id": template.id,
        "launch_at": launch.at.isoformat(),
        "moved_from": window.launch_at.isoformat() if launch.is_moved else None,
        "closed": launch.closed,
        "excused": launch.excused,
        "window_start": window.start.isoformat(),
        "window_end": window.end.isoformat(),
        "deadline": deadline.isoformat(),
        "timezone": schedule.zone.key,
    }
