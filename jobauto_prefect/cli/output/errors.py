"""Errors as lines for people, and the exit code of a failed command."""

import contextlib
import errno
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace

from jobauto_prefect.errors import Fault, InvalidInput, JobautoError


def complain(text: str) -> None:
    """Print something for people, if anybody reads it."""
    with contextlib.suppress(OSError):
        sys.stderr.write(f"{text}\n")


def run_explained(work: Callable[[], object], *, debug: bool = False) -> None:
    """Do some work; turn an error into one line for people and exit code 1."""
    for stream in (sys.stdout, sys.stderr):
        # A name outside this terminal's encoding must not abort a command.
        stream.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]
    try:
        try:
            work()
        finally:
            sys.stdout.flush()  # so that write errors occur here, not when Python exits
    except Exception as error:  # noqa: BLE001 - people get one line, and the rest by --debug
        _fail(error, debug)
    except BaseExceptionGroup as group:
        _fail(group, debug)


def _fail(error: BaseException, debug: bool) -> None:
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    if debug:
        import traceback

        traceback.print_exception(error)
    elif isinstance(error, JobautoError):
        complain(f"error: {_error_text(error)}")
    elif isinstance(error, OSError) and error.strerror:
        if not isinstance(error, BrokenPipeError):  # such as `| head`, which has read enough
            place = error.filename or ("output" if error.errno == errno.ENOSPC else None)
            text = f"{place}: {error.strerror}" if place else str(error.strerror)
            complain(f"error: {_one_line(text)}")
    elif isinstance(error, UnicodeError):
        complain("error: the input is not UTF-8 text; write it in UTF-8")
    else:
        complain(
            f"error: unexpected {type(error).__name__}: {_one_line(str(error))}; "
            "the same command with --debug shows where"
        )
    # Don't write to an output that is full or gone: Python would flush it once more at exit.
    try:
        sys.stdout.flush()
    except OSError:
        sys.stdout = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115, PTH123
    raise SystemExit(1)


def _error_text(error: JobautoError) -> str:
    message = _one_line(str(error))
    faults: Sequence[Fault] = error.faults if isinstance(error, InvalidInput) else ()
    if faults and not any(fault.file for fault in faults):  # in the typed command line
        is_summary = str(error) == str(InvalidInput(faults))
        faults = [replace(fault, pointer=_typed_name(fault.pointer)) for fault in faults]
        message = _one_line(str(InvalidInput(faults))) if is_summary else message
    if len(faults) > 1 or any(fault.file for fault in faults):  # otherwise the message is complete
        return "\n".join([message, *format_faults(faults)])
    return message


def _typed_name(pointer: str) -> str:
    """Name the place in a body as typed: by its option, or its field of FIELD=VALUE."""
    field, *below = pointer.lstrip("/").split("/")
    names = {f"--{name.replace('_', '-')}" for name in (field, field.removesuffix("s"))}
    options = [word.partition("=")[0] for word in sys.argv[1:]]
    option = next((word for word in options if word in names), None)
    if option is not None:
        return " ".join([option, *(part for part in below if not part.isdecimal())])
    return ".".join([field, *below])


def _one_line(text: str) -> str:
    return " ".join(text.split())


def format_faults(faults: Iterable[Fault]) -> Iterator[str]:
    """Format each error as one line: place, key, what is wrong."""
    for fault in faults:
        numbers = [str(number) for number in (fault.line, fault.column) if number is not None]
        place = f"line {':'.join(numbers)}" if numbers else ""
        if fault.file is not None:
            place = ":".join([fault.file, *numbers])
        parts = (place, fault.pointer, fault.message)
        yield "  " + ": ".join(part for part in parts if part)
