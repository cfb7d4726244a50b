"""The job that a claimed flow run is for (design, section 3)."""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from functools import partial
from typing import Any

from jobauto_prefect.definitions import Overlap
from jobauto_prefect.errors import Contended, Forbidden, NumberTaken
from jobauto_prefect.jobs.claims.context import ClaimContext, Refused, UnknownRun
from jobauto_prefect.jobs.claims.event_jobs import event_job
from jobauto_prefect.jobs.outcome.cancellation import skip
from jobauto_prefect.jobs.outcome.results import run_status_of
from jobauto_prefect.jobs.outcome.retry import has_lapsed, inherit_values
from jobauto_prefect.jobs.windows.closed_time import closed_times
from jobauto_prefect.jobs.windows.due_windows import open_until
from jobauto_prefect.jobs.windows.tasks import close_lapsed, close_without_attempt
from jobauto_prefect.ledger import outbox
from jobauto_prefect.ledger.base import BIGGEST_ID
from jobauto_prefect.ledger.jobs import attempts
from jobauto_prefect.ledger.jobs.attempts import KnownJobs
from jobauto_prefect.ledger.jobs.flow_runs import (
    is_being_registered,
    moved_key,
    run_key,
    window_key,
)
from jobauto_prefect.ledger.jobs.leases import may_live
from jobauto_prefect.ledger.outbox import OutboxKind
from jobauto_prefect.ledger.records import Job, RunTemplate, Task
from jobauto_prefect.ledger.states import JobState, TaskReason, TaskState
from jobauto_prefect.runtime.protocol import (
    BEING_REGISTERED,
    UNKNOWN_DEPLOYMENT,
    Claim,
    PrefectState,
)

OVERLAP_LOOK = timedelta(seconds=10)
"""So often a window looks whether the attempt before it has ended, where nobody tells it."""

CLOSED_LOOK = timedelta(hours=1)
"""So often a job looks whether its calendars have changed."""

REGISTRATION_LOOK = timedelta(seconds=5)
"""So often a run looks whether its deployment has been noted as its run template's."""

EARLY = timedelta(seconds=30)
"""By so much a worker's clock may be ahead of the ledger's."""


def time_until_due(claim: Claim, now: datetime) -> timedelta:
    """Return how long a claim came before its run is due; none where it does not say when."""
    return max(timedelta(0), claim.due - now) if claim.due else timedelta(0)


def time_of_start(context: ClaimContext) -> datetime:
    """Return when the process starts of a claim that is granted now."""
    now = context.session.clock()
    return now + time_until_due(context.claim, now)


def resolve_job(context: ClaimContext) -> Job:
    """Return the job of the flow run claimed, locked: new, scheduled, or granted to this claim.

    The caller holds the flow-run id and the worker.

    Raises:
        Refused: it may not start.
        NumberTaken: another job of the flow run is live, or has this run number.
        Contended: another claim of the flow run was decided meanwhile.
        Forbidden: the run is for a pool the worker's token does not name.
        UnknownRun: it was announced, and is not a job's that waits for nothing else.
    """
    first = _first_seen(context)
    if first is None:
        template = _template(context)
        _require_pool(context, template)
        return _of_new_run(context, template)
    _require_pool(context, first.runtemplate)
    _lock_template(context, first.runtemplate, first.task_id)
    if first.task_id is not None:
        attempts.lock_task(context.session, first.task_id)
    jobs = _jobs(context, lock=True)
    _require_known(context, jobs)
    if jobs.own is not None:
        return jobs.own
    last = jobs.of_run[-1] if jobs.of_run else jobs.named
    if last is not first:
        raise Contended("another claim of this flow run was decided just now; ask again")
    return _of_known_run(context, jobs.of_run) if jobs.of_run else _bound(context, last)


