"""Changes of tasks apart from attempts: closed, caught up, retried, excused.

Each function works inside the caller's transaction and commits nothing. `task_event` builds the
Prefect event for automations on missed or failed tasks.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID, uuid5

from jobauto_prefect.definitions import OnClosed
from jobauto_prefect.errors import Conflict
from jobauto_prefect.jobs.notices import notify_task
from jobauto_prefect.jobs.outcome.cancellation import cancel, skip
from jobauto_prefect.jobs.outcome.retry import end_task, schedule_retry
from jobauto_prefect.jobs.windows.closed_time import closed_times
from jobauto_prefect.ledger.audit.trail import WritingSession
from jobauto_prefect.ledger.jobs import attempts
from jobauto_prefect.ledger.jobs.waits import waiting_jobs
from jobauto_prefect.ledger.outbox import OutboxKind, enqueue
from jobauto_prefect.ledger.records import Job, RunTemplate, Task
from jobauto_prefect.ledger.states import UNFULFILLED, TaskReason, TaskState, next_task_state


def close_without_attempt(
    session: WritingSession, tasks: Sequence[Task], reason: TaskReason, why: str
) -> None:
    """Close open tasks: as `missed` if there was no attempt, otherwise as `failed`."""
    close_each_without_attempt(session, reason, dict.fromkeys(tasks, why))


def close_each_without_attempt(
    session: WritingSession, reason: TaskReason, tasks: Mapping[Task, str]
) -> None:
    """Close open tasks, each with its own message."""
    for job in attempts.lock_scheduled_jobs(session, list(tasks)):
        skip(session, job, next(why for task, why in tasks.items() if task.id == job.task_id))
    for task, why in tasks.items():
        state = TaskState.FAILED if task.attempts else TaskState.MISSED
        end_task(session, task, state, reason, why)
        notify_task(session, task)


MOMENT = timedelta(seconds=1)
"""How long before a deadline closed time must begin to have prevented a start."""


def close_lapsed(session: WritingSession, tasks: Sequence[Task]) -> Sequence[Task]:
    """Close open tasks for which it is too late; return those that have ended.

    A deadline in closed time that prevented an attempt is treated like a window in it: it moves, or
    the task is excused if no attempt ever began.
    """
    if not tasks:
        return []
    templates = {task.runtemplate.id: task.runtemplate for task in tasks}
    since = min(task.deadline for task in tasks) - MOMENT
    closed = closed_times(session, templates.values(), since)
    late: list[Task] = []
    for task in tasks:
        time = closed[task.runtemplate_id]
        last = task.deadline - MOMENT
        closure, reopens = time.at(last), time.reopens(last)
        if closure is None or (task.attempts and time.on_closed == OnClosed.EXCUSE):
            late.append(task)
        elif time.on_closed == OnClosed.EXCUSE:
            close_without_attempt(session, [task], TaskReason.CLOSED, closure.reason)
        elif reopens is not None:
            task.deadline = reopens + (task.window_end - task.window_start)
    close_each_without_attempt(
        session, TaskReason.DEADLINE, {task: _lapse(session, task) for task in late}
    )
    return [task for task in tasks if task.state != TaskState.OPEN]


def _lapse(session: WritingSession, task: Task) -> str:
    """Return what prevented a task from being fulfilled in time."""
    former = attempts.last_ended_job(session, task) if task.attempts else None
    if former is None:
        return "no attempt could begin in time"
    return (
        f"attempt {former.attempt}: {former.message or former.state}; the next one could not begin"
        f" before {task.deadline.isoformat()}"
    )


def deactivate(session: WritingSession, template: RunTemplate, why: str) -> None:
    """Stop everything of a template that has not started; running jobs continue."""
    close_without_attempt(
        session, attempts.lock_open_tasks(session, template), TaskReason.INACTIVE, why
    )
    for job in waiting_jobs(session, template):
        cancel(session, job, why)


def start_catch_up(session: WritingSession, task: Task, at: datetime) -> Job:
    """Start a catch-up attempt at `at`; the deadline is one window length later."""
    task.catch_up = False
    task.deadline = at + (task.window_end - task.window_start)
    return _new_attempt(session, task, at, "scheduled")


def _new_attempt(session: WritingSession, task: Task, at: datetime, kind: str) -> Job:
    job = attempts.new_job(task.runtemplate, schedule=at, schedule_type=kind)
    job.task, job.attempt = task, task.attempts + 1
    session.add(job)
    session.flush()
    enqueue(session, OutboxKind.CREATE_RUN, job.id)
    return job


def retry_task(session: WritingSession, task: Task, launched_by: int | None) -> Job:
    """Retry a failed or missed window once, now.

    Raises:
        Conflict: it has not ended, or was fulfilled.
    """
    task = attempts.lock_task(session, task.id)
    task.state = next_task_state(TaskState(task.state), TaskState.OPEN, operator=True)
    task.reason = task.message = task.excuse = task.excused_by = None
    now = session.clock()
    task.deadline = now + (task.window_end - task.window_start)
    former = attempts.last_job(session, task)
    if former is None:
        job = _new_attempt(session, task, now, "retry")
    else:
        job = schedule_retry(session, former, now)
        job.attempt = task.attempts + 1
    job.launched_by = launched_by
    return job


def excuse_task(session: WritingSession, task: Task, why: str) -> None:
    """Excuse a failed or missed window with a reason; its state stays.

    Raises:
        Conflict: it has not failed.
    """
    task = attempts.lock_task(session, task.id)
    if task.state not in UNFULFILLED:
        raise Conflict(f"task {task.id} is {task.state}; only failed or missed ones can be excused")
    task.excuse, task.excused_by = why, session.actor.name


EVENTS = UUID("6c0d2b0e-7d6f-4d39-9a43-5b1f0a3c8f61")
"""The namespace of event ids: sending an event twice creates one event."""


def task_event(task: Task, occurred: datetime) -> dict[str, Any] | None:
    """Return `jobauto.task.missed` or `jobauto.task.failed`; None if the task did not end so."""
    if task.state not in (TaskState.MISSED, TaskState.FAILED):
        return None
    template = task.runtemplate
    title = f"{template.company.name} / {template.name}"
    began = task.window_start.isoformat()
    deployment = f"prefect.deployment.{template.deployment_id}"
    related = [{"prefect.resource.id": deployment, "prefect.resource.role": "deployment"}]
    return {
        "id": str(uuid5(EVENTS, f"{task.id} {task.created_at.isoformat()} {task.attempts}")),
        "occurred": occurred.isoformat(),
        "event": f"jobauto.task.{task.state}",
        "resource": {
            "prefect.resource.id": f"jobauto.task.{task.id}",
            "prefect.resource.name": f"{title}, window from {began}",
            "jobauto.template": str(template.id),
            "jobauto.company": template.company.slug,
        },
        "related": related if template.deployment_id else [],
        "payload": {
            "task": task.id,
            "template": template.id,
            "template_name": template.name,
            "company": template.company.slug,
            "window_start": began,
            "window_end": task.window_end.isoformat(),
            "deadline": task.deadline.isoformat(),
            "attempts": task.attempts,
            "reason": task.reason,
            "message": task.message,
        },
    }
