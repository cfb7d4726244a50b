"""The differences between two JSON documents, key by key."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Any

from jobauto_prefect.cli.output.terminal import print_line
from jobauto_prefect.definitions.findings import child
from jobauto_prefect.wording import escape_controls

ONE_LINE = 70  # characters of both values; longer ones get a line each
SIGNS = {"add": "+", "remove": "-", "change": "~", "order": "~"}
STYLES = {"add": "green", "remove": "red", "change": "yellow", "order": "yellow"}


@dataclass(frozen=True, slots=True)
class Difference:
    """One difference. `order`: the same keys in a different order."""

    pointer: str
    change: str
    before: Any = None
    after: Any = None

    def as_dict(self) -> dict[str, Any]:
        """Convert to JSON, without the side that is missing."""
        sides = {"before": self.before, "after": self.after}
        absent = {"add": "before", "remove": "after"}.get(self.change)
        shown = {name: value for name, value in sides.items() if name != absent}
        return {"pointer": self.pointer, "change": self.change, **shown}

    def lines(self) -> Iterator[str]:
        """Format for people."""
        sign = SIGNS[self.change]
        before, after = _readable(self.before), _readable(self.after)
        if self.change in ("add", "remove"):
            yield f"{sign} {self.pointer}: {after if self.change == 'add' else before}"
        elif len(before) + len(after) <= ONE_LINE:
            yield f"{sign} {self.pointer}: {before} → {after}"
        else:
            yield f"{sign} {self.pointer}:"
            yield f"    - {before}"
            yield f"    + {after}"


def print_differences(before: str, after: str, changes: Sequence[Difference]) -> None:
    """Print differences below the titles of the two documents."""
    print_line(escape_controls(f"--- {before}"), "red")
    print_line(escape_controls(f"+++ {after}"), "green")
    for change in changes:
        for line in change.lines():
            print_line(escape_controls(line), STYLES[change.change])
    if not changes:
        print_line("no difference")


def find_differences(before: Any, after: Any, pointer: str = "") -> Iterator[Difference]:
    """Yield the differences in the order of the first document, then what only the second has."""
    if isinstance(before, Mapping) and isinstance(after, Mapping):
        yield from _compare_objects(before, after, pointer)
    elif isinstance(before, list) and isinstance(after, list):
        yield from _compare_arrays(before, after, pointer)
    elif _text(before) != _text(after):
        yield Difference(pointer, "change", before, after)


def _compare_objects(
    before: Mapping[str, Any], after: Mapping[str, Any], pointer: str
) -> Iterator[Difference]:
    for key, value in before.items():
        place = child(pointer, key)
        if key in after:
            yield from find_differences(value, after[key], place)
        else:
            yield Difference(place, "remove", before=value)
    for key in after:
        if key not in before:
            yield Difference(child(pointer, key), "add", after=after[key])
    were = [key for key in before if key in after]
    are = [key for key in after if key in before]
    if were != are and pointer:  # at the top level order means nothing; below, forms follow it
        yield Difference(pointer, "order", were, are)


def _compare_arrays(before: list[Any], after: list[Any], pointer: str) -> Iterator[Difference]:
    """Compare arrays; pointers are into the first, those of new items into the second."""
    matcher = SequenceMatcher(None, [*map(_text, before)], [*map(_text, after)], autojunk=False)
    for kind, begin, end, new_begin, new_end in matcher.get_opcodes():
        if kind == "equal":
            continue
        paired = min(end - begin, new_end - new_begin)
        for index in range(paired):
            old, new = before[begin + index], after[new_begin + index]
            yield from find_differences(old, new, child(pointer, begin + index))
        for index in range(begin + paired, end):
            yield Difference(child(pointer, index), "remove", before=before[index])
        for index in range(new_begin + paired, new_end):
            yield Difference(child(pointer, index), "add", after=after[index])


def _text(value: Any) -> str:
    """Serialize a value, distinguishing what is equal in Python: 1, 1.0 and true."""
    return json.dumps(value, default=str)


def _readable(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, default=str)
