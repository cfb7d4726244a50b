"""The environment of a job: six layers, macros, and which values are secrets."""

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum

from jobauto_prefect.definitions import (
    Definition,
    Variable,
    VariableType,
    default_value,
    to_text,
)
from jobauto_prefect.runtime.masking import MASK, Masker

MACRO = re.compile(r"\$?\{([A-Za-z_0-9]+)\}")
GUARDED = re.compile(r"PATH|LD_.*|PYTHON.*", re.DOTALL)
RESERVED = re.compile(r"(JOBAUTO|MULTIFLEXI)_.*", re.DOTALL)


class Source(StrEnum):
    """Where a value comes from; a later one wins over an earlier one."""

    DEFINITION = "definition"
    COMPANY = "company"
    CREDENTIAL = "credential"
    TEMPLATE = "template"
    JOB = "job"
    INJECTED = "injected"


EXPANDED = frozenset({Source.DEFINITION, Source.COMPANY, Source.TEMPLATE})
"""Macros are expanded in values of these sources only: the others come from outside."""


@dataclass(frozen=True, slots=True)
class Layer:
    """The values of one source. Where a name is in both, the secret wins."""

    values: Mapping[str, str] = field(default_factory=dict)
    secrets: Mapping[str, str] = field(default_factory=dict, repr=False)


@dataclass(frozen=True, slots=True)
class Value:
    """One variable of the environment.

    `published` is True for a secret that only repeats what the definition says: it is masked in
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

    `declared` are all keys of the definition, with a value or without. `missing` are required
    keys without a non-empty value, `refused` the names that only the service or nobody may
    set (they are not in `values`), `invalid` the names whose value no process can be given.
    """

    values: Mapping[str, Value]
    declared: frozenset[str] = frozenset()
    missing: tuple[str, ...] = ()
    refused: tuple[str, ...] = ()
    invalid: tuple[str, ...] = ()

    @property
    def undeclared(self) -> tuple[str, ...]:
        """Names passed on although the definition does not know them, in alphabetical order."""
        return tuple(
            sorted(
                name
                for name, value in self.values.items()
                if not value.declared and value.source is not Source.INJECTED
            )
        )

    @property
    def secrets(self) -> tuple[str, ...]:
        """The values to mask wherever they appear."""
        found = (value for value in self.values.values() if value.secret and not value.published)
        return tuple(sorted({value.text for value in found if value.text}))

    def has(self, name: str) -> bool:
        """Whether a variable has a value that is not empty."""
        return name in self.values and bool(self.values[name].text)

    def texts(self) -> dict[str, str]:
        """What the process is given, secrets in clear."""
        return {name: value.text for name, value in self.values.items()}

    def masked(self) -> dict[str, str]:
        """What people are shown."""
        masker = Masker(self.secrets)
        return {
            name: MASK if value.secret and value.text else masker.mask(value.text)
            for name, value in self.values.items()
        }

    def placeholder(self, name: str) -> Value | None:
        """The value a placeholder of this name stands for; None where it is no placeholder.

        Only declared and injected names are: others could be made up by whoever starts a job.
        """
        value = self.values.get(name)
        if value is None:
            return _nothing() if name in self.declared else None
        return value if value.declared or value.source is Source.INJECTED else None


def _nothing() -> Value:
    return Value("", Source.DEFINITION, secret=False, declared=True)


def refused_names(definition: Definition | None, names: Iterable[str]) -> list[str]:
    """The names among these that values of companies, credentials, templates and jobs may not have.

    PATH, LD_* and PYTHON* are free where the definition declares them; `definition` is None for
    values that are not for one application.
    """
    declared: Collection[str] = definition.environment if definition else ()
    return [name for name in names if _refused(name, declared)]


def _refused(name: str, declared: Collection[str]) -> bool:
    if not name or "=" in name or not _passable(name) or RESERVED.fullmatch(name):
        return True
    return GUARDED.fullmatch(name) is not None and name not in declared


def _passable(text: str) -> bool:
    """Whether a process can be given this text: no NUL, and encodable as UTF-8."""
    try:
        return b"\0" not in text.encode()
    except UnicodeEncodeError:
        return False


def resolve(
    definition: Definition,
    *,
    company: Layer,
    credentials: Layer | None = None,
    template: Layer,
    overrides: Layer,
    injected: Mapping[str, str],
) -> Environment:
    """Lay the six sources over each other and expand the macros once."""
    values = _defaults(definition)
    refused: set[str] = set()
    given = (
        (Source.COMPANY, company),
        (Source.CREDENTIAL, credentials or Layer()),
        (Source.TEMPLATE, template),
        (Source.JOB, overrides),
    )
    for source, layer in given:
        names = {**layer.values, **layer.secrets}
        refused.update(refused_names(definition, names))
        values |= _of_layer(definition, source, layer, refused)
    values |= {
        name: Value(text, Source.INJECTED, secret=False, declared=name in definition.environment)
        for name, text in injected.items()
    }
    expanded = _expand(values, definition)
    return Environment(
        values=expanded,
        declared=frozenset(definition.environment),
        missing=_missing(definition, expanded),
        refused=tuple(sorted(refused)),
        invalid=tuple(name for name, value in expanded.items() if not _passable(value.text)),
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
    """What the definition wrote; a bool is `true` or `false` however it was written.

    `"False"` and `"0"` would be true to many programs, and forms have only the two words.
    """
    if variable.type is VariableType.BOOL:
        return to_text(default_value(variable))
    return to_text(variable.default)


def _of_layer(
    definition: Definition, source: Source, layer: Layer, refused: Collection[str]
) -> dict[str, Value]:
    return {
        name: Value(
            text,
            source,
            secret=name in layer.secrets or _is_secret(definition.environment.get(name)),
            declared=name in definition.environment,
        )
        for name, text in {**layer.values, **layer.secrets}.items()
        if name not in refused
    }


def _is_secret(variable: Variable | None) -> bool:
    return variable is not None and variable.secret


def _missing(definition: Definition, values: Mapping[str, Value]) -> tuple[str, ...]:
    return tuple(
        key
        for key, variable in definition.environment.items()
        if variable.required and not (key in values and values[key].text)
    )


def _expand(values: Mapping[str, Value], definition: Definition) -> dict[str, Value]:
    """Each macro takes the text as it was before any expansion: once means once."""
    known = {key: _nothing() for key in definition.environment} | dict(values)
    return {
        name: _expanded(value, known) if value.source in EXPANDED else value
        for name, value in values.items()
    }


def _expanded(value: Value, known: Mapping[str, Value]) -> Value:
    taken = [known[name] for name in MACRO.findall(value.text) if name in known]
    secrets = [other for other in taken if other.secret]
    if not taken:
        return value
    return replace(
        value,
        text=MACRO.sub(lambda match: _macro(match, known), value.text),
        secret=value.secret or bool(secrets),
        published=value.published and all(other.published for other in secrets),
    )


def _macro(match: re.Match[str], known: Mapping[str, Value]) -> str:
    value = known.get(match[1])
    return match[0] if value is None else value.text
