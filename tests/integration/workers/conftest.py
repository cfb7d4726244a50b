"""Plants: a real facade, a real Prefect, one application and template."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.support import workers as plants
from tests.support.plant_services import Watch
from tests.support.workers import Plant

LEASE_SECONDS = 3.0
LONG_LEASE_SECONDS = 30.0


@pytest.fixture(scope="package")
def migrated_file(migrate_once: Callable[[str], str]) -> str:
    """An empty ledger; SQLite is enough here: what is tested is beyond the facade."""
    return migrate_once("sqlite").removeprefix("sqlite:///")


@pytest.fixture
def plant(prefect_server: str, migrated_file: str, tmp_path: Path) -> Iterator[Plant]:
    """A plant of the test's own, without a worker."""
    with plants.plant(prefect_server, migrated_file, tmp_path, LEASE_SECONDS) as plant:
        yield plant


@pytest.fixture(scope="package")
def shared_plant(
    prefect_server: str, migrated_file: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Plant]:
    """A plant with a worker, for tests that leave both as they are."""
    home = tmp_path_factory.mktemp("shared")
    made = plants.plant(prefect_server, migrated_file, home, LONG_LEASE_SECONDS)
    with made as plant, plant.worker():
        yield plant


@pytest.fixture
def manned(shared_plant: Plant, tmp_path: Path) -> Plant:
    """The shared plant with marks of the test's own."""
    return replace(shared_plant, marks=tmp_path)


@pytest.fixture
def watch(plant: Plant) -> Watch:
    """The services of the plant, worked by hand."""
    return Watch(plant)
