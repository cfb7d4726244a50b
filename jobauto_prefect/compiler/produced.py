"""What a job has produced, as its definition's `produces` says where to find it."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import regex  # type: ignore[import-untyped] # unlike re it has a timeout

from jobauto_prefect.compiler.selectors import MISSING, Path, read_selector, walk
from jobauto_prefect.definitions import pattern_of

MATCH_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class Remains:
    """What a job left: the paths of its artifacts, how to read one, that of RESULT_FILE, and what
    it wrote to standard output.
    """

    paths: Sequence[str]
    read: Callable[[str], bytes]
    result_path: str | None
    stdout: str


def produced(entries: Mapping[str, Any], left: Remains) -> dict[str, Any]:
    """Name -> value, of each entry and of each of its fields; what is not there is left out.

    Where entries have fields of one name, the first entry's counts.
    """
    values: dict[str, Any] = {}
    fields: dict[str, Any] = {}
    for name, entry in entries.items():
        value = READERS.get(entry.get("format") or "json", _nothing)(entry, left)
        if value is MISSING:
            continue
        found = dict(_fields(entry, value))
        fields = found | fields
        values[name] = value | found if isinstance(value, dict) else value
    return fields | values


def names_of(entries: Mapping[str, Any]) -> list[str]:
    """What `produced` may name."""
    fields = [name for entry in entries.values() for name in entry.get("fields") or {}]
    return [*entries, *fields]


def _fields(entry: Mapping[str, Any], value: Any) -> Iterator[tuple[str, Any]]:
    for name, said in (entry.get("fields") or {}).items():
        try:
            path = read_selector(said.get("path") or f"$.{name}")
        except ValueError:
            continue
        found = walk(value, path.steps) if isinstance(path, Path) else MISSING
        if found is not MISSING and found is not None:
            yield name, _typed(found, said.get("type"))


def _typed(value: Any, kind: str | None) -> Any:
    """As the field's type; a value that is none of it stays what it is."""
    try:
        return TYPES[kind or ""](value)
    except (KeyError, TypeError, ValueError):
        return value


TYPES: Mapping[str, Callable[[Any], Any]] = {
    "string": lambda value: value if isinstance(value, str) else json.dumps(value),
    "integer": int,
    "float": float,
    "boolean": lambda value: value if isinstance(value, bool) else str(value).lower() == "true",
}


def _file(entry: Mapping[str, Any], left: Remains) -> Any:
    """The content of the first artifact that a pattern matches, as text."""
    for pattern in entry.get("patterns") or ():
        matching = regex.compile(pattern_of(pattern))
        for path in left.paths:
            try:
                if matching.fullmatch(path, timeout=MATCH_SECONDS):
                    return left.read(path).decode(errors="replace")
            except TimeoutError:
                break
    return MISSING


def _json(entry: Mapping[str, Any], left: Remains) -> Any:
    text = _file(entry, left)
    if text is MISSING and left.result_path is not None:
        text = left.read(left.result_path).decode(errors="replace")
    try:
        return MISSING if text is MISSING else json.loads(text)
    except ValueError:
        return MISSING


def _text(_entry: Mapping[str, Any], left: Remains) -> Any:
    return left.stdout.strip() or MISSING


def _nothing(_entry: Mapping[str, Any], _left: Remains) -> Any:
    return MISSING


READERS: Mapping[str, Callable[[Mapping[str, Any], Remains], Any]] = {
    "json": _json,
    "text": _text,
    "url": _text,
    "file": _file,
    "custom": _nothing,
}
"""By `format`."""
