"""Validates definitions and records in files, and reports the faults with their lines."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jobauto_prefect.cli.files.reader import read_content, unreadable_fault
from jobauto_prefect.cli.output.errors import format_faults
from jobauto_prefect.cli.output.terminal import STYLES, console, print_line
from jobauto_prefect.errors import Fault
from jobauto_prefect.facade.apply.documents import Document, check_document, read_documents
from jobauto_prefect.kinds import KINDS
from jobauto_prefect.wording import escape_controls, pluralize

if TYPE_CHECKING:
    from rich.console import Console

DEFINITION = "app"  # the kind of a document without one
WIDTH = 100  # characters shown of a faulty line
BEFORE = 60  # of these, at most this many before the fault


@dataclass(frozen=True, slots=True)
class Verdict:
    """The result for one file; `lines` are those of its text, `kinds` the kinds in it: `app` for a
    definition, otherwise the kind of a record.
    """

    file: str
    lines: Sequence[str]
    kinds: Sequence[str]
    faults: tuple[Fault, ...]
    warnings: tuple[Fault, ...] = ()

    def as_dict(self) -> dict[str, Any]:
        """Return the verdict as JSON, without the lines."""
        records = Counter(self.kinds)
        return {
            "file": self.file,
            "valid": not self.faults,
            "definitions": records.pop(DEFINITION, 0),
            "records": dict(records),
            "faults": [fault.as_dict() for fault in self.faults],
            "warnings": [fault.as_dict() for fault in self.warnings],
        }


def validate_file(path: Path) -> Verdict:
    """Validate one file: definitions as such, records by the schema of their kind."""
    try:
        raw = read_content(path)
    except OSError as error:
        return Verdict(str(path), (), (), (unreadable_fault(path, error),))
    documents, unread = read_documents(str(path), raw)
    kinds = [_kind_of(each) for each in documents]
    verdicts = [check_document(each, kind) for each, kind in zip(documents, kinds, strict=True)]
    return Verdict(
        file=str(path),
        lines=split_lines(raw),
        kinds=[kind for kind in kinds if kind is not None],
        # The reader and the validation both report duplicate keys.
        faults=tuple(
            dict.fromkeys([*unread, *(fault for each in verdicts for fault in each.faults)])
        ),
        warnings=tuple(fault for each in verdicts for fault in each.warnings),
    )


def _kind_of(document: Document) -> str | None:
    """Return the kind of a document, a definition if it has none.

    None if its kind does not exist.
    """
    says = isinstance(document.content, dict) and "kind" in document.content
    return document.kind or (None if says else DEFINITION)


def split_lines(raw: bytes) -> list[str]:
    """Return the lines of a text as errors number them."""
    return raw.decode("utf-8-sig", "replace").split("\n")


def print_verdicts(verdicts: Iterable[Verdict]) -> None:
    """Print every error and warning with its line, and their numbers."""
    verdicts = list(verdicts)
    for verdict in verdicts:
        print_faults(verdict.faults, "error", verdict.lines)
        print_faults(verdict.warnings, "warning", verdict.lines)
    faults = sum(len(verdict.faults) for verdict in verdicts)
    warnings = sum(len(verdict.warnings) for verdict in verdicts)
    kinds = Counter(kind for verdict in verdicts for kind in verdict.kinds)
    print_line(
        f"{_count_kinds(kinds)} in {_counted(len(verdicts), 'file')}: "
        f"{_counted(faults, 'error')}, {_counted(warnings, 'warning')}"
    )


def _count_kinds(kinds: Counter[str]) -> str:
    """Count: `1 definition`, `no definitions and 3 records (company: 1, run template: 2)`."""
    definitions = _counted(kinds.pop(DEFINITION, 0), "definition")
    records = {KINDS[kind].noun: number for kind, number in sorted(kinds.items())}
    if not records:
        return definitions
    counts = ", ".join(f"{noun}: {number}" for noun, number in records.items())
    return f"{definitions} and {_counted(sum(records.values()), 'record')} ({counts})"


def print_faults(
    faults: Iterable[Fault], level: str, lines: Sequence[str], out: "Console | None" = None
) -> None:
    """Print errors, each followed by its line; on standard output unless `out` is given."""
    out = out or console()
    for fault in faults:
        (line,) = format_faults([fault])
        place, _, message = line.strip().partition(": ")
        text = escape_controls(f"{place}: {level}: {message}")
        out.print(text, style=STYLES[level], markup=False, soft_wrap=True)
        for shown in excerpt(fault, lines):
            out.print(shown, style="dim", markup=False, soft_wrap=True)


def excerpt(fault: Fault, lines: Sequence[str]) -> Iterator[str]:
    """Yield an error's line and a mark under its column; nothing if it has no place."""
    from rich.cells import cell_len

    if fault.line is None or fault.line > len(lines):
        return
    line, column = lines[fault.line - 1].replace("\t", " "), (fault.column or 1) - 1
    begin = max(0, column - BEFORE) if len(line) > WIDTH else 0
    before, after = line[begin:column], line[column : begin + WIDTH]
    margin = f"{fault.line:>6} │ "
    yield margin + escape_controls(before + after).rstrip()
    yield " " * 6 + " │ " + " " * cell_len(escape_controls(before)) + "^"


def _counted(number: int, noun: str) -> str:
    return pluralize(number, noun, zero="no")
