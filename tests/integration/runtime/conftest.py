"""Workers whose facade is a recorder."""

from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from jobauto_prefect.runtime.worker_context import WorkerContext, open_worker
from tests.support.container_engines import Engine, dockerd, podman
from tests.support.kubernetes.api import SimulatedCluster
from tests.support.launches import Opened, plan
from tests.support.recorder import Recorder

ENGINES = {"Podman": podman, "Docker": dockerd}


@pytest.fixture(scope="session")
def engine(request: pytest.FixtureRequest) -> Iterator[Engine]:
    """A container engine: Podman's, or the one that the parameter names."""
    with ENGINES[getattr(request, "param", "Podman")]() as running:
        yield running


@pytest.fixture
def facade() -> Iterator[Recorder]:
    """A stand-in for the facade."""
    recorder = Recorder()
    yield recorder
    recorder.stop()


@pytest.fixture
async def opened(facade: Recorder, tmp_path: Path) -> AsyncIterator[Opened]:
    """Opens workers, which are closed afterwards."""
    async with AsyncExitStack() as stack:

        async def opening(**changes: Any) -> WorkerContext:
            return await stack.enter_async_context(
                open_worker(plan(facade, tmp_path / "work", **changes))
            )

        yield opening


@pytest.fixture
async def worker(opened: Opened) -> WorkerContext:
    """An open worker."""
    return await opened()


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[SimulatedCluster]:
    """A cluster that the worker's environment names; every test leaves it empty."""
    with SimulatedCluster(("default", "erp")) as running:
        monkeypatch.setenv("KUBECONFIG", str(running.kubeconfig(tmp_path / "kubeconfig")))
        yield running
        assert running.is_empty()
