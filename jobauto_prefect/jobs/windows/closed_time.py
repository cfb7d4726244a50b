"""The closed time of run templates: freezes for maintenance, and calendars."""

from collections.abc import Collection, Mapping
from datetime import datetime

from jobauto_prefect.compiler.scheduling import calendars
from jobauto_prefect.compiler.scheduling.closures import ClosedTime, Closure
from jobauto_prefect.compiler.scheduling.schedule import zone_of
from jobauto_prefect.ledger.jobs import freezes
from jobauto_prefect.ledger.queries.calendars import calendars_named, names_of
from jobauto_prefect.ledger.records import Calendar, Freeze, RunTemplate
from jobauto_prefect.ledger.store import ReadingSession

MEMBERS = ("name", "country", "subdivision", "days", "times", "periods")


def closed_times(
    session: ReadingSession, templates: Collection[RunTemplate], since: datetime
) -> Mapping[int, ClosedTime]:
    """Return run template -> its closed time after an instant.

    The number of statements does not depend on the number of templates.
    """
    frozen = [closure_of(freeze) for freeze in freezes.freezes_since(session, since)]
    named = {template.id: names_of(template) for template in templates}
    calendars = calendars_named(session, set().union(*named.values()))
    by_template = dict[int, ClosedTime]()
    for template in templates:
        mine = [calendar for calendar in calendars if calendar.name in named[template.id]]
        # The zone of the schedule that determines its windows.
        zone = template.kept_schedule.split("|")[1] if template.kept_schedule else "UTC"
        plans = [calendar_plan(calendar, zone) for calendar in mine]
        by_template[template.id] = ClosedTime([*frozen, *plans], template.on_closed)
    return by_template


def calendar_plan(calendar: Calendar, zone: str) -> calendars.Calendar:
    """Return the plan of a calendar; `zone` is the run template's, if the calendar has none."""
    members = {name: getattr(calendar, name) for name in MEMBERS}
    return calendars.calendar_of(members, zone_of(calendar.timezone or zone))


def closure_of(freeze: Freeze) -> Closure:
    """Return the time that a freeze closes."""
    return Closure(freeze.since, freeze.ended_at or freeze.until, freeze_reason(freeze))


def freeze_reason(freeze: Freeze) -> str:
    """Return why work that fell into a freeze did not start."""
    return f"maintenance: {freeze.reason}" if freeze.reason else "maintenance"


def freeze_message(freeze: Freeze) -> str:
    """Return the message that says why nothing starts."""
    until = "it is ended: jobauto resume" if freeze.until is None else freeze.until.isoformat()
    return f"{freeze_reason(freeze)}; nothing starts until {until}"
