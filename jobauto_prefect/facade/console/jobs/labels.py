"""Texts of a job on pages: its state, its times relative to now, names instead of ids."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from jobauto_prefect.console_addresses import page_of
from jobauto_prefect.facade.console.moments import Moment, tell_duration
from jobauto_prefect.facade.console.visit import Visit
from jobauto_prefect.facade.formats.html.cells import TONES, Cell
from jobauto_prefect.ledger.states import JobState

IMPLIED_SEVERITY = {
    JobState.SUCCEEDED: "success",
    JobState.WARNING: "warning",
    JobState.FAILED: "error",
    JobState.BLOCKED: "error",
    JobState.LOST: "error",
    JobState.CANCELLED: "error",
    JobState.SKIPPED: "error",
}
"""The severity that a state implies."""


ORIGINS: Mapping[str, str] = {
    "scheduled": "its schedule",
    "retry": "a retry",
    "chained": "the end of another job",
    "reschedule": "its run template's actions",
    "adhoc-api": "{who}, over REST",
    "adhoc-cli": "{who}, at the command line",
    "adhoc-console": "{who}, in the console",
    "adhoc-ui": "{who}, in Prefect",
}
"""The origin of a job by its `schedule_type`; all others are events."""


@dataclass(frozen=True, slots=True)
class JobLine:
    """A job in a list."""

    job: Mapping[str, Any]
    href: str
    badge: Cell
    template: str
    company: str
    due: Moment | None
    began: Moment | None
    ended: Moment | None
    duration: str


def badge_of(job: Mapping[str, Any], visit: Visit) -> Cell:
    """Draw the state, with the severity unless the state implies it."""
    state, severity = job["state"], job["severity"]
    text = visit.translate(state)
    if severity and severity != IMPLIED_SEVERITY.get(JobState(state)):
        text = f"{text}, {visit.translate(severity)}"
    tone = TONES["critical"] if severity == "critical" else TONES.get(state, "")
    return Cell("badge", text, tone=tone)


def line_of(job: Mapping[str, Any], visit: Visit) -> JobLine:
    """Return a job as lists show it."""
    return JobLine(
        job=job,
        href=page_of("job", job["id"]),
        badge=badge_of(job, visit),
        template=visit.named(job, "runtemplate_id"),
        company=visit.named(job, "company_id"),
        due=visit.tell(job["schedule"]),
        began=visit.tell(job["begin"]),
        ended=visit.tell(job["end"]),
        duration=tell_duration(job["begin"], job["end"], visit.now),
    )


def origin_of(job: Mapping[str, Any], visit: Visit) -> str:
    """Return what started a job."""
    is_known = job["launched_by"] is not None
    who = visit.named(job, "launched_by") if is_known else visit.translate("somebody")
    return visit.translate(ORIGINS.get(job["schedule_type"], "an event"), who=who)
