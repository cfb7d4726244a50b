"""Which modules of ours an operation goes through."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

import jobauto_prefect

PACKAGE = Path(jobauto_prefect.__file__).parent
NOT_COUNTED = {
    PACKAGE / "clock.py",
    PACKAGE / "logs.py",
    PACKAGE / "monitoring" / "tracing.py",
    *(PACKAGE / "ledger" / "database").glob("*.py"),
}
"""What log lines and traces are about, and what keeps connections to PostgreSQL."""


@contextmanager
def called_modules(route: str) -> Iterator[dict[str, set[str]]]:
    """The modules whose functions this thread calls, until the commit, and which these are.

    A module counts when a function, a method or a comprehension of it is called, in whatever
    package of `jobauto_prefect` it is; the route's own module does not, nor what Python and other
    libraries do. What the flushes and the commit call of ours (times, audit, ends) counts.
    """
    not_counted = {*NOT_COUNTED, Path(route)}
    functions: dict[str, set[str]] = {}

    def note(frame: FrameType, event: str, _argument: object) -> None:
        code = frame.f_code
        path = Path(code.co_filename)
        ours = path.is_relative_to(PACKAGE) and path not in not_counted
        if event == "call" and ours and code.co_name != "<module>":
            functions.setdefault(str(path.relative_to(PACKAGE)), set()).add(code.co_name)

    sys.setprofile(note)
    try:
        yield functions
    finally:
        sys.setprofile(None)


def listed(functions: dict[str, set[str]]) -> str:
    """Say which modules those are, a line each."""
    return "\n".join(f"{name}: {', '.join(sorted(functions[name]))}" for name in sorted(functions))
