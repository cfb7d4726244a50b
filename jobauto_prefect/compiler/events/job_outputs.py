"""The values a job has produced, read as `produces` of its definition says."""

import contextlib
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Any

from jobauto_prefect.compiler.events.selectors import (
    END_FIELDS,
    MISSING,
    Produced,
    SelectorScope,
    Unusable,
    follow_steps,
    search_json_path,
)
from jobauto_prefect.definitions import PatternMatcher, pattern_of, pick_text
from jobauto_prefect.definitions.findings import child
from jobauto_prefect.definitions.storable import is_storable, read_exact
from jobauto_prefect.definitions.validation.json_paths import read_json_path
from jobauto_prefect.errors import Fault

RESULT = "RESULT_FILE"
FORMAT = "json"
"""The format of an entry without one."""

URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://[^\s<>\"'`\x1b]+")
COLOUR = re.compile(r"\x1b\[[0-9;]*m")
AFTER_URLS = ".,;:!?)]}"
"""Characters at the end of a URL that belong to the sentence or bracket around it."""

IN_FILES = ("json", "file")
"""The formats whose values are in files."""

IN_OUTPUT = ("text", "url")
"""The formats whose values are in standard output."""


@dataclass(frozen=True, slots=True)
class JobOutputs:
    """What a job left: paths of artifacts and how to read them, RESULT_FILE, standard output.

    `names`: path -> the name the artifact was declared by. Bytes of `stdout` that are not UTF-8 are
    lone surrogates. `missing` says which part was not kept; then `stdout` begins with the first
    line after that.
    """

    paths: Sequence[str]
    read: Callable[[str], bytes]
    result_path: str | None
    stdout: str
    names: Mapping[str, str] = field(default_factory=dict)
    matcher: PatternMatcher = field(default_factory=PatternMatcher)
    missing: str = ""


NO_OUTPUTS = JobOutputs((), dict[str, bytes]().__getitem__, None, "")


@dataclass(frozen=True, slots=True)
class ProducedValues:
    """Products of a job: name -> value, of each entry and of each of its fields.

    An entry with fields is a `Produced`; missing ones are left out. `findings` are deviations from
    the definition; they contain no value.
    """

    values: Mapping[str, Any]
    findings: Sequence[Fault] = ()


def read_outputs(entries: Mapping[str, Any], outputs: JobOutputs) -> ProducedValues:
    """Return the values exactly as they were produced: `fields` name parts of them.

    If several entries have a field of the same name, the first entry's counts.
    """
    values: dict[str, Any] = {}
    fields: dict[str, Any] = {}
    findings: list[Fault] = []
    for name, entry in entries.items():
        try:
            value = READERS.get(entry.get("format") or FORMAT, _nothing)(entry, outputs)
        except ValueError as error:
            if entry.get("fields"):
                message = f"{name} was not produced: {error}"
                findings.append(Fault(child("/produces", name), "not-produced", message))
            continue
        if value is MISSING:
            continue
        parts = dict(_fields(name, entry, value, findings))
        fields = parts | fields
        values[name] = Produced(value, parts) if parts else value
    return ProducedValues(fields | values, findings)


def required_entries(entries: Mapping[str, Any], names: Collection[str] | None) -> dict[str, Any]:
    """Return the entries with these names, or with fields of these names.

    `names` None: all.
    """
    if names is None:
        return dict(entries)
    return {
        name: entry
        for name, entry in entries.items()
        if name in names or not (entry.get("fields") or {}).keys().isdisjoint(names)
    }


def selector_scope(document: Mapping[str, Any]) -> SelectorScope:
    """Return what event rules can select from the ends of an application's jobs."""
    entries: Mapping[str, Any] = document.get("produces") or {}
    fields = [name for entry in entries.values() for name in entry.get("fields") or {}]
    artifacts = document.get("artifacts") or ()
    declared = [
        name for artifact in artifacts for name in (pick_text(artifact["name"]), artifact["path"])
    ]
    patterns = [artifact["path"] for artifact in artifacts]
    patterns += [pattern for entry in entries.values() for pattern in entry.get("patterns") or ()]
    result = [RESULT] if RESULT in document["environment"] else []
    matcher = PatternMatcher()
    return SelectorScope(
        fields=[*END_FIELDS, *entries, *fields],
        closed=True,
        files=[*(name for name, entry in entries.items() if is_kept(entry)), *result, *declared],
        is_file=lambda name: any(_first_matching(matcher, pattern, [name]) for pattern in patterns),
    )


def is_kept(entry: Mapping[str, Any]) -> bool:
    """Whether the value of an entry of `produces` is a file."""
    return (entry.get("format") or FORMAT) in IN_FILES


