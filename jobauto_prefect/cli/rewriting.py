"""Writing a changed JSON document so that what did not change stays as somebody wrote it."""

import json
import re
from collections.abc import Iterator
from typing import Any

from jobauto_prefect.definitions.pointers import child
from jobauto_prefect.definitions.positions import locate

_ABSENT = object()
_INDENTATION = re.compile(r"\n([ \t]+)\S")
_COLON = re.compile(r'\s*\{\s*"(?:[^"\\]|\\.)*"(\s*:\s*)', re.DOTALL)


def rewritten(text: str, document: Any) -> str:
    """The JSON text of `document`, a changed form of what `text` says.

    Values that are the same keep their text. The others are written with the indentation, line
    ends, colons and escapes of the text, and on one line where the text has them on one.
    `text` must be valid JSON, a byte order mark before it is kept.
    """
    mark = "\ufeff" if text.startswith("\ufeff") else ""
    writer = _Writer(text.removeprefix("\ufeff"))
    return mark + writer.whole(document)


class _Writer:
    def __init__(self, text: str) -> None:
        self._text = text
        self._before = json.loads(text)
        self._starts = locate(text).values
        indentation, colon = _INDENTATION.search(text), _COLON.match(text)
        self._indentation = indentation[1] if indentation else ""
        self._colon = colon[1] if colon else ": "
        self._line_end = "\r\n" if "\r\n" in text else "\n"
        self._ascii = text.isascii() and "\\u" in text
        self._slashes = "\\/" in text and "/" not in text.replace("\\/", "")

    def whole(self, document: Any) -> str:
        start, end = self._span("")
        written = self._value("", document, self._before, self._line_end)
        return self._text[:start] + written + self._text[end:]

    def _span(self, pointer: str) -> tuple[int, int]:
        start = self._starts[pointer]
        _, end = json.JSONDecoder().raw_decode(self._text, start)
        return start, end

    def _value(self, pointer: str, value: Any, before: Any, margin: str) -> str:
        """`margin` is what a line begins with at this depth, the end of the one before it first."""
        if before is not _ABSENT and json.dumps(value) == json.dumps(before):
            start, end = self._span(pointer)
            return self._text[start:end]
        if not value or not isinstance(value, dict | list):
            return self._plain(value)
        opening, closing = "{}" if isinstance(value, dict) else "[]"
        below = margin + self._indentation
        items = self._items(pointer, value, before, below)
        if self._has_lines(pointer, before):
            return opening + below + f",{below}".join(items) + margin + closing
        return opening + (", " if " " in self._colon else ",").join(items) + closing

    def _has_lines(self, pointer: str, before: Any) -> bool:
        """Whether a container has a line for each of its items."""
        if before is _ABSENT or not before or not isinstance(before, dict | list):
            return bool(self._indentation)
        return self._text[self._starts[pointer] + 1 :].lstrip(" \t").startswith(("\n", "\r"))

    def _items(self, pointer: str, value: Any, before: Any, margin: str) -> Iterator[str]:
        if isinstance(value, dict):
            known = before if isinstance(before, dict) else {}
            for key, item in value.items():
                former = known.get(key, _ABSENT)
                written = self._value(child(pointer, key), item, former, margin)
                yield self._plain(key) + self._colon + written
            return
        known_items = before if isinstance(before, list) else []
        for index, item in enumerate(value):
            former = known_items[index] if index < len(known_items) else _ABSENT
            yield self._value(child(pointer, index), item, former, margin)

    def _plain(self, value: Any) -> str:
        written = json.dumps(value, ensure_ascii=self._ascii)
        return written.replace("/", "\\/") if self._slashes else written
