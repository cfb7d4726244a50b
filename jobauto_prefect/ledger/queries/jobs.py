"""Queries about jobs, their leases, output and artifacts."""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple
from uuid import UUID

from sqlalchemy import Select, case, func, select, union_all
from sqlalchemy.orm import Session, joinedload

from jobauto_prefect.errors import NotFound
from jobauto_prefect.ledger.records import (
    Artifact,
    Job,
    JobTally,
    Lease,
    OutputLine,
    RunTemplate,
    Task,
)
from jobauto_prefect.ledger.states import JobState

_CONTEXT = (
    joinedload(Job.runtemplate).joinedload(RunTemplate.app),
    joinedload(Job.runtemplate).joinedload(RunTemplate.company),
    joinedload(Job.task),
)


WITH_CONTEXT = (*_CONTEXT, joinedload(Job.runtemplate).lazyload(RunTemplate.assignments))
"""For code that shows one job; its credentials are loaded when they are used."""


WITH_CREDENTIALS = (*_CONTEXT, joinedload(Job.runtemplate).joinedload(RunTemplate.assignments))
"""For code that starts one job; the rows must be made unique."""


def job_with_context(session: Session, job_id: int) -> Job:
    """Return a job with its template, application, company and task, in one query.

    Raises:
        NotFound: there is no such job.
    """
    job = session.scalar(select(Job).where(Job.id == job_id).options(*WITH_CONTEXT))
    if job is None:
        raise NotFound(f"there is no job {job_id}")
    return job


def jobs_with_context(session: Session, job_ids: Collection[int]) -> Sequence[Job]:
    """Return those of these jobs that there are, as `job_with_context` does, in one query."""
    return session.scalars(select(Job).where(Job.id.in_(job_ids)).options(*WITH_CONTEXT)).all()


def leases_of_worker(session: Session, worker: str) -> Sequence[tuple[Lease, UUID | None]]:
    """Return the jobs of a worker whose processes may be alive, each with its flow run, or None."""
    query = select(Lease, Job.flow_run_id).join(Job, Job.id == Lease.job_id)
    mine = query.where(Lease.worker == worker, Lease.ends_by.is_not(None))
    rows = session.execute(mine).all()
    return [(row[0], row[1]) for row in rows]


def oldest_renewal(session: Session) -> datetime | None:
    """Return the renewal time of the lease that has waited longest; None if there is no lease."""
    return session.scalar(select(func.min(Lease.renewed_at)))


def leases_older_than(session: Session, instant: datetime) -> Sequence[Lease]:
    """Return leases of running jobs last renewed before an instant, the oldest first."""
    query = (
        select(Lease)
        .join(Job, Job.id == Lease.job_id)
        .where(Lease.renewed_at < instant, Job.state == JobState.RUNNING)
        .order_by(Lease.renewed_at)
    )
    return session.scalars(query).all()


class JobOfRun(NamedTuple):
    """The newest job of a flow run."""

    id: int
    state: str


def newest_jobs(session: Session, flow_run_ids: Collection[UUID]) -> dict[UUID, JobOfRun]:
    """Return the newest jobs of those of these flow runs that have any."""
    query = select(Job.flow_run_id, Job.id, Job.state).order_by(Job.id)
    rows = session.execute(query.where(Job.flow_run_id.in_(flow_run_ids))).all()
    return {row.flow_run_id: JobOfRun(row.id, row.state) for row in rows}


def waiting_since(session: Session, instant: datetime) -> dict[UUID, int]:
    """Return jobs due before an instant that wait for their run: flow run id -> job id."""
    query = select(Job.flow_run_id, Job.id).where(
        Job.state == JobState.SCHEDULED, Job.schedule < instant, Job.flow_run_id.is_not(None)
    )
    return {row[0]: row[1] for row in session.execute(query).all() if row[0]}


@dataclass(frozen=True, slots=True)
class LineSelection:
    """Lines of an output to read: those with a number above `after` and below `before`.

    `before` None: up to the last. `text` must occur in them, in any case.
    """

    after: int = 0
    before: int | None = None
    text: str = ""


ALL_LINES = LineSelection()


def output_of(
    session: Session, job_id: int, chosen: LineSelection = ALL_LINES, limit: int = 5000
) -> list[OutputLine]:
    """Return the first of the chosen lines of a job's output, in order."""
    query = _lines_of(job_id, chosen).order_by(OutputLine.seq).limit(limit)
    return list(session.scalars(query))


def last_output_of(
    session: Session, job_id: int, chosen: LineSelection = ALL_LINES, limit: int = 5000
) -> list[OutputLine]:
    """Return the last of the chosen lines of a job's output, in order."""
    query = _lines_of(job_id, chosen).order_by(OutputLine.seq.desc()).limit(limit)
    return list(session.scalars(query))[::-1]


def standard_output_of(session: Session, job_id: int) -> Iterator[OutputLine]:
    """Yield all lines of a job's standard output, in order."""
    query = select(OutputLine).where(OutputLine.job_id == job_id, OutputLine.stream == "stdout")
    yield from session.scalars(query.order_by(OutputLine.seq).execution_options(yield_per=5000))


def _lines_of(job_id: int, chosen: LineSelection) -> Select[tuple[OutputLine]]:
    query = select(OutputLine).where(OutputLine.job_id == job_id, OutputLine.seq > chosen.after)
    if chosen.before is not None:
        query = query.where(OutputLine.seq < chosen.before)
    if chosen.text:
        query = query.where(OutputLine.text.icontains(chosen.text, autoescape=True))
    return query


def artifacts_of(session: Session, job_id: int) -> Sequence[Artifact]:
    """Return the artifacts of a job without their contents, in order of arrival."""
    return session.scalars(
        select(Artifact).where(Artifact.job_id == job_id).order_by(Artifact.id)
    ).all()


