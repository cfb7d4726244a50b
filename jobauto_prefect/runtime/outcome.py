"""How a job ended: its severity, and a line for people."""

from collections.abc import Mapping

from jobauto_prefect.definitions import ExitCode, Severity, pick_text
from jobauto_prefect.runtime.protocol import MESSAGE_LENGTH, Ending


def severity(exit_codes: Mapping[int, ExitCode], ending: Ending, exit_code: int | None) -> Severity:
    """Return the severity of a job's end.

    Of undeclared codes 0 is success and others are errors; a process that did not end by itself is
    an error whatever its code.
    """
    if ending is not Ending.EXITED or exit_code is None:
        return Severity.ERROR
    declared = exit_codes.get(exit_code)
    if declared is not None:
        return declared.severity
    return Severity.SUCCESS if exit_code == 0 else Severity.ERROR


def end_message(
    ending: Ending,
    exit_code: int | None,
    severity: Severity,
    exit_codes: Mapping[int, ExitCode],
    language: str,
    worker_message: str = "",
) -> str:
    """Return a line for people: exit code, severity and the definition's description of it.

    `worker_message` is the worker's explanation if the process did not end by itself.
    """
    if ending is Ending.EXITED and exit_code is not None:
        message = f"exit code {exit_code} ({severity})"
        declared = exit_codes.get(exit_code)
        if declared is not None:
            message += f": {pick_text(declared.description, language)}"
        elif exit_code != 0:
            message += ": a code the definition does not declare"
    else:
        message = f"{ENDINGS[ending]}{': ' + worker_message if worker_message else ''}"
    # Prefect shows it on one line.
    return message if len(message) <= MESSAGE_LENGTH else message[: MESSAGE_LENGTH - 1] + "…"


ENDINGS: Mapping[Ending, str] = {
    Ending.EXITED: "ended without an exit code",
    Ending.TIMEOUT: "ended by its timeout",
    Ending.CANCELLED: "cancelled",
    Ending.NOT_STARTED: "could not be started",
    Ending.LOST: "lost",
}
