"""Expired rows: how they are selected and deleted, a batch at a time.

Two services may do so concurrently: rows that another one has deleted do not matter.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple
from uuid import UUID

from sqlalchemy import ColumnElement, Select, delete, exists, func, or_, select, update
from sqlalchemy.orm import Session, aliased

from jobauto_prefect.definitions.records.retention import Retention, override_bounds
from jobauto_prefect.ledger.audit.trail import WritingSession, write_deletions
from jobauto_prefect.ledger.records import (
    Artifact,
    Company,
    Delivery,
    Event,
    Job,
    Lease,
    OutputLine,
    PendingAction,
    RunTemplate,
    Task,
    UnconfirmedEnd,
)
from jobauto_prefect.ledger.states import LIVE_JOBS, LIVE_TASKS, ActionState, DeliveryState


@dataclass(frozen=True, slots=True)
class Group:
    """Run templates with the same retention; `template_ids` None: all of them."""

    retention: Retention
    template_ids: tuple[int, ...] | None

    def has(self, column: Any) -> ColumnElement[bool]:
        """Whether the run template id in `column` belongs to the group."""
        chosen: ColumnElement[bool] = (
            column.is_not(None) if self.template_ids is None else column.in_(self.template_ids)
        )
        return chosen


class Ended(NamedTuple):
    """A job, task or event that has ended, or parts of which have expired."""

    at: datetime
    id: int
    company_id: int | None
    flow_run_id: UUID | None = None


def groups(session: Session, retention: Retention) -> list[Group]:
    """Return the run templates by retention; `retention` is for those without one.

    Retired ones count too: their jobs still exist.
    """
    by_retention: dict[Retention, list[int]] = {}
    query = select(RunTemplate.id, RunTemplate.retention, Company.retention).join(
        Company, RunTemplate.company_id == Company.id
    )
    for template_id, own, of_company in session.execute(query):
        kept = override_bounds(retention, of_company, own)
        by_retention.setdefault(kept, []).append(template_id)
    if len(by_retention) == 1:
        return [Group(kept, None) for kept in by_retention]
    return [Group(kept, tuple(template_ids)) for kept, template_ids in by_retention.items()]


def companies_by_days(session: Session, events_days: int) -> dict[int, list[int]]:
    """Return the companies that keep events for other than `events_days` days, by their days."""
    by_days: dict[int, list[int]] = {}
    for company_id, given in session.execute(select(Company.id, Company.retention)):
        days = given.get("events_days", events_days)
        if days != events_days:
            by_days.setdefault(days, []).append(company_id)
    return by_days


def jobs_with_output(
    session: Session, after: Ended | None, most: int, *, group: Group, before: datetime
) -> list[Ended]:
    """Return the group's jobs that ended before this time and still have output or artifacts."""
    left = or_(
        exists().where(OutputLine.job_id == Job.id), exists().where(Artifact.job_id == Job.id)
    )
    query = _jobs().where(Job.end < before, group.has(Job.runtemplate_id), left)
    return _page(session, _following(query, Job.end, Job.id, after), most)


def removable_jobs(
    session: Session, after: Ended | None, most: int, *, group: Group, before: datetime
) -> list[Ended]:
    """Return the group's jobs that ended before this time and are no longer needed."""
    query = _jobs().where(Job.end < before, group.has(Job.runtemplate_id), *_is_removable())
    return _page(session, _following(query, Job.end, Job.id, after), most)


def surplus_jobs(
    session: Session, after: Ended | None, most: int, *, template_id: int, keep: int
) -> list[Ended]:
    """Return a template's unneeded ended jobs beyond the newest `keep`."""
    ended = (Job.runtemplate_id == template_id, Job.end.is_not(None))
    newest_gone = (
        select(Job.id).where(*ended).order_by(Job.id.desc()).offset(keep).limit(1).scalar_subquery()
    )
    query = _jobs().where(*ended, Job.id <= newest_gone, *_is_removable()).order_by(Job.id)
    return _page(session, query.where(Job.id > after.id) if after else query, most)


def removable_tasks(
    session: Session, after: Ended | None, most: int, *, group: Group, before: datetime
) -> list[Ended]:
    """Return the group's removable tasks.

    They have ended, their deadlines passed before this time, and their jobs are deleted.
    """
    query = (
        select(Task.deadline, Task.id, RunTemplate.company_id)
        .join(RunTemplate, RunTemplate.id == Task.runtemplate_id)
        .where(
            Task.deadline < before,
            Task.window_end < before,
            group.has(Task.runtemplate_id),
            *_is_settled_task(),
        )
    )
    return _page(session, _following(query, Task.deadline, Task.id, after), most)


def removable_events(
    session: Session,
    after: Ended | None,
    most: int,
    *,
    before: datetime,
    company_ids: Sequence[int],
    of_others: bool,
) -> list[Ended]:
    """Return settled events from before this time, of these companies or of all others."""
    others = or_(Event.company_id.is_(None), Event.company_id.not_in(company_ids))
    query = select(Event.created_at, Event.id, Event.company_id).where(
        Event.created_at < before,
        Event.emitted_at.is_not(None),
        others if of_others else Event.company_id.in_(company_ids),
        *_is_settled_event(),
    )
    return _page(session, _following(query, Event.created_at, Event.id, after), most)


def templates_of(session: Session, group: Group) -> list[int]:
    """Return the ids of the group's run templates."""
    return list(session.scalars(select(RunTemplate.id).where(group.has(RunTemplate.id))))


