"""A finding of validation, before its place in the text is known."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Finding:
    """Something wrong at `pointer`.

    `member` names a key of the object at `pointer` where the key itself is what is wrong.
    """

    pointer: str
    rule: str
    message: str
    member: str | None = None


LONGEST_SHOWN = 40  # characters of a foreign text that a message repeats


def quote(text: str) -> str:
    """Return a key or keyword for a message: quoted, cut where it is long."""
    cut = text if len(text) <= LONGEST_SHOWN else text[: LONGEST_SHOWN - 1] + "…"
    return repr(cut)
