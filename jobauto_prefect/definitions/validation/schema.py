"""The JSON Schema of application definitions, and its validator."""

import json
import re
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING, Any

from jobauto_prefect.definitions.formats import is_uri, is_uuid

if TYPE_CHECKING:
    from jsonschema.protocols import Validator

FILE = "application.schema.json"


@cache
def schema() -> dict[str, Any]:
    """Return the schema; do not change it."""
    text = (resources.files("jobauto_prefect.definitions") / "schemas" / FILE).read_text("utf-8")
    content: dict[str, Any] = json.loads(text)
    return content


SCHEMA_VERSION: str = schema()["version"]
"""The version in the schema."""


@cache
def validator() -> "Validator":
    """Return the compiled schema, made at first use: importing jsonschema takes 0.1 s."""
    from jsonschema import Draft7Validator, FormatChecker

    formats = FormatChecker(formats=())
    formats.checks("uri")(lambda value: not isinstance(value, str) or is_uri(value))
    formats.checks("uuid")(lambda value: not isinstance(value, str) or is_uuid(value))
    return Draft7Validator(schema(), format_checker=formats)


def version_numbers(version: str) -> tuple[int, ...] | None:
    """Return `3.4.0` as comparable numbers, without trailing zeros; None for other texts."""
    if not re.fullmatch(r"[0-9]{1,9}(?:\.[0-9]{1,9}){0,9}", version):
        return None
    numbers = [int(part) for part in version.split(".")]
    while numbers and numbers[-1] == 0:
        numbers.pop()
    return tuple(numbers)
