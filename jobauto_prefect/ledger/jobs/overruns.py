"""Running jobs and open windows, for notices that they take too long."""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from sqlalchemy import exists, func, select
from sqlalchemy.orm import Session

from jobauto_prefect.definitions.records.notices import Occasion
from jobauto_prefect.ledger.records import Company, Job, Notice, RunTemplate, Task
from jobauto_prefect.ledger.states import LIVE_TASKS, SUCCESSFUL_JOBS, JobState

JOBS_COUNTED = 20
JOBS_LOOKED_AT = 100
"""Successful jobs count among this many: if all fail, there is no usual duration."""


class RunningJob(NamedTuple):
    """A job, and the `notices` of its run template and company."""

    id: int
    runtemplate_id: int
    begin: datetime
    of_template: Mapping[str, Any]
    of_company: Mapping[str, Any]


class OpenWindow(NamedTuple):
    """A task that has not ended, and `notices` as above; `zone` None: that of the settings."""

    id: int
    start: datetime
    deadline: datetime
    zone: str | None
    of_template: Mapping[str, Any]
    of_company: Mapping[str, Any]


def running_jobs(session: Session, begun_before: datetime) -> Sequence[RunningJob]:
    """Return the jobs running since before this time that have no notice of being slow."""
    was_told = exists().where(Notice.job_id == Job.id, Notice.occasion == Occasion.SLOW)
    query = (
        select(Job.id, Job.runtemplate_id, Job.begin, RunTemplate.notices, Company.notices)
        .join(RunTemplate, RunTemplate.id == Job.runtemplate_id)
        .join(Company, Company.id == RunTemplate.company_id)
        .where(Job.state == JobState.RUNNING, Job.begin < begun_before, ~was_told)
    )
    return [RunningJob(*row) for row in session.execute(query)]


def durations(session: Session, template_id: int) -> list[timedelta]:
    """Return the durations of a run template's newest successful jobs."""
    newest = (
        select(Job.id)
        .where(Job.runtemplate_id == template_id)
        .order_by(Job.id.desc())
        .limit(JOBS_LOOKED_AT)
    )
    query = (
        select(Job.begin, Job.end)
        .where(
            Job.id.in_(select(newest.subquery().c.id)),
            Job.state.in_(SUCCESSFUL_JOBS),
            Job.begin.is_not(None),
        )
        .order_by(Job.id.desc())
        .limit(JOBS_COUNTED)
    )
    return [end - begin for begin, end in session.execute(query)]


def open_windows(session: Session, now: datetime) -> Sequence[OpenWindow]:
    """Return the tasks that have begun, have not ended, and have no notice of being late.

    Windows waiting to be caught up are not due until their turn.
    """
    was_told = exists().where(Notice.task_id == Task.id, Notice.occasion == Occasion.LATE)
    zone = func.coalesce(RunTemplate.timezone, Company.timezone)
    query = (
        select(
            Task.id, Task.window_start, Task.deadline, zone, RunTemplate.notices, Company.notices
        )
        .join(RunTemplate, RunTemplate.id == Task.runtemplate_id)
        .join(Company, Company.id == RunTemplate.company_id)
        .where(
            Task.state.in_(LIVE_TASKS),
            Task.catch_up.is_(False),
            Task.window_start <= now,
            ~was_told,
        )
    )
    return [OpenWindow(*row) for row in session.execute(query)]
