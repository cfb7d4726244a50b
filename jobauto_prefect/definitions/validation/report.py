"""The validation of definitions: every error at once, with its place (specification 2.1, 6)."""

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from jobauto_prefect.definitions.findings import Finding
from jobauto_prefect.definitions.model import Definition
from jobauto_prefect.definitions.parse import parse
from jobauto_prefect.definitions.storable import (
    DECISIVE,
    MAX_DEPTH,
    has_many_values,
    read_integer,
    too_many,
    unstorable,
    walk,
)
from jobauto_prefect.definitions.validation.lint import json_path_faults, lint_warnings
from jobauto_prefect.definitions.validation.messages import explain_error
from jobauto_prefect.definitions.validation.positions import Positions, locate
from jobauto_prefect.definitions.validation.schema import validator
from jobauto_prefect.errors import Fault, InvalidDefinition

MAX_BYTES = 1024 * 1024  # of the text; real definitions have less than 64 KiB
MOST_VALUES = 10_000  # real definitions have fewer than 1,000; judging one takes 25 µs each
MAX_FAULTS = 1000  # listed for one document


@dataclass(frozen=True, slots=True)
class Report:
    """Result of a validation.

    `warnings` are valid but certainly wrong. `document` is None if the text could not be parsed.
    Errors found in a text have line and column, and are in the order of the text.
    """

    faults: tuple[Fault, ...]
    warnings: tuple[Fault, ...] = ()
    document: Any = field(default=None, repr=False)

    @property
    def valid(self) -> bool:
        """Whether there is no error, whatever the warnings."""
        return not self.faults

    def definition(self) -> Definition:
        """Return the document as values. Raises `InvalidDefinition`, which carries every error."""
        if self.faults:
            raise InvalidDefinition(self.faults)
        return parse(self.document)

    def as_dict(self) -> dict[str, Any]:
        """Return the report as JSON: `valid`, `faults` and `warnings`."""
        return {
            "valid": self.valid,
            "faults": [fault.as_dict() for fault in self.faults],
            "warnings": [warning.as_dict() for warning in self.warnings],
        }


def validate(source: bytes | str) -> Report:
    """Validate the text of a definition: JSON in UTF-8, at most 1 MiB."""
    raw = source.encode("utf-8", "surrogatepass") if isinstance(source, str) else source
    try:
        text, document = _parse(raw)
    except InvalidDefinition as error:
        return Report(error.faults)
    return _validate_document(document, locate(text))


def read_keys(raw: bytes) -> dict[str, Any]:
    """Return the keys of a text that is a definition or a part of one, without validating them.

    Raises:
        InvalidDefinition: it is no JSON object that can be stored; it has every error.
    """
    text, document = _parse(raw)
    positions = locate(text)
    is_storable = not positions.repeated and not any(unstorable(document, MOST_VALUES))
    if isinstance(document, dict) and is_storable:
        return document
    raise InvalidDefinition(_validate_document(document, positions).faults)


def _parse(raw: bytes) -> tuple[str, Any]:
    if len(raw) > MAX_BYTES:
        raise _unreadable("size", f"is larger than {MAX_BYTES} bytes")
    if has_many_values(raw, MOST_VALUES):
        raise _unreadable("size", too_many(MOST_VALUES))
    try:
        text = raw.decode("utf-8-sig")
        return text, json.loads(text, parse_int=read_integer)
    except UnicodeDecodeError as error:
        before = error.object[: error.start].decode("utf-8")
        line = before.count("\n") + 1
        raise _unreadable(
            "encoding", "is not UTF-8 from here on", line, len(before) - before.rfind("\n")
        ) from None
    except json.JSONDecodeError as error:
        message = f"is not JSON: {error.msg[:1].lower()}{error.msg[1:]}"
        raise _unreadable("syntax", message, error.lineno, error.colno) from None
    except RecursionError:
        raise _unreadable("depth", f"is nested deeper than {MAX_DEPTH} levels") from None


def check(document: Any) -> Report:
    """Validate a parsed document; its errors have no line."""
    return _validate_document(document, None)


def _unreadable(
    rule: str, message: str, line: int | None = None, column: int | None = None
) -> InvalidDefinition:
    return InvalidDefinition([Fault("", rule, message, line, column)])


def _validate_document(document: Any, positions: Positions | None) -> Report:
    findings = list(unstorable(document, MOST_VALUES))
    if any(finding.rule in DECISIVE for finding in findings):
        return Report(tuple(Fault(each.pointer, each.rule, each.message) for each in findings))
    warnings = [] if findings else list(lint_warnings(document))
    for error in islice(validator().iter_errors(document), MAX_FAULTS):
        findings += explain_error(error)
    findings += json_path_faults(document)
    if positions is None:
        return Report(
            _in_document_order(findings, document), _in_document_order(warnings, document), document
        )
    findings += positions.repeated
    return Report(
        _with_positions(findings, positions), _with_positions(warnings, positions), document
    )


def _unique(findings: Iterable[Finding]) -> list[Finding]:
    """Remove repeated findings: jsonschema reports two missing keys twice."""
    return list(dict.fromkeys(findings))[:MAX_FAULTS]


def _with_positions(findings: Iterable[Finding], positions: Positions) -> tuple[Fault, ...]:
    offsets = [(positions.offset(each.pointer, each.member), each) for each in _unique(findings)]
    return tuple(
        Fault(each.pointer, each.rule, each.message, *positions.line_and_column(offset))
        for offset, each in sorted(offsets, key=lambda pair: pair[0])
    )


def _in_document_order(findings: Iterable[Finding], document: Any) -> tuple[Fault, ...]:
    """Sort findings in the order of the document, without line and column."""
    faults = [Fault(each.pointer, each.rule, each.message) for each in _unique(findings)]
    if len(faults) > 1:
        rank = {pointer: number for number, (pointer, _, _) in enumerate(walk(document))}
        faults.sort(key=lambda fault: rank.get(fault.pointer, 0))
    return tuple(faults)
