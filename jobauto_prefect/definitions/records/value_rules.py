"""Rules for names and types of values of companies, run templates and jobs."""

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from jobauto_prefect.definitions.environment_names import EnvironmentNames, unsafe_faults
from jobauto_prefect.definitions.findings import child
from jobauto_prefect.definitions.model import Definition, Variable, VariableType
from jobauto_prefect.definitions.placeholders import MACRO
from jobauto_prefect.definitions.storable import UNFIT, is_storable
from jobauto_prefect.definitions.values import coerce, to_text
from jobauto_prefect.errors import Fault

LARGEST_VALUE = 100_000
"""Bytes; no process can have a variable of 128 KiB."""

NUMBERS = (VariableType.INTEGER, VariableType.FLOAT)


@dataclass(frozen=True, slots=True)
class ValueRules:
    """Allowed names and types of the values of one record.

    `definition` is None for values of more than one application. `extra` are the names that an
    administrator allows besides those of the definition.
    """

    definition: Definition | None = None
    extra: Collection[str] = ()

    def faults(self, names: Iterable[str], given: Mapping[str, Any]) -> Iterator[Fault]:
        """Yield the faults of these names, and of the given values."""
        yield from self.name_faults(names)
        declared = self.definition.environment if self.definition else {}
        for name, value in given.items():
            variable = declared.get(name)
            if not is_storable(to_text(value)):
                yield Fault(child("/env", name), "value", f"{name} {UNFIT}")
            elif len(to_text(value).encode()) > LARGEST_VALUE:
                message = f"{name} has more than {LARGEST_VALUE} bytes, too many for a variable"
                yield Fault(child("/env", name), "size", f"{message}; pass it as a file")
            elif variable is not None and not _fits(variable, value):
                yield Fault(child("/env", name), "type", f"{name} must be of type {variable.type}")
            elif variable is not None and not _is_offered(variable, to_text(value)):
                offered = ", ".join(option.value for option in variable.options)
                yield Fault(child("/env", name), "enum", f"{name} must be one of {offered}")

    def name_faults(self, names: Iterable[str], member: str = "/env") -> Iterator[Fault]:
        """Yield the faults of names; `member` is the pointer of the object they are in."""
        if self.definition is None:
            return unsafe_faults(names, member)
        return EnvironmentNames.of(self.definition, self.extra).faults(names, member)


def _is_offered(variable: Variable, text: str) -> bool:
    """Whether a value is among the options of a set; one that uses other values may be."""
    if variable.type is not VariableType.SET or not variable.options or not text:
        return True
    offered = {option.value for option in variable.options} | {to_text(variable.default)}
    return text in offered or MACRO.search(text) is not None


def _fits(variable: Variable, value: Any) -> bool:
    if value is None or to_text(value) == "":
        return True
    typed = coerce(variable, value)
    if variable.type is VariableType.BOOL:
        return isinstance(typed, bool)
    return variable.type not in NUMBERS or isinstance(typed, int | float)
