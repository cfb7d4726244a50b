"""Rows that the window scheduler reads and locks, always for many templates at once."""

from collections.abc import Collection, Sequence
from datetime import datetime
from uuid import UUID

from sqlalchemy import and_, func, or_, select
from sqlalchemy.orm import Session, contains_eager, joinedload, lazyload

from jobauto_prefect.definitions import Misfire, OnClosed
from jobauto_prefect.definitions.records.actions import UNSCHEDULED
from jobauto_prefect.ledger.audit.trail import WritingSession, write_entry
from jobauto_prefect.ledger.jobs.leases import insert_of
from jobauto_prefect.ledger.outbox import OutboxKind, enqueue, pending_subjects
from jobauto_prefect.ledger.records import (
    App,
    Company,
    Freeze,
    InstallationValue,
    Job,
    Lease,
    RunTemplate,
    Task,
)
from jobauto_prefect.ledger.states import LIVE_TASKS, JobState, TaskState
from jobauto_prefect.settings import Scheduler

MARKS = (RunTemplate.kept_schedule, RunTemplate.next_window, RunTemplate.next_schedule)


def lock_windows(session: WritingSession, template: RunTemplate) -> None:
    """Lock the windows of a template, and refresh how far they are open."""
    mine = select(*MARKS).where(RunTemplate.id == template.id).with_for_update(key_share=True)
    kept = session.execute(mine).one()
    template.kept_schedule, template.next_window, template.next_schedule = kept


def templates_of_other_zone(session: Session, zone: str) -> Sequence[RunTemplate]:
    """Return templates that follow the service's zone but have windows by another one."""
    query = (
        select(RunTemplate)
        .join(RunTemplate.company)
        .where(
            RunTemplate.timezone.is_(None),
            Company.timezone.is_(None),
            ~RunTemplate.kept_schedule.contains(f"|{zone}|", autoescape=True),
        )
        .order_by(RunTemplate.id)
    )
    return session.scalars(query).all()


SCHEDULER = "scheduler"
"""Name of the installation's value, and key in a session's info."""


def scheduler_in_charge(session: Session) -> Scheduler:
    """Return who creates the flow runs of windows; read once in a session."""
    if SCHEDULER not in session.info:
        kept = select(InstallationValue.value).where(InstallationValue.name == SCHEDULER)
        session.info[SCHEDULER] = Scheduler(session.scalar(kept) or Scheduler.PREFECT)
    return Scheduler(session.info[SCHEDULER])


def put_in_charge(session: WritingSession, scheduler: Scheduler) -> bool:
    """Store who creates the flow runs of windows, and have all deployments follow.

    Return False if another transaction has stored the same, and so has done the rest, too.
    """
    former = scheduler_in_charge(session)
    session.info[SCHEDULER] = scheduler
    stored = session.execute(
        insert_of(session, InstallationValue)
        .values(name=SCHEDULER, value=scheduler)
        .on_conflict_do_update(
            index_elements=[InstallationValue.name],
            set_={"value": scheduler},
            where=InstallationValue.value != scheduler,
        )
        .returning(InstallationValue.name)
    )
    if stored.first() is None:
        return False
    write_entry(session, "Scheduler", "update", {"in_charge": [former, scheduler]})
    scheduled = select(RunTemplate.id).where(
        RunTemplate.interv != UNSCHEDULED, RunTemplate.retired_at.is_(None)
    )
    for template_id in session.scalars(scheduled).all():
        enqueue(session, OutboxKind.APPLY_TEMPLATE, template_id)
    return True


def count_scheduled(session: Session) -> int:
    """Count the run templates with windows to come."""
    query = select(func.count(RunTemplate.id)).where(RunTemplate.next_window.is_not(None))
    return session.scalar(query) or 0


Mark = tuple[datetime | None, datetime]
"""The first window of a run template that is not opened, and when the template was changed."""


def marks_until(session: Session, until: datetime) -> dict[int, Mark]:
    """Return the marks of applied templates with a window before an instant, the first ones first.

    Many templates have few windows: this reads no more of each than shows whether it has changed.
    """
    query = (
        select(RunTemplate.id, RunTemplate.next_window, RunTemplate.updated_at)
        .where(RunTemplate.next_schedule <= until, RunTemplate.deployment_id.is_not(None))
        .order_by(RunTemplate.next_schedule)
    )
    return {row[0]: (row[1], row[2]) for row in session.execute(query)}


