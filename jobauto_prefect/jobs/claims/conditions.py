"""Whether a job may start now: its window, what it needs from outside, and room for it."""

from datetime import datetime, timedelta

from jobauto_prefect.definitions import Overlap
from jobauto_prefect.jobs.claims.claim import OpenClaim, Refused
from jobauto_prefect.jobs.claims.credentials import limited_credentials
from jobauto_prefect.jobs.claims.preflight import Preflight
from jobauto_prefect.jobs.outcome.retry import has_lapsed
from jobauto_prefect.jobs.windows.closed_time import closed_times, freeze_message
from jobauto_prefect.jobs.windows.tasks import close_lapsed, close_without_attempt
from jobauto_prefect.ledger.jobs import attempts
from jobauto_prefect.ledger.records import Freeze, Job, Task
from jobauto_prefect.ledger.states import TaskReason
from jobauto_prefect.runtime.protocol import PrefectState
from jobauto_prefect.wording import pluralize

# Poll intervals of jobs that wait for something nobody announces.
FREEZE_LOOK = timedelta(minutes=10)
CLOSED_LOOK = timedelta(hours=1)
OVERLAP_LOOK = timedelta(seconds=10)
ROOM_LOOK = timedelta(seconds=10)

SOON = timedelta(seconds=5)
"""Retry interval for values that somebody named after the preflight."""

SHOWN = 5
"""How many jobs a message lists by number."""


class StartConditions:
    """Conditions for the start of a job. Each raises Refused: never, or not yet."""

    def __init__(self, claim: OpenClaim, job: Job) -> None:
        self._claim = claim
        self._session = claim.session
        self._job = job
        self._template = job.runtemplate

    def require(self, freeze: Freeze | None) -> None:
        """Require that the job may start now; `freeze` is the active one, if any."""
        if freeze is not None:
            look = self._session.clock() + FREEZE_LOOK
            at = look if freeze.until is None else min(look, freeze.until)
            raise Refused("maintenance", freeze_message(freeze), PrefectState.SCHEDULED, at=at)
        if self._job.task is not None:
            self._require_window(self._job.task)
        self._require_available()
        self._require_room()

    def _require_window(self, task: Task) -> None:
        """Require that a window's attempt is not too late, and that no other one is running.

        A task that can't start any more is closed here: closed time may move its deadline, so only
        this check knows whether it is too late.
        """
        template, starts_at = self._template, self._claim.starts_at
        if has_lapsed(task, template, starts_at) and close_lapsed(self._session, [task]):
            message = f"too late: the deadline of task {task.id} was {task.deadline.isoformat()}"
            raise Refused("deadline", message, PrefectState.CANCELLED)
        if template.calendars or template.company.calendars:
            self._require_open(starts_at)
        if template.overlap == Overlap.PARALLEL:
            return
        running = attempts.running_attempt(self._session, template.id, besides=task.id)
        if running is not None and template.overlap == Overlap.SKIP and task.attempts == 0:
            message = f"job {running} of this run template was still running"
            close_without_attempt(self._session, [task], TaskReason.OVERLAP, message)
            raise Refused("overlap", message, PrefectState.CANCELLED)
        if running is not None:
            message = f"job {running} of this run template is still running; this one waits for it"
            raise Refused("overlap", message, PrefectState.SCHEDULED, at=starts_at + OVERLAP_LOOK)

    def _require_open(self, at: datetime) -> None:
        """Require that the run template's calendars allow its windows to start at this time."""
        closed = closed_times(self._session, [self._template], at)[self._template.id]
        closure = closed.at(at)
        if closure is not None:
            reopens = closed.reopens(at) or at + CLOSED_LOOK
            message = f"{closure.reason}; it starts at {reopens.isoformat()}"
            again = min(reopens, at + CLOSED_LOOK)
            raise Refused("closed", message, PrefectState.SCHEDULED, at=again)

    def _require_available(self) -> None:
        """Require that the credentials' targets are available, and that the blocks were read."""
        preflight = self._claim.preflight_of(self._template)
        if preflight.held_up is not None:
            at = preflight.again
            raise Refused("not_available", preflight.held_up, PrefectState.SCHEDULED, at=at)
        if preflight.missing is None and self._names_what_is_unread(preflight):
            again = self._session.clock() + SOON
            message = "the values that it refers to have not been read yet"
            raise Refused("not_available", message, PrefectState.SCHEDULED, at=again)

    def _names_what_is_unread(self, preflight: Preflight) -> bool:
        """Whether somebody named a block, or a source of values, after the preflight."""
        named = [assigned.credential for assigned in self._template.assignments]
        return any(
            credential.credential_type.source and credential.id not in preflight.values
            for credential in named
        ) or any(assigned["block"] not in preflight.blocks for assigned in self._template.blocks)

    def _require_room(self) -> None:
        """Require a free slot at each limited credential; they are locked until the commit."""
        credentials = limited_credentials(self._template)
        if not credentials:
            return
        attempts.lock_credentials(self._session, [credential.id for credential in credentials])
        for credential in credentials:
            users = attempts.jobs_using(self._session, credential.id, besides=self._job.id)
            if credential.max_jobs is not None and len(users) >= credential.max_jobs:
                again = self._session.clock() + ROOM_LOOK
                jobs = f"{pluralize(credential.max_jobs, 'job')} at a time"
                named = ", ".join(map(str, users[:SHOWN])) + (" …" if len(users) > SHOWN else "")
                message = (
                    f"{credential.name} allows {jobs}; waiting for one of these to end: {named}"
                )
                raise Refused("limit", message, PrefectState.SCHEDULED, at=again)
