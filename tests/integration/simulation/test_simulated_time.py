"""What is owed over weeks and a year comes to its end, whatever happens meanwhile."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from jobauto_prefect.compiler import Schedule
from jobauto_prefect.definitions import Overlap
from jobauto_prefect.ledger.database import migration
from jobauto_prefect.ledger.database.engine import make_engine
from jobauto_prefect.ledger.opening import open_ledger
from jobauto_prefect.ledger.records import Task
from jobauto_prefect.ledger.secrets import create_key
from jobauto_prefect.ledger.states import LIVE_TASKS, TaskState
from jobauto_prefect.settings import Settings
from tests.support.corpus import needs_corpus
from tests.support.ledger_rows import fetch_all
from tests.support.simulation.installation import few_outages, install, outages, owed, tables
from tests.support.simulation.matcher import Outage, Verdict, match
from tests.support.simulation.world import World

STEP, LONGEST = timedelta(hours=3), timedelta(days=10)
"""After the outages: how often is looked whether all is over, and for how long at most."""


def simulated(
    folder: Path, start: datetime, days: int, seed: int, away: Sequence[Outage] | None = None
) -> tuple[World, Verdict]:
    """So many days with outages, and as much time without as it takes for all to end.

    `away` are the outages; None: at random.
    """
    settings = Settings(home=folder, database_url=f"sqlite:///{folder}/ledger.db")
    create_key(settings.key_path)
    engine = make_engine(settings.ledger_url)
    migration.upgrade(engine)
    engine.dispose()
    ledger = open_ledger(settings)
    try:
        world = World(ledger, settings, start, seed)
        schedules = install(world, tables())
        end = start + timedelta(days=days)
        world.begin(outages(world.chance, start, days) if away is None else away)
        world.run(end)
        expected = owed(schedules, start, end)
        while world.now < end + LONGEST and any(map(is_live, opened(world, schedules, end))):
            world.run(world.now + STEP)
        tasks = opened(world, schedules, end)
        later = {task.id for task in known(world)} - {task.id for task in tasks}
        ran = [one for one in world.processes if one.task_id not in later]
        parallel = {key for key, overlap in world.overlaps.items() if overlap == Overlap.PARALLEL}
        return world, match(expected, tasks, ran, world.outages, parallel)
    finally:
        ledger.close()


def known(world: World) -> Sequence[Task]:
    return fetch_all(world.ledger, Task)


def opened(world: World, schedules: Mapping[int, Schedule], end: datetime) -> list[Task]:
    """The tasks of windows that opened up to an instant."""
    return [
        task
        for task in known(world)
        if task.window_start + schedules[task.runtemplate_id].delay <= end
    ]


def is_live(task: Task) -> bool:
    return task.state in LIVE_TASKS


def judge(world: World, verdict: Verdict) -> None:
    assert verdict.missed == []
    assert verdict.extra == []
    assert verdict.unfinished == []
    # What it is about has happened.
    ended = {state for state, _ in verdict.states}
    assert ended >= {TaskState.FULFILLED, TaskState.FAILED, TaskState.MISSED}
    assert ("missed", "misfire") in verdict.states
    assert world.duplicates
    assert any(process.dead for process in world.processes)


@needs_corpus
def test_days_with_a_clock_change_are_owed_and_done(tmp_path: Path) -> None:
    start = datetime(2026, 3, 28, 11, 17, tzinfo=UTC)
    judge(*simulated(tmp_path, start, 2, seed=3, away=few_outages(start)))


@pytest.mark.soak
@needs_corpus
@pytest.mark.parametrize("days", [30, 365])
def test_a_month_and_a_year_are_owed_and_done(tmp_path: Path, days: int) -> None:
    judge(*simulated(tmp_path, datetime(2026, 3, 10, 11, 17, tzinfo=UTC), days, seed=1))
