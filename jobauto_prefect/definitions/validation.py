"""Judging documents: every fault at once, each with its place (specification 2.1 and 6)."""

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from jobauto_prefect.definitions.findings import Finding
from jobauto_prefect.definitions.limits import (
    DECISIVE,
    MAX_BYTES,
    MAX_DEPTH,
    beyond_limits,
    read_integer,
    walk,
)
from jobauto_prefect.definitions.messages import findings
from jobauto_prefect.definitions.model import Definition
from jobauto_prefect.definitions.oddities import json_path_faults, oddities
from jobauto_prefect.definitions.parse import parse
from jobauto_prefect.definitions.positions import Positions, locate
from jobauto_prefect.definitions.schema import validator
from jobauto_prefect.errors import Fault, InvalidDefinition

MAX_FAULTS = 1000  # listed for one document


@dataclass(frozen=True, slots=True)
class Report:
    """What was found in a document.

    `warnings` are legal but surely wrong. `document` is None where the text could not be read.
    Faults found in a text have line and column, and are in the order of the text.
    """

    faults: tuple[Fault, ...]
    warnings: tuple[Fault, ...] = ()
    document: Any = field(default=None, repr=False)

    @property
    def valid(self) -> bool:
        """True where there is no fault, whatever the warnings."""
        return not self.faults

    def definition(self) -> Definition:
        """The document as values. Raises `InvalidDefinition`, which carries every fault."""
        if self.faults:
            raise InvalidDefinition(self.faults)
        return parse(self.document)

    def as_dict(self) -> dict[str, Any]:
        """For JSON: `valid`, `faults` and `warnings`."""
        return {
            "valid": self.valid,
            "faults": [fault.as_dict() for fault in self.faults],
            "warnings": [warning.as_dict() for warning in self.warnings],
        }


def validate(source: bytes | str) -> Report:
    """Judge the text of a definition: JSON in UTF-8, at most 1 MiB."""
    raw = source.encode("utf-8", "surrogatepass") if isinstance(source, str) else source
    if len(raw) > MAX_BYTES:
        return _unread("size", f"is larger than {MAX_BYTES} bytes")
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        return _not_utf8(error)
    try:
        document = json.loads(text, parse_int=read_integer)
    except json.JSONDecodeError as error:
        message = f"is not JSON: {error.msg[:1].lower()}{error.msg[1:]}"
        return _unread("syntax", message, error.lineno, error.colno)
    except RecursionError:
        return _unread("depth", f"is nested deeper than {MAX_DEPTH} levels")
    return _judge(document, locate(text))


def check(document: Any) -> Report:
    """Judge a document that has been read already; faults have no line then."""
    return _judge(document, None)


def _unread(rule: str, message: str, line: int | None = None, column: int | None = None) -> Report:
    return Report(faults=(Fault("", rule, message, line, column),))


def _not_utf8(error: UnicodeDecodeError) -> Report:
    before = error.object[: error.start].decode("utf-8")
    line = before.count("\n") + 1
    return _unread("encoding", "is not UTF-8 from here on", line, len(before) - before.rfind("\n"))


def _judge(document: Any, positions: Positions | None) -> Report:
    found = list(beyond_limits(document))
    if any(finding.rule in DECISIVE for finding in found):
        return Report(tuple(Fault(each.pointer, each.rule, each.message) for each in found))
    warnings = [] if found else list(oddities(document))
    found += _broken_rules(document)
    if positions is None:
        return Report(_ranked(found, document), _ranked(warnings, document), document)
    found += positions.repeated
    return Report(_placed(found, positions), _placed(warnings, positions), document)


def _broken_rules(document: Any) -> Iterator[Finding]:
    for error in islice(validator().iter_errors(document), MAX_FAULTS):
        yield from findings(error)
    yield from json_path_faults(document)


def _different(found: Iterable[Finding]) -> list[Finding]:
    """Without repetition: jsonschema tells of two missing members twice."""
    return list(dict.fromkeys(found))[:MAX_FAULTS]


def _placed(found: Iterable[Finding], positions: Positions) -> tuple[Fault, ...]:
    offsets = [(positions.offset(each.pointer, each.member), each) for each in _different(found)]
    return tuple(
        Fault(each.pointer, each.rule, each.message, *positions.line_and_column(offset))
        for offset, each in sorted(offsets, key=lambda pair: pair[0])
    )


def _ranked(found: Iterable[Finding], document: Any) -> tuple[Fault, ...]:
    """In the order of the document, without line and column."""
    faults = [Fault(each.pointer, each.rule, each.message) for each in _different(found)]
    if len(faults) > 1:
        rank = {pointer: number for number, (pointer, _, _) in enumerate(walk(document))}
        faults.sort(key=lambda fault: rank.get(fault.pointer, 0))
    return tuple(faults)
