"""Fixtures of the tests of event sources."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.adapters import KINDS, AdapterDatabase, adapter_database


@pytest.fixture(params=KINDS)
def adapter(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[AdapterDatabase]:
    """An adapter database of each kind. SQLite's is outside the service's home."""
    with adapter_database(request.param, tmp_path_factory.mktemp("adapter")) as made:
        yield made


@pytest.fixture
def sqlite_adapter(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AdapterDatabase]:
    """An adapter database of the kind that is there at once."""
    with adapter_database("sqlite", Path(tmp_path_factory.mktemp("adapter"))) as made:
        yield made
