"""What starts what, as a picture: where its boxes and arrows are; a template draws it.

From left to right: event sources and run templates, then what their rules start, and so on.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import count

BOX_WIDTH, BOX_HEIGHT = 208, 44
COLUMN, ROW = 300, 66
MARGIN = 8
LABEL = 26  # characters


@dataclass(frozen=True, slots=True)
class Origin:
    """What a rule reacts to, or starts; `key` is unique among all of them."""

    key: str
    label: str
    href: str
    is_source: bool = False


@dataclass(frozen=True, slots=True)
class Arrow:
    """A rule as the picture is to show it; `note` says on what it starts something."""

    start: str
    end: str
    href: str
    note: str
    is_enabled: bool


@dataclass(frozen=True, slots=True)
class Box:
    """A placed origin; `x` and `y` are of its upper left corner."""

    x: int
    y: int
    label: str
    title: str
    href: str
    is_source: bool


@dataclass(frozen=True, slots=True)
class Curve:
    """A placed arrow: the path of its line."""

    path: str
    href: str
    note: str
    is_enabled: bool


@dataclass(frozen=True, slots=True)
class Picture:
    """All of it; empty where there are no rules."""

    width: int
    height: int
    boxes: Sequence[Box]
    curves: Sequence[Curve]


def draw_rules(origins: Mapping[str, Origin], arrows: Sequence[Arrow]) -> Picture:
    """Place the ends of all arrows in columns, so that arrows lead to the right where they can.

    Arrows whose ends are not among `origins` are left out.
    """
    known = [arrow for arrow in arrows if {arrow.start, arrow.end} <= origins.keys()]
    columns = _columns(known)
    places = _places(columns, known)
    boxes = [_box(origins[key], *place) for key, place in places.items()]
    return Picture(
        width=2 * MARGIN + max((box.x + BOX_WIDTH for box in boxes), default=0),
        height=2 * MARGIN + max((box.y + BOX_HEIGHT for box in boxes), default=0),
        boxes=boxes,
        curves=[_curve(arrow, places) for arrow in known],
    )


def _columns(arrows: Sequence[Arrow]) -> dict[str, int]:
    """Return each end's column: one to the right of all that start it; circles end somewhere."""
    columns = dict.fromkeys((key for arrow in arrows for key in (arrow.start, arrow.end)), 0)
    for _ in range(len(columns)):
        moved = False
        for arrow in arrows:
            wanted = columns[arrow.start] + 1
            if columns[arrow.end] < wanted < len(columns):
                columns[arrow.end], moved = wanted, True
        if not moved:
            break
    used = {column: number for number, column in enumerate(sorted(set(columns.values())))}
    return {key: used[column] for key, column in columns.items()}


def _places(columns: Mapping[str, int], arrows: Sequence[Arrow]) -> dict[str, tuple[int, int]]:
    """Return column and row of each end; what is started stands near to what starts it."""
    starts = defaultdict(list)
    for arrow in arrows:
        starts[arrow.end].append(arrow.start)
    places: dict[str, tuple[int, int]] = {}

    def middle(key: str) -> float:
        rows = [places[start][1] for start in starts[key] if start in places]
        return sum(rows) / len(rows) if rows else float(len(places))

    for column in range(max(columns.values(), default=-1) + 1):
        keys = [key for key, its_column in columns.items() if its_column == column]
        for row, key in zip(count(), sorted(keys, key=middle), strict=False):
            places[key] = (column, row)
    return places


def _box(origin: Origin, column: int, row: int) -> Box:
    label = origin.label if len(origin.label) <= LABEL else f"{origin.label[: LABEL - 1]}…"
    x, y = MARGIN + column * COLUMN, MARGIN + row * ROW
    return Box(x, y, label, origin.label, origin.href, origin.is_source)


def _curve(arrow: Arrow, places: Mapping[str, tuple[int, int]]) -> Curve:
    (left, top), (right, bottom) = places[arrow.start], places[arrow.end]
    x, y = MARGIN + left * COLUMN + BOX_WIDTH, MARGIN + top * ROW + BOX_HEIGHT // 2
    to_x, to_y = MARGIN + right * COLUMN, MARGIN + bottom * ROW + BOX_HEIGHT // 2
    bend = max(40, abs(to_x - x) // 2)
    # One that leads past a column does so between its rows.
    sag = 0 if right == left + 1 else 2 * ROW // 3
    path = f"M{x},{y} C{x + bend},{y + sag} {to_x - bend},{to_y + sag} {to_x - 4},{to_y}"
    return Curve(path, arrow.href, arrow.note, arrow.is_enabled)
