"""The freeze for maintenance: nothing starts while it lasts."""

from datetime import datetime
from typing import Annotated, Any

from fastapi import APIRouter, Request, Response
from pydantic import StringConstraints

from jobauto_prefect.compiler.deadlines import later
from jobauto_prefect.compiler.schedule import zone_of
from jobauto_prefect.errors import Fault, InvalidInput
from jobauto_prefect.facade.access import allow
from jobauto_prefect.facade.answers import plain
from jobauto_prefect.facade.auth import Person
from jobauto_prefect.facade.requests import Body, BodyFields, parse
from jobauto_prefect.facade.service import CurrentService, Service
from jobauto_prefect.facade.spellings import as_instant
from jobauto_prefect.jobs.maintenance import begin_freeze, end_freeze
from jobauto_prefect.ledger import freezes
from jobauto_prefect.ledger.records import Freeze

Shown = dict[str, Any]
PATH = "/maintenance"


class MaintenanceBody(Body):
    """Why nothing is to start, and until when.

    `until` is a time, so long from now (`+2h`), or when the clock of the service next shows a time
    (`06:30`); null: until somebody ends it.
    """

    reason: Annotated[str, StringConstraints(strip_whitespace=True, max_length=1000)] | None = None
    until: Annotated[str, StringConstraints(strip_whitespace=True, max_length=100)] | None = None


def add_routes(router: APIRouter) -> None:
    """Add them to the contract."""
    for function in (maintenance, freeze, resume):
        method = {maintenance: router.get, freeze: router.put, resume: router.delete}[function]
        method(f"{PATH}.{{suffix}}", name=function.__name__)(function)
        method(PATH, include_in_schema=False)(function)


def maintenance(request: Request, who: Person, service: CurrentService) -> Response:
    """Whether nothing starts just now, and why."""
    return plain(request, who, "Maintenance", present(service))


def present(service: Service) -> Shown:
    """The freeze that lasts, as answers show it."""
    with service.ledger.reading() as session:
        return shown(freezes.present_freeze(session, service.ledger.clock()))


def shown(known: Freeze | None) -> Shown:
    """A freeze, None: there is none, as answers show it."""
    if known is None:
        return {"frozen": False, "reason": None, "since": None, "until": None, "by": None}
    return {
        "frozen": True,
        "reason": known.reason,
        "since": known.since.isoformat(),
        "until": known.until.isoformat() if known.until else None,
        "by": known.begun_by,
    }


def freeze(fields: BodyFields, request: Request, who: Person, service: CurrentService) -> Response:
    """Let nothing start; the reason and the end of a freeze that lasts are replaced.

    When the answer comes, no claim is under way any more that could be granted.
    """
    allow(who, "system", "config", None)
    body = parse(MaintenanceBody, fields)
    with service.ledger.writing(who.actor) as session:
        until = _until(service, body.until)
        data = shown(begin_freeze(session, body.reason or None, until))
    with service.ledger.writing(who.actor) as session:
        freezes.await_claims(session)
    return plain(request, who, "Maintenance", data)


def _until(service: Service, given: str | None) -> datetime | None:
    """The instant that somebody names.

    Raises:
        InvalidInput: it names none, or one that has passed.
    """
    if not given:
        return None
    now = service.ledger.clock()
    try:
        until = as_instant(given)
    except ValueError:
        try:
            until = later(given, now, zone_of(service.settings.timezone))
        except InvalidInput:
            message = f"{given!r} is no time; write 2026-05-01T06:30+02:00, +2h or 06:30"
            raise InvalidInput([Fault("/until", "time", message)]) from None
    if until <= now:
        raise InvalidInput([Fault("/until", "past", f"{until.isoformat()} has passed")])
    return until


def resume(request: Request, who: Person, service: CurrentService) -> Response:
    """What waits may start; where nothing is frozen, nothing changes."""
    allow(who, "system", "config", None)
    with service.ledger.writing(who.actor) as session:
        end_freeze(session)
    service.carrier.wake()
    return plain(request, who, "Maintenance", shown(None))
