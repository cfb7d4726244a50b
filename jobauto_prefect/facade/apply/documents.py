"""Parsing files of records: JSON or YAML, with one or several records each."""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jobauto_prefect.definitions import check, validate
from jobauto_prefect.definitions.legacy.credential_types import (
    Older,
    is_legacy_type,
    legacy_kind,
    upgrade_type,
)
from jobauto_prefect.definitions.records.names import name_faults
from jobauto_prefect.definitions.storable import has_many_values
from jobauto_prefect.definitions.validation.positions import locate
from jobauto_prefect.definitions.validation.record_files import RECORD_KINDS, check_record
from jobauto_prefect.errors import Fault

if TYPE_CHECKING:  # YAML support is loaded when needed
    from jobauto_prefect.facade.apply.yaml_parser import Allowance

STANDARD_INPUT = "-"
"""The name of standard input as a file."""

Place = Callable[[str], tuple[int, int] | None]
"""JSON pointer in the file -> line and column, both from 1; None: unknown."""


@dataclass(frozen=True, slots=True)
class Document:
    """One record of a file.

    `prefix` is the pointer of the record in its file; `raw` are the bytes of the file if it is JSON
    and has no other record. `labels` replace the record's own; None: they do not. `notes` are
    warnings about what was left out on reading. `older` is what the file of a credential type of
    the reference service describes; None: it is no such file.
    """

    file: str
    content: Any = field(repr=False)
    place: Place = field(repr=False)
    prefix: str = ""
    raw: bytes | None = field(default=None, repr=False)
    labels: tuple[str, ...] | None = None
    notes: tuple[Fault, ...] = ()
    older: Older | None = None

    @property
    def kind(self) -> str | None:
        """`app` or one of `RECORD_KINDS`; None: neither."""
        if not isinstance(self.content, dict):
            return None
        kind = self.content.get("kind")
        if isinstance(kind, str) and kind in RECORD_KINDS:
            return kind
        return "app" if "executable" in self.content else None

    @property
    def is_definition(self) -> bool:
        """Whether it is an application's definition: `validate` reports its repeated names."""
        return self.kind is not None and self.kind not in RECORD_KINDS

    def locate_fault(self, fault: Fault) -> Fault:
        """Return an error of this record with its file, line and column."""
        if fault.line is not None:
            return replace(fault, file=self.file)
        line, column = self._nearest(self.prefix + fault.pointer) or (None, None)
        return replace(fault, file=self.file, line=line, column=column)

    def _nearest(self, pointer: str) -> tuple[int, int] | None:
        """Return the place of a value, or of its nearest existing parent if it is missing.

        None: not even the whole record has a place.
        """
        position = self.place(pointer)
        while position is None and pointer:
            pointer = pointer.rpartition("/")[0]
            position = self.place(pointer)
        return position


@dataclass(slots=True)
class CheckedDocument:
    """A record with its errors and warnings."""

    document: Document
    faults: tuple[Fault, ...]
    warnings: tuple[Fault, ...] = ()


def check_document(document: Document, kind: str | None) -> CheckedDocument:
    """Check a record as one of that kind."""
    if kind is None:
        *names, last = sorted(RECORD_KINDS)
        known_kinds = f"kind: {', '.join(names)} or {last}"
        fault = Fault(
            "",
            "kind",
            f"is no record: an application has the key executable, others have {known_kinds}",
        )
        return CheckedDocument(document, (document.locate_fault(fault),))
    if kind in RECORD_KINDS:
        faults = check_record(kind, document.content)
        placed = tuple(map(document.locate_fault, faults))
        return CheckedDocument(document, placed, tuple(map(document.locate_fault, document.notes)))
    report = check(document.content) if document.raw is None else validate(document.raw)
    return CheckedDocument(
        document,
        tuple(map(document.locate_fault, (*report.faults, *name_faults(document.content)))),
        tuple(map(document.locate_fault, report.warnings)),
    )


