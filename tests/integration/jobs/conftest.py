"""What tests of windows, tasks and attempts share."""

import httpx
import pytest

from jobauto_prefect.ledger.store import Ledger
from jobauto_prefect.settings import Settings
from tests.support.timeline import Timeline


@pytest.fixture
def timeline(
    ledger: Ledger, rest: httpx.Client, claims: httpx.Client, facade_settings: Settings
) -> Timeline:
    """A ledger with one run template, whose clock the test turns."""
    return Timeline(ledger, rest, claims, facade_settings)
