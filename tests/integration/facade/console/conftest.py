"""Fixtures of the console's pages."""

from collections.abc import Iterator

import httpx
import pytest

from jobauto_prefect.ledger.store import Ledger
from tests.support.console import add_user, submit, visitor
from tests.support.job_records import JobRecords


@pytest.fixture
def records(rest: httpx.Client, ledger: Ledger) -> JobRecords:
    """A company with a run template, for jobs and windows of it."""
    return JobRecords(rest, ledger)


@pytest.fixture
def operator(facade_url: str, ledger: Ledger) -> Iterator[httpx.Client]:
    """Somebody who may everything, and is signed in."""
    add_user(ledger)
    with visitor(facade_url) as browser:
        assert submit(browser).status_code == 303
        yield browser
