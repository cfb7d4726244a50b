"""Another schedule that somebody gave a deployment in Prefect, taken over into the record."""

from jobauto_prefect.compiler.handover import handed_over
from jobauto_prefect.compiler.timing import timing_faults
from jobauto_prefect.engine.deployments import Found, schedule_in
from jobauto_prefect.engine.schedules import template_schedule
from jobauto_prefect.ledger.records import RunTemplate
from jobauto_prefect.settings import Settings

LONGEST = 255  # characters of a cron expression, as in a body


def take_over_schedule(template: RunTemplate, deployment: Found, settings: Settings) -> bool:
    """Have a run template follow the cron expression and time zone of our schedule in Prefect.

    False: they are as they were, or can't be a run template's: an interval, a rule, a cron
    expression that is refused, a schedule where there is to be none. Whether it is active is
    `pauses`' to say.

    Whoever calls holds the run template's row.
    """
    ours = template_schedule(template, settings.timezone)
    told = handed_over(ours) if ours else None
    present = schedule_in(deployment)
    if told is None or present is None:
        return False
    said = present["schedule"]
    cron, zone = said.get("cron"), said.get("timezone") or "UTC"
    as_told = (cron, zone) == (told.cron, told.timezone)
    if as_told or not _can_be_kept(template, cron, zone, bool(said.get("day_or"))):
        return False
    template.interv, template.cron = "c", cron
    if zone != template.zone_name(settings.timezone):
        template.timezone = zone
    return True


def _can_be_kept(template: RunTemplate, cron: str | None, zone: str, day_or: bool) -> bool:
    if not cron or not day_or or len(cron) > LONGEST:
        return False
    times = {
        "interv": "c",
        "cron": cron,
        "timezone": zone,
        "delay": template.delay,
        "deadline_offset": template.deadline_offset,
    }
    return not timing_faults(times, zone)
