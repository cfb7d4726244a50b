"""Upcoming windows in Prefect: the runs it does not create itself, and the runs' names.

If Prefect's scheduler produces the times of the windows, the next run of a run template gets our
name. If not, its next runs are created here, and deleted when the template changes.
"""

import asyncio
import contextlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import islice, takewhile
from typing import Any
from uuid import UUID

from jobauto_prefect.compiler.scheduling.closures import ALWAYS_OPEN, ClosedTime
from jobauto_prefect.compiler.scheduling.prefect_schedule import schedule_for_prefect
from jobauto_prefect.compiler.scheduling.windows import windows_after
from jobauto_prefect.engine.api import PAGE_SIZE
from jobauto_prefect.engine.context import EngineContext
from jobauto_prefect.engine.flow_runs import NewRun, create_run, name_run
from jobauto_prefect.errors import NotFound
from jobauto_prefect.jobs.appearance import window_name
from jobauto_prefect.jobs.isolation import apart
from jobauto_prefect.jobs.windows.closed_time import closed_times
from jobauto_prefect.jobs.windows.due_windows import schedule_kept
from jobauto_prefect.ledger.jobs import windows
from jobauto_prefect.ledger.jobs.flow_runs import bound_runs, window_key
from jobauto_prefect.ledger.records import RunTemplate
from jobauto_prefect.ledger.store import ReadingSession

MOST = 3
"""Maximum number of runs created ahead."""

AHEAD = timedelta(days=1)
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
    by_prefect = schedule_for_prefect(schedule) is not None
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


async def sync_upcoming_runs(context: EngineContext, outlook: Outlook, *, changed: bool) -> None:
    """Create one template's upcoming runs in Prefect, and delete those no longer wanted.

    The caller holds the template's lock. `changed`: the deployment changed, so create its runs
    again.

    Raises:
        PrefectUnavailable: Prefect does not answer.
    """
    if not outlook.wants_runs(changed=changed):
        return
    wanted = () if outlook.by_prefect else outlook.coming
    there = await _made_ahead(context, outlook)
    keys = set() if changed else {coming.key for coming in wanted}
    for key, run in there.items():
        if key not in keys or run["work_pool_name"] != outlook.pool:
            await context.prefect.delete(f"/flow_runs/{run['id']}")
    missing = [coming for coming in wanted if coming.key not in keys & there.keys()]
    for coming in missing:
        parameters = {"jobauto": {"window": coming.due.isoformat()}}
        new = NewRun(coming.name, coming.due, parameters, idempotency_key=coming.key)
        with contextlib.suppress(NotFound):  # its runs were deleted with the deployment
            await create_run(context.prefect, outlook.deployment_id, new)


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


async def _made_ahead(context: EngineContext, outlook: Outlook) -> dict[str, dict[str, Any]]:
    """Return key -> flow run that waits and that no job is bound to yet."""
    query = {
        "deployments": {"id": {"any_": [str(outlook.deployment_id)]}},
        "flow_runs": {"state": {"type": {"any_": ["SCHEDULED"]}}},
        "limit": PAGE_SIZE,
    }
    runs = await context.prefect.post("/flow_runs/filter", query)
    made = {run["idempotency_key"]: run for run in runs if is_upcoming(run)}
    ids = {UUID(run["id"]) for run in made.values()}
    bound = await context.read(bound_runs, ids) if ids else set()
    return {key: run for key, run in made.items() if UUID(run["id"]) not in bound}


class UpcomingRuns:
    """Looks regularly for templates whose next windows have changed since the last look."""

    def __init__(self, context: EngineContext) -> None:
        self._context = context
        self._shown: dict[int, tuple[UpcomingRun, ...]] = {}

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

    def shown(self, template_id: int, outlook: Outlook | None) -> None:
        """Note that Prefect now shows this outlook of a template."""
        if outlook is not None:
            self._shown[template_id] = outlook.coming

    def _outlooks(self) -> list[Outlook]:
        with self._context.ledger.reading() as session:
            now = self._context.ledger.clock()
            templates = windows.templates_with_windows(session, now + AHEAD)
            outlooks = read_outlooks(session, templates, self._context)
        there = {template.id for template in templates}
        self._shown = {key: shown for key, shown in self._shown.items() if key in there}
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
