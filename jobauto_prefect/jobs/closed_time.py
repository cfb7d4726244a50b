"""What closes the time of run templates: freezes for maintenance, and calendars."""

from collections.abc import Collection, Mapping
from datetime import datetime

from jobauto_prefect.compiler import calendars
from jobauto_prefect.compiler.closures import ClosedTime, Closure
from jobauto_prefect.compiler.schedule import zone_of
from jobauto_prefect.ledger import freezes
from jobauto_prefect.ledger.calendars import calendars_named, names_of
from jobauto_prefect.ledger.records import Calendar, Freeze, RunTemplate
from jobauto_prefect.ledger.store import ReadingSession

MEMBERS = ("name", "country", "subdivision", "days", "times", "periods")


def closed_times(
    session: ReadingSession, templates: Collection[RunTemplate], since: datetime
) -> Mapping[int, ClosedTime]:
    """Run template -> its closed time after an instant; as many statements for one as for all."""
    frozen = [closure_of(freeze) for freeze in freezes.freezes_since(session, since)]
    named = {template.id: names_of(template) for template in templates}
    known = calendars_named(session, set().union(*named.values()))
    found = dict[int, ClosedTime]()
    for template in templates:
        mine = [calendar for calendar in known if calendar.name in named[template.id]]
        plans = [plan_of(calendar, _zone_of(template)) for calendar in mine]
        found[template.id] = ClosedTime([*frozen, *plans], template.on_closed)
    return found


def plan_of(calendar: Calendar, zone: str) -> calendars.Calendar:
    """What a calendar closes; `zone` is that of the run template, where it has none itself."""
    members = {name: getattr(calendar, name) for name in MEMBERS}
    return calendars.calendar_of(members, zone_of(calendar.timezone or zone))


def _zone_of(template: RunTemplate) -> str:
    """The zone of the schedule by which a template's windows are kept."""
    return template.kept_schedule.split("|")[1] if template.kept_schedule else "UTC"


def closure_of(freeze: Freeze) -> Closure:
    """The time that a freeze closes."""
    return Closure(freeze.since, freeze.ended_at or freeze.until, reason_of(freeze))


def reason_of(freeze: Freeze) -> str:
    """Why what fell into a freeze did not start."""
    return f"maintenance: {freeze.reason}" if freeze.reason else "maintenance"


def story_of(freeze: Freeze) -> str:
    """Why nothing starts, for people."""
    until = "it is ended: jobauto resume" if freeze.until is None else freeze.until.isoformat()
    return f"{reason_of(freeze)}; nothing starts until {until}"