def deployments_of(session: Session, group: Group) -> list[UUID]:
    """Return the deployments in Prefect of the group's run templates."""
    query = select(RunTemplate.deployment_id).where(
        group.has(RunTemplate.id), RunTemplate.deployment_id.is_not(None)
    )
    return [deployment_id for deployment_id in session.scalars(query) if deployment_id]


def _jobs() -> Select[Any]:
    return select(Job.end, Job.id, Job.company_id, Job.flow_run_id)


def _page(session: Session, query: Select[Any], most: int) -> list[Ended]:
    return [Ended(*row) for row in session.execute(query.limit(most))]


def _following(query: Select[Any], at: Any, number: Any, after: Ended | None) -> Select[Any]:
    if after is not None:
        query = query.where(at >= after.at, or_(at > after.at, number > after.id))
    return query.order_by(at, number)


def _is_removable() -> Iterator[ColumnElement[bool]]:
    """Yield the conditions of a removable ended job: no report of it counts, nothing needs it."""
    yield Job.state.not_in(LIVE_JOBS)
    yield ~exists().where(Lease.job_id == Job.id)
    yield ~exists().where(UnconfirmedEnd.job_id == Job.id)
    yield ~exists().where(Task.id == Job.task_id, Task.state.in_(LIVE_TASKS))
    kin = aliased(Job)
    yield ~exists().where(kin.retry_of == Job.id, kin.state.in_(LIVE_JOBS))


def _is_settled_task() -> Iterator[ColumnElement[bool]]:
    yield Task.state.not_in(LIVE_TASKS)
    yield ~exists().where(Job.task_id == Task.id)


def _is_settled_event() -> Iterator[ColumnElement[bool]]:
    yield ~exists().where(Delivery.event_id == Event.id, Delivery.state == DeliveryState.OWED)
    yield ~exists().where(
        PendingAction.event_id == Event.id, PendingAction.state == ActionState.OWED
    )
    yield ~exists().where(Job.event_id == Event.id, Job.state.in_(LIVE_JOBS))


def runs_only_of(session: Session, jobs: Sequence[Ended]) -> list[UUID]:
    """Return the flow runs of these jobs that no other job shares."""
    runs = {job.flow_run_id for job in jobs if job.flow_run_id is not None}
    others = select(Job.flow_run_id).where(
        Job.flow_run_id.in_(runs), Job.id.not_in([job.id for job in jobs])
    )
    return sorted(runs - set(session.scalars(others)))


def lock_removable(session: WritingSession, jobs: Sequence[Ended]) -> list[Ended]:
    """Lock and return those of these jobs that are still unneeded, so that they stay so."""
    numbers = [job.id for job in jobs]
    query = select(Job.id).where(Job.id.in_(numbers), *_is_removable())
    locked = set(session.scalars(query.order_by(Job.id).with_for_update(of=Job)))
    # On PostgreSQL, the next statement sees what was committed during the wait for the lock.
    held = set(session.scalars(select(Job.id).where(Job.id.in_(locked), *_is_removable())))
    return [job for job in jobs if job.id in held]


def remove_jobs(session: WritingSession, jobs: Sequence[Ended]) -> None:
    """Delete these jobs with all their rows."""
    numbers = [job.id for job in jobs]
    connection = session.connection()
    connection.execute(update(Job).where(Job.retry_of.in_(numbers)).values(retry_of=None))
    gone = connection.execute(
        delete(Job)
        .where(Job.id.in_(numbers))
        .returning(Job.id, Job.company_id, Job.state, Job.end, Job.retired_at)
    ).all()
    # A job that somebody deleted already has its entry.
    write_deletions(
        session,
        Job.entity_name,
        [
            (row.id, row.company_id, {"state": row.state, "end": row.end.isoformat()})
            for row in gone
            if row.retired_at is None
        ],
    )


def remove_output(session: WritingSession, jobs: Sequence[Ended], most_lines: int) -> list[Ended]:
    """Delete output lines and artifacts of these jobs; return the jobs that have more."""
    # job -> its first line number, and the number of its lines
    query = (
        select(OutputLine.job_id, func.min(OutputLine.seq), func.count())
        .where(OutputLine.job_id.in_([job.id for job in jobs]))
        .group_by(OutputLine.job_id)
    )
    sizes = {job_id: (first, count) for job_id, first, count in session.execute(query)}
    finished: list[Ended] = []
    lines = 0
    for job in jobs:
        first, count = sizes.get(job.id, (0, 0))
        if count > most_lines and not finished:
            session.execute(
                delete(OutputLine).where(
                    OutputLine.job_id == job.id, OutputLine.seq < first + most_lines
                )
            )
            break
        lines += count
        if lines > most_lines:
            break
        finished.append(job)
    numbers = [job.id for job in finished]
    session.execute(delete(OutputLine).where(OutputLine.job_id.in_(numbers)))
    session.execute(delete(Artifact).where(Artifact.job_id.in_(numbers)))
    return list(jobs[len(finished) :])


def remove_tasks(session: WritingSession, tasks: Sequence[Ended]) -> None:
    """Delete these tasks."""
    owners = {task.id: task.company_id for task in tasks}
    gone = session.connection().execute(
        delete(Task)
        .where(Task.id.in_(owners), *_is_settled_task())
        .returning(Task.id, Task.window_start, Task.state)
    )
    write_deletions(
        session,
        Task.entity_name,
        [
            (
                row.id,
                owners[row.id],
                {"state": row.state, "window_start": row.window_start.isoformat()},
            )
            for row in gone
        ],
    )


def remove_events(session: WritingSession, events: Sequence[Ended]) -> None:
    """Delete these events with their deliveries and actions."""
    numbers = [event.id for event in events]
    session.execute(delete(Event).where(Event.id.in_(numbers), *_is_settled_event()))
