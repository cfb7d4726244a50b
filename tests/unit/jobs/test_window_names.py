"""A flow run that was named ahead keeps its name at its start."""

import pytest

from jobauto_prefect.jobs.appearance import is_window_name

TITLE = "Acme #1 / Nightly #12 (task 3, attempt 1)"


def test_a_name_of_a_window_of_the_same_run_template_is_known() -> None:
    assert is_window_name("Acme #1 / Nightly 2027-03-28 02:30", TITLE)


@pytest.mark.parametrize(
    "name", ["brave-otter", TITLE, "Acme #1 / Other 2027-03-28 02:30", "Acme #1 / Nightly 2027", ""]
)
def test_other_names_are_not(name: str) -> None:
    assert not is_window_name(name, TITLE)
