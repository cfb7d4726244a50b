"""The job that a claimed flow run is for."""

import json
from collections.abc import Sequence
from datetime import datetime, timedelta

from jobauto_prefect.definitions import Overlap
from jobauto_prefect.errors import Contended, Forbidden, NumberTaken
from jobauto_prefect.jobs.claims.claim import OpenClaim, Refused, RunUnseen, UnknownRun
from jobauto_prefect.jobs.outcome.cancellation import skip
from jobauto_prefect.jobs.outcome.results import run_status_of
from jobauto_prefect.jobs.outcome.retry import inherit_values
from jobauto_prefect.jobs.windows.closed_time import closed_times
from jobauto_prefect.jobs.windows.due_windows import open_until
from jobauto_prefect.ledger import outbox
from jobauto_prefect.ledger.audit.trail import write_entry
from jobauto_prefect.ledger.base import BIGGEST_ID
from jobauto_prefect.ledger.events import deliveries
from jobauto_prefect.ledger.jobs import attempts
from jobauto_prefect.ledger.jobs.attempts import KnownJobs
from jobauto_prefect.ledger.jobs.flow_runs import is_being_registered
from jobauto_prefect.ledger.jobs.leases import may_live
from jobauto_prefect.ledger.outbox import OutboxKind
from jobauto_prefect.ledger.records import Job, RunTemplate, Task
from jobauto_prefect.ledger.states import DeliveryState, JobState, TaskReason, TaskState
from jobauto_prefect.runtime.protocol import BEING_REGISTERED, UNKNOWN_DEPLOYMENT, PrefectState

REGISTRATION_LOOK = timedelta(seconds=5)
"""Poll interval of a run whose deployment is not yet recorded for its run template."""

EARLY = timedelta(seconds=30)
"""How far a worker's clock may be ahead of the ledger's."""

SHOWN = 200  # characters of a forged reference in a message


