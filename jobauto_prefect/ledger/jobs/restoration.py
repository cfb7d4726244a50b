"""Statements on a restored ledger before anything runs with it."""

from collections.abc import Collection, Sequence
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

from sqlalchemy import and_, func, or_, select
from sqlalchemy.orm import Session, joinedload

from jobauto_prefect.ledger.access.tokens import TokenKind
from jobauto_prefect.ledger.audit.trail import WritingSession
from jobauto_prefect.ledger.outbox import enqueue
from jobauto_prefect.ledger.prefect_objects import PREFECT_OBJECTS, withdraw
from jobauto_prefect.ledger.records import (
    Company,
    Job,
    Lease,
    RunTemplate,
    Task,
    Token,
    WorkerRecord,
)
from jobauto_prefect.ledger.states import JobState, TaskState

MARGIN = timedelta(seconds=60)
"""Messages sent to Prefect this shortly before its database was copied may be missing in the copy.

The clocks of its server and of the ledger's may also differ.
"""


def revoke_worker_tokens(session: WritingSession) -> int:
    """Revoke the tokens of all workers; return how many there were."""
    query = select(Token).where(Token.kind == TokenKind.WORKER, Token.revoked_at.is_(None))
    tokens = session.scalars(query.with_for_update()).all()
    for token in tokens:
        token.revoked_at = session.clock()
    return len(tokens)


def silence_workers(session: WritingSession, before: datetime) -> None:
    """Reset the current starts of all workers, and count them as last seen before an instant."""
    for worker in session.scalars(select(WorkerRecord).with_for_update()):
        worker.instance, worker.seen_at = uuid4(), min(worker.seen_at, before)


def running_leases(session: Session) -> Sequence[Lease]:
    """Return the leases of jobs that were running."""
    query = select(Lease).join(Job, Job.id == Lease.job_id).where(Job.state == JobState.RUNNING)
    return session.scalars(query.order_by(Lease.job_id)).all()


def waiting_jobs(session: Session) -> Sequence[Job]:
    """Return the jobs that no worker has claimed, with their run templates and companies."""
    query = select(Job).where(Job.state == JobState.SCHEDULED).order_by(Job.id)
    context = joinedload(Job.runtemplate).joinedload(RunTemplate.company)
    return session.scalars(query.options(context)).all()


def jobs_of_runs(session: Session, flow_run_ids: Collection[UUID]) -> dict[UUID, tuple[int, str]]:
    """Return the newest job of each of these flow runs, and its state."""
    query = select(Job.flow_run_id, Job.id, Job.state).where(Job.flow_run_id.in_(flow_run_ids))
    return {row[0]: (row[1], row[2]) for row in session.execute(query.order_by(Job.id)) if row[0]}


def templates_by_deployment(session: Session) -> dict[UUID, str]:
    """Return deployment -> company and name of its run template, unless deleted."""
    query = (
        select(RunTemplate.deployment_id, Company.slug, RunTemplate.name)
        .join(Company, Company.id == RunTemplate.company_id)
        .where(RunTemplate.deployment_id.is_not(None), RunTemplate.retired_at.is_(None))
    )
    return {row[0]: f"{row[1]}/{row[2]}" for row in session.execute(query) if row[0]}


def enqueue_changed_since(session: WritingSession, since: datetime) -> int:
    """Enqueue a message for each record written or deleted since; return how many there are."""
    count = 0
    for kind, known in PREFECT_OBJECTS.items():
        if known.application is None:
            continue
        table: Any = kind
        changed = func.coalesce(table.retired_at, table.updated_at) >= since
        for record in session.scalars(select(table).where(changed).order_by(table.id)).unique():
            if record.retired_at is None:
                enqueue(session, known.application, record.id)
            else:
                withdraw(session, record)
            count += 1
    return count


def opened_since(
    session: Session, since: datetime
) -> Sequence[tuple[str, str, str | None, int, datetime, datetime]]:
    """Return tasks created since an instant, and those that wait to be caught up.

    Company and run template, state, reason, number, start of the first and of the last window.
    """
    starts = func.min(Task.window_start), func.max(Task.window_start)
    grouped = Company.slug, RunTemplate.name, Task.state, Task.reason
    query = (
        select(*grouped, func.count(), *starts)
        .join(RunTemplate, RunTemplate.id == Task.runtemplate_id)
        .join(Company, Company.id == RunTemplate.company_id)
        .where(or_(Task.created_at >= since, and_(Task.state == TaskState.OPEN, Task.catch_up)))
        .group_by(*grouped)
        .order_by(Company.slug, RunTemplate.name, Task.state)
    )
    return [(f"{row[0]}/{row[1]}", *row[2:]) for row in session.execute(query)]
