"""The values a run template's jobs get, and where each comes from."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from jobauto_prefect.definitions import (
    Definition,
    Variable,
    VariableType,
    default_value,
    to_text,
)
from jobauto_prefect.definitions.values import MASK
from jobauto_prefect.facade.formats.html.page_language import Translator


@dataclass(frozen=True, slots=True)
class ValueSource:
    """What one source says; secrets are masked. `name` is that of a record, where it is one."""

    kind: str
    values: Mapping[str, str]
    name: str = ""
    href: str = ""


@dataclass(frozen=True, slots=True)
class SourcedValue:
    """A value before macros are expanded in it; `source` None: none has one."""

    key: str
    variable: Variable | None
    text: str
    source: ValueSource | None

    @property
    def is_masked(self) -> bool:
        """Whether nobody is shown the value."""
        return self.text == MASK


def default_source(definition: Definition) -> ValueSource:
    """Return what the definition says."""
    values = {
        key: _default_text(variable)
        for key, variable in definition.environment.items()
        if variable.default is not None
    }
    return ValueSource("default", values)


def _default_text(variable: Variable) -> str:
    if variable.secret:
        return MASK if to_text(variable.default) else ""
    if variable.type is VariableType.BOOL:
        return to_text(default_value(variable))
    return to_text(variable.default)


def credential_source(credential: Mapping[str, Any], fields: Sequence[Mapping[str, Any]],
                      href: str) -> ValueSource:  # fmt: skip
    """Return what a credential says, and its type's defaults for what it says nothing of."""
    given = credential["values"]
    keywords = [field["keyword"] for field in fields]
    values = {
        field["keyword"]: to_text(field["default_value"])
        for field in fields
        if field.get("default_value") not in (None, "")
    }
    values |= {keyword: given[keyword] for keyword in keywords if keyword in given}
    return ValueSource("credential", values, credential["name"], href)


def describe_source(source: ValueSource, translate: Translator) -> str:
    """Say where a value comes from."""
    if source.kind == "default":
        return translate("default of the application")
    if source.kind == "template":
        return translate("this run template")
    if source.kind == "company":
        return translate("company {name}", name=source.name)
    return translate("credential {name}", name=source.name)


def resolve_values(
    definition: Definition, sources: Iterable[ValueSource]
) -> Iterator[SourcedValue]:
    """Yield the value of each variable from the last source that has one, then the undeclared.

    Those that only a company has are left out: it has values for many applications.
    """
    ordered = list(sources)
    own = [source for source in ordered if source.kind == "template"]
    keys = [*definition.environment, *(key for source in own for key in source.values)]
    for key in dict.fromkeys(keys):
        source = next((each for each in reversed(ordered) if key in each.values), None)
        text = source.values[key] if source else ""
        yield SourcedValue(key, definition.environment.get(key), text, source)
