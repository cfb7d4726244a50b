"""What a value looks like on a page, before `templates/cells.html` draws it."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from jobauto_prefect.facade.formats.json_yaml import Record
from jobauto_prefect.facade.formats.view import no_titles

CellKind = Literal[
    "none",
    "text",
    "number",
    "badge",
    "link",
    "time",
    "image",
    "colour",
    "code",
    "output",
    "fold",
    "chips",
    "languages",
    "table",
]

MAX_UNFOLDED = 400  # characters; longer texts are folded
MAX_UNFOLDED_LINES = 8
MAX_BRIEF = 120  # characters of a text in a list


@dataclass(frozen=True, slots=True)
class Cell:
    """One value, ready to draw; `heads` may be empty, the first cell of a row heads it."""

    kind: CellKind
    text: str = ""
    href: str = ""
    title: str = ""
    tone: str = ""
    note: str = ""
    heads: Sequence[str] = ()
    rows: Sequence[Sequence["Cell"]] = ()


@dataclass(frozen=True, slots=True)
class CellContext:
    """Where a value stands: in a record of kind `item`, `depth` tables deep.

    `brief`: in a list, where a value has one line. `names` and `languages` are those of the view,
    `titles` those of the kind's fields, `titles_of` gives those of others.
    """

    item: str
    base: str
    brief: bool = False
    depth: int = 0
    names: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    languages: Sequence[str] = ()
    titles_of: Callable[[str], Mapping[str, str]] = no_titles
    titles: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class FieldValue:
    """A named value of a record."""

    name: str
    value: Any
    record: Record
    place: CellContext


Rule = Callable[[FieldValue], Cell | None]
"""Draws the fields it knows, None for the others."""


def fold_text(text: str, place: CellContext, kind: CellKind) -> Cell:
    """Return text of any length: cut to a line in lists, folded away on a record's page."""
    if place.brief:
        return Cell(kind, clip(text), title=text[:1000] if len(text) > MAX_BRIEF else "")
    if len(text) > MAX_UNFOLDED or text.count("\n") > MAX_UNFOLDED_LINES:
        return Cell("fold", text, title=clip(" ".join(text[:1000].split()), 80))
    return Cell(kind, text)


def record_address(place: CellContext, item: str, key: object) -> str:
    """Return the address of a record's page."""
    return f"{place.base}/{item}/{key}.html"


def clip(text: str, length: int = MAX_BRIEF) -> str:
    """Return the text, cut to `length` characters."""
    return text if len(text) <= length else f"{text[: length - 1].rstrip()}…"
