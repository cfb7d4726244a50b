"""Whether a worker can start jobs, found by trying."""

import asyncio
import resource
from pathlib import Path

import pytest

from jobauto_prefect.errors import StartFailed
from jobauto_prefect.runtime import fitness as module
from jobauto_prefect.runtime.fitness import DISK, Fitness, check_processes, disk_check


async def test_what_is_missing_is_looked_for_until_it_is_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "FIRST_CHECK_SECONDS", 0.01)
    place = tmp_path / "work"
    changes: asyncio.Queue[bool] = asyncio.Queue()
    fitness = Fitness({DISK: disk_check(place)})
    fitness.listener = lambda: changes.put_nowait(fitness.is_able)
    running = asyncio.create_task(fitness.run())
    assert await asyncio.wait_for(changes.get(), 30) is False
    assert str(place) in fitness.hindrances[DISK]
    place.mkdir()
    assert await asyncio.wait_for(changes.get(), 30) is True
    running.cancel()
    assert list(place.iterdir()) == []


def test_a_missing_executor_hinders_only_its_own_jobs() -> None:
    fitness = Fitness({})
    fitness.note_missing("Podman", "it does not answer")
    assert (fitness.is_able, fitness.missing_executors) == (True, ["Podman"])
    fitness.note_useless(True)
    assert not fitness.is_able


async def test_without_descriptors_no_process_can_be_started() -> None:
    await check_processes()
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (_open_descriptors(), hard))
    try:
        with pytest.raises(StartFailed, match="no process can be started"):
            await check_processes()
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def _open_descriptors() -> int:
    return sum(1 for _ in Path("/proc/self/fd").iterdir())
