"""Work of every kind while worker, facade, services and Prefect are killed in turn.

Each is killed once here; for an hour, those of either number, by `make soak`.
"""

import itertools
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.support.adapters import adapter_database
from tests.support.databases import database
from tests.support.installation import run_installation
from tests.support.load_complaints import complaints, is_over
from tests.support.memory import Memory
from tests.support.mixed_load import Load
from tests.support.waits import eventually

LEASE_SECONDS = 10.0
KILLED = ("worker-1", "facade", "services-1", "prefect", "worker-2", "services-2")
"""The first four are each a part of another kind."""
EVERY, HOUR = 6, 3600  # seconds
LONGEST_AFTER = 300  # seconds until all of it is over
GROWTH = 1.2  # times as much memory may be held towards the end


@pytest.fixture
def load(migrate_once: Callable[[str], str], tmp_path: Path) -> Iterator[Load]:
    """An installation on PostgreSQL that work of every kind is ready for."""
    with (
        database("postgresql", tmp_path, migrate_once("postgresql")) as ledger_url,
        adapter_database("pgsql", tmp_path / "adapter") as adapter,
        run_installation(ledger_url, tmp_path, LEASE_SECONDS) as made,
    ):
        load = Load(made, adapter)
        load.prepare()
        yield load


def work_and_kill(load: Load, seconds: float, every: float) -> Memory:
    """All of the load for so long, while every so often the next part is killed."""
    parts = load.installation.parts
    memory = Memory(parts)
    names = itertools.cycle(KILLED)
    with load.running():
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            time.sleep(every)
            memory.look()
            parts[next(names)].restart()
    load.installation.switch_off()
    eventually(lambda: is_over(load), LONGEST_AFTER)
    return memory


def test_mixed_load_while_each_part_is_killed_loses_and_doubles_nothing(load: Load) -> None:
    work_and_kill(load, 4 * EVERY, EVERY)
    assert load.posted["posted"]
    assert load.cancelled
    assert complaints(load) == []


@pytest.mark.soak
def test_an_hour_of_mixed_load_loses_and_doubles_nothing(load: Load) -> None:
    memory = work_and_kill(load, HOUR, HOUR / 30)
    assert complaints(load) == []
    assert {name: ratio for name, ratio in memory.growth() if ratio > GROWTH} == {}
