"""What tests of windows, tasks and attempts share."""

import httpx
import pytest

from jobauto_prefect.ledger.store import Ledger
from jobauto_prefect.settings import Settings
from tests.support.yard import Yard


@pytest.fixture
def yard(
    ledger: Ledger, rest: httpx.Client, claims: httpx.Client, facade_settings: Settings
) -> Yard:
    """A ledger with one run template, whose clock the test turns."""
    return Yard(ledger, rest, claims, facade_settings)
