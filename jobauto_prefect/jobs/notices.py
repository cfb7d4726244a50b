"""Which ends of jobs and windows somebody is told of, and what is known of them then.

Each function works inside the caller's transaction and commits nothing.
"""

from datetime import datetime, timedelta
from typing import Any

from jobauto_prefect.definitions import Severity
from jobauto_prefect.definitions.notices import Occasion
from jobauto_prefect.ledger import notices
from jobauto_prefect.ledger.audit import WritingSession
from jobauto_prefect.ledger.notices import Subject
from jobauto_prefect.ledger.records import Job, RunTemplate, Task
from jobauto_prefect.ledger.states import UNFULFILLED, JobState, TaskReason, TaskState

LONGEST_MESSAGE = 500

WANTED = frozenset({TaskReason.CANCELLED, TaskReason.INACTIVE, TaskReason.CLOSED})
"""Ends of tasks that somebody has brought about, and knows of."""


def tell_end(session: WritingSession, job: Job) -> None:
    """A job is over, and no attempt follows; its task has ended."""
    if job.state == JobState.CANCELLED:
        return
    good = job.severity is not None and Severity(job.severity).fulfils
    if good and (job.task is None or job.task.state not in UNFULFILLED):
        _tell_recovery(session, job)
    else:
        tell_failure(session, job)


def tell_failure(session: WritingSession, job: Job) -> None:
    """A job has failed, or could not start, and no attempt follows."""
    told = notices.recipients_of(job.runtemplate, Occasion.FAILURE)
    # A job that was lost for good may have been told of before it reports.
    if told and not notices.has_told(session, Occasion.FAILURE, job.id):
        notices.owe(session, _of_job(Occasion.FAILURE, job), told)


def _tell_recovery(session: WritingSession, job: Job) -> None:
    told = notices.recipients_of(job.runtemplate, Occasion.RECOVERY)
    if told and notices.is_in_trouble(session, job.runtemplate_id):
        notices.owe(session, _of_job(Occasion.RECOVERY, job), told)


def tell_task(session: WritingSession, task: Task) -> None:
    """A task has ended without an attempt that ended it."""
    if task.reason in WANTED:
        return
    occasion = Occasion.MISSED if task.state == TaskState.MISSED else Occasion.FAILURE
    told = notices.recipients_of(task.runtemplate, occasion)
    if told:
        data = _known(task.runtemplate, task.message, task)
        subject = Subject(occasion, task.runtemplate, data, task_id=task.id)
        notices.owe(session, subject, told)


def tell_slow(session: WritingSession, job: Job, usual: timedelta) -> None:
    """A job runs longer than `usual`; it is locked."""
    told = notices.recipients_of(job.runtemplate, Occasion.SLOW)
    if not told or notices.has_told(session, Occasion.SLOW, job.id) or job.begin is None:
        return
    now = session.clock()
    took = _seconds(now - job.begin)
    message = f"has run for {took}, and up to {_seconds(usual)} is usual"
    data = _known(job.runtemplate, message, job.task) | {
        "attempt": job.attempt,
        "at": now.isoformat(),
        "flow_run_id": str(job.flow_run_id) if job.flow_run_id else None,
    }
    subject = Subject(Occasion.SLOW, job.runtemplate, data, job.id, job.task_id)
    notices.owe(session, subject, told)


def tell_late(session: WritingSession, task: Task, due: datetime) -> None:
    """A window is not done by when it should be; its task is locked."""
    told = notices.recipients_of(task.runtemplate, Occasion.LATE)
    if not told or notices.has_told_late(session, task.id):
        return
    running = task.state == TaskState.RUNNING
    begun = "the next attempt has not begun" if task.attempts else "no attempt has begun"
    message = f"was to be done by {due.isoformat()}; {'an attempt runs' if running else begun}"
    data = _known(task.runtemplate, message, task)
    notices.owe(session, Subject(Occasion.LATE, task.runtemplate, data, task_id=task.id), told)


def _seconds(span: timedelta) -> timedelta:
    """Without their fractions."""
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
