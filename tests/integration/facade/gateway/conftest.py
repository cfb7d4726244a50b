"""One Prefect behind the door for all tests of the door."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.gateway import Gateway, gateway


@pytest.fixture(scope="package")
def gate(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    """A running service of two companies, without a worker."""
    for name in [name for name in os.environ if name.startswith(("PREFECT_", "JOBAUTO_", "DB_"))]:
        if not name.startswith("JOBAUTO_TEST_"):
            del os.environ[name]
    home: Path = tmp_path_factory.mktemp("gateway")
    with gateway(home) as running:
        yield running
