"""Findings of validation, and the JSON pointers (RFC 6901) of their places."""

import difflib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Finding:
    """Something wrong at `pointer`.

    `member` names a key of the object at `pointer` if the key itself is wrong.
    """

    pointer: str
    rule: str
    message: str
    member: str | None = None


LONGEST_SHOWN = 40  # characters of a foreign text that a message quotes


def quote(text: str) -> str:
    """Return a key or keyword for a message: quoted, and cut if it is long."""
    cut = text if len(text) <= LONGEST_SHOWN else text[: LONGEST_SHOWN - 1] + "…"
    return repr(cut)


def child(pointer: str, step: str | int) -> str:
    """Return the pointer of a key or an item below `pointer`."""
    return f"{pointer}/{str(step).replace('~', '~0').replace('/', '~1')}"


def join(steps: Iterable[str | int]) -> str:
    """Return the pointer of a path from the root; without steps the root, an empty string."""
    pointer = ""
    for step in steps:
        pointer = child(pointer, step)
    return pointer


def did_you_mean(name: str, names: Sequence[str]) -> str:
    """Return `; did you mean …?` if a known name is similar, else nothing."""
    by_lower = {item.lower(): item for item in names}
    close = difflib.get_close_matches(name.lower()[:LONGEST_SHOWN], by_lower, n=1, cutoff=0.75)
    return f"; did you mean {by_lower[close[0]]!r}?" if close else ""