def read_documents(
    name: str, raw: bytes, allowance: "Allowance | None" = None
) -> tuple[list[Document], list[Fault]]:
    """Return the records in a file's content, or why it can't be read.

    `allowance` is what may still be read; None: there is only this file.
    """
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError:
        return [], _unread(name, raw)
    documents, faults = (
        _read_yaml(name, text, allowance)
        if is_yaml(name, text)
        else _read_json(name, text, raw, allowance)
    )
    return [_upgraded(each) for each in documents], faults


def _upgraded(document: Document) -> Document:
    """Convert a credential type in an older format; return others unchanged."""
    if not is_legacy_type(document.content):
        return document
    content, notes = upgrade_type(document.content)
    older = legacy_kind(document.content)
    return replace(document, content=content, raw=None, notes=tuple(notes), older=older)


def drop_twins(documents: Sequence[Document]) -> list[Document]:
    """Drop all but one of the older files that describe the same credential type, by its UUID.

    The reference service keeps a type and the prototype it was made from in a file each. The type's
    own file counts, else the first one; notes name those that are left out.
    """
    twins: dict[str, list[Document]] = {}
    for document in documents:
        uuid = document.content.get("uuid") if document.older else None
        if isinstance(uuid, str):
            twins.setdefault(uuid.lower(), []).append(document)
    kept = {id(document): document for document in documents}
    for group in twins.values():
        chosen = min(group, key=lambda document: document.older != "type")
        others = [document for document in group if document is not chosen]
        notes = [*chosen.notes]
        for other in others:
            del kept[id(other)]
            message = f"{other.file} describes the same type and is left out"
            notes.append(Fault("/uuid", "twin", message))
        kept[id(chosen)] = replace(chosen, notes=tuple(notes))
    return list(kept.values())


def _unread(name: str, raw: bytes) -> list[Fault]:
    return [replace(fault, file=name) for fault in validate(raw).faults]


def is_yaml(name: str, text: str) -> bool:
    """Whether a file is YAML: by its name's suffix, else by how its text begins."""
    suffix = Path(name).suffix
    if suffix in (".yaml", ".yml", ".json"):
        return suffix != ".json"
    return not text.lstrip().startswith(("{", "["))


def _read_json(
    name: str, text: str, raw: bytes, allowance: "Allowance | None"
) -> tuple[list[Document], list[Fault]]:
    if allowance is not None and has_many_values(raw, allowance.values):
        message = (
            "has too many values together with the JSON before it; apply the files in several parts"
        )
        return [], [Fault("", "size", message, file=name)]
    try:
        content = json.loads(text)
    except (ValueError, RecursionError):
        return [], _unread(name, raw)
    if content is None:  # as in YAML, this is no record
        return [], []
    positions = locate(text)
    if allowance is not None:
        allowance.values -= len(positions.values)

    def place(pointer: str) -> tuple[int, int] | None:
        offset = positions.values.get(pointer)
        return None if offset is None else positions.line_and_column(offset)

    repeated = [
        Fault(
            each.pointer,
            each.rule,
            each.message,
            *positions.line_and_column(positions.offset(each.pointer, each.member)),
            name,
        )
        for each in positions.repeated
    ]
    if not isinstance(content, list):
        whole = Document(name, content, place, raw=raw)
        return [whole], [] if whole.is_definition else repeated
    return _each(name, content, place), repeated


def _read_yaml(
    name: str, text: str, allowance: "Allowance | None"
) -> tuple[list[Document], list[Fault]]:
    from jobauto_prefect.facade.apply.yaml_parser import YamlError, load_all

    documents: list[Document] = []
    try:
        for content, places in load_all(text, allowance):
            if isinstance(content, list):
                documents += _each(name, content, places.get)
            elif content is not None:
                documents.append(Document(name, content, places.get))
    except YamlError as fault:
        return [], [Fault("", "syntax", str(fault), fault.line, fault.column, name)]
    return documents, []


def _each(name: str, items: list[Any], place: Place) -> list[Document]:
    return [Document(name, item, place, f"/{number}") for number, item in enumerate(items)]
