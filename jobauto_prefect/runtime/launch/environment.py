"""The environment of a job: six layers, macros, and which values are secrets."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum

from jobauto_prefect.definitions import (
    Definition,
    Variable,
    VariableType,
    default_value,
    to_text,
)
from jobauto_prefect.definitions.environment_names import EnvironmentNames
from jobauto_prefect.definitions.placeholders import MACRO
from jobauto_prefect.definitions.storable import is_storable
from jobauto_prefect.definitions.values import MASK
from jobauto_prefect.runtime.output.masking import Masker


class Source(StrEnum):
    """Where a value comes from; later sources override earlier ones."""

    DEFINITION = "definition"
    COMPANY = "company"
    CREDENTIAL = "credential"
    TEMPLATE = "template"
    JOB = "job"
    INJECTED = "injected"


EXPANDED = frozenset({Source.DEFINITION, Source.COMPANY, Source.TEMPLATE})
"""Macros are only expanded in values of these sources; the others come from outside."""


@dataclass(frozen=True, slots=True)
class Layer:
    """The values of one source. If a name is in both, the secret wins.

    `granted` are names it may set although the definition does not declare them.
    """

    values: Mapping[str, str] = field(default_factory=dict)
    secrets: Mapping[str, str] = field(default_factory=dict, repr=False)
    granted: Collection[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Value:
    """One variable of the environment.

    `published` is True for a secret that only repeats the definition's default: it is masked in
    lists, but not searched for in output. `declared` says that the definition has this key.
    """

    text: str = field(repr=False)
    source: Source
    secret: bool
    declared: bool
    published: bool = False


@dataclass(frozen=True, slots=True)
class Environment:
    """The resolved variables and what is wrong with them.

    `declared` are all keys of the definition, with or without a value. `missing` are required keys
    without a non-empty value. `left_out` are the names, in alphabetical order, that a credential,
    the template or the job sets but may not set (they are not in `values`); a company's are not
    listed, as it has values for many applications. `invalid` are the names whose value can't be
    passed to a process.
    """

    values: Mapping[str, Value]
    declared: frozenset[str] = frozenset()
    missing: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()
    invalid: tuple[str, ...] = ()

    @property
    def secrets(self) -> tuple[str, ...]:
        """The values to mask wherever they appear."""
        secrets = (value for value in self.values.values() if value.secret and not value.published)
        return tuple(sorted({value.text for value in secrets if value.text}))

    def has(self, name: str) -> bool:
        """Whether a variable has a non-empty value."""
        return name in self.values and bool(self.values[name].text)

    def variables(self) -> dict[str, str]:
        """Return the variables of the process, secrets in clear."""
        return {name: value.text for name, value in self.values.items()}

    def masked(self) -> dict[str, str]:
        """Return the variables for people, secrets masked."""
        masker = Masker(self.secrets)
        return {
            name: MASK if value.secret and value.text else masker.mask(value.text)
            for name, value in self.values.items()
        }

    def placeholder(self, name: str) -> Value | None:
        """Return the value of a placeholder of this name, or None if it is not a placeholder.

        Only declared and injected names are, because a user who starts a job could invent others.
        """
        value = self.values.get(name)
        if value is None:
            return _no_values() if name in self.declared else None
        return value if value.declared or value.source is Source.INJECTED else None


def _no_values() -> Value:
    return Value("", Source.DEFINITION, secret=False, declared=True)


def resolve_environment(
    definition: Definition,
    *,
    company: Layer,
    credentials: Layer | None = None,
    template: Layer,
    overrides: Layer,
    injected: Mapping[str, str],
    extra: Collection[str] = (),
) -> Environment:
    """Merge the six sources, later ones over earlier ones, and expand macros once.

    `extra` are the names that an administrator adds to those of the definition.
    """
    values = _defaults(definition)
    permitted = EnvironmentNames.of(definition, extra)
    left_out: set[str] = set()
    given = (
        (Source.COMPANY, company),
        (Source.CREDENTIAL, credentials or Layer()),
        (Source.TEMPLATE, template),
        (Source.JOB, overrides),
    )
    for source, layer in given:
        names = {**layer.values, **layer.secrets}
        kept = {name for name in names if permitted.permits(name, layer.granted)}
        values |= _layer_values(definition, source, layer, kept)
        if source is not Source.COMPANY:
            left_out.update(names.keys() - kept)
    values |= {
        name: Value(text, Source.INJECTED, secret=False, declared=name in definition.environment)
        for name, text in injected.items()
    }
    # Macros are expanded once, each with the text from before any expansion.
    variables = {key: _no_values() for key in definition.environment} | values
    expanded = {
        name: _expanded(value, variables) if value.source in EXPANDED else value
        for name, value in values.items()
    }
    return Environment(
        values=expanded,
        declared=frozenset(definition.environment),
        missing=tuple(
            key
            for key, variable in definition.environment.items()
            if variable.required and not (key in expanded and expanded[key].text)
        ),
        left_out=tuple(sorted(left_out)),
        invalid=tuple(name for name, value in expanded.items() if not is_storable(value.text)),
    )


def _defaults(definition: Definition) -> dict[str, Value]:
    return {
        key: Value(
            _default_text(variable),
            Source.DEFINITION,
            secret=variable.secret,
            declared=True,
            published=True,
        )
        for key, variable in definition.environment.items()
        if variable.default is not None
    }


def _default_text(variable: Variable) -> str:
    """Return the default as written; a bool becomes `true` or `false`.

    Many programs take `"False"` and `"0"` as true, and forms only offer these two words.
    """
    if variable.type is VariableType.BOOL:
        return to_text(default_value(variable))
    return to_text(variable.default)


def _layer_values(
    definition: Definition, source: Source, layer: Layer, kept: Collection[str]
) -> dict[str, Value]:
    secret = {key for key, variable in definition.environment.items() if variable.secret}
    return {
        name: Value(
            text,
            source,
            secret=name in layer.secrets or name in secret,
            declared=name in definition.environment,
        )
        for name, text in {**layer.values, **layer.secrets}.items()
        if name in kept
    }


def _expanded(value: Value, variables: Mapping[str, Value]) -> Value:
    taken = [variables[name] for name in MACRO.findall(value.text) if name in variables]
    secrets = [other for other in taken if other.secret]
    if not taken:
        return value
    return replace(
        value,
        text=MACRO.sub(
            lambda match: variables[match[1]].text if match[1] in variables else match[0],
            value.text,
        ),
        secret=value.secret or bool(secrets),
        published=value.published and all(other.published for other in secrets),
    )
