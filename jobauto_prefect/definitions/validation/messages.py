"""The messages for broken rules of the schema.

They replace those of jsonschema, which quote the value: it may be long or a secret.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from jobauto_prefect.definitions.findings import Finding, did_you_mean, join, quote
from jobauto_prefect.wording import pluralize

if TYPE_CHECKING:
    from jsonschema.exceptions import ValidationError

TYPES = {
    "string": "text",
    "object": "an object",
    "array": "an array",
    "integer": "a whole number",
    "number": "a number",
    "boolean": "true or false",
    "null": "null",
}

KINDS: Mapping[type, str] = {
    type(None): "null",
    bool: "true or false",
    str: "text",
    int: "a number",
    float: "a number",
    list: "an array",
    dict: "an object",
}


@dataclass(frozen=True, slots=True)
class BrokenRule:
    """One rule and the value that breaks it; `wanted` is the rule's value in the schema."""

    rule: str
    wanted: Any
    value: Any
    schema: Mapping[str, Any]


def explain_error(error: "ValidationError") -> Iterator[Finding]:
    """Explain an error of jsonschema: a finding for each key that is missing or unknown."""
    pointer = join(error.absolute_path)
    schema = cast("Mapping[str, Any]", error.schema)
    broken = BrokenRule(str(error.validator), error.validator_value, error.instance, schema)
    if broken.rule == "required":
        for name in broken.wanted:
            if name not in broken.value:
                yield Finding(pointer, broken.rule, f"the key {quote(name)} is missing")
    elif broken.rule == "additionalProperties":
        for name in broken.value:
            if name not in schema["properties"]:
                yield Finding(pointer, broken.rule, _unknown_member(str(name), schema), str(name))
    elif "propertyNames" in error.absolute_schema_path:
        wanted = _lower_first(schema["description"])
        message = f"the key {quote(broken.value)} has other characters than {wanted}"
        yield Finding(pointer, broken.rule, message, broken.value)
    else:
        yield Finding(pointer, broken.rule, SENTENCES[broken.rule](broken))


LEGACY_NAMES: Mapping[str, str] = {
    "exitcodes": "exitCodes",
    "returnCodes": "exitCodes",
    "cmdparams": "cmdparamsTemplate",
    "topics": "tags",
}
"""Keys of older definitions -> their current names."""

FORMER_NAMES: Mapping[str, str] = {"listens": "consumes"}
"""Keys of older formats whose content may need manual changes -> their current names."""


def _unknown_member(name: str, schema: Mapping[str, Any]) -> str:
    names = list(schema["properties"])
    if schema.get("title") == "Text":
        return f"{quote(name)} is not a language code of the format"
    if FORMER_NAMES.get(name) in names:
        hint = f"; it is called {FORMER_NAMES[name]!r} now"
    else:
        hint = did_you_mean(name, names) or f"; there are {', '.join(names)}"
    return f"the key {quote(name)} is not allowed here{hint}"


def _lower_first(sentence: str) -> str:
    return sentence[:1].lower() + sentence[1:].rstrip(".")


def _type(broken: BrokenRule) -> str:
    names = [broken.wanted] if isinstance(broken.wanted, str) else broken.wanted
    kind = KINDS.get(type(broken.value), "something else")
    return f"must be {' or '.join(TYPES[name] for name in names)}, not {kind}"


def _enum(broken: BrokenRule) -> str:
    choices = ", ".join(broken.wanted)
    if not isinstance(broken.value, str):
        return f"must be one of {choices}"
    return (
        f"{quote(broken.value)} is not one of {choices}{did_you_mean(broken.value, broken.wanted)}"
    )


def _pattern(broken: BrokenRule) -> str:
    if broken.value == "":
        return "must not be empty; leave the key out instead"
    return f"does not have the required form: {_lower_first(broken.schema['description'])}"


FORMATS = {
    "uri": "must be a URI with a scheme, such as https://example.org/",
    "uuid": "must be a UUID: hexadecimal digits in groups of 8-4-4-4-12",
}


SENTENCES: Mapping[str, Callable[[BrokenRule], str]] = {
    "type": _type,
    "enum": _enum,
    "pattern": _pattern,
    "oneOf": _pattern,
    "format": lambda broken: FORMATS[broken.wanted],
    "minProperties": lambda broken: f"must have at least {pluralize(broken.wanted, 'key')}",
    "minItems": lambda broken: f"must have at least {pluralize(broken.wanted, 'item')}",
    "minimum": lambda broken: f"must be at least {broken.wanted}",
    "exclusiveMinimum": lambda broken: f"must be more than {broken.wanted}",
    "maximum": lambda broken: f"must be at most {broken.wanted}",
    "maxItems": lambda broken: f"must have at most {pluralize(broken.wanted, 'item')}",
    "uniqueItems": lambda _: "must not contain an item twice",
    "minLength": lambda broken: f"must have at least {pluralize(broken.wanted, 'character')}",
    "maxLength": lambda broken: f"must have at most {pluralize(broken.wanted, 'character')}",
}
"""The message of each rule that `explain_error` does not handle itself."""
