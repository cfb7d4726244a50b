"""The life of a task where no attempt decides it: let go, caught up, taken up again by somebody.

Each function works inside the caller's transaction and commits nothing.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta

from jobauto_prefect.definitions import OnClosed
from jobauto_prefect.errors import Conflict
from jobauto_prefect.jobs.cancellation import cancel, skip
from jobauto_prefect.jobs.closed_time import closed_times
from jobauto_prefect.jobs.notices import tell_task
from jobauto_prefect.jobs.retry import end_task, follow
from jobauto_prefect.ledger import attempts
from jobauto_prefect.ledger.audit import WritingSession
from jobauto_prefect.ledger.records import Job, RunTemplate, Task
from jobauto_prefect.ledger.states import UNFULFILLED, TaskReason, TaskState, next_task_state
from jobauto_prefect.ledger.wishes import WishKind, wish


def let_go(session: WritingSession, tasks: Sequence[Task], reason: TaskReason, why: str) -> None:
    """These open tasks get no further attempt: missed where there was none, else failed."""
    let_go_because(session, reason, dict.fromkeys(tasks, why))


def let_go_because(session: WritingSession, reason: TaskReason, tasks: Mapping[Task, str]) -> None:
    """As `let_go`; each of these tasks ends with its own message."""
    for job in attempts.lock_scheduled_jobs(session, list(tasks)):
        skip(session, job, next(why for task, why in tasks.items() if task.id == job.task_id))
    for task, why in tasks.items():
        state = TaskState.FAILED if task.attempts else TaskState.MISSED
        end_task(session, task, state, reason, why)
        tell_task(session, task)


MOMENT = timedelta(seconds=1)
"""Before a deadline: what closes with it kept nothing from beginning."""


def let_lapse(session: WritingSession, tasks: Sequence[Task]) -> Sequence[Task]:
    """It is too late for these open tasks; those that end by it.

    A deadline in closed time, which kept an attempt from beginning, is as a window in it: it moves,
    or the task is excused where nothing of it ever began.
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
            let_go(session, [task], TaskReason.CLOSED, closure.reason)
        elif reopens is not None:
            task.deadline = reopens + (task.window_end - task.window_start)
    let_go_because(session, TaskReason.DEADLINE, {task: _lapse(session, task) for task in late})
    return [task for task in tasks if task.state != TaskState.OPEN]


def _lapse(session: WritingSession, task: Task) -> str:
    """What kept a task from being fulfilled in time."""
    former = attempts.last_ended_job(session, task) if task.attempts else None
    if former is None:
        return "no attempt could begin in time"
    return (
        f"attempt {former.attempt}: {former.message or former.state}; the next one could not begin"
        f" before {task.deadline.isoformat()}"
    )


def switch_off(session: WritingSession, template: RunTemplate, why: str) -> None:
    """Nothing of a template starts any more: what was to start does not; what runs goes on."""
    let_go(session, attempts.lock_open_tasks(session, template), TaskReason.INACTIVE, why)
    for job in attempts.waiting_jobs(session, template):
        cancel(session, job, why)


def take_turn(session: WritingSession, task: Task, at: datetime) -> Job:
    """Catch a window up: its attempt begins at an instant, and it has its length from then."""
    task.catch_up = False
    task.deadline = at + (task.window_end - task.window_start)
    return _new_attempt(session, task, at, "scheduled")


def _new_attempt(session: WritingSession, task: Task, at: datetime, kind: str) -> Job:
    job = attempts.new_job(task.runtemplate, schedule=at, schedule_type=kind)
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
    task = attempts.lock_task(session, task.id)
    task.state = next_task_state(TaskState(task.state), TaskState.OPEN, operator=True)
    task.reason = task.message = task.excuse = task.excused_by = None
    now = session.clock()
    task.deadline = now + (task.window_end - task.window_start)
    former = attempts.last_job(session, task)
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
    task = attempts.lock_task(session, task.id)
    if task.state not in UNFULFILLED:
        raise Conflict(f"task {task.id} is {task.state}; only a failed or missed one is excused")
    task.excuse, task.excused_by = why, session.actor.name