def _fields(
    entry_name: str, entry: Mapping[str, Any], value: Any, findings: list[Fault]
) -> Iterator[tuple[str, Any]]:
    for name, declared in (entry.get("fields") or {}).items():
        pointer = child(child(child("/produces", entry_name), "fields"), name)
        try:
            path = declared.get("path")
            part = (
                follow_steps(value, [name])
                if path is None
                else search_json_path(value, read_json_path(path))
            )
        except ValueError as error:  # of a definition older than the check
            findings.append(Fault(child(pointer, "path"), "jsonpath", f"{name}: {error}"))
            continue
        if part is MISSING or part is None:
            where = declared.get("path") or name
            message = f"{name} was not produced: {where} finds nothing in {entry_name}"
            findings.append(Fault(pointer, "not-produced", message))
            continue
        if not _is_of(declared.get("type", ""), part):
            message = f"{name} of {entry_name} was not produced as {declared['type']}"
            findings.append(Fault(pointer, "type", message))
        yield name, part


def _is_of(kind: str, value: Any) -> bool:
    """Whether a value, or each element of a list, has a field's declared type."""
    if isinstance(value, list):
        return all(not isinstance(item, list) and _is_of(kind, item) for item in value)
    return kind not in TYPES or TYPES[kind](value)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


TYPES: Mapping[str, Callable[[Any], bool]] = {
    "string": lambda value: isinstance(value, str),
    "integer": lambda value: _is_number(value) and (isinstance(value, int) or value.is_integer()),
    "float": _is_number,
    "boolean": lambda value: isinstance(value, bool),
}
"""Type -> whether a JSON value has it."""


def is_written(entry: Mapping[str, Any]) -> bool:
    """Whether the value of an entry is in standard output."""
    return entry.get("format") in IN_OUTPUT


def find_file(name: str, entries: Mapping[str, Any], outputs: JobOutputs) -> str | None:
    """Return the artifact that a name means; None if there is none.

    It is the file of the entry of this name, else the first artifact declared by it, else the one
    with this path or file name.
    """
    entry = entries.get(name)
    if entry is not None and is_kept(entry):
        return file_of_entry(entry, outputs)
    if name == RESULT and outputs.result_path is not None:
        return outputs.result_path
    looks: tuple[Callable[[str], bool], ...] = (
        lambda path: outputs.names.get(path) == name,
        lambda path: path == name,
        lambda path: PurePosixPath(path).name == name,
    )
    return next((path for look in looks for path in outputs.paths if look(path)), None)


def file_of_entry(entry: Mapping[str, Any], outputs: JobOutputs) -> str | None:
    """Return the first artifact that a pattern matches; for JSON else RESULT_FILE; else None."""
    for pattern in entry.get("patterns") or ():
        matching = _first_matching(outputs.matcher, pattern, outputs.paths)
        if matching is not None:
            return matching
    return outputs.result_path if (entry.get("format") or FORMAT) == FORMAT else None


def _first_matching(matcher: PatternMatcher, pattern: str, paths: Sequence[str]) -> str | None:
    """Return the first match; None also if matching takes too long."""
    with contextlib.suppress(TimeoutError):
        return next(matcher.matching(pattern_of(pattern), paths), None)
    return None


def _content(entry: Mapping[str, Any], outputs: JobOutputs) -> bytes:
    path = file_of_entry(entry, outputs)
    if path is None:
        raise ValueError("it left no file")
    return outputs.read(path)


def _json(entry: Mapping[str, Any], outputs: JobOutputs) -> Any:
    content = _content(entry, outputs)
    try:
        return read_exact(content)
    except ValueError as error:
        raise ValueError(f"{file_of_entry(entry, outputs)} {error}") from None


def _text(_entry: Mapping[str, Any], outputs: JobOutputs) -> Any:
    if outputs.missing:
        return Unusable(f"not all of standard output was kept: {outputs.missing}")
    if not outputs.stdout:
        raise ValueError("nothing was written to standard output")
    return outputs.stdout.removesuffix("\n")


def _url(_entry: Mapping[str, Any], outputs: JobOutputs) -> Any:
    """Return the last line that is a URL, else the last URL in the output.

    A URL next to undecodable bytes may be truncated, so such a line is returned as a whole.
    """
    lines = COLOUR.sub("", outputs.stdout).split("\n")
    for line in reversed(lines):
        if URL.fullmatch(line.strip()):
            return line.strip()
    for line in reversed(lines):
        if urls := URL.findall(line):
            return urls[-1].rstrip(AFTER_URLS) if is_storable(line) else line
    if outputs.missing:
        return Unusable(f"not all of standard output was kept: {outputs.missing}")
    raise ValueError("no URL was written to standard output")


def _nothing(_entry: Mapping[str, Any], _left: JobOutputs) -> Any:
    return MISSING


READERS: Mapping[str, Callable[[Mapping[str, Any], JobOutputs], Any]] = {
    "json": _json,
    "text": _text,
    "url": _url,
    "file": lambda entry, outputs: _content(entry, outputs).decode(errors="surrogateescape"),
    "custom": _nothing,
}
"""`format` -> reader of its values."""
