"""Jobs that do not start or are stopped: blocked, skipped, cancelled.

Each function works inside the caller's transaction and commits nothing.
"""

from jobauto_prefect.definitions import Severity
from jobauto_prefect.errors import Conflict
from jobauto_prefect.jobs.notices import notify_failure
from jobauto_prefect.jobs.outcome.retry import end_task
from jobauto_prefect.ledger.audit.trail import WritingSession
from jobauto_prefect.ledger.jobs import attempts
from jobauto_prefect.ledger.jobs.leases import may_live
from jobauto_prefect.ledger.outbox import OutboxKind, enqueue
from jobauto_prefect.ledger.records import Job
from jobauto_prefect.ledger.states import JobState, TaskReason, TaskState, next_job_state


def block(
    session: WritingSession, job: Job, message: str, reason: TaskReason = TaskReason.BLOCKED
) -> None:
    """Block a scheduled job that may not start; its task ends for the same reason."""
    end_unstarted(session, job, JobState.BLOCKED, message)
    if job.task is not None:
        end_task(session, job.task, TaskState.FAILED, reason, message)
    notify_failure(session, job)


def skip(session: WritingSession, job: Job, message: str) -> None:
    """Skip a scheduled job that is no longer wanted; the caller handles its task."""
    end_unstarted(session, job, JobState.SKIPPED, message)
    enqueue(session, OutboxKind.CANCEL_RUN, job.id)


def cancel(session: WritingSession, job: Job, reason: str) -> None:
    """Cancel a job: a scheduled one ends at once, a running one is stopped by its worker.

    Raises:
        Conflict: it has ended already, or was lost and its follow-up is decided.
    """
    attempts.lock_job(session, job)
    if job.state == JobState.LOST and not may_live(session, job):
        live = attempts.live_attempt_after(session, job)
        then = f"cancel job {live}, which follows it" if live else "no later attempt waits or runs"
        raise Conflict(f"job {job.id} is lost; {then}")
    next_job_state(JobState(job.state), JobState.CANCELLED)  # raises Conflict if it has ended
    job.cancel_reason = reason
    if job.state == JobState.SCHEDULED:
        end_unstarted(session, job, JobState.CANCELLED, reason)
        if job.task is not None:
            end_task(session, job.task, TaskState.FAILED, TaskReason.CANCELLED, reason)
    enqueue(session, OutboxKind.CANCEL_RUN, job.id)


def end_unstarted(session: WritingSession, job: Job, state: JobState, message: str) -> None:
    """End a scheduled job that has not started."""
    job.state = next_job_state(JobState(job.state), state)
    job.severity = Severity.ERROR
    job.message = message
    job.end = session.clock()
