"""Changes that get in each other's way are no outage of the database."""

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import pytest
from sqlalchemy import text

from jobauto_prefect.errors import Contended
from jobauto_prefect.ledger.audit.trail import SERVICE
from jobauto_prefect.ledger.records import InstallationValue
from jobauto_prefect.ledger.store import Ledger
from tests.support.databases import on_postgresql


@pytest.fixture
def facts(ledger: Ledger) -> Ledger:
    with ledger.writing(SERVICE) as session:
        session.add_all(
            [InstallationValue(name="one", value=""), InstallationValue(name="two", value="")]
        )
    return ledger


def _change(ledger: Ledger, first: str, second: str, both: Barrier) -> str:
    try:
        with ledger.writing(SERVICE) as session:
            session.get_one(InstallationValue, first, with_for_update=True).value = "changed"
            session.flush()
            both.wait(30)
            session.get_one(InstallationValue, second, with_for_update=True).value = "changed"
    except Contended as error:
        return str(error)
    return ""


@on_postgresql
def test_of_two_changes_that_wait_for_each_other_one_is_told_to_try_again(facts: Ledger) -> None:
    both = Barrier(2)
    with ThreadPoolExecutor(2) as threads:
        orders = (("one", "two"), ("two", "one"))
        told = [threads.submit(_change, facts, *order, both) for order in orders]
        errors = sorted(change.result(60) for change in told)
    assert errors[0] == ""
    assert "somebody else changed the same records" in errors[1]
    assert "try again" in errors[1]


@on_postgresql
def test_a_change_of_what_was_changed_since_it_was_read_is_told_to_try_again(facts: Ledger) -> None:
    with pytest.raises(Contended), facts.writing(SERVICE) as session:
        session.connection().execute(text("SET TRANSACTION ISOLATION LEVEL SERIALIZABLE"))
        fact = session.get_one(InstallationValue, "one")
        with facts.writing(SERVICE) as other:
            other.get_one(InstallationValue, "one").value = "other"
        fact.value = "mine"
