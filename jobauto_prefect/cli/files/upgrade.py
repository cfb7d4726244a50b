"""Upgrades a definition's file to this version of the format."""

import json
import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from jobauto_prefect.cli.files.reader import read_content, unreadable_fault
from jobauto_prefect.cli.files.validation_report import print_faults, split_lines
from jobauto_prefect.cli.output.terminal import console, error_console, print_json
from jobauto_prefect.definitions import SAID_TWICE, Change, upgrade, validate
from jobauto_prefect.definitions.findings import child
from jobauto_prefect.definitions.validation.positions import locate
from jobauto_prefect.errors import Fault, InvalidInput
from jobauto_prefect.facade.apply.documents import check_document, is_yaml, read_documents
from jobauto_prefect.wording import escape_controls, pluralize

UNREADABLE = frozenset({"syntax", "encoding", "size", "depth", "number", "text", "duplicate"})
"""Errors in the text itself, of which an upgrade would be a guess."""

_ABSENT = object()
_INDENTATION = re.compile(r"\n([ \t]+)\S")
_COLON = re.compile(r'\s*\{\s*"(?:[^"\\]|\\.)*"(\s*:\s*)', re.DOTALL)


@dataclass(frozen=True, slots=True)
class Upgraded:
    """The result for a definition. `undecided` have their places in `text`, in a file `name`."""

    name: str
    text: str = field(repr=False)
    document: Any = field(repr=False)
    changes: Sequence[Change] = ()
    undecided: Sequence[Fault] = ()

    @property
    def is_valid(self) -> bool:
        """Whether no error is left; repeated keys do not count."""
        return all(left.rule == SAID_TWICE for left in self.undecided)


def upgrade_file(source: Path, name: str) -> Upgraded:
    """Upgrade the definition in a file; `name` is the target.

    Raises:
        InvalidInput: the errors, if it is not the text of a JSON definition.
    """
    try:
        raw = read_content(source)
    except OSError as error:
        fault = unreadable_fault(source, error)
        raise InvalidInput([fault], f"{source} {fault.message}") from None
    faults = [fault for fault in validate(raw).faults if fault.rule in UNREADABLE]
    if faults and is_yaml(str(source), raw.decode("utf-8", "replace")):
        faults = [Fault("", "yaml", "is not JSON; older definitions all are")]
    if faults:
        placed = [replace(fault, file=str(source)) for fault in faults]
        raise InvalidInput(placed, f"{source} can't be upgraded")
    text = raw.decode()
    done = upgrade(json.loads(text.removeprefix("\ufeff")))
    new = rewrite(text, done.document)
    (written,), _ = read_documents(name, new.encode())
    undecided = [
        written.locate_fault(fault) for fault in done.undecided if fault.rule == SAID_TWICE
    ]
    undecided += check_document(written, "app").faults  # the same as in `done`, with their places
    return Upgraded(name, new, done.document, done.changes, undecided)


def print_upgrade(done: Upgraded, target: Path | None, as_json: bool) -> None:
    """Print what was changed and what was not.

    Without a target it first prints the new text, which is alone on standard output.
    """
    if as_json:
        print_json(
            {
                "output": str(target) if target else None,
                "changes": [change.as_dict() for change in done.changes],
                "undecided": [fault.as_dict() for fault in done.undecided],
                **({} if target else {"document": done.document}),
            }
        )
        return
    if target is None:
        sys.stdout.write(done.text)
        sys.stdout.flush()
    out = console() if target else error_console()
    out.print(pluralize(len(done.changes), "change", zero="no"), markup=False)
    for change in done.changes:
        line = f"  {change.pointer or '/'}: {change.message}"
        out.print(escape_controls(line), markup=False, soft_wrap=True)
    if done.undecided:
        out.print("left to you:", markup=False)
    print_faults(done.undecided, "error", split_lines(done.text.encode()), out)


def rewrite(text: str, document: Any) -> str:
    """Return the JSON text of `document`, a changed form of the document in `text`.

    Unchanged values keep their text. The others get the indentation, line ends, colons and escapes
    of the text, and are on one line if they are in the text. `text` must be valid JSON; a byte
    order mark before it is kept.
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
        """Return a value's text; `margin` is the line end and indentation at this depth."""
        if before is not _ABSENT and json.dumps(value) == json.dumps(before):
            start, end = self._span(pointer)
            return self._text[start:end]
        if not value or not isinstance(value, dict | list):
            return self._plain(value)
        opening, closing = "{}" if isinstance(value, dict) else "[]"
        below = margin + self._indentation
        items = self._items(pointer, value, before, below)
        has_lines = bool(self._indentation)  # a line for each of its items
        if before and isinstance(before, dict | list):
            rest = self._text[self._starts[pointer] + 1 :]
            has_lines = rest.lstrip(" \t").startswith(("\n", "\r"))
        if has_lines:
            return opening + below + f",{below}".join(items) + margin + closing
        return opening + (", " if " " in self._colon else ",").join(items) + closing

    def _items(self, pointer: str, value: Any, before: Any, margin: str) -> Iterator[str]:
        if isinstance(value, dict):
            former_items = before if isinstance(before, dict) else {}
            for key, item in value.items():
                former = former_items.get(key, _ABSENT)
                written = self._value(child(pointer, key), item, former, margin)
                yield self._plain(key) + self._colon + written
            return
        former_list = before if isinstance(before, list) else []
        for index, item in enumerate(value):
            former = former_list[index] if index < len(former_list) else _ABSENT
            yield self._value(child(pointer, index), item, former, margin)

    def _plain(self, value: Any) -> str:
        written = json.dumps(value, ensure_ascii=self._ascii)
        return written.replace("/", "\\/") if self._slashes else written