def templates_with_windows(session: Session, ids: Collection[int]) -> Sequence[RunTemplate]:
    """Return templates with their companies, the first to come due first."""
    query = (
        select(RunTemplate)
        .where(RunTemplate.id.in_(ids))
        .order_by(RunTemplate.next_schedule)
        .options(joinedload(RunTemplate.company), lazyload(RunTemplate.assignments))
    )
    return session.scalars(query).all()


def lock_moving_templates(session: WritingSession) -> Sequence[RunTemplate]:
    """Lock and return templates whose windows are moved out of closed time.

    Nobody else can lock them until this transaction ends.
    """
    query = (
        select(RunTemplate)
        .where(RunTemplate.next_window.is_not(None), RunTemplate.on_closed == OnClosed.MOVE)
        .order_by(RunTemplate.id)
        .options(lazyload(RunTemplate.assignments))
        .with_for_update(of=RunTemplate, key_share=True)
        .execution_options(populate_existing=True)
    )
    return session.scalars(query).all()


def lock_due_templates(session: WritingSession, now: datetime, limit: int) -> Sequence[RunTemplate]:
    """Lock the templates with windows that are due."""
    query = (
        select(RunTemplate)
        .where(RunTemplate.next_schedule <= now)
        .order_by(RunTemplate.next_schedule)
        .limit(limit)
        .options(joinedload(RunTemplate.company))
        .with_for_update(of=RunTemplate, skip_locked=True, key_share=True)
    )
    return session.scalars(query).all()


def defer(session: WritingSession, template_id: int, until: datetime) -> None:
    """Postpone the opening of a run template's due windows."""
    due = (RunTemplate.id == template_id, RunTemplate.next_schedule < until)
    template = session.scalar(select(RunTemplate).where(*due).with_for_update(key_share=True))
    if template is not None:
        template.next_schedule = until


def next_due(session: Session) -> datetime | None:
    """Return when the next window is due; None: never."""
    return session.scalar(select(func.min(RunTemplate.next_schedule)))


def has_other_work(session: Session, now: datetime) -> bool:
    """Whether a task is too late or waits to be caught up, or a lost job's time is up."""
    late = select(Task.id).where(Task.state == TaskState.OPEN, Task.deadline < now).limit(1)
    turn = select(Task.id).where(Task.state == TaskState.OPEN, Task.catch_up.is_(True)).limit(1)
    unheard = select(Lease.job_id).where(Lease.ends_by < now).limit(1)
    return any(session.scalar(statement) is not None for statement in (late, turn, unheard))


def opened_windows(
    session: Session, template_ids: Collection[int], since: datetime | None
) -> set[tuple[int, datetime]]:
    """Return the windows since an instant that have their tasks: template and start.

    `since` None: none.
    """
    if since is None:
        return set()
    query = select(Task.runtemplate_id, Task.window_start).where(
        Task.runtemplate_id.in_(template_ids), Task.window_start >= since
    )
    return {(row[0], row[1]) for row in session.execute(query).all()}


def busy_templates(session: Session, template_ids: Collection[int]) -> set[int]:
    """Return those of these templates with a window's attempt whose process may be alive."""
    query = (
        select(Job.runtemplate_id)
        .join(Lease, Lease.job_id == Job.id)
        .where(
            Job.runtemplate_id.in_(template_ids),
            Job.task_id.is_not(None),
            Lease.ends_by.is_not(None),
        )
    )
    return set(session.scalars(query.distinct()))


def unheard_jobs(session: Session, now: datetime, limit: int) -> Sequence[Job]:
    """Return the lost jobs that have not reported before their time was up."""
    query = (
        select(Job)
        .join(Lease, Lease.job_id == Job.id)
        .where(Lease.ends_by < now, Job.state == JobState.LOST)
        .order_by(Lease.ends_by)
        .limit(limit)
    )
    return session.scalars(query).all()


def jobs_without_run(session: Session, before: datetime, limit: int) -> Sequence[Job]:
    """Return attempts for windows that were due before an instant and have no flow run yet."""
    query = (
        select(Job)
        .where(
            Job.state == JobState.SCHEDULED,
            Job.task_id.is_not(None),
            Job.flow_run_id.is_(None),
            Job.schedule < before,
            Job.id.not_in(pending_subjects(OutboxKind.CREATE_RUN)),
        )
        .order_by(Job.schedule)
        .limit(limit)
        .options(joinedload(Job.runtemplate))
    )
    return session.scalars(query).all()


