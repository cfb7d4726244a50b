"""Which job a flow run is for (design, section 3)."""

from collections.abc import Sequence
from datetime import datetime, timedelta

from jobauto_prefect.definitions import Overlap
from jobauto_prefect.engine.opening import open_until
from jobauto_prefect.engine.settling import story_of
from jobauto_prefect.errors import Forbidden, NumberTaken
from jobauto_prefect.facade.claiming import ClaimContext, Refused
from jobauto_prefect.facade.mapping import event_job, is_for_event
from jobauto_prefect.ledger import attempts as following
from jobauto_prefect.ledger import jobs, keeping, queries, tasks, wishes
from jobauto_prefect.ledger.records import Job, RunTemplate, Task
from jobauto_prefect.ledger.states import JobState, TaskState
from jobauto_prefect.ledger.wishes import WishKind
from jobauto_prefect.runtime.protocol import PrefectState

OVERLAP_LOOK = timedelta(seconds=10)
"""So often a window looks whether the attempt before it has ended, where nobody tells it."""

EARLY = timedelta(seconds=30)
"""By so much a worker's clock may be ahead of the ledger's."""


def subject(context: ClaimContext) -> Job:
    """The job of the flow run that is claimed: new, scheduled, or granted to this claim before.

    Raises:
        Refused: it may not start.
        NumberTaken: another job of the flow run is live, or has this run number.
        Forbidden: the run is for a pool the worker's token does not name.
    """
    claim = context.claim
    attempts = queries.jobs_of_flow_run(context.session, claim.flow_run_id)
    named = _named(context) if not attempts else None
    template = _template(context, named or next(iter(attempts), None))
    pool = template.pool or context.service.settings.pool
    if pool not in context.pools:
        raise Forbidden(f"this token is not for the work pool {pool}")
    for job in attempts:
        if job.claim_id == claim.claim_id:
            return job
        if job.state == JobState.RUNNING or job.run_number == claim.run_number:
            raise NumberTaken("another job of this flow run is live, or has this run number")
    if attempts:
        return _of_known_run(context, attempts)
    try:
        return _bound(context, named) if named is not None else _of_new_run(context, template)
    except Refused:
        # What a claim at the same instant was granted is not to be shown as refused.
        if queries.jobs_of_flow_run(context.session, claim.flow_run_id):
            raise NumberTaken("another worker was granted this flow run just now") from None
        raise


def _named(context: ClaimContext) -> Job | None:
    """The job that the flow run's parameter names."""
    number = _reference(context, "job")
    if number is None:
        return None
    job = context.session.get(Job, number)
    if job is None or job.runtemplate.deployment_id != context.claim.deployment_id:
        message = f"the flow run names job {number}, which is none of its run template's"
        raise Refused("foreign_job", message, PrefectState.FAILED)
    return job


def _reference(context: ClaimContext, name: str) -> int | None:
    named = context.claim.parameters.get("jobauto")
    number = named.get(name) if isinstance(named, dict) else None
    return number if isinstance(number, int) else None


def _template(context: ClaimContext, job: Job | None) -> RunTemplate:
    if job is not None:
        return job.runtemplate
    template = queries.template_of_deployment(context.session, context.claim.deployment_id)
    if template is None:
        message = "this deployment is none of jobauto's run templates; apply the template first"
        raise Refused("unknown_deployment", message, PrefectState.FAILED)
    return template


def _bound(context: ClaimContext, job: Job) -> Job:
    """A flow run names a job: it must be the job's only one."""
    jobs.lock(context.session, job)
    if job.flow_run_id not in (None, context.claim.flow_run_id):
        raise Refused("duplicate", f"job {job.id} has a flow run already", PrefectState.CANCELLED)
    if job.state == JobState.CANCELLED:
        raise Refused("cancelled", job.message or "cancelled", PrefectState.CANCELLED)
    if job.state != JobState.SCHEDULED:
        message = job.message or f"job {job.id} is {job.state}"
        raise Refused("over", message, PrefectState.CANCELLED)
    return job


