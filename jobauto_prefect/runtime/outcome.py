"""What an exit code means (specification 2.1, exitCodes)."""

from collections.abc import Mapping

from jobauto_prefect.definitions import ExitCode, Severity
from jobauto_prefect.runtime.protocol import Ending


def severity(exit_codes: Mapping[int, ExitCode], ending: Ending, exit_code: int | None) -> Severity:
    """How bad it was that a job ended like this.

    Undeclared codes are success for 0 and else error; a process that did not end by itself is an
    error whatever its code.
    """
    if ending is not Ending.EXITED or exit_code is None:
        return Severity.ERROR
    declared = exit_codes.get(exit_code)
    if declared is not None:
        return declared.severity
    return Severity.SUCCESS if exit_code == 0 else Severity.ERROR