def attempts_of(session: Session, task_id: int) -> Sequence[Job]:
    """Return the jobs of a task, in the order of their attempts."""
    return session.scalars(select(Job).where(Job.task_id == task_id).order_by(Job.id)).all()


def jobs_by_state(session: Session, companies: Collection[int] | None) -> dict[str, int]:
    """Return the number of jobs in each state; None: of all companies."""
    query = select(JobTally.state, func.sum(JobTally.number)).group_by(JobTally.state)
    if companies is not None:
        query = query.where(JobTally.company_id.in_(companies))
    return {row[0]: int(row[1]) for row in session.execute(query).all() if row[1]}


def ended_by_day(
    session: Session,
    companies: Collection[int] | None,
    states: Collection[JobState],
    midnights: Sequence[datetime],
) -> dict[tuple[int, str], int]:
    """Count the jobs that ended in these states, by day and state; `companies` None: of all.

    Day 0 runs from the first of `midnights` to the second, the last day from the last one on.
    """
    later = [(Job.end < midnight, day) for day, midnight in enumerate(midnights[1:])]
    day = case(*later, else_=len(later)).label("day")
    query = (
        select(day, Job.state, func.count())
        .where(Job.end >= midnights[0], Job.state.in_(states), Job.retired_at.is_(None))
        .group_by("day", Job.state)
    )
    if companies is not None:
        query = query.where(Job.company_id.in_(companies))
    return {(row[0], row[1]): row[2] for row in session.execute(query).all()}


@dataclass(frozen=True, slots=True)
class EndedGroup:
    """The newest of a number of jobs of a run template in one state."""

    newest: Job
    count: int


def ended_by_template(
    session: Session,
    companies: Collection[int] | None,
    states: Collection[JobState],
    since: datetime,
    limit: int,
) -> list[EndedGroup]:
    """Return the jobs that ended in these states, grouped by run template and state, newest first.

    `companies` None: of all.
    """
    wanted = [Job.end >= since, Job.state.in_(states), Job.retired_at.is_(None)]
    if companies is not None:
        wanted.append(Job.company_id.in_(companies))
    groups = (
        select(func.max(Job.id).label("newest"), func.count().label("jobs"))
        .where(*wanted)
        .group_by(Job.runtemplate_id, Job.state)
        .subquery()
    )
    query = (
        select(Job, groups.c.jobs)
        .join(groups, groups.c.newest == Job.id)
        .order_by(Job.end.desc(), Job.id.desc())
        .limit(limit)
    )
    return [EndedGroup(row[0], row[1]) for row in session.execute(query)]


def windows_by_day(
    session: Session,
    companies: Collection[int] | None,
    midnights: Sequence[datetime],
    *,
    runtemplate_id: int | None = None,
    company_id: int | None = None,
) -> dict[tuple[int, str, bool], int]:
    """Count the windows that begin on each day, by day, state and whether they are excused.

    Day 0 runs from the first of `midnights` to the second, and the last of them ends the last day.
    Without `runtemplate_id` or `company_id` all count; `companies` None: of all.
    """
    later = [(Task.window_start < midnight, day) for day, midnight in enumerate(midnights[1:])]
    day = case(*later, else_=len(later)).label("day")
    excused = Task.excuse.is_not(None).label("excused")
    query = (
        select(day, Task.state, excused, func.count())
        .where(Task.window_start >= midnights[0], Task.window_start < midnights[-1])
        .group_by("day", Task.state, "excused")
    )
    if runtemplate_id is not None:
        query = query.where(Task.runtemplate_id == runtemplate_id)
    if companies is not None or company_id is not None:
        query = query.join(RunTemplate, RunTemplate.id == Task.runtemplate_id)
    if companies is not None:
        query = query.where(RunTemplate.company_id.in_(companies))
    if company_id is not None:
        query = query.where(RunTemplate.company_id == company_id)
    return {(row[0], row[1], bool(row[2])): row[3] for row in session.execute(query).all()}


def repeated_jobs(session: Session, companies: Collection[int] | None) -> int:
    """Return how many jobs are not first attempts; None: of all companies."""
    query = select(func.count()).where(Job.attempt > 1, Job.retired_at.is_(None))
    if companies is not None:
        query = query.where(Job.company_id.in_(companies))
    return session.scalar(query) or 0


@dataclass(frozen=True, slots=True)
class LastJob:
    """One of a run template's latest jobs."""

    id: int
    state: str
    schedule: datetime
    begin: datetime | None
    end: datetime | None


def last_jobs_of(
    session: Session,
    template_ids: Collection[int],
    limit: int,
    companies: Collection[int] | None,
) -> dict[int, list[LastJob]]:
    """Return the latest jobs of each of these run templates, the newest last, in one query.

    `companies` None: of all companies. The cost does not depend on the number of earlier jobs.
    """
    by_template: dict[int, list[LastJob]] = {template_id: [] for template_id in template_ids}
    if not by_template:
        return by_template
    columns = (Job.runtemplate_id, Job.id, Job.state, Job.schedule, Job.begin, Job.end)
    visible = [Job.retired_at.is_(None)]
    visible += [] if companies is None else [Job.company_id.in_(companies)]
    newest = (
        select(*columns)
        .where(Job.runtemplate_id == template_id, *visible)
        .order_by(Job.id.desc())
        .limit(limit)
        .subquery()
        for template_id in by_template
    )
    together = union_all(*(select(part) for part in newest)).subquery()
    rows = session.execute(select(together).order_by(together.c.id)).all()
    for template_id, *values in rows:
        by_template[template_id].append(LastJob(*values))
    return by_template
