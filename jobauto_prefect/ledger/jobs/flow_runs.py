"""The flow runs of jobs: their idempotency keys, and which runs are bound to jobs."""

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime, timedelta
from uuid import UUID

from sqlalchemy import and_, or_, select
from sqlalchemy.orm import Session

from jobauto_prefect.ledger.audit.trail import WritingSession
from jobauto_prefect.ledger.outbox import OutboxKind, enqueue
from jobauto_prefect.ledger.queries.jobs import WITH_CONTEXT
from jobauto_prefect.ledger.records import Job, OutboxMessage, RunTemplate
from jobauto_prefect.ledger.states import LIVE_JOBS, JobState


def awaits_run(job: Job) -> bool:
    """Whether a job waits for a start and has no flow run that could start it."""
    return job.state == JobState.SCHEDULED and job.flow_run_id is None


def is_being_registered(session: Session, template_id: int) -> bool:
    """Whether Prefect may have a deployment of a run template that the ledger does not know yet.

    Messages that create one stay until its id is stored, even if their handler dies in between.
    """
    jobs = select(Job.id).where(Job.runtemplate_id == template_id)
    query = select(OutboxMessage.id).where(
        or_(
            and_(
                OutboxMessage.kind == OutboxKind.APPLY_TEMPLATE,
                OutboxMessage.subject_id == template_id,
            ),
            and_(
                OutboxMessage.kind == OutboxKind.CREATE_RUN,
                OutboxMessage.subject_id.in_(jobs),
            ),
        )
    )
    return session.scalar(query.limit(1)) is not None


def run_key(job: Job) -> str:
    """Return the idempotency key of the flow run that is created for a job.

    A new ledger counts from 1 again: the instant distinguishes its jobs from earlier ones.
    """
    return f"jobauto-job-{job.id}-{job.created_at.isoformat()}"


def window_key(template: RunTemplate, due: datetime) -> str:
    """Return the idempotency key of the flow run that is created in advance for a window."""
    return f"jobauto-window-{template.id}-{template.created_at.isoformat()}-{due.isoformat()}"


def is_of_window(job: Job) -> bool:
    """Whether a job is the first attempt of a window, at the window's own time.

    Its flow run may exist already, created in advance.
    """
    if job.task is None or job.attempt != 1:
        return False
    return bool(job.schedule == job.task.window_start + timedelta(seconds=job.runtemplate.delay))


def bound_runs(session: Session, flow_run_ids: Collection[UUID]) -> set[UUID]:
    """Return those of these flow runs that belong to jobs."""
    query = select(Job.flow_run_id).where(Job.flow_run_id.in_(flow_run_ids))
    return {run for run in session.scalars(query) if run is not None}


def bind_runs(session: WritingSession, runs: Mapping[int, UUID]) -> None:
    """Bind jobs (by id) to the flow runs created for them, unless they already have one.

    The run of a job that has ended meanwhile must be cancelled.
    """
    query = select(Job).where(Job.id.in_(runs), Job.flow_run_id.is_(None)).order_by(Job.id)
    for job in session.scalars(query.with_for_update(key_share=True)).all():
        job.flow_run_id = runs[job.id]
        if job.state not in LIVE_JOBS:
            enqueue(session, OutboxKind.CANCEL_RUN, job.id)


def moved_key(flow_run_id: object) -> str:
    """Return the idempotency key of the flow run that replaces another."""
    return f"moved {flow_run_id}"


def jobs_of_flow_run(session: Session, flow_run_id: UUID) -> Sequence[Job]:
    """Return all attempts of a flow run in their current state, the first one first."""
    query = (
        select(Job).where(Job.flow_run_id == flow_run_id).order_by(Job.id).options(*WITH_CONTEXT)
    )
    return session.scalars(query.execution_options(populate_existing=True)).all()
