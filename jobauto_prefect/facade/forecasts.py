"""What will run when."""

from collections.abc import Mapping
from datetime import timedelta
from itertools import islice
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request, Response

from jobauto_prefect.compiler.deadlines import deadline_of
from jobauto_prefect.compiler.forecast import forecast
from jobauto_prefect.compiler.schedule import Schedule
from jobauto_prefect.compiler.windows import Window
from jobauto_prefect.engine.schedules import template_schedule
from jobauto_prefect.facade.answers import plain
from jobauto_prefect.facade.auth import Identity, Person
from jobauto_prefect.facade.names import id_called, is_name
from jobauto_prefect.facade.resources import integer, words
from jobauto_prefect.facade.service import CurrentService, Service
from jobauto_prefect.facade.spellings import READ_INTEGER
from jobauto_prefect.ledger import queries
from jobauto_prefect.ledger.attempts import is_on
from jobauto_prefect.ledger.records import RunTemplate
from jobauto_prefect.ledger.store import ReadingSession

MOST = 10_000
Days = Annotated[int, Query(ge=1, le=3660), READ_INTEGER]
Limit = Annotated[int, Query(ge=1, le=MOST), READ_INTEGER]
Ids = Annotated[str | None, Query(pattern=r"^[^,]{1,320}(,[^,]{1,320})*$")]


def add_routes(router: APIRouter) -> None:
    """Add them to the contract."""
    router.get("/forecast.{suffix}")(forecasted)
    router.get("/forecast", include_in_schema=False)(forecasted)


def forecasted(
    request: Request,
    who: Person,
    service: CurrentService,
    days: Days = 7,
    runtemplate_id: Ids = None,
    limit: Limit = 1000,
) -> Response:
    """The windows whose jobs start within so many days, of the active run templates one may see."""
    now = service.ledger.clock()
    until = now + timedelta(days=days)
    templates = _templates(service, who, runtemplate_id)
    schedules = {template.id: schedule for template, schedule in templates.values()}
    found = list(islice(forecast(schedules, now, until), limit + 1))
    data = {
        "from": now.isoformat(),
        "until": until.isoformat(),
        "more": len(found) > limit,
        "windows": [_shown(*templates[key], window) for key, window in found[:limit]],
    }
    return plain(request, who, "Forecast", data)


def _templates(
    service: Service, who: Identity, wanted: str | None
) -> Mapping[int, tuple[RunTemplate, Schedule]]:
    companies = who.rights.companies_with("jobs.read")
    with service.ledger.reading() as session:
        ids = {_id_of(session, who, word) for word in wanted.split(",")} if wanted else None
        templates = [
            template
            for template in queries.templates_with_context(session, companies)
            if is_on(template) and (ids is None or template.id in ids)
        ]
        timed = [
            (template, template_schedule(template, service.settings.timezone))
            for template in templates
        ]
    return {
        template.id: (template, schedule) for template, schedule in timed if schedule is not None
    }


def _id_of(session: ReadingSession, who: Identity, word: str) -> int | None:
    """The run template of an id, or of a name; None: there is none."""
    if is_name(word):
        return id_called(session, who, RunTemplate, words("runtemplate_id", word))
    return integer("runtemplate_id", word)


def _shown(template: RunTemplate, schedule: Schedule, window: Window) -> dict[str, Any]:
    return {
        "runtemplate_id": template.id,
        "launch_at": window.launch_at.isoformat(),
        "window_start": window.start.isoformat(),
        "window_end": window.end.isoformat(),
        "deadline": deadline_of(template.deadline_offset, schedule, window).isoformat(),
        "timezone": schedule.zone.key,
    }