class Target:
    """What a claimed flow run is for: a waiting job, or a new one."""

    def __init__(self, claim: OpenClaim) -> None:
        self._claim = claim
        self._asked = claim.asked
        self._session = claim.session

    def resolve(self, *, concerns_task: bool) -> Job:
        """Return the job, locked: new, scheduled, or granted to this claim.

        The caller holds the flow-run id and the worker. `concerns_task`: the task must be found and
        locked before the job; otherwise one query for the jobs is enough.

        Raises:
            Refused: it may not start.
            NumberTaken: another job of the flow run is live, or has this run number.
            Contended: another claim of the flow run was decided meanwhile.
            Forbidden: the run is for a pool the worker's token does not name.
            RunUnseen: Prefect has to be asked about it.
            UnknownRun: it was announced, but no job is waiting for it alone.
        """
        jobs = self._jobs(lock=not concerns_task)
        first = self._first_of(jobs)
        if first is None:
            template = self._template()
            self._claim.require_pool(template)
            self._require_own_deployment()
            return self._of_new_run(template)
        self._claim.require_pool(first.runtemplate)
        if concerns_task:
            if first.task_id is not None:
                self._lock_windows(first.runtemplate)
                attempts.lock_task(self._session, first.task_id)
            jobs = self._jobs(lock=True)
            self._require_known(jobs)
        if jobs.own is not None:
            return jobs.own
        last = jobs.of_run[-1] if jobs.of_run else jobs.named
        if last is not first or (first.task_id is not None and not concerns_task):
            raise Contended("another claim of this flow run was decided just now; ask again")
        return self._of_known_run(jobs.of_run) if jobs.of_run else self._bound(last)

    def _jobs(self, *, lock: bool) -> KnownJobs:
        return attempts.jobs_of_claim(self._session, self._claim.subject, lock=lock)

    def _first_of(self, jobs: KnownJobs) -> Job | None:
        """Return the job that the claim concerns, read without locks; None if there is none yet."""
        if jobs.own is not None and jobs.own.flow_run_id != self._asked.flow_run_id:
            raise NumberTaken(f"this claim id belongs to job {jobs.own.id} of another flow run")
        self._require_known(jobs)
        if jobs.own is not None or jobs.of_run:
            return jobs.own or jobs.of_run[-1]
        named, number = jobs.named, self._claim.reference("job")
        deployment_id = None if named is None else named.runtemplate.deployment_id
        if (
            number is not None
            and deployment_id != self._asked.deployment_id
            # Waiting runs move to a new deployment before the ledger records it.
            and (named is None or self._template().id != named.runtemplate_id)
        ):
            message = f"the flow run names job {number}, which is not of its run template"
            raise Refused("foreign_job", message, PrefectState.FAILED)
        return named

    def _require_known(self, jobs: KnownJobs) -> None:
        """Require that the ledger created an announced run, for a job that is due.

        Announcements are repeated: one for an ended or cancelled job does not mean that somebody
        retried it in Prefect.
        """
        if not self._asked.announced or jobs.own is not None:
            return
        if len(jobs.of_run) != 1:
            raise UnknownRun(unheard=not jobs.of_run)
        (job,) = jobs.of_run
        if job.state != JobState.SCHEDULED:
            raise NumberTaken(f"job {job.id}, for which this run was made, is {job.state}")
        if job.schedule > self._session.clock():
            raise UnknownRun

    def _require_own_deployment(self) -> None:
        """Require that a run unknown to the ledger belongs to the deployment it is claimed for.

        Otherwise anyone who knows its id could bind it to their own run template, and the right
        worker would be refused. If the token covers the pools of all templates, there is nothing to
        steal.
        """
        claim = self._claim
        if not attempts.has_other_pools(self._session, claim.pools, claim.settings.pool):
            return
        if claim.seen_deployment is None:
            raise RunUnseen
        if claim.seen_deployment != self._asked.deployment_id:
            raise Forbidden("the flow run does not belong to the deployment it is claimed for")

    def _lock_windows(self, template: RunTemplate) -> None:
        """Lock a template whose attempts must not overlap, so that claims are decided in turn."""
        if template.overlap != Overlap.PARALLEL:
            attempts.lock_template(self._session, template)

    def _template(self) -> RunTemplate:
        """Return the run template that the flow run's deployment belongs to.

        Raises:
            Refused: there is none, or the ledger has yet to record it; then the run must come
                again.
        """
        deployment_id, named = self._asked.deployment_id, self._asked.template_id
        template = attempts.template_of_deployment(self._session, deployment_id)
        if template is None and named is not None:
            if is_being_registered(self._session, named):
                message = f"run template {named} is being registered in Prefect"
                at = self._session.clock() + REGISTRATION_LOOK
                raise Refused(BEING_REGISTERED, message, PrefectState.SCHEDULED, at=at)
            # It may have been recorded between these two queries.
            template = attempts.template_of_deployment(self._session, deployment_id)
        if template is None:
            message = "this deployment belongs to no run template; apply the template first"
            raise Refused(UNKNOWN_DEPLOYMENT, message, PrefectState.FAILED)
        return template

    def _bound(self, job: Job) -> Job:
        """Return a job that the flow run names, if the flow run was made for it.

        Raises:
            Refused: the flow run is a copy, or the job is no longer waiting.
            NumberTaken: the job is already running.
        """
        if not self._claim.is_made_for(job):
            message = f"job {job.id} has another flow run; this one is a copy of it"
            raise Refused("duplicate", message, PrefectState.CANCELLED)
        if job.state == JobState.RUNNING:
            raise NumberTaken(f"job {job.id} is already running")
        if job.state == JobState.CANCELLED:
            raise Refused("cancelled", job.message or "cancelled", PrefectState.CANCELLED)
        if job.state != JobState.SCHEDULED:
            message = job.message or f"job {job.id} is {job.state}"
            raise Refused("over", message, PrefectState.CANCELLED)
        return job

    def _of_known_run(self, jobs: Sequence[Job]) -> Job:
        """Return the flow run's scheduled job, or a retry that somebody asked for in Prefect."""
        number, last = self._asked.run_number, jobs[-1]
        if any(job.state == JobState.RUNNING or job.run_number == number for job in jobs):
            raise NumberTaken("another job of this flow run is live, or has this run number")
        if last.state == JobState.SCHEDULED:
            return last
        if not self._was_retried_after(last):
            raise Refused("cancelled", last.message or "cancelled", PrefectState.CANCELLED)
        task = last.task
        if task is not None and task.state not in (TaskState.OPEN, TaskState.RUNNING):
            message = f"task {task.id} is {task.state}; "
            message += f"to run it again: jobauto task retry {task.id}"
            raise self._as_it_was(last, "task_ended", message)
        waiting = attempts.lock_follower(self._session, last)
        if may_live(self._session, last):
            raise self._as_it_was(last, "unheard", f"the process of job {last.id} may still run")
        if task is not None and task.state == TaskState.RUNNING:
            message = f"another attempt at task {task.id} is running"
            raise self._as_it_was(last, "overlap", message)
        return self._retry(last, waiting)

    def _was_retried_after(self, last: Job) -> bool:
        """Whether somebody retried the run after Prefect learned of its last job's end.

        A worker may have seen the run earlier, and claim it late.
        """
        seen, end = self._asked.changed_at, last.end
        if seen is not None and end is not None and seen <= end:
            return False
        return not outbox.is_pending(self._session, OutboxKind.CANCEL_RUN, last.id)

    def _as_it_was(self, job: Job, reason: str, message: str) -> Refused:
        """Return a refusal that shows how the flow run's job ended, and why it is not repeated."""
        before = run_status_of(job, self._claim.settings)
        return Refused(reason, f"{message} (before: {before.message})", before.state)

    def _retry(self, last: Job, waiting: Job | None) -> Job:
        """Create the attempt that somebody asked for in Prefect, replacing one that waits."""
        if waiting is not None:
            skip(self._session, waiting, "somebody retried it in Prefect first")
        job = attempts.new_job(
            last.runtemplate, schedule=self._session.clock(), schedule_type="adhoc-ui"
        )
        job.task, job.attempt = last.task, last.attempt + 1
        job.retry_of = None if last.task else last.retry_of or last.id
        inherit_values(job, last)
        return job

    def _of_new_run(self, template: RunTemplate) -> Job:
        """Return the job of a run started by Prefect's schedule, an event or a person."""
        if "event" in self._claim.references:
            return self._of_event(template)
        task = self._owed_task(template)
        if task is not None:
            return self._of_task(task)
        due = self._asked.scheduled_for or self._session.clock()
        return attempts.new_job(template, schedule=due, schedule_type="adhoc-ui")

    def _of_event(self, template: RunTemplate) -> Job:
        """Return the waiting job of the (event, rule) that the flow run names.

        Raises:
            Refused: the ledger has no such event for a rule of this run template, which is audited;
                or
                the event has already started the rule.
        """
        event, rule = self._claim.references["event"], self._claim.references.get("rule")
        delivery = None
        if (type(event) is int and 0 < event <= BIGGEST_ID) and (
            type(rule) is int and 0 < rule < 2**31
        ):
            delivery = deliveries.lock_delivery(self._session, event, rule)
        if delivery is None or delivery.rule.runtemplate_id != template.id:
            shown = json.dumps(self._claim.references, sort_keys=True)[:SHOWN]
            message = f"the ledger holds no event that starts this run template ({shown})"
            write_entry(self._session, "Job", "refuse", {"reason": [None, message]})
            raise Refused("unknown_event", message, PrefectState.FAILED)
        if delivery.state == DeliveryState.STARTED:
            message = f"event {event} has started rule {rule} (job {delivery.job_id})"
            raise Refused("duplicate_event", message, PrefectState.CANCELLED)
        if delivery.state != DeliveryState.OWED:
            message = (
                f"event {event} is a dead letter ({delivery.error}); "
                f"replay it: jobauto event replay {event}"
            )
            raise Refused("duplicate_event", message, PrefectState.CANCELLED)
        return deliveries.create_job(self._session, delivery, template)

    def _owed_task(self, template: RunTemplate) -> Task | None:
        """Return the task this run is for, locked; None if it is for none."""
        number = self._claim.reference("task")
        if number is not None:
            task = self._session.get(Task, number)
            if task is None or task.runtemplate_id != template.id:
                message = f"the flow run names task {number}, which is not of its run template"
                raise Refused("foreign_task", message, PrefectState.FAILED)
            self._lock_windows(template)
            return attempts.lock_task(self._session, task.id)
        due = self._asked.scheduled_for
        by_schedule = self._asked.auto_scheduled or "window" in self._claim.references
        return self._task_of_window(template, due) if by_schedule and due is not None else None

    def _task_of_window(self, template: RunTemplate, due: datetime) -> Task:
        """Return the task of a window; open it here if the claim comes before the scheduler."""
        start = due - timedelta(seconds=template.delay)
        self._lock_windows(template)
        task = attempts.task_of_window(self._session, template, start)
        if task is not None:
            return task
        now = self._session.clock()
        if due > now + EARLY:
            message = f"its window opens at {due.isoformat()}"
            raise Refused("early", message, PrefectState.SCHEDULED, at=due)
        open_until(self._session, template, max(due, now))
        task = attempts.task_of_window(self._session, template, start)
        if task is None:
            self._refuse_moved(template, due)
            message = f"no window of this run template begins at {start.isoformat()}"
            raise Refused("not_owed", message, PrefectState.CANCELLED)
        return task

    def _refuse_moved(self, template: RunTemplate, due: datetime) -> None:
        """Refuse a window that waits for the end of closed time: it gets its own run then.

        Raises:
            Refused: the window waits.
        """
        closed = closed_times(self._session, [template], due)[template.id]
        closure, at = closed.at(due), closed.reopens(due)
        if closure is not None:
            then = "its end" if at is None else at.isoformat()
            message = f"{closure.reason}; the window is moved to {then}"
            raise Refused("closed", message, PrefectState.CANCELLED)

    def _of_task(self, task: Task) -> Job:
        """Return the scheduled attempt of a task, if this run is the first to claim it.

        Raises:
            Refused: another run has the attempt, or the task is not open.
        """
        job = attempts.scheduled_job(self._session, task)
        if job is not None:
            attempts.lock_job(self._session, job)
        mine = job is not None and job.flow_run_id in (None, self._asked.flow_run_id)
        is_next = job is not None and job.state == JobState.SCHEDULED
        if job is None or not (mine and is_next) or task.state != TaskState.OPEN:
            began = task.window_start.isoformat()
            message = f"the window from {began} has its task {task.id} ({task.state})"
            if task.reason == TaskReason.CLOSED:
                message = f"the window from {began} is excused: {task.excuse}"
            raise Refused("duplicate_window", message, PrefectState.CANCELLED)
        return job