def applied_pauses(
    session: Session, after_id: int, limit: int, among: Collection[int] | None = None
) -> Sequence[tuple[int, UUID, bool, datetime]]:
    """Return template, deployment, whether it was last applied as paused, and its last write.

    Ordered by id, above one. `among` are the templates that count; None: all. Templates with
    pending messages for Prefect are left out: what Prefect shows of them is outdated.
    """
    query = (
        select(
            RunTemplate.id,
            RunTemplate.deployment_id,
            RunTemplate.applied_paused,
            RunTemplate.updated_at,
        )
        .where(
            RunTemplate.id > after_id,
            RunTemplate.retired_at.is_(None),
            RunTemplate.deployment_id.is_not(None),
            RunTemplate.applied_paused.is_not(None),
            RunTemplate.id.not_in(pending_subjects(OutboxKind.APPLY_TEMPLATE)),
        )
        .order_by(RunTemplate.id)
        .limit(limit)
    )
    if among is not None:
        query = query.where(RunTemplate.id.in_(among))
    return [(row[0], row[1], row[2], row[3]) for row in session.execute(query).all()]


def is_flow_in_use(session: Session, flow_id: UUID) -> bool:
    """Whether an application that is not deleted has this flow: one of the same name may."""
    query = select(App.id).where(App.flow_id == flow_id, App.retired_at.is_(None))
    return session.scalar(query.limit(1)) is not None


def retired_flows(session: Session) -> dict[int, UUID]:
    """Return deleted application -> its flow, if still in Prefect and used by no other."""
    used = select(App.flow_id).where(App.retired_at.is_(None), App.flow_id.is_not(None))
    query = select(App.id, App.flow_id).where(
        App.retired_at.is_not(None), App.flow_id.is_not(None), App.flow_id.not_in(used)
    )
    return {app_id: flow_id for app_id, flow_id in session.execute(query) if flow_id}


def enqueue_missing_flows(session: WritingSession) -> None:
    """Enqueue a flow for each application without one, as left by older versions."""
    without = select(App.id).where(
        App.flow_id.is_(None),
        App.retired_at.is_(None),
        App.id.not_in(pending_subjects(OutboxKind.APPLY_APP)),
    )
    for app_id in session.scalars(without).all():
        enqueue(session, OutboxKind.APPLY_APP, app_id)


def lock_lapsed_tasks(session: WritingSession, limit: int) -> Sequence[Task]:
    """Lock and return open tasks for which it is too late; those locked by others are left out.

    Tasks that move to the unknown end of a freeze are left out, too.
    """
    now = session.clock()
    frozen = select(Freeze.id).where(
        Freeze.ended_at.is_(None), Freeze.until.is_(None), Freeze.since <= Task.deadline
    )
    query = (
        select(Task)
        .join(RunTemplate, RunTemplate.id == Task.runtemplate_id)
        .where(
            Task.state == TaskState.OPEN,
            Task.deadline < now,
            Task.catch_up.is_(False),
            or_(RunTemplate.allow_late.is_(False), Task.window_end < now),
            RunTemplate.misfire != Misfire.ALL,
            or_(RunTemplate.on_closed != OnClosed.MOVE, ~frozen.exists()),
        )
        .order_by(Task.deadline)
        .limit(limit)
        .options(contains_eager(Task.runtemplate).joinedload(RunTemplate.company))
        .with_for_update(of=Task, skip_locked=True, key_share=True)
    )
    return session.scalars(query).all()


def lock_tasks_to_catch_up(session: WritingSession, limit: int) -> Sequence[Task]:
    """Lock and return tasks that can now be caught up: the oldest of each template.

    Those locked by others are left out.
    """
    older = Task.__table__.alias("older")
    busy = and_(
        older.c.runtemplate_id == Task.runtemplate_id,
        older.c.state.in_(LIVE_TASKS),
        older.c.window_start < Task.window_start,
    )
    query = (
        select(Task)
        .where(
            Task.state == TaskState.OPEN,
            Task.catch_up.is_(True),
            ~select(older.c.id).where(busy).exists(),
        )
        .order_by(Task.id)
        .limit(limit)
        .with_for_update(of=Task, skip_locked=True, key_share=True)
    )
    return session.scalars(query).all()
