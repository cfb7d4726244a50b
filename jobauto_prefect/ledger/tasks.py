"""The life of a task where no attempt decides it: opened, let go, taken up again by somebody.

Each function works inside the caller's transaction and commits nothing.
"""

from collections.abc import Sequence
from datetime import datetime

from sqlalchemy import and_, or_, select

from jobauto_prefect.definitions import Misfire
from jobauto_prefect.errors import Conflict
from jobauto_prefect.ledger import jobs
from jobauto_prefect.ledger.attempts import UNFULFILLED, end_task, follow
from jobauto_prefect.ledger.audit import WritingSession
from jobauto_prefect.ledger.policy import limits_of
from jobauto_prefect.ledger.records import Job, RunTemplate, Task
from jobauto_prefect.ledger.states import (
    LIVE_TASKS,
    JobState,
    TaskReason,
    TaskState,
    next_task_state,
)
from jobauto_prefect.ledger.wishes import WishKind, wish

SHOWN = 5  # tasks named in a refusal


def lock(session: WritingSession, task_id: int) -> Task:
    """The task, which nobody else decides about until this transaction ends."""
    found = select(Task).where(Task.id == task_id).with_for_update()
    return session.scalars(found.execution_options(populate_existing=True)).one()


def task_of_window(session: WritingSession, template: RunTemplate, start: datetime) -> Task | None:
    """The task of the window that begins at an instant, held as by `lock`."""
    task_id = session.scalar(
        select(Task.id).where(Task.runtemplate_id == template.id, Task.window_start == start)
    )
    return None if task_id is None else lock(session, task_id)


def scheduled_job(session: WritingSession, task: Task) -> Job | None:
    """The attempt at a task that is to come."""
    return session.scalar(
        select(Job).where(Job.task_id == task.id, Job.state == JobState.SCHEDULED)
    )


def has_lapsed(task: Task, template: RunTemplate, now: datetime) -> bool:
    """Whether it is too late to begin an attempt.

    Where each window is to run, however late, one without an attempt does not lapse.
    """
    if template.misfire == Misfire.ALL and task.attempts == 0:
        return False
    limits = limits_of(task.deadline, task.window_end, allow_late=template.allow_late)
    return limits.latest_start is not None and now > limits.latest_start


def lapsed(session: WritingSession, limit: int) -> Sequence[Task]:
    """Open tasks for which it is too late, nobody else's until this transaction ends."""
    now = session.clock()
    found = (
        select(Task)
        .join(RunTemplate, RunTemplate.id == Task.runtemplate_id)
        .where(
            Task.state == TaskState.OPEN,
            Task.deadline < now,
            Task.catch_up.is_(False),
            or_(RunTemplate.allow_late.is_(False), Task.window_end < now),
            or_(RunTemplate.misfire != Misfire.ALL, Task.attempts > 0),
        )
        .order_by(Task.deadline)
        .limit(limit)
        .with_for_update(of=Task, skip_locked=True)
    )
    return session.scalars(found).all()


def let_go(session: WritingSession, tasks: Sequence[Task], reason: TaskReason, why: str) -> None:
    """These open tasks get no further attempt: missed where there was none, else failed."""
    held = select(Job).where(
        Job.task_id.in_([task.id for task in tasks]), Job.state == JobState.SCHEDULED
    )
    for job in session.scalars(held.with_for_update()):
        jobs.skip(session, job, why)
    for task in tasks:
        state = TaskState.FAILED if task.attempts else TaskState.MISSED
        end_task(session, task, state, reason, why)


def let_lapse(session: WritingSession, tasks: Sequence[Task]) -> None:
    """It is too late for these open tasks."""
    let_go(session, tasks, TaskReason.DEADLINE, "no attempt could begin in time")


def switch_off(session: WritingSession, template: RunTemplate, why: str) -> None:
    """Nothing of a template starts any more: what was to start does not; what runs goes on."""
    open_tasks = select(Task).where(
        Task.runtemplate_id == template.id, Task.state == TaskState.OPEN
    )
    let_go(session, session.scalars(open_tasks.with_for_update()).all(), TaskReason.INACTIVE, why)
    waiting = select(Job).where(Job.runtemplate_id == template.id, Job.state == JobState.SCHEDULED)
    for job in session.scalars(waiting).all():
        jobs.cancel(session, job, why)


def turns(session: WritingSession, limit: int) -> Sequence[Task]:
    """Tasks whose turn to be caught up has come: of each template the oldest, one at a time."""
    older = Task.__table__.alias("older")
    busy = and_(
        older.c.runtemplate_id == Task.runtemplate_id,
        older.c.state.in_(LIVE_TASKS),
        older.c.window_start < Task.window_start,
    )
    found = (
        select(Task)
        .where(
            Task.state == TaskState.OPEN,
            Task.catch_up.is_(True),
            ~select(older.c.id).where(busy).exists(),
        )
        .order_by(Task.id)
        .limit(limit)
        .with_for_update(of=Task, skip_locked=True)
    )
    return session.scalars(found).all()


def take_turn(session: WritingSession, task: Task, at: datetime) -> Job:
    """Catch a window up: its attempt begins at an instant, and it has its length from then."""
    task.catch_up = False
    task.deadline = at + (task.window_end - task.window_start)
    return _new_attempt(session, task, at, "scheduled")


def _new_attempt(session: WritingSession, task: Task, at: datetime, kind: str) -> Job:
    job = jobs.new_job(task.runtemplate, schedule=at, schedule_type=kind)
    job.task, job.attempt = task, task.attempts + 1
    session.add(job)
    session.flush()
    wish(session, WishKind.CREATE_RUN, job.id)
    return job


def retry(session: WritingSession, task: Task, launched_by: int | None) -> Job:
    """Somebody wants a failed or missed window tried once more, now.

    Raises:
        Conflict: it has not ended, or was fulfilled.
    """
    task = lock(session, task.id)
    task.state = next_task_state(TaskState(task.state), TaskState.OPEN, operator=True)
    task.reason = task.message = task.excuse = task.excused_by = None
    now = session.clock()
    task.deadline = now + (task.window_end - task.window_start)
    former = session.scalar(
        select(Job).where(Job.task_id == task.id).order_by(Job.id.desc()).limit(1)
    )
    if former is None:
        job = _new_attempt(session, task, now, "retry")
    else:
        job = follow(session, former, now)
        job.attempt = task.attempts + 1
    job.launched_by = launched_by
    return job


def excuse(session: WritingSession, task: Task, why: str) -> None:
    """Somebody says why it is all right that a window failed or was missed; it stays so.

    Raises:
        Conflict: it has not failed.
    """
    task = lock(session, task.id)
    if task.state not in UNFULFILLED:
        raise Conflict(f"task {task.id} is {task.state}; only a failed or missed one is excused")
    task.excuse, task.excused_by = why, session.actor.name
