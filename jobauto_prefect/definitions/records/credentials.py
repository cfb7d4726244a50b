"""The fields of a credential type, and their requirements for credentials' values.

A field is an entry of `fields` in a credential type's document: `keyword`, `type`, `required`,
`default_value`, `options` and texts for people.
"""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from jobauto_prefect.definitions.model import Variable, VariableType
from jobauto_prefect.definitions.storable import UNFIT, is_storable
from jobauto_prefect.definitions.values import coerce, fits, to_text
from jobauto_prefect.errors import Fault

SECRET_TYPES = frozenset({"password", "secret"})
"""Types whose values are stored encrypted."""

Field = Mapping[str, Any]
Fields = Sequence[Field]


def is_secret(field: Field) -> bool:
    """Whether the values of a field are stored encrypted."""
    return field.get("type") in SECRET_TYPES


def secret_keywords(fields: Fields) -> frozenset[str]:
    return frozenset(field["keyword"] for field in fields if is_secret(field))


ADDRESS_WORDS = frozenset(
    {
        "ADDRESS", "CONNECTION", "DATABASE", "DOMAIN", "DSN", "ENDPOINT", "HOST", "HOSTNAME",
        "LOCATION", "OPTIONS", "PORT", "PROXY", "SERVER", "SITE", "SSL", "TENANT", "TLS", "URI",
        "URL",
    }
)  # fmt: skip
"""Words in keywords that say where the secrets of a credential are sent, and how safely."""

ADDRESS_ENDS = ("HOST", "URL", "URI", "SERVER", "ENDPOINT", "DSN")
"""Endings of such words within compounds, as in DBHOST."""


def is_address(field: Field) -> bool:
    """Whether a field is an address secrets are sent to: by its type, or a word of its keyword."""
    words = re.split(r"[^A-Z]+", field["keyword"].upper())
    named = (word in ADDRESS_WORDS or word.endswith(ADDRESS_ENDS) for word in words)
    return field.get("type") == "url" or any(named)


def addresses(fields: Fields, given: Mapping[str, str]) -> dict[str, str]:
    """Return keyword -> the value of each field that is an address and has one."""
    values = {**field_defaults(fields), **given}
    keywords = (field["keyword"] for field in fields if is_address(field))
    return {keyword: values[keyword] for keyword in keywords if values.get(keyword)}


def field_defaults(fields: Fields) -> dict[str, str]:
    """Return keyword -> default for fields to which a credential gives no value."""
    return {
        field["keyword"]: to_text(field["default_value"])
        for field in fields
        if field.get("default_value") not in (None, "")
    }


def provided_variables(fields: Fields, given: Collection[str]) -> frozenset[str]:
    """Return the variables a credential gives to jobs; `given` are its keywords with values."""
    keywords = {field["keyword"] for field in fields}
    return frozenset(keywords & {*given, *field_defaults(fields)})


def value_faults(fields: Fields, given: Mapping[str, Any]) -> Iterator[Fault]:
    """Yield faults of the values given for fields; None removes a value and is always valid."""
    by_keyword = {field["keyword"]: field for field in fields}
    keywords = ", ".join(by_keyword) or "none"
    for name, value in given.items():
        at = f"/values/{name}"
        if name not in by_keyword:
            message = f"the credential type has no field {name}; there are {keywords}"
            yield Fault(at, "unknown", message)
        elif value is not None:
            yield from _faults_of(by_keyword[name], at, to_text(value))


def _faults_of(field: Field, at: str, text: str) -> Iterator[Fault]:
    """Yield a field's errors, which never quote the value: it may be secret."""
    name, options = field["keyword"], field.get("options")
    # An object maps the values to choose from to labels.
    choices = [to_text(each) for each in options] if isinstance(options, list | Mapping) else []
    type_ = "password" if is_secret(field) else field.get("type", "string")
    variable = Variable(key=name, type=VariableType(type_))
    if not is_storable(text):
        yield Fault(at, "value", f"{name} {UNFIT}")
    elif not text:
        return
    elif choices and text not in choices:
        yield Fault(at, "enum", f"{name} must be one of {', '.join(choices)}")
    elif not fits(variable, coerce(variable, text)):
        yield Fault(at, "type", f"{name} must be of type {field.get('type', 'string')}")


def missing_fields(fields: Fields, given: Collection[str]) -> list[Field]:
    """Return required fields without a value; `given` are the keywords with values."""
    filled = {*given, *field_defaults(fields)}
    return [field for field in fields if field.get("required") and field["keyword"] not in filled]
