"""What pages say of a job: its state once, its times from now, names instead of ids."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from jobauto_prefect.console_addresses import CONSOLE
from jobauto_prefect.facade.console.moments import Moment, tell_duration, teller
from jobauto_prefect.facade.formats import View
from jobauto_prefect.facade.formats.html.page_language import Translator
from jobauto_prefect.facade.formats.html.scalars import TONES
from jobauto_prefect.ledger.states import JobState

SAID_BY_STATE = {
    JobState.SUCCEEDED: "success",
    JobState.WARNING: "warning",
    JobState.FAILED: "error",
    JobState.BLOCKED: "error",
    JobState.LOST: "error",
    JobState.CANCELLED: "error",
    JobState.SKIPPED: "error",
}
"""The severity that a state tells of already."""


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
"""Where a job comes from, by its `schedule_type`; others are events."""


@dataclass(frozen=True, slots=True)
class Badge:
    """State and severity, in words and in colour."""

    text: str
    tone: str


@dataclass(frozen=True, slots=True)
class JobLine:
    """A job in a list."""

    job: Mapping[str, Any]
    href: str
    badge: Badge
    template: str
    company: str
    due: Moment | None
    began: Moment | None
    ended: Moment | None
    duration: str


class JobWords:
    """Tells of the jobs of a view, now."""

    def __init__(self, view: View, now: datetime, translate: Translator) -> None:
        self._view, self._now, self._translate = view, now, translate
        self.tell = teller(now, translate)

    @property
    def template(self) -> str:
        """The name of the run template of the view's one job."""
        return self.name_of("runtemplate", self._view.data["runtemplate_id"])

    def name_of(self, kind: str, record_id: int | None) -> str:
        """Return what a record is called; its number where nobody says it."""
        return self._view.names.get(kind, {}).get(str(record_id)) or f"#{record_id}"

    def badge_of(self, job: Mapping[str, Any]) -> Badge:
        """Return the state, with the severity where that says more."""
        state, severity = job["state"], job["severity"]
        text = self._translate(state)
        if severity and severity != SAID_BY_STATE.get(JobState(state)):
            text = f"{text}, {self._translate(severity)}"
        return Badge(text, TONES["critical"] if severity == "critical" else TONES.get(state, ""))

    def line_of(self, job: Mapping[str, Any]) -> JobLine:
        """Return a job as lists show it."""
        return JobLine(
            job=job,
            href=f"{CONSOLE}/jobs/{job['id']}",
            badge=self.badge_of(job),
            template=self.name_of("runtemplate", job["runtemplate_id"]),
            company=self.name_of("company", job["company_id"]),
            due=self.tell(job["schedule"]),
            began=self.tell(job["begin"]),
            ended=self.tell(job["end"]),
            duration=self.duration_of(job),
        )

    def duration_of(self, job: Mapping[str, Any]) -> str:
        """Return how long a job took, or has taken until now; "" where it has not begun."""
        return tell_duration(job["begin"], job["end"], self._now)

    def origin_of(self, job: Mapping[str, Any]) -> str:
        """Return where a job comes from."""
        by = job["launched_by"]
        who = self.name_of("user", by) if by else self._translate("somebody")
        return self._translate(ORIGINS.get(job["schedule_type"], "an event"), who=who)
