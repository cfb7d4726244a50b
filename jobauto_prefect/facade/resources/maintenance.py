"""The freeze for maintenance: nothing starts while it lasts."""

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
    """Why nothing is to start, and until when.

    `until` is a time, so long from now (`+2h`), or when the clock of the service next shows a time
    (`06:30`); null: until somebody ends it.
    """

    reason: Annotated[str, StringConstraints(strip_whitespace=True, max_length=1000)] | None = (
        Field(default=None, description="Why, for people.")
    )
    until: Annotated[str, StringConstraints(strip_whitespace=True, max_length=100)] | None = Field(
        default=None,
        description="When it ends by itself: a time, so long from now (`+2h`), or the next time "
        "of day (`06:30`) in the zone of the service; null: when somebody ends it.",
    )


router = APIRouter()
PATH = "/maintenance.{suffix}"


class Maintenance(Answer):
    """The freeze for maintenance: whether nothing starts just now, and why."""

    frozen: bool = Field(description="Whether nothing starts.")
    reason: str | None = Field(description="Why; null: nobody said.")
    since: datetime | None = Field(description="When it began.")
    until: datetime | None = Field(
        description="When it ends by itself; null: when somebody ends it."
    )
    by: str | None = Field(description="Who began it.")


@operation(
    router, f"GET {PATH}", "getMaintenance", "Ask for the freeze for maintenance",
    "Whether nothing starts just now, why, and until when.",
    tag=SERVICE, answer=answered("The freeze, or that there is none.", Maintenance),
)  # fmt: skip
def maintenance(request: Request, who: CurrentUser, service: CurrentService) -> Response:
    """Whether nothing starts just now, and why."""
    return respond_plain(request, who, "Maintenance", current_freeze(service))


def current_freeze(service: Service) -> JsonObject:
    """Return the present freeze as answers show it; without one, `frozen` is false."""
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
    router, f"PUT {PATH}", "beginMaintenance", "Freeze",
    "No job starts until the freeze ends; running jobs run to their end. Windows that fall "
    "into it do what `on_closed` of their run template says. Reason and end of a freeze that "
    "lasts are replaced. Needs `system.config`.",
    tag=SERVICE, answer=answered("The freeze.", Maintenance), errors=WRITE_ERRORS,
    body=MaintenanceBody, body_required=False,
)  # fmt: skip
def freeze(
    fields: BodyFields, request: Request, who: CurrentUser, service: CurrentService
) -> Response:
    """Begin a freeze: nothing starts. The reason and the end of one that lasts are replaced.

    When the answer comes, no claim is under way any more that could be granted.
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
    """Return the end that somebody names; None: they name none.

    Raises:
        InvalidInput: it is no time, or one that has passed.
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
            message = f"{given!r} is no time; write 2026-05-01T06:30+02:00, +2h or 06:30"
            raise InvalidInput([Fault("/until", "time", message)]) from None
    if until <= now:
        raise InvalidInput([Fault("/until", "past", f"{until.isoformat()} has passed")])
    return until


@operation(
    router, f"DELETE {PATH}", "endMaintenance", "End the freeze",
    "What waits may start. Where nothing is frozen nothing changes. Needs `system.config`.",
    tag=SERVICE, answer=answered("That there is none.", Maintenance),
)  # fmt: skip
def resume(request: Request, who: CurrentUser, service: CurrentService) -> Response:
    """End the freeze: what waits may start. Where nothing is frozen, nothing changes."""
    who.rights.require("system", "config", None)
    with service.ledger.writing(who.actor) as session:
        end_freeze(session)
    service.outbox_worker.wake()
    return respond_plain(request, who, "Maintenance", serialize_freeze(None))
