"""What a job has produced, as its definition's `produces` says where to find it."""

import json
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Any

import regex  # type: ignore[import-untyped] # unlike re it has a timeout

from jobauto_prefect.compiler.selectors import END_FIELDS, MISSING, Offer, Path, read_selector, walk
from jobauto_prefect.definitions import pattern_of, text

MATCH_SECONDS = 1.0

RESULT = "RESULT_FILE"
FORMAT = "json"
"""Of an entry that says none."""

IN_FILES = ("json", "file")
"""The formats whose values are in files."""

IN_OUTPUT = ("text", "url")
"""Those whose values are what a job writes to standard output."""


@dataclass(frozen=True, slots=True)
class Remains:
    """What a job left: the paths of its artifacts, how to read one, that of RESULT_FILE, and what
    it wrote to standard output. `names`: path -> the name the artifact was declared by.
    """

    paths: Sequence[str]
    read: Callable[[str], bytes]
    result_path: str | None
    stdout: str
    names: Mapping[str, str] = field(default_factory=dict)


def produced(entries: Mapping[str, Any], left: Remains) -> dict[str, Any]:
    """Name -> value, of each entry and of each of its fields; what is not there is left out.

    Where entries have fields of one name, the first entry's counts.
    """
    values: dict[str, Any] = {}
    fields: dict[str, Any] = {}
    for name, entry in entries.items():
        value = READERS.get(entry.get("format") or FORMAT, _nothing)(entry, left)
        if value is MISSING:
            continue
        found = dict(_fields(entry, value))
        fields = found | fields
        values[name] = value | found if isinstance(value, dict) else value
    return fields | values


def needed(entries: Mapping[str, Any], names: Collection[str]) -> dict[str, Any]:
    """The entries that names stand for, by their own or by that of one of their fields."""
    return {
        name: entry
        for name, entry in entries.items()
        if name in names or not (entry.get("fields") or {}).keys().isdisjoint(names)
    }


def offer_of(document: Mapping[str, Any]) -> Offer:
    """What rules can name of the ends of an application's jobs."""
    entries: Mapping[str, Any] = document.get("produces") or {}
    fields = [name for entry in entries.values() for name in entry.get("fields") or {}]
    artifacts = document.get("artifacts") or ()
    declared = [name for one in artifacts for name in (text(one["name"]), one["path"])]
    patterns = [one["path"] for one in artifacts]
    patterns += [one for entry in entries.values() for one in entry.get("patterns") or ()]
    result = [RESULT] if RESULT in document["environment"] else []
    return Offer(
        fields=[*END_FIELDS, *entries, *fields],
        closed=True,
        files=[*(name for name, entry in entries.items() if is_kept(entry)), *result, *declared],
        is_file=lambda name: any(list(_matching(one, [name])) for one in patterns),
    )


def is_kept(entry: Mapping[str, Any]) -> bool:
    """Whether the value of an entry of `produces` is a file that the job leaves."""
    return (entry.get("format") or FORMAT) in IN_FILES


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


def is_written(entry: Mapping[str, Any]) -> bool:
    """Whether the value of an entry is what the job writes."""
    return entry.get("format") in IN_OUTPUT


def find_file(name: str, entries: Mapping[str, Any], left: Remains) -> str | None:
    """The artifact of that name: what an entry's value is in, else the first that was declared by
    this name, else the one of this path or file name.
    """
    entry = entries.get(name)
    if entry is not None and is_kept(entry):
        return _path(entry, left)
    if name == RESULT and left.result_path is not None:
        return left.result_path
    looks: tuple[Callable[[str], bool], ...] = (
        lambda path: left.names.get(path) == name,
        lambda path: path == name,
        lambda path: PurePosixPath(path).name == name,
    )
    return next((path for look in looks for path in left.paths if look(path)), None)


def _path(entry: Mapping[str, Any], left: Remains) -> str | None:
    """The first artifact that a pattern matches; of JSON else RESULT_FILE."""
    for pattern in entry.get("patterns") or ():
        matching = next(_matching(pattern, left.paths), None)
        if matching is not None:
            return matching
    return left.result_path if (entry.get("format") or FORMAT) == FORMAT else None


def _matching(pattern: str, paths: Sequence[str]) -> Iterator[str]:
    expression = regex.compile(pattern_of(pattern))
    for path in paths:
        try:
            if expression.fullmatch(path, timeout=MATCH_SECONDS):
                yield path
        except TimeoutError:
            return


def _file(entry: Mapping[str, Any], left: Remains) -> Any:
    """The content of an entry's file, as text."""
    path = _path(entry, left)
    return MISSING if path is None else left.read(path).decode(errors="replace")


def _json(entry: Mapping[str, Any], left: Remains) -> Any:
    text = _file(entry, left)
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
