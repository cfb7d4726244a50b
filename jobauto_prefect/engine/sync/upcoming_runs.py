"""Upcoming windows in Prefect: the runs it does not create itself, and the runs' names.

If Prefect's scheduler produces the times of the windows, the next run of a run template gets our
name. If not, its next runs are created here, and deleted when the template changes.
"""

import asyncio
import contextlib
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from itertools import islice, takewhile
from typing import Any
from uuid import UUID

from jobauto_prefect.compiler.scheduling.closures import ALWAYS_OPEN, ClosedTime
from jobauto_prefect.compiler.scheduling.windows import windows_after
from jobauto_prefect.engine.api import PAGE_SIZE
from jobauto_prefect.engine.context import EngineContext
from jobauto_prefect.engine.flow_runs import NewRun, create_runs, name_run
from jobauto_prefect.errors import NotFound
from jobauto_prefect.jobs.appearance import window_name
from jobauto_prefect.jobs.isolation import apart
from jobauto_prefect.jobs.windows.closed_time import closed_times
from jobauto_prefect.jobs.windows.due_windows import is_left_to_prefect, schedule_kept
from jobauto_prefect.ledger.jobs import windows
from jobauto_prefect.ledger.jobs.flow_runs import bound_runs, window_key
from jobauto_prefect.ledger.records import RunTemplate
from jobauto_prefect.ledger.store import ReadingSession

MOST = 3
"""Maximum number of runs created ahead."""

AHEAD = timedelta(days=1)
LOOK_AT_ALL = timedelta(minutes=10)
"""How often templates are read that have not changed: closed time may have, or a company's name."""

MOST_READ = 5_000
"""Templates that are read in one look."""

SECOND = timedelta(seconds=1)


@dataclass(frozen=True, slots=True)
class UpcomingRun:
    """An upcoming window: when its run is due, its name, and the key that prevents duplicates."""

    due: datetime
    name: str
    key: str


@dataclass(frozen=True, slots=True)
class Outlook:
    """The next windows of a run template, and whether Prefect's own schedule creates their runs."""

    template_id: int
    deployment_id: UUID
    pool: str
    by_prefect: bool
    coming: tuple[UpcomingRun, ...]

    def wants_runs(self, *, changed: bool) -> bool:
        """Whether runs must be created ahead, or deleted because the deployment `changed`."""
        return changed or bool(self.coming and not self.by_prefect)


def outlook_of(
    template: RunTemplate, now: datetime, pool: str, closed: ClosedTime
) -> Outlook | None:
    """Return the outlook of a template, or None if it is not applied.

    Windows in closed time have no run yet, as they may never get one.
    """
    if template.deployment_id is None:
        return None
    schedule = schedule_kept(template)
    if schedule is None or template.next_window is None:
        return Outlook(template.id, template.deployment_id, pool, by_prefect=False, coming=())
    by_prefect = is_left_to_prefect(template, schedule)
    window_iterator = windows_after(schedule, template.next_window - SECOND)
    soon = takewhile(lambda window: by_prefect or window.launch_at <= now + AHEAD, window_iterator)
    coming = tuple(
        UpcomingRun(
            window.launch_at,
            window_name(template, window.launch_at.astimezone(schedule.zone)),
            window_key(template, window.launch_at),
        )
        for window in islice(soon, 1 if by_prefect else MOST)
        if closed.at(window.launch_at) is None
    )
    return Outlook(template.id, template.deployment_id, pool, by_prefect, coming)


Waiting = dict[str, dict[str, Any]]
"""Flow runs of one deployment that wait and that no job is bound to yet, by their ids."""


async def read_waiting(
    context: EngineContext, outlooks: Iterable[Outlook]
) -> defaultdict[UUID, Waiting]:
    """Return the waiting runs of each deployment.

    Raises:
        PrefectUnavailable: Prefect does not answer.
    """
    query = {
        "deployments": {"id": {"any_": [str(each.deployment_id) for each in outlooks]}},
        "flow_runs": {"state": {"type": {"any_": ["SCHEDULED"]}}},
        "sort": "ID_DESC",
    }
    pages = context.prefect.pages("/flow_runs/filter", query)
    runs = {run["id"]: run async for page in pages for run in page}
    bound = await context.read(bound_runs, [UUID(each) for each in runs]) if runs else set()
    waiting = defaultdict[UUID, Waiting](dict)
    for run_id, run in runs.items():
        if UUID(run_id) not in bound:
            waiting[UUID(run["deployment_id"])][run_id] = run
    return waiting


async def sync_upcoming_runs(
    context: EngineContext, outlook: Outlook, waiting: Waiting, *, changed: bool
) -> None:
    """Create one template's upcoming runs in Prefect, and delete those no longer wanted.

    The caller holds the template's lock. `changed`: the deployment changed, so create its runs
    again. Runs that Prefect's scheduler adds in a round that began before the deployment lost its
    schedule are deleted, too.

    Raises:
        PrefectUnavailable: Prefect does not answer.
    """
    wanted = {} if outlook.by_prefect else {coming.key: coming for coming in outlook.coming}
    now = context.ledger.clock()
    for run_id, run in waiting.items():
        is_due = datetime.fromisoformat(run["next_scheduled_start_time"]) <= now
        if run["auto_scheduled"]:
            is_unwanted = not outlook.by_prefect and not is_due
        elif is_upcoming(run):
            is_same = not changed and run["work_pool_name"] == outlook.pool
            # The job of an open window may be about to be bound to a run that is due.
            is_unwanted = not is_same or (
                wanted.pop(run["idempotency_key"], None) is None and not is_due
            )
        else:
            continue
        if is_unwanted:
            await context.prefect.delete(f"/flow_runs/{run_id}")
    creations = (
        context.creations.join(
            (outlook.deployment_id, None),
            NewRun(
                coming.name,
                coming.due,
                {"jobauto": {"window": coming.due.isoformat()}},
                idempotency_key=coming.key,
            ),
            partial(create_runs, context.prefect, outlook.deployment_id),
        )
        for coming in wanted.values()
    )
    with contextlib.suppress(NotFound):  # its runs were deleted with the deployment
        await asyncio.gather(*creations)


