"""The maintenance freeze: no job starts while it lasts."""

from datetime import datetime
from typing import Annotated

from fastapi import APIRouter, Request, Response
from pydantic import Field, StringConstraints

from jobauto_prefect.compiler.scheduling.deadlines import later
from jobauto_prefect.compiler.scheduling.schedule import zone_of
from jobauto_prefect.errors import Fault, InvalidInput
from jobauto_prefect.facade.answers import Answer, JsonObject
from jobauto_prefect.facade.auth.identity import CurrentUser
from jobauto_prefect.facade.http.field_types import as_datetime
from jobauto_prefect.facade.http.operations import SERVICE, WRITE_ERRORS, answered, operation
from jobauto_prefect.facade.http.requests import Body, BodyFields, parse
from jobauto_prefect.facade.http.responses import respond_plain
from jobauto_prefect.facade.service import CurrentService, Service
from jobauto_prefect.jobs.windows.freezes import begin_freeze, end_freeze
from jobauto_prefect.ledger.jobs import freezes
from jobauto_prefect.ledger.records import Freeze


class MaintenanceBody(Body):
    """The reason and the end of a freeze.

    `until` is a time, a duration from now (`+2h`), or the next time of day (`06:30`) in the
    service's time zone; null: until somebody ends it.
    """

    reason: Annotated[str, StringConstraints(strip_whitespace=True, max_length=1000)] | None = (
        Field(default=None, description="The reason, for people.")
    )
    until: Annotated[str, StringConstraints(strip_whitespace=True, max_length=100)] | None = Field(
        default=None,
        description="When it ends by itself: a time, a duration from now (`+2h`), or the next time "
        "of day (`06:30`) in the service's time zone; null: when somebody ends it.",
    )


router = APIRouter()
PATH = "/maintenance.{suffix}"


class Maintenance(Answer):
    """The maintenance freeze: whether jobs are kept from starting, and why."""

    frozen: bool = Field(description="Whether there is a freeze, so that no job starts.")
    reason: str | None = Field(description="The reason; null: none was given.")
    since: datetime | None = Field(description="When it began.")
    until: datetime | None = Field(
        description="When it ends by itself; null: when somebody ends it."
    )
    by: str | None = Field(description="Who began it.")


@operation(
    router, f"GET {PATH}", "getMaintenance", "Get the maintenance freeze",
    "Whether a freeze keeps jobs from starting, why, and until when.",
    tag=SERVICE, answer=answered("The freeze; `frozen` is false if there is none.", Maintenance),
)  # fmt: skip
def maintenance(request: Request, who: CurrentUser, service: CurrentService) -> Response:
    """Return the current freeze."""
    return respond_plain(request, who, "Maintenance", current_freeze(service))


def current_freeze(service: Service) -> JsonObject:
    """Return the current freeze as answers show it; without one, `frozen` is false."""
    with service.ledger.reading() as session:
        return serialize_freeze(freezes.present_freeze(session, service.ledger.clock()))


def serialize_freeze(freeze: Freeze | None) -> JsonObject:
    """Return a freeze, or the lack of one (None), as answers show it."""
    if freeze is None:
        return {"frozen": False, "reason": None, "since": None, "until": None, "by": None}
    return {
        "frozen": True,
        "reason": freeze.reason,
        "since": freeze.since.isoformat(),
        "until": freeze.until.isoformat() if freeze.until else None,
        "by": freeze.begun_by,
    }


@operation(
    router, f"PUT {PATH}", "beginMaintenance", "Begin a freeze",
    "No job starts until the freeze ends; running jobs finish. Windows within the freeze follow "
    "`on_closed` of their run template. If there is a freeze already, its reason and end are "
    "replaced. Needs `system.config`.",
    tag=SERVICE, answer=answered("The freeze.", Maintenance), errors=WRITE_ERRORS,
    body=MaintenanceBody, body_required=False,
)  # fmt: skip
def freeze(
    fields: BodyFields, request: Request, who: CurrentUser, service: CurrentService
) -> Response:
    """Begin a freeze, or replace reason and end of the current one.

    The answer waits for all claims in progress, so that none is granted after it.
    """
    who.rights.require("system", "config", None)
    body = parse(MaintenanceBody, fields)
    with service.ledger.writing(who.actor) as session:
        until = _parse_end(service, body.until)
        data = serialize_freeze(begin_freeze(session, body.reason or None, until))
    with service.ledger.writing(who.actor) as session:
        freezes.await_claims(session)
    return respond_plain(request, who, "Maintenance", data)


def _parse_end(service: Service, given: str | None) -> datetime | None:
    """Return the given end of a freeze; None if none is given.

    Raises:
        InvalidInput: it is not a time, or has passed.
    """
    if not given:
        return None
    now = service.ledger.clock()
    try:
        until = as_datetime(given)
    except ValueError:
        try:
            until = later(given, now, zone_of(service.settings.timezone))
        except InvalidInput:
            message = f"{given!r} is not a time; write 2026-05-01T06:30+02:00, +2h or 06:30"
            raise InvalidInput([Fault("/until", "time", message)]) from None
    if until <= now:
        raise InvalidInput([Fault("/until", "past", f"{until.isoformat()} has passed")])
    return until


@operation(
    router, f"DELETE {PATH}", "endMaintenance", "End the freeze",
    "Waiting jobs may start. If there is no freeze, nothing changes. Needs `system.config`.",
    tag=SERVICE, answer=answered("No freeze: `frozen` is false.", Maintenance),
)  # fmt: skip
def resume(request: Request, who: CurrentUser, service: CurrentService) -> Response:
    """End the freeze, so that waiting jobs may start; without one nothing changes."""
    who.rights.require("system", "config", None)
    with service.ledger.writing(who.actor) as session:
        end_freeze(session)
    service.outbox_worker.wake()
    return respond_plain(request, who, "Maintenance", serialize_freeze(None))
