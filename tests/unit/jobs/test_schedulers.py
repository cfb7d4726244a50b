"""Which scheduler creates the runs, by the setting and the number of scheduled run templates."""

import pytest

from jobauto_prefect.errors import InvalidInput
from jobauto_prefect.jobs.windows.schedulers import choose_scheduler
from jobauto_prefect.settings import Scheduler, load_settings

AUTO, PREFECT, LEDGER = Scheduler.AUTO, Scheduler.PREFECT, Scheduler.LEDGER


@pytest.mark.parametrize("present", [PREFECT, LEDGER])
@pytest.mark.parametrize("scheduled", [0, 900, 100_000])
def test_a_scheduler_that_the_setting_names_is_chosen_at_any_number(
    present: Scheduler, scheduled: int
) -> None:
    assert choose_scheduler(PREFECT, present, scheduled) is PREFECT
    assert choose_scheduler(LEDGER, present, scheduled) is LEDGER


def test_by_number_a_change_back_needs_two_hundred_fewer() -> None:
    present, chosen = PREFECT, []
    for scheduled in (0, 1000, 1001, 1000, 999, 800, 799, 800, 1000, 1001):
        present = choose_scheduler(AUTO, present, scheduled)
        chosen.append(present)
    assert chosen == [PREFECT] * 2 + [LEDGER] * 4 + [PREFECT] * 3 + [LEDGER]


def test_an_unknown_scheduler_is_refused_with_those_there_are() -> None:
    with pytest.raises(InvalidInput, match=r"scheduler.*'prefect', 'ledger' or 'auto'") as caught:
        load_settings([], scheduler="cron")
    assert [fault.pointer for fault in caught.value.faults] == ["/scheduler"]
