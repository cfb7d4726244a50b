"""Notices about ends of jobs and windows: which are enqueued, and what they say.

Each function works inside the caller's transaction and commits nothing.
"""

from datetime import datetime, timedelta
from typing import Any

from jobauto_prefect.definitions import Severity
from jobauto_prefect.definitions.records.notices import Occasion
from jobauto_prefect.ledger import notices
from jobauto_prefect.ledger.audit.trail import WritingSession
from jobauto_prefect.ledger.notices import Subject
from jobauto_prefect.ledger.records import Job, RunTemplate, Task
from jobauto_prefect.ledger.states import UNFULFILLED, JobState, TaskReason, TaskState

LONGEST_MESSAGE = 500

WANTED = frozenset({TaskReason.CANCELLED, TaskReason.INACTIVE, TaskReason.CLOSED})
"""Ends of tasks that somebody caused and therefore knows about."""


def notify_end(session: WritingSession, job: Job) -> None:
    """Notify of the end of a job without a further attempt; its task has ended."""
    if job.state == JobState.CANCELLED:
        return
    good = job.severity is not None and Severity(job.severity).fulfils
    if good and (job.task is None or job.task.state not in UNFULFILLED):
        recipients = notices.recipients_of(job.runtemplate, Occasion.RECOVERY)
        if recipients and notices.is_in_trouble(session, job.runtemplate_id):
            notices.enqueue(session, _of_job(Occasion.RECOVERY, job), recipients)
    else:
        notify_failure(session, job)


def notify_failure(session: WritingSession, job: Job) -> None:
    """Notify of a job that failed or could not start, and is not retried."""
    recipients = notices.recipients_of(job.runtemplate, Occasion.FAILURE)
    # A job lost for good may have been reported before its own report arrives.
    if recipients and not notices.has_told(session, Occasion.FAILURE, job.id):
        notices.enqueue(session, _of_job(Occasion.FAILURE, job), recipients)


def notify_task(session: WritingSession, task: Task) -> None:
    """Notify of a task that ended without an attempt."""
    if task.reason in WANTED:
        return
    occasion = Occasion.MISSED if task.state == TaskState.MISSED else Occasion.FAILURE
    recipients = notices.recipients_of(task.runtemplate, occasion)
    if recipients:
        data = _known(task.runtemplate, task.message, task)
        subject = Subject(occasion, task.runtemplate, data, task_id=task.id)
        notices.enqueue(session, subject, recipients)


def notify_slow(session: WritingSession, job: Job, usual: timedelta) -> None:
    """Notify of a job that runs longer than `usual`; it is locked."""
    recipients = notices.recipients_of(job.runtemplate, Occasion.SLOW)
    if not recipients or notices.has_told(session, Occasion.SLOW, job.id) or job.begin is None:
        return
    now = session.clock()
    took = _seconds(now - job.begin)
    message = f"has run for {took}; it usually takes up to {_seconds(usual)}"
    data = _known(job.runtemplate, message, job.task) | {
        "attempt": job.attempt,
        "at": now.isoformat(),
        "flow_run_id": str(job.flow_run_id) if job.flow_run_id else None,
    }
    subject = Subject(Occasion.SLOW, job.runtemplate, data, job.id, job.task_id)
    notices.enqueue(session, subject, recipients)


def notify_late(session: WritingSession, task: Task, due: datetime) -> None:
    """Notify of a window that is late; its task is locked."""
    recipients = notices.recipients_of(task.runtemplate, Occasion.LATE)
    if not recipients or notices.has_told_late(session, task.id):
        return
    running = task.state == TaskState.RUNNING
    begun = "the next attempt has not begun" if task.attempts else "no attempt has begun"
    message = f"was due by {due.isoformat()}; {'an attempt is running' if running else begun}"
    data = _known(task.runtemplate, message, task)
    notices.enqueue(
        session, Subject(Occasion.LATE, task.runtemplate, data, task_id=task.id), recipients
    )


def _seconds(span: timedelta) -> timedelta:
    """Return the span without fractions of a second."""
    return timedelta(seconds=int(span.total_seconds()))


def _of_job(occasion: Occasion, job: Job) -> Subject:
    message = job.message
    if job.task is not None and job.task.state in UNFULFILLED:
        message = job.task.message or message
    data = _known(job.runtemplate, message, job.task) | {
        "severity": job.severity,
        "exitcode": job.exitcode,
        "attempt": job.attempt,
        "at": (job.end or job.schedule).isoformat(),
        "flow_run_id": str(job.flow_run_id) if job.flow_run_id else None,
    }
    return Subject(occasion, job.runtemplate, data, job.id, job.task_id)


def _known(template: RunTemplate, message: str | None, task: Task | None) -> dict[str, Any]:
    return {
        "company": template.company.name,
        "template": template.name,
        "message": (message or "")[:LONGEST_MESSAGE],
        "window": task.window_start.isoformat() if task is not None else None,
    }
