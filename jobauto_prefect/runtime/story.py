"""How a job's end is told: one line for people."""

from collections.abc import Mapping

from jobauto_prefect.definitions import ExitCode, Severity, text
from jobauto_prefect.runtime.protocol import Ending

MESSAGE_LENGTH = 2000
"""Longer messages are cut: Prefect shows them in one line."""


def end_message(
    ending: Ending,
    exit_code: int | None,
    severity: Severity,
    exit_codes: Mapping[int, ExitCode],
    language: str,
    said: str = "",
) -> str:
    """One line for people: exit code, severity and what the definition says of it.

    `said` is what the worker says of an end that was not the process's own.
    """
    if ending is Ending.EXITED and exit_code is not None:
        return _shortened(
            f"exit code {exit_code} ({severity}){_described(exit_codes, exit_code, language)}"
        )
    return _shortened(f"{ENDINGS[ending]}{': ' + said if said else ''}")


ENDINGS: Mapping[Ending, str] = {
    Ending.EXITED: "ended without an exit code",
    Ending.TIMEOUT: "ended by its timeout",
    Ending.CANCELLED: "cancelled",
    Ending.NOT_STARTED: "could not be started",
    Ending.LOST: "lost",
}


def _described(exit_codes: Mapping[int, ExitCode], exit_code: int, language: str) -> str:
    declared = exit_codes.get(exit_code)
    if declared is not None:
        return f": {text(declared.description, language)}"
    return "" if exit_code == 0 else ": a code the definition does not declare"


def _shortened(message: str) -> str:
    return message if len(message) <= MESSAGE_LENGTH else message[: MESSAGE_LENGTH - 1] + "…"
