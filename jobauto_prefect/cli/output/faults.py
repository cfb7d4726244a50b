"""Errors of a document as lines for people."""

from collections.abc import Iterable, Iterator

from jobauto_prefect.errors import Fault


def format_faults(faults: Iterable[Fault]) -> Iterator[str]:
    """Format each error as one line: where, which key, what is wrong."""
    for fault in faults:
        parts = (_format_place(fault), fault.pointer, fault.message)
        yield "  " + ": ".join(part for part in parts if part)


def _format_place(fault: Fault) -> str:
    numbers = [str(number) for number in (fault.line, fault.column) if number is not None]
    if fault.file is None:
        return f"line {':'.join(numbers)}" if numbers else ""
    return ":".join([fault.file, *numbers])
