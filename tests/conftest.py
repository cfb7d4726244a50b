"""What holds for all tests."""

import gc

import pytest
from httpx._config import DEFAULT_TIMEOUT_CONFIG
from hypothesis import settings as hypothesis_settings

# A failed assert of a shared helper shows its values, as one of a test does.
pytest.register_assert_rewrite("tests.support")

pytest_plugins = (
    "tests.support.secrets",
    "tests.support.prefect_server",
    "tests.support.file_scheduler",
    "tests.support.statement_cache",
    "tests.support.loops.plugin",
)

# To look for garbage every 700 objects is a fifth of what the tests take. None of it is in what is
# imported and collected, so that nobody looks there.
gc.set_threshold(20_000)
gc.disable()


def pytest_collection_finish() -> None:
    """Look for garbage from now on, but not among the modules and the tests themselves."""
    gc.freeze()
    gc.enable()


# Those of httpx that no test has chosen; the service chooses all of its own.
for phase in ("connect", "read", "write", "pool"):
    setattr(DEFAULT_TIMEOUT_CONFIG, phase, 60.0)

# No test asserts how long something takes: on a busy machine an example may take its time.
hypothesis_settings.register_profile("ours", deadline=None)
hypothesis_settings.load_profile("ours")
