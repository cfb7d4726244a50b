"""What exit codes mean."""

import pytest

from jobauto_prefect.definitions import ExitCode, Severity
from jobauto_prefect.runtime.outcome import severity
from jobauto_prefect.runtime.protocol import Ending

CODES = {
    0: ExitCode(0, "declared without severity"),
    2: ExitCode(2, "nothing to do", Severity.INFO),
    143: ExitCode(143, "terminated", Severity.WARNING),
}


@pytest.mark.spec("2.1.48", "7.3")
@pytest.mark.parametrize(
    ("exit_code", "expected"),
    [
        (0, Severity.ERROR),
        (1, Severity.ERROR),
        (2, Severity.INFO),
        (143, Severity.WARNING),
        (None, Severity.ERROR),
    ],
)
def test_a_declared_exit_code_rules(exit_code: int | None, expected: Severity) -> None:
    assert severity(CODES, Ending.EXITED, exit_code) is expected


def test_without_a_declaration_only_zero_is_success() -> None:
    assert severity({}, Ending.EXITED, 0) is Severity.SUCCESS
    assert severity({}, Ending.EXITED, 1) is Severity.ERROR


@pytest.mark.parametrize("ending", [ending for ending in Ending if ending is not Ending.EXITED])
def test_a_process_that_did_not_end_by_itself_is_an_error(ending: Ending) -> None:
    assert severity(CODES, ending, 2) is Severity.ERROR