def _first_seen(context: ClaimContext) -> Job | None:
    """Return the job that a claim is about, before anything is locked; None: it has none yet."""
    jobs = _jobs(context)
    if jobs.own is not None and jobs.own.flow_run_id != context.claim.flow_run_id:
        raise NumberTaken(f"this claim id is that of job {jobs.own.id}, of another flow run")
    _require_known(context, jobs)
    if jobs.own is not None or jobs.of_run:
        return jobs.own or jobs.of_run[-1]
    named, number = jobs.named, _reference(context, "job")
    deployment_id = None if named is None else named.runtemplate.deployment_id
    if (
        number is not None
        and deployment_id != context.claim.deployment_id
        # Waiting runs are moved to a new deployment before the ledger notes it.
        and (named is None or _template(context).id != named.runtemplate_id)
    ):
        message = f"the flow run names job {number}, which is none of its run template's"
        raise Refused("foreign_job", message, PrefectState.FAILED)
    return named


def _require_known(context: ClaimContext, jobs: KnownJobs) -> None:
    """Require that the ledger made an announced run, and for a job that is due.

    Announcements are repeated: a job that has ended or was cancelled is not one that somebody
    retried in Prefect.
    """
    if not context.claim.announced or jobs.own is not None:
        return
    if len(jobs.of_run) != 1:
        raise UnknownRun(unheard=not jobs.of_run)
    (job,) = jobs.of_run
    if job.state != JobState.SCHEDULED:
        raise NumberTaken(f"job {job.id}, for which this run was made, is {job.state}")
    if job.schedule > context.session.clock():
        raise UnknownRun


def _jobs(context: ClaimContext, *, lock: bool = False) -> KnownJobs:
    claim, named = context.claim, _reference(context, "job")
    if named is not None and not 0 < named <= BIGGEST_ID:
        named = None
    asked = (context.session, claim.claim_id, claim.flow_run_id, named)
    return attempts.jobs_of_claim(*asked, lock=lock)


def _require_pool(context: ClaimContext, template: RunTemplate) -> None:
    pool = template.pool or context.settings.pool
    if pool not in context.pools:
        raise Forbidden(f"this token is not for the work pool {pool}")


def _lock_template(context: ClaimContext, template: RunTemplate, task_id: int | None) -> None:
    """Lock a template whose windows' attempts must not overlap: one is decided about at a time."""
    if task_id is not None and template.overlap != Overlap.PARALLEL:
        attempts.lock_template(context.session, template)


def _reference(context: ClaimContext, name: str) -> int | None:
    number = _references(context).get(name)
    return number if isinstance(number, int) else None


def _references(context: ClaimContext) -> Mapping[str, Any]:
    """Return what the flow run says that it is for."""
    named = context.claim.parameters.get("jobauto")
    return named if isinstance(named, dict) else {}


def _template(context: ClaimContext) -> RunTemplate:
    find = partial(attempts.template_of_deployment, context.session, context.claim.deployment_id)
    template, named = find(), context.claim.template_id
    if template is None and named is not None:
        _require_registered(context, named)
        template = find()  # it may have been noted between these two
    if template is None:
        message = "this deployment is none of jobauto's run templates; apply the template first"
        raise Refused(UNKNOWN_DEPLOYMENT, message, PrefectState.FAILED)
    return template


def _require_registered(context: ClaimContext, template_id: int) -> None:
    """Require that the ledger knows which deployment is a run template's.

    Raises:
        Refused: it is still to note that; the run is to come again.
    """
    if is_being_registered(context.session, template_id):
        message = f"run template {template_id} is being registered in Prefect"
        at = context.session.clock() + REGISTRATION_LOOK
        raise Refused(BEING_REGISTERED, message, PrefectState.SCHEDULED, at=at)


def _bound(context: ClaimContext, job: Job) -> Job:
    """Return a job that a flow run names, if the flow run was made for it.

    Raises:
        Refused: the flow run is a copy, or the job does not wait any more.
        NumberTaken: the job is running already.
    """
    if not _is_made_for(context, job):
        message = f"the flow run of job {job.id} is another one; this one is a copy of it"
        raise Refused("duplicate", message, PrefectState.CANCELLED)
    if job.state == JobState.RUNNING:
        raise NumberTaken(f"job {job.id} is running already")
    if job.state == JobState.CANCELLED:
        raise Refused("cancelled", job.message or "cancelled", PrefectState.CANCELLED)
    if job.state != JobState.SCHEDULED:
        message = job.message or f"job {job.id} is {job.state}"
        raise Refused("over", message, PrefectState.CANCELLED)
    return job


