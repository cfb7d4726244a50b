"""When a run template is due."""

from jobauto_prefect.compiler.schedule import Schedule, schedule_of
from jobauto_prefect.ledger.records import RunTemplate


def template_schedule(template: RunTemplate, service_zone: str) -> Schedule | None:
    """The schedule of a run template, `service_zone` where nobody names another; None: it has none.

    Raises:
        InvalidInput: its interval, cron expression or time zone can't be used.
    """
    zone = template.zone_name(service_zone)
    return schedule_of(template.interv, template.cron, zone, template.delay)