def read_outlooks(
    session: ReadingSession, templates: Iterable[RunTemplate], context: EngineContext
) -> list[Outlook]:
    """Return the outlooks of templates, except deleted and unapplied ones."""
    pool, now = context.settings.pool, context.ledger.clock()
    lasting = [template for template in templates if template.retired_at is None]
    with_windows = [template for template in lasting if template.next_window is not None]
    closed = closed_times(session, with_windows, now) if with_windows else {}
    outlooks = []
    for template in lasting:
        closed_time = closed.get(template.id, ALWAYS_OPEN)
        with apart(f"the upcoming windows of run template {template.id}"):
            outlook = outlook_of(template, now, template.pool or pool, closed_time)
            outlooks += [] if outlook is None else [outlook]
    return outlooks


class UpcomingRuns:
    """Looks regularly for templates whose next windows have changed since the last look."""

    def __init__(self, context: EngineContext) -> None:
        self._context = context
        self._shown: dict[int, tuple[UpcomingRun, ...]] = {}
        self._marks: dict[int, windows.Mark] = {}
        self._looked_at_all: datetime | None = None

    async def look(self) -> list[int]:
        """Name the runs Prefect created; return the templates whose runs must be created here.

        Raises:
            PrefectUnavailable: Prefect does not answer.
        """
        outlooks = await asyncio.to_thread(self._outlooks)
        new = [
            outlook
            for outlook in outlooks
            if self._shown.get(outlook.template_id) != outlook.coming
        ]
        for start in range(0, len(new), PAGE_SIZE):
            await self._name(
                [outlook for outlook in new[start : start + PAGE_SIZE] if outlook.by_prefect]
            )
        return [outlook.template_id for outlook in new if not outlook.by_prefect]

    def shown(self, outlook: Outlook) -> None:
        """Note that Prefect now shows this outlook."""
        self._shown[outlook.template_id] = outlook.coming

    def _outlooks(self) -> list[Outlook]:
        """Read the outlooks that may not be shown yet, those that are due first.

        What is shown is read again if its template has changed, or after a while.
        """
        now = self._context.ledger.clock()
        if self._looked_at_all is None or now - self._looked_at_all > LOOK_AT_ALL:
            self._marks.clear()
            self._looked_at_all = now
        with self._context.ledger.reading() as session:
            marks = windows.marks_until(session, now + AHEAD)
            changed = (key for key, mark in marks.items() if self._marks.get(key) != mark)
            templates = windows.templates_with_windows(session, [*islice(changed, MOST_READ)])
            outlooks = read_outlooks(session, templates, self._context)
        self._shown = {key: shown for key, shown in self._shown.items() if key in marks}
        self._marks = {key: mark for key, mark in self._marks.items() if key in marks}
        for outlook in outlooks:
            if self._shown.get(outlook.template_id) == outlook.coming:
                self._marks[outlook.template_id] = marks[outlook.template_id]
        return outlooks

    async def _name(self, outlooks: list[Outlook]) -> None:
        by_run = {
            (str(outlook.deployment_id), coming.due): (outlook, coming)
            for outlook in outlooks
            for coming in outlook.coming
        }
        if not by_run:
            return
        for run in await self._scheduled(by_run.keys()):
            due = datetime.fromisoformat(run["expected_start_time"])
            meant = by_run.get((run["deployment_id"], due))
            if meant is None or not run["auto_scheduled"]:
                continue
            outlook, coming = meant
            with apart(f"the name of flow run {run['id']}"):
                if run["name"] != coming.name:
                    await name_run(self._context.prefect, UUID(run["id"]), coming.name)
                self._shown[outlook.template_id] = outlook.coming

    async def _scheduled(self, wanted: Iterable[tuple[str, datetime]]) -> list[dict[str, Any]]:
        deployments, due = zip(*wanted, strict=True)
        between = {
            "after_": (min(due) - SECOND).isoformat(),
            "before_": (max(due) + SECOND).isoformat(),
        }
        query = {
            "deployments": {"id": {"any_": sorted(set(deployments))}},
            "flow_runs": {
                "state": {"type": {"any_": ["SCHEDULED"]}},
                "expected_start_time": between,
            },
            "sort": "EXPECTED_START_TIME_ASC",
            "limit": PAGE_SIZE,
        }
        runs: list[dict[str, Any]] = await self._context.prefect.post("/flow_runs/filter", query)
        return runs


def is_upcoming(run: Mapping[str, Any]) -> bool:
    """Whether it was created for an upcoming window; the target gets its own."""
    named = run["parameters"].get("jobauto")
    return isinstance(named, dict) and "window" in named
