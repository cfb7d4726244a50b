"""Positions of values and keys in a JSON text."""

import json
import re
from bisect import bisect_left
from dataclasses import dataclass, field
from functools import cached_property

from jobauto_prefect.definitions.findings import Finding, child, quote

# A string may lack its closing quote: so every text is read in one pass, however broken.
_PIECE = re.compile(r'"(?:[^"\\]++|\\.)*+"?|[{}\[\],:]|[^\s"{}\[\],:]++', re.DOTALL)


_NEWLINE = re.compile("\n")


@dataclass(slots=True)
class _Container:
    """An object or array being read; `keys` are those so far."""

    pointer: str
    is_object: bool
    keys: set[str] = field(default_factory=set)
    index: int = 0
    key: str | None = None

    @property
    def current(self) -> str:
        return child(self.pointer, self.index if self.key is None else self.key)


@dataclass
class Positions:
    """Offsets in a valid JSON text, by JSON pointer; the last one of a repeated key."""

    text: str
    values: dict[str, int] = field(default_factory=dict)
    keys: dict[str, int] = field(default_factory=dict)
    repeated: list[Finding] = field(default_factory=list)

    def offset(self, pointer: str, member: str | None = None) -> int:
        """Return the offset of the value at `pointer`, or of the key `member` of that object."""
        if member is None:
            return self.values.get(pointer, 0)
        return self.keys.get(child(pointer, member), self.values.get(pointer, 0))

    def line_and_column(self, offset: int) -> tuple[int, int]:
        """Return line and column of an offset; both count from 1, columns in characters."""
        line = bisect_left(self._newlines, offset)
        return line + 1, offset - (self._newlines[line - 1] if line else -1)

    @cached_property
    def _newlines(self) -> list[int]:
        return [match.start() for match in _NEWLINE.finditer(self.text)]


def locate(text: str) -> Positions:
    """Parse a text that `json.loads` accepts."""
    positions = Positions(text)
    open_containers: list[_Container] = []
    for match in _PIECE.finditer(text):
        piece, offset = match[0], match.start()
        if piece in "]}":
            open_containers.pop()
        elif piece == ",":
            open_containers[-1].index += 1
            open_containers[-1].key = None
        elif piece != ":":
            _enter(positions, open_containers, piece, offset)
    return positions


def _enter(positions: Positions, stack: list[_Container], piece: str, offset: int) -> None:
    """Process a key, a plain value, or the beginning of a container."""
    top = stack[-1] if stack else None
    if top is not None and top.is_object and top.key is None:
        key: str = json.loads(piece)
        if key in top.keys:
            message = f"the key {quote(key)} occurs twice"
            positions.repeated.append(Finding(top.pointer, "duplicate", message, key))
        top.keys.add(key)
        top.key = key
        positions.keys[top.current] = offset
        return
    pointer = "" if top is None else top.current
    positions.values[pointer] = offset
    if piece == "{":
        stack.append(_Container(pointer, is_object=True))
    elif piece == "[":
        stack.append(_Container(pointer, is_object=False))