def _is_made_for(context: ClaimContext, job: Job) -> bool:
    """Whether the flow run is the job's own, or has taken the place of its own."""
    claim = context.claim
    keys = {
        run_key(job),
        moved_key(job.flow_run_id),
        window_key(job.runtemplate, job.schedule),
    }
    return job.flow_run_id == claim.flow_run_id or claim.idempotency_key in keys


def _of_known_run(context: ClaimContext, jobs: Sequence[Job]) -> Job:
    """Return the flow run's scheduled job, or a retry of its last one clicked in Prefect."""
    claim, last = context.claim, jobs[-1]
    if any(job.state == JobState.RUNNING or job.run_number == claim.run_number for job in jobs):
        raise NumberTaken("another job of this flow run is live, or has this run number")
    if last.state == JobState.SCHEDULED:
        return last
    if not _was_retried_after(context, last):
        raise Refused("cancelled", last.message or "cancelled", PrefectState.CANCELLED)
    task = last.task
    if task is not None and task.state not in (TaskState.OPEN, TaskState.RUNNING):
        message = f"task {task.id} is {task.state}; to run it again: jobauto task retry {task.id}"
        raise _as_it_was(context, last, "task_ended", message)
    waiting = attempts.lock_follower(context.session, last)
    if may_live(context.session, last):
        raise _as_it_was(context, last, "unheard", f"the process of job {last.id} may still run")
    if task is not None and task.state == TaskState.RUNNING:
        raise _as_it_was(context, last, "overlap", f"another attempt at task {task.id} is running")
    if waiting is not None:
        skip(context.session, waiting, "somebody retried it in Prefect before")
    job = attempts.new_job(
        last.runtemplate, schedule=context.session.clock(), schedule_type="adhoc-ui"
    )
    job.task, job.attempt = task, last.attempt + 1
    job.retry_of = None if task else last.retry_of or last.id
    inherit_values(job, last)
    return job


def _was_retried_after(context: ClaimContext, last: Job) -> bool:
    """Whether somebody retried the run once Prefect had heard of its last job's end.

    A worker may have seen the run before that, and ask late.
    """
    seen, end = context.claim.changed_at, last.end
    if seen is not None and end is not None and seen <= end:
        return False
    return not outbox.is_pending(context.session, OutboxKind.CANCEL_RUN, last.id)


def _as_it_was(context: ClaimContext, job: Job, reason: str, message: str) -> Refused:
    """Return a refusal that shows how the flow run's job ended, and why it does not start again."""
    story = run_status_of(job, context.settings)
    return Refused(reason, f"{message} (before: {story.message})", story.state)


def _of_new_run(context: ClaimContext, template: RunTemplate) -> Job:
    """Return the job of a run that Prefect began by schedule or event, or somebody by a click."""
    if "event" in _references(context):
        return event_job(context, template)
    task = _owed_task(context, template)
    if task is not None:
        return _of_task(context, task)
    due = context.claim.scheduled_for or context.session.clock()
    return attempts.new_job(template, schedule=due, schedule_type="adhoc-ui")


def _owed_task(context: ClaimContext, template: RunTemplate) -> Task | None:
    """Return the task this run is for, which nobody else decides about; None: it is for none."""
    number = _reference(context, "task")
    if number is not None:
        task = context.session.get(Task, number)
        if task is None or task.runtemplate_id != template.id:
            message = f"the flow run names task {number}, which is none of its run template's"
            raise Refused("foreign_task", message, PrefectState.FAILED)
        _lock_template(context, template, task.id)
        return attempts.lock_task(context.session, task.id)
    due = context.claim.scheduled_for
    by_schedule = context.claim.auto_scheduled or "window" in _references(context)
    if not by_schedule or due is None:
        return None
    return _task_of_window(context, template, due)


