"""The command line. `main` is where errors become one line and an exit code.

0: done. 1: refused or failed. 2: the command line itself is wrong.
"""

import atexit
import gc
import sys
from collections.abc import Callable

from jobauto_prefect.errors import InvalidInput, JobautoError


def main() -> None:
    """Run the command of this process's arguments; never returns."""
    _relax_garbage_collection()
    from jobauto_prefect.cli.app import app
    from jobauto_prefect.cli.service.addresses import help_epilog

    app.info.epilog = help_epilog()
    debug = "--debug" in sys.argv
    words = [argument for argument in sys.argv[1:] if argument != "--debug"]
    run_explained(lambda: app(words, prog_name="jobauto"), debug=debug)


def _relax_garbage_collection() -> None:
    """Collect garbage seldom: what is loaded stays.

    Python collects every 700 objects while modules are loaded, and once more when it ends: a third
    of a command's time.
    """
    gc.set_threshold(10_000)
    atexit.register(gc.freeze)


def run_explained(work: Callable[[], object], *, debug: bool = False) -> None:
    """Do some work; turn what goes wrong into one line for people, and exit code 1."""
    for stream in (sys.stdout, sys.stderr):
        # A name that this terminal's encoding lacks must not end a command in the middle.
        stream.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]
    try:
        work()
    except BaseExceptionGroup as group:
        _fail(_first_error(group), debug)
    except Exception as error:  # noqa: BLE001 - people get one line, and the rest by --debug
        _fail(error, debug)


def _first_error(group: BaseExceptionGroup[BaseException]) -> BaseException:
    error: BaseException = group
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


def _fail(error: BaseException, debug: bool) -> None:
    if debug:
        import traceback

        traceback.print_exception(error)
    elif isinstance(error, JobautoError):
        sys.stderr.write(f"error: {_error_text(error)}\n")
    else:
        sys.stderr.write(
            f"error: unexpected {type(error).__name__}: {_one_line(str(error))}; "
            "the same command with --debug shows where\n"
        )
    raise SystemExit(1)


def _error_text(error: JobautoError) -> str:
    from jobauto_prefect.cli.output.faults import format_faults

    message = _one_line(str(error))
    faults = error.faults if isinstance(error, InvalidInput) else ()
    if len(faults) > 1 or any(fault.file for fault in faults):  # else the message says it all
        return "\n".join([message, *format_faults(faults)])
    return message


def _one_line(text: str) -> str:
    return " ".join(text.split())
