"""Lint: valid but suspicious parts of a definition, and errors the schema can't express.

Invalid documents are checked, too, so nothing here relies on the shape of a document.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from jobauto_prefect.definitions.findings import Finding, child, did_you_mean, quote
from jobauto_prefect.definitions.model import Variable, VariableType
from jobauto_prefect.definitions.parse import options
from jobauto_prefect.definitions.placeholders import LEGACY_PLACEHOLDER, has_value, placeholders
from jobauto_prefect.definitions.validation.json_paths import read_json_path
from jobauto_prefect.definitions.validation.messages import LEGACY_NAMES
from jobauto_prefect.definitions.validation.schema import SCHEMA_VERSION, schema, version_numbers
from jobauto_prefect.definitions.values import coerce, fits, to_text

LARGEST_EXIT_CODE = 255


def lint_warnings(document: Any) -> Iterator[Finding]:
    """Yield every warning about a document."""
    if isinstance(document, Mapping):
        for look in CHECKS:
            yield from look(document)


def _entries(pointer: str, value: Any) -> Iterator[tuple[str, str, Mapping[str, Any]]]:
    """Yield pointer, key and value of the entries of an object that are objects themselves."""
    if isinstance(value, Mapping):
        for key, entry in value.items():
            if isinstance(key, str) and isinstance(entry, Mapping):
                yield child(pointer, key), key, entry


def _environment(document: Mapping[str, Any]) -> Mapping[str, Any]:
    environment = document.get("environment")
    return environment if isinstance(environment, Mapping) else {}


def _unknown_members(document: Mapping[str, Any]) -> Iterator[Finding]:
    yield from _unknown_keys("", document, schema())
    for section, name in OPEN_SECTIONS.items():
        for pointer, _, entry in _entries(f"/{section}", document.get(section)):
            yield from _unknown_keys(pointer, entry, schema()["definitions"][name])


OPEN_SECTIONS = {"environment": "variable", "produces": "output", "consumes": "input"}
"""Sections whose entries may have any keys: section -> definition in the schema."""


def _unknown_keys(
    pointer: str, value: Mapping[str, Any], rules: Mapping[str, Any]
) -> Iterator[Finding]:
    properties = rules["properties"]
    for member in value:
        if not isinstance(member, str) or member in properties:
            continue
        older = LEGACY_NAMES.get(member) if pointer == "" else None
        hint = f"; it is now called {older!r}" if older else did_you_mean(member, list(properties))
        if hint:
            message = f"the key {quote(member)} has no meaning{hint}"
            yield Finding(child(pointer, member), "unknown-member", message)


def json_path_faults(document: Any) -> Iterator[Finding]:
    """Yield invalid JSONPaths of produced fields, by which no value could be produced."""
    if not isinstance(document, Mapping):
        return
    for pointer, _, entry in _entries("/produces", document.get("produces")):
        for place, _, field in _entries(f"{pointer}/fields", entry.get("fields")):
            path = field.get("path")
            if not isinstance(path, str):
                continue
            try:
                read_json_path(path)
            except ValueError as error:
                yield Finding(child(place, "path"), "jsonpath", str(error))


def _targets(document: Mapping[str, Any]) -> Iterator[Finding]:
    environment = _environment(document)
    for pointer, _, entry in _entries("/consumes", document.get("consumes")):
        bindings = [(pointer, entry)]
        bindings += [
            (place, field) for place, _, field in _entries(f"{pointer}/fields", entry.get("fields"))
        ]
        for place, binding in bindings:
            target = binding.get("target")
            if isinstance(target, str) and target not in environment:
                message = f"names no key of the environment: {quote(target)}"
                yield Finding(f"{place}/target", "unknown-target", message)


def _defaults(document: Mapping[str, Any]) -> Iterator[Finding]:
    for pointer, key, entry in _entries("/environment", document.get("environment")):
        place = f"{pointer}/defval"
        variable = _variable(key, entry)
        # A default with a placeholder is complete only after the other values are filled in.
        if variable is None or (
            isinstance(variable.default, str)
            and any(
                has_value(match[1], _environment(document))
                for match in LEGACY_PLACEHOLDER.finditer(variable.default)
            )
        ):
            continue
        value = coerce(variable, variable.default)
        if not fits(variable, value):
            yield Finding(place, "default-type", f"is not written as {variable.type.value}")
        elif value is not None and variable.options and not _is_offered(variable, value):
            yield Finding(place, "default-option", "is not one of the options")


def _variable(key: str, entry: Mapping[str, Any]) -> Variable | None:
    """Return a variable for `_defaults`; None if its type is unknown."""
    kind = entry.get("type", "string")
    if not isinstance(kind, str) or kind not in set(VariableType):
        return None
    choices = entry.get("options")
    return Variable(
        key=key,
        type=VariableType(kind),
        default=entry.get("defval"),
        options=tuple(options(choices)) if isinstance(choices, Mapping | list) else (),
    )


def _is_offered(variable: Variable, value: Any) -> bool:
    """Whether a value is among the options in either notation (`1` and `true` are one bool)."""
    return value in [coerce(variable, option.value) for option in variable.options] or (
        to_text(variable.default) in [option.value for option in variable.options]
    )


def _exit_codes(document: Mapping[str, Any]) -> Iterator[Finding]:
    seen: set[int] = set()
    for pointer, key, entry in _entries("/exitCodes", document.get("exitCodes")):
        if not re.fullmatch("[0-9]+", key):
            continue
        digits = key.lstrip("0") or "0"
        code = int(digits) if len(digits) < 10 else LARGEST_EXIT_CODE + 1
        if code > LARGEST_EXIT_CODE:
            message = f"a process ends with at most {LARGEST_EXIT_CODE}"
            yield Finding(pointer, "exit-code", message)
        elif code in seen:
            yield Finding(pointer, "exit-code", f"the code {code} occurs twice")
        elif code == 0 and "severity" not in entry:
            message = 'is an error without a severity; say "severity": "success"'
            yield Finding(pointer, "success-without-severity", message)
        seen.add(code)


def _placeholders(document: Mapping[str, Any]) -> Iterator[Finding]:
    environment = _environment(document)
    for pointer, template in _templates(document):
        names = list(placeholders(template))
        if pointer == "/cmdparamsTemplate":
            names += [match[1] for match in LEGACY_PLACEHOLDER.finditer(template)]
        for name in names:
            if not has_value(name, environment):
                message = f"the placeholder {quote(name)} names nothing; declare it in environment"
                yield Finding(pointer, "unknown-placeholder", message)


def _templates(document: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    yield "/cmdparamsTemplate", _string(document.get("cmdparamsTemplate"))
    artifacts = document.get("artifacts")
    for index, artifact in enumerate(artifacts if isinstance(artifacts, list) else ()):
        if isinstance(artifact, Mapping):
            yield f"/artifacts/{index}/path", _string(artifact.get("path"))


def _string(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _schema_version(document: Mapping[str, Any]) -> Iterator[Finding]:
    stated = document.get("schemaVersion")
    if not isinstance(stated, str):
        return
    numbers = version_numbers(stated)
    if numbers is None:
        message = f"is not a version number; the definition is validated by {SCHEMA_VERSION}"
        yield Finding("/schemaVersion", "schema-version", message)
    elif numbers > (version_numbers(SCHEMA_VERSION) or ()):
        message = f"is newer than {SCHEMA_VERSION}, which validates the definition"
        yield Finding("/schemaVersion", "schema-version", message)


CHECKS: tuple[Callable[[Mapping[str, Any]], Iterator[Finding]], ...] = (
    _unknown_members,
    _targets,
    _defaults,
    _exit_codes,
    _placeholders,
    _schema_version,
)
"""Each checks for one kind of oddity."""