def _task_of_window(context: ClaimContext, template: RunTemplate, due: datetime) -> Task:
    session = context.session
    start = due - timedelta(seconds=template.delay)
    if template.overlap != Overlap.PARALLEL:
        attempts.lock_template(session, template)
    task = attempts.task_of_window(session, template, start)
    if task is not None:
        return task
    now = session.clock()
    if due > now + EARLY:
        message = f"its window opens at {due.isoformat()}"
        raise Refused("early", message, PrefectState.SCHEDULED, at=due)
    open_until(session, template, max(due, now))
    task = attempts.task_of_window(session, template, start)
    if task is None:
        _refuse_moved(context, template, due)
        message = f"no window of this run template begins at {start.isoformat()}"
        raise Refused("not_owed", message, PrefectState.CANCELLED)
    return task


def _require_open(context: ClaimContext, template: RunTemplate, at: datetime) -> None:
    """Require that the run template's calendars let attempts at its windows start at an instant.

    Raises:
        Refused: they do not; the job is to come again.
    """
    closed = closed_times(context.session, [template], at)[template.id]
    closure = closed.at(at)
    if closure is not None:
        reopens = closed.reopens(at) or at + CLOSED_LOOK
        message = f"{closure.reason}; it starts at {reopens.isoformat()}"
        again = min(reopens, at + CLOSED_LOOK)
        raise Refused("closed", message, PrefectState.SCHEDULED, at=again)


def _refuse_moved(context: ClaimContext, template: RunTemplate, due: datetime) -> None:
    """Refuse a window that waits for the end of closed time: it gets a flow run of its own then.

    Raises:
        Refused: it is such a one.
    """
    closed = closed_times(context.session, [template], due)[template.id]
    closure, at = closed.at(due), closed.reopens(due)
    if closure is not None:
        then = "its end" if at is None else at.isoformat()
        message = f"{closure.reason}; the window is moved to {then}"
        raise Refused("closed", message, PrefectState.CANCELLED)


def _of_task(context: ClaimContext, task: Task) -> Job:
    """Return the scheduled attempt of a task, where this run is the first to ask for it.

    Raises:
        Refused: another run has the attempt, or the task is not open.
    """
    job = attempts.scheduled_job(context.session, task)
    if job is not None:
        attempts.lock_job(context.session, job)
    mine = job is not None and job.flow_run_id in (None, context.claim.flow_run_id)
    is_next = job is not None and job.state == JobState.SCHEDULED
    if job is None or not (mine and is_next) or task.state != TaskState.OPEN:
        began = task.window_start.isoformat()
        message = f"the window from {began} has its task {task.id} ({task.state})"
        if task.reason == TaskReason.CLOSED:
            message = f"the window from {began} is excused: {task.excuse}"
        raise Refused("duplicate_window", message, PrefectState.CANCELLED)
    return job


def require_startable(context: ClaimContext, template: RunTemplate, job: Job) -> None:
    """Check that a window's attempt may start: it is not too late, and no other one runs.

    Raises:
        Refused: it may not, or not yet.
    """
    task, starts_at = job.task, time_of_start(context)
    if task is None:
        return
    if has_lapsed(task, template, starts_at) and close_lapsed(context.session, [task]):
        message = f"too late: the deadline of task {task.id} was {task.deadline.isoformat()}"
        raise Refused("deadline", message, PrefectState.CANCELLED)
    if template.calendars or template.company.calendars:
        _require_open(context, template, starts_at)
    if template.overlap == Overlap.PARALLEL:
        return
    running = attempts.running_attempt(context.session, template.id, besides=task.id)
    if running is not None and template.overlap == Overlap.SKIP and task.attempts == 0:
        message = f"job {running} of this run template still ran"
        close_without_attempt(context.session, [task], TaskReason.OVERLAP, message)
        raise Refused("overlap", message, PrefectState.CANCELLED)
    if running is not None:
        message = f"job {running} of this run template still runs; this one waits for its end"
        raise Refused("overlap", message, PrefectState.SCHEDULED, at=starts_at + OVERLAP_LOOK)
