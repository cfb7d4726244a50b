"""Fixtures of the console's pages."""

from collections.abc import Iterator

import httpx
import pytest

from jobauto_prefect.ledger.store import Ledger
from tests.support.beginnings import begin_with
from tests.support.console_records import Records, make_records, sign_in


@pytest.fixture
def records(rest: httpx.Client, ledger: Ledger) -> Records:
    """What the pages show: a record of each kind."""
    return begin_with(ledger, "console", lambda: make_records(rest, ledger))


@pytest.fixture
def browser(facade_url: str, records: Records, ledger: Ledger) -> httpx.Client:
    """Somebody who may everything."""
    return sign_in(facade_url, ledger, "eva", "super_admin")


@pytest.fixture
def viewer(facade_url: str, records: Records, ledger: Ledger) -> httpx.Client:
    """Somebody who may read what one company has."""
    return sign_in(facade_url, ledger, "tom", "viewer", records.company)


@pytest.fixture
def operator(facade_url: str, ledger: Ledger) -> Iterator[httpx.Client]:
    """Somebody who may everything, and is signed in."""
    with sign_in(facade_url, ledger, "eva", "super_admin") as browser:
        yield browser