def _of_known_run(context: ClaimContext, attempts: Sequence[Job]) -> Job:
    """The flow run's scheduled job, or a retry of its last one that somebody clicked in Prefect."""
    last = attempts[-1]
    jobs.lock(context.session, last)
    if last.state == JobState.SCHEDULED:
        return last
    if wishes.is_owed(context.session, WishKind.CANCEL_RUN, last.id):
        # Not a retry: Prefect has not heard yet that the run is not wanted.
        raise Refused("cancelled", last.message or "cancelled", PrefectState.CANCELLED)
    task = last.task
    if task is not None and task.state not in (TaskState.OPEN, TaskState.RUNNING):
        message = f"task {task.id} is {task.state}; to run it again: jobauto task retry {task.id}"
        raise _as_it_was(context, last, "task_ended", message)
    waiting = following.follower_of(context.session, last)
    if keeping.may_live(context.session, last):
        raise _as_it_was(context, last, "unheard", f"the process of job {last.id} may still run")
    if task is not None and task.state == TaskState.RUNNING:
        raise _as_it_was(context, last, "overlap", f"another attempt at task {task.id} is running")
    if waiting is not None:
        jobs.skip(context.session, waiting, "somebody retried it in Prefect before")
    job = jobs.new_job(last.runtemplate, schedule=context.session.clock(), schedule_type="adhoc-ui")
    job.task, job.attempt = task, last.attempt + 1
    job.retry_of = None if task else last.retry_of or last.id
    following.inherit(job, last)
    return job


def _as_it_was(context: ClaimContext, job: Job, reason: str, message: str) -> Refused:
    """The flow run shows how its job ended, and why it does not start again."""
    story = story_of(job, context.service.settings)
    return Refused(reason, f"{message} (before: {story.message})", story.state)


def _of_new_run(context: ClaimContext, template: RunTemplate) -> Job:
    """A run that Prefect began by its schedule or for an event, or somebody by a click on Run."""
    if is_for_event(context):
        return event_job(context, template)
    task = _owed_task(context, template)
    if task is not None:
        return _of_task(context, task)
    due = context.claim.scheduled_for or context.session.clock()
    return jobs.new_job(template, schedule=due, schedule_type="adhoc-ui")


def _owed_task(context: ClaimContext, template: RunTemplate) -> Task | None:
    """The task this run is for, which nobody else decides about; None: it is for none."""
    number = _reference(context, "task")
    if number is not None:
        task = context.session.get(Task, number)
        if task is None or task.runtemplate_id != template.id:
            message = f"the flow run names task {number}, which is none of its run template's"
            raise Refused("foreign_task", message, PrefectState.FAILED)
        return tasks.lock(context.session, task.id)
    due = context.claim.scheduled_for
    if not context.claim.auto_scheduled or due is None:
        return None
    return _task_of_window(context, template, due)


def _task_of_window(context: ClaimContext, template: RunTemplate, due: datetime) -> Task:
    session = context.session
    start = due - timedelta(seconds=template.delay)
    task = tasks.task_of_window(session, template, start)
    if task is not None:
        return task
    now = session.clock()
    if due > now + EARLY:
        message = f"its window opens at {due.isoformat()}"
        raise Refused("early", message, PrefectState.SCHEDULED, at=due)
    open_until(session, template, max(due, now))
    task = tasks.task_of_window(session, template, start)
    if task is None:
        message = f"no window of this run template begins at {start.isoformat()}"
        raise Refused("not_owed", message, PrefectState.CANCELLED)
    return task


def _of_task(context: ClaimContext, task: Task) -> Job:
    """The scheduled attempt of a task, where this run is the first to ask for it."""
    job = tasks.scheduled_job(context.session, task)
    mine = job is not None and job.flow_run_id in (None, context.claim.flow_run_id)
    if job is None or not mine or task.state != TaskState.OPEN:
        began = task.window_start.isoformat()
        message = f"the window from {began} has its task {task.id} ({task.state})"
        raise Refused("duplicate_window", message, PrefectState.CANCELLED)
    return job


def require_turn(context: ClaimContext, template: RunTemplate, job: Job) -> None:
    """A window's attempt may start now: it is not too late, and nothing of the template runs.

    Raises:
        Refused: it may not, or not yet.
    """
    task, now = job.task, context.session.clock()
    if task is None:
        return
    if tasks.has_lapsed(task, template, now):
        tasks.let_lapse(context.session, [task])
        message = f"too late: the deadline of task {task.id} was {task.deadline.isoformat()}"
        raise Refused("deadline", message, PrefectState.CANCELLED)
    if template.overlap == Overlap.PARALLEL:
        return
    running = keeping.running_attempt(context.session, template.id, besides=task.id)
    if running is not None:
        message = f"job {running} of this run template still runs; this one waits for its end"
        raise Refused("overlap", message, PrefectState.SCHEDULED, at=now + OVERLAP_LOOK)
