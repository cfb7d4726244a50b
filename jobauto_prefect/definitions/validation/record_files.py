"""The JSON Schemas of records in files, and the validation of such records."""

import json
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING, Any

from jobauto_prefect.definitions.formats import is_uuid
from jobauto_prefect.definitions.records.names import name_faults
from jobauto_prefect.definitions.storable import unstorable
from jobauto_prefect.definitions.validation.messages import explain_error
from jobauto_prefect.errors import Fault
from jobauto_prefect.kinds import FILE_KINDS

if TYPE_CHECKING:
    from jsonschema.protocols import Validator

RECORD_KINDS = tuple(item for item in FILE_KINDS if item != "app")
"""Values of the key `kind` in such a file."""


@cache
def record_schema(kind: str) -> dict[str, Any]:
    """Return the schema of one of `RECORD_KINDS`; do not change what is returned."""
    text = (
        resources.files("jobauto_prefect.definitions") / "schemas" / f"{kind}.schema.json"
    ).read_text("utf-8")
    content: dict[str, Any] = json.loads(text)
    return content


@cache
def record_validator(kind: str) -> "Validator":
    """Return the compiled schema of one of `RECORD_KINDS`."""
    from jsonschema import Draft7Validator, FormatChecker

    formats = FormatChecker(formats=())
    formats.checks("uuid")(lambda value: not isinstance(value, str) or is_uuid(value))
    return Draft7Validator(record_schema(kind), format_checker=formats)


def check_record(kind: str, document: Any) -> tuple[Fault, ...]:
    """Return all faults of a record of one of `RECORD_KINDS`, as written in its file."""
    findings = list(unstorable(document))
    if not findings:
        broken = record_validator(kind).iter_errors(document)
        findings = [finding for error in broken for finding in explain_error(error)]
    faults = (Fault(each.pointer, each.rule, each.message) for each in findings)
    # jsonschema reports each missing key, and each report lists them all.
    return tuple(dict.fromkeys((*faults, *name_faults(document))))
