"""The command line. `main` is where errors become one line and an exit code.

0: done. 1: refused or failed. 2: the command line itself is wrong.
"""

import atexit
import contextlib
import errno
import gc
import os
import sys
from collections.abc import Callable

from jobauto_prefect.errors import InvalidInput, JobautoError


def main() -> None:
    """Run the command of this process's arguments; never returns."""
    _open_streams()
    _relax_garbage_collection()
    from jobauto_prefect.cli.app import app
    from jobauto_prefect.cli.service.addresses import help_epilog

    app.info.epilog = help_epilog()
    debug = "--debug" in sys.argv
    words = [argument for argument in sys.argv[1:] if argument != "--debug"]
    run_explained(lambda: app(words, prog_name="jobauto"), debug=debug)


def _open_streams() -> None:
    """Open what this process was started without, as if it were `/dev/null`.

    Else the next file that is opened takes its place, and gets what is meant for people.
    """
    missing = [name for name in ("stdin", "stdout", "stderr") if getattr(sys, name) is None]
    for name in missing:
        mode = "r" if name == "stdin" else "w"
        setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: SIM115, PTH123
    if "stdout" in missing:
        _complain("standard output is closed; results are not shown")


def _complain(text: str) -> None:
    with contextlib.suppress(OSError):  # nobody reads it
        sys.stderr.write(f"{text}\n")


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
        try:
            work()
        finally:
            sys.stdout.flush()  # what can't be written is an error here, not when Python ends
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
        _complain(f"error: {_error_text(error)}")
    elif isinstance(error, OSError) and error.strerror:
        if not isinstance(error, BrokenPipeError):  # of `| head`, which has seen enough
            _complain(f"error: {_system_error_text(error)}")
    elif isinstance(error, UnicodeError):
        _complain("error: what was given is no text in UTF-8; write it in UTF-8")
    else:
        _complain(
            f"error: unexpected {type(error).__name__}: {_one_line(str(error))}; "
            "the same command with --debug shows where"
        )
    _give_up_output()
    raise SystemExit(1)


def _system_error_text(error: OSError) -> str:
    place = error.filename or ("output" if error.errno == errno.ENOSPC else None)
    return _one_line(f"{place}: {error.strerror}" if place else str(error.strerror))


def _give_up_output() -> None:
    """Write no more to an output that is full or gone: Python would try once more at its end."""
    try:
        sys.stdout.flush()
    except OSError:
        sys.stdout = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115, PTH123


def _error_text(error: JobautoError) -> str:
    from jobauto_prefect.cli.output.faults import format_faults

    message = _one_line(str(error))
    faults = error.faults if isinstance(error, InvalidInput) else ()
    if len(faults) > 1 or any(fault.file for fault in faults):  # else the message says it all
        return "\n".join([message, *format_faults(faults)])
    return message


def _one_line(text: str) -> str:
    return " ".join(text.split())
