"""Retention: the steps that delete expired records.

Companies and run templates may override the settings (docs/operation.md).
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from functools import partial

from jobauto_prefect.definitions.records.retention import BOUNDS, NO_BOUND, Retention
from jobauto_prefect.ledger.audit.trail import WritingSession
from jobauto_prefect.ledger.jobs import retention
from jobauto_prefect.ledger.jobs.retention import Ended, Group
from jobauto_prefect.ledger.store import ReadingSession
from jobauto_prefect.settings import Settings

LINES_AT_ONCE = 20_000


class Kind(StrEnum):
    """What is deleted."""

    EVENTS = "events"
    OUTPUT = "output"  #: lines of output and artifacts of a job
    JOBS = "jobs"
    TASKS = "tasks"
    RUNS = "runs"  #: flow runs in Prefect


Page = Callable[[ReadingSession, Ended | None, int], Sequence[Ended]]
"""The next records, at most this many, after the given one."""

Removal = Callable[[WritingSession, Sequence[Ended]], Sequence[Ended]]
"""Deletes as many records as one transaction may; returns the rest."""


@dataclass(frozen=True, slots=True)
class Step:
    """Expired records. `scope`: whose they are, and for how many days they are kept."""

    kind: Kind
    scope: tuple[object, ...]
    page: Page
    remove: Removal


def retention_of(settings: Settings) -> Retention:
    """Return the retention that applies unless a company or run template overrides it."""
    return Retention(**{name: getattr(settings, f"keep_{name}") for name in BOUNDS})


def steps_of(session: ReadingSession, settings: Settings, now: datetime) -> list[Step]:
    """Return the steps of the deletion, in their order."""
    default = retention_of(settings)
    groups = retention.groups(session, default)
    return [
        *_events(session, default.events_days, now),
        *(step for group in groups for step in _output(group, now)),
        *(step for group in groups for step in _jobs(session, group, now)),
        *(step for group in groups for step in _tasks(group, now)),
    ]


def _events(session: ReadingSession, days: int, now: datetime) -> Iterator[Step]:
    apart = retention.companies_by_days(session, days)
    others = [company_id for company_ids in apart.values() for company_id in company_ids]
    for events_days, company_ids, of_others in (
        (days, others, True),
        *((own, company_ids, False) for own, company_ids in apart.items()),
    ):
        if events_days != NO_BOUND:
            page = partial(
                retention.removable_events,
                before=now - timedelta(days=events_days),
                company_ids=company_ids,
                of_others=of_others,
            )
            scope = (Kind.EVENTS, events_days, *company_ids)
            yield Step(Kind.EVENTS, scope, page, _all_at_once(retention.remove_events))


def _output(group: Group, now: datetime) -> Iterator[Step]:
    days = group.retention.output_days
    if days != NO_BOUND:
        page = partial(retention.jobs_with_output, group=group, before=now - timedelta(days=days))
        remove = partial(retention.remove_output, most_lines=LINES_AT_ONCE)
        yield Step(Kind.OUTPUT, (Kind.OUTPUT, group), page, remove)


def _jobs(session: ReadingSession, group: Group, now: datetime) -> Iterator[Step]:
    days, count = group.retention.jobs_days, group.retention.jobs_count
    if days != NO_BOUND:
        page = partial(retention.removable_jobs, group=group, before=now - timedelta(days=days))
        yield Step(Kind.JOBS, (Kind.JOBS, group), page, _remove_jobs)
    for template_id in retention.templates_of(session, group) if count != NO_BOUND else ():
        surplus = partial(retention.surplus_jobs, template_id=template_id, keep=count)
        yield Step(Kind.JOBS, (Kind.JOBS, template_id), surplus, _remove_jobs)


def _remove_jobs(session: WritingSession, jobs: Sequence[Ended]) -> Sequence[Ended]:
    going = retention.lock_removable(session, jobs)
    left = retention.remove_output(session, going, LINES_AT_ONCE)
    retention.remove_jobs(session, going[: len(going) - len(left)])
    return left


def _tasks(group: Group, now: datetime) -> Iterator[Step]:
    days = group.retention.tasks_days
    if days != NO_BOUND:
        page = partial(retention.removable_tasks, group=group, before=now - timedelta(days=days))
        remove = _all_at_once(retention.remove_tasks)
        yield Step(Kind.TASKS, (Kind.TASKS, group), page, remove)


def _all_at_once(remove: Callable[[WritingSession, Sequence[Ended]], None]) -> Removal:
    def removal(session: WritingSession, ended: Sequence[Ended]) -> Sequence[Ended]:
        remove(session, ended)
        return ()

    return removal


@dataclass(frozen=True, slots=True)
class KeptRuns:
    """Deployments whose flow runs in Prefect are kept for this many days after their end."""

    days: int
    deployments: Sequence[object]


def kept_runs(session: ReadingSession, settings: Settings) -> list[KeptRuns]:
    """Return the retention of flow runs per deployment; runs kept for ever are left out."""
    return [
        KeptRuns(group.retention.runs_days, retention.deployments_of(session, group))
        for group in retention.groups(session, retention_of(settings))
        if group.retention.runs_days != NO_BOUND
    ]
