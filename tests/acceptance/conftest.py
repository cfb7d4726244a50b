"""One service for all tests that only use it."""

from collections.abc import Iterator

import pytest

from tests.support.service import EXAMPLES, Service


@pytest.fixture(scope="package")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """A running service with the examples applied."""
    home = tmp_path_factory.mktemp("acceptance") / "home"
    service = Service(home, JOBAUTO_LEASE_SECONDS="10", JOBAUTO_GRACE_SECONDS="2")
    service.start()
    try:
        applied = service.jobauto("apply", str(EXAMPLES), "--yes")
        assert applied.returncode == 0, applied.stderr + service.logs()
        yield service
    finally:
        service.stop()
