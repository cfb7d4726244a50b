"""The data of the start page, read from the ledger in a fixed number of statements.

It covers the companies whose jobs the visitor may read.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, time, timedelta
from typing import Any
from zoneinfo import ZoneInfo

from jobauto_prefect.facade.auth.identity import Identity
from jobauto_prefect.facade.resources.workers import visible_pools, worker_fields
from jobauto_prefect.facade.service import Service
from jobauto_prefect.jobs.waits import wait_reasons
from jobauto_prefect.jobs.windows.closed_time import freeze_message
from jobauto_prefect.ledger.jobs.freezes import present_freeze
from jobauto_prefect.ledger.jobs.workers import list_workers
from jobauto_prefect.ledger.queries.jobs import EndedGroup, ended_by_day, ended_by_template
from jobauto_prefect.ledger.queries.lists import Condition, Page, Selection, page
from jobauto_prefect.ledger.queries.lookup import names_of
from jobauto_prefect.ledger.records import Company, Job, RunTemplate, Task
from jobauto_prefect.ledger.states import FAILED_JOBS, SUCCESSFUL_JOBS, JobState, TaskState
from jobauto_prefect.ledger.store import ReadingSession

DAYS = 14
MAX_SHOWN = 6  # jobs or windows of each section

BAD = (*FAILED_JOBS, JobState.BLOCKED)
"""States of jobs without a result."""

NOTEWORTHY = (*BAD, JobState.WARNING)


@dataclass(frozen=True, slots=True)
class DayResult:
    """How many jobs succeeded and failed on a day; `begins` is its midnight."""

    begins: datetime
    good: int
    bad: int


@dataclass(frozen=True, slots=True)
class Overview:
    """The data as of one instant `at`; `since` is the beginning of yesterday.

    `ended` counts the noteworthy jobs since then by state; `newest_ended` are some of them, grouped
    by run template. `wait_reasons` are by job id; `template_names` and `company_names` by id as
    text. `frozen` is the reason why no job starts; None if jobs start.
    """

    at: datetime
    since: datetime
    running: Page
    waiting: Page
    wait_reasons: Mapping[int, str]
    ended: Mapping[str, int]
    newest_ended: Sequence[EndedGroup]
    missed: Page
    workers: Sequence[Mapping[str, Any]]
    days: Sequence[DayResult]
    template_names: Mapping[str, str]
    company_names: Mapping[str, str]
    frozen: str | None


def read_overview(service: Service, who: Identity) -> Overview:
    """Read the overview that this visitor may see."""
    at = service.ledger.clock()
    companies = who.rights.companies_with("jobs.read")
    pools = None if companies is None else visible_pools(service, who)
    midnights = last_midnights(at, ZoneInfo(service.settings.timezone))
    since = midnights[-2]
    with service.ledger.reading() as session:
        running = _jobs(session, companies, "-id", Condition("state", JobState.RUNNING))
        waiting = _jobs(session, companies, "schedule", Condition("state", JobState.SCHEDULED))
        ended = ended_by_template(session, companies, NOTEWORTHY, since, MAX_SHOWN)
        conditions = (
            Condition("state", TaskState.MISSED),
            Condition("deadline", since, "ge"),
            Condition("excuse", None),
        )
        missed = page(session, Task, Selection(companies, conditions, "-deadline", MAX_SHOWN))
        jobs = [*running.records, *waiting.records, *(group.newest for group in ended)]
        templates = {job.runtemplate_id for job in jobs}
        templates |= {task.runtemplate_id for task in missed.records}
        owners = {job.company_id for job in jobs}
        owners |= {task.runtemplate.company_id for task in missed.records}
        freeze = present_freeze(session, at)
        listed = list_workers(session, pools, companies)
        counts = ended_by_day(session, companies, (*SUCCESSFUL_JOBS, *BAD), midnights)
        return Overview(
            at=at,
            since=since,
            running=running,
            waiting=waiting,
            wait_reasons=wait_reasons(session, waiting.records, service.settings, at),
            ended={
                state: sum(counts.get((day, state), 0) for day in (DAYS - 2, DAYS - 1))
                for state in NOTEWORTHY
            },
            newest_ended=ended,
            missed=missed,
            workers=[worker_fields(service, worker, freeze is not None) for worker in listed],
            days=[
                DayResult(midnight, _sum(counts, day, SUCCESSFUL_JOBS), _sum(counts, day, BAD))
                for day, midnight in enumerate(midnights)
            ],
            template_names=names_of(session, RunTemplate, templates),
            company_names=names_of(session, Company, owners),
            frozen=None if freeze is None else freeze_message(freeze),
        )


def last_midnights(at: datetime, zone: ZoneInfo) -> list[datetime]:
    """Return when each of the last `DAYS` days began in this zone, today included."""
    today = at.astimezone(zone).date()
    days = [today - timedelta(days=before) for before in reversed(range(DAYS))]
    return [datetime.combine(day, time(), zone) for day in days]


def _jobs(
    session: ReadingSession,
    companies: frozenset[int] | None,
    order: str,
    *conditions: Condition,
) -> Page:
    return page(session, Job, Selection(companies, conditions, order, MAX_SHOWN))


def _sum(counts: Mapping[tuple[int, str], int], day: int, states: Sequence[JobState]) -> int:
    return sum(counts.get((day, state), 0) for state in states)
