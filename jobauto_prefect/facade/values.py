"""The `env` member of companies, run templates and jobs: plain and secret values kept apart."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from jobauto_prefect.definitions import Definition, Variable, VariableType, coerce, to_text
from jobauto_prefect.errors import Fault, InvalidInput
from jobauto_prefect.ledger.secrets import MASK, SecretBox
from jobauto_prefect.runtime import refused_names
from jobauto_prefect.runtime.masking import SHORTEST

NUMBERS = (VariableType.INTEGER, VariableType.FLOAT)


@dataclass(frozen=True, slots=True)
class Values:
    """Plain values as text, and secret ones sealed."""

    env: dict[str, str]
    secrets: dict[str, str]

    def shown(self) -> dict[str, str]:
        """For people: secrets masked, names in order."""
        return dict(sorted((self.env | dict.fromkeys(self.secrets, MASK)).items()))


def merged(
    known: Values,
    given: Mapping[str, Any],
    secret_names: Collection[str],
    box: SecretBox,
    definition: Definition | None,
) -> Values:
    """`known` with the values given: null removes one, a masked secret stays what it is.

    `secret_names` are sealed; `definition` is None for values of no one application.

    Raises:
        InvalidInput: names nobody may set, or values that don't fit their type.
    """
    refuse_faults(given, definition)
    kept = {name: value for name, value in given.items() if not _repeats(known, name, value, box)}
    env = {name: text for name, text in known.env.items() if name not in kept}
    secrets = {name: sealed for name, sealed in known.secrets.items() if name not in kept}
    texts = {name: to_text(value) for name, value in kept.items() if value is not None}
    plain = {name: text for name, text in texts.items() if name not in secret_names}
    sealed = {name: text for name, text in texts.items() if name in secret_names}
    return Values(env | plain, secrets | box.seal(sealed))


def _repeats(known: Values, name: str, value: Any, box: SecretBox) -> bool:
    """Whether a secret is said as it is, or masked: then it is not sealed anew."""
    if value is None or name not in known.secrets:
        return False
    return value == MASK or box.open({name: known.secrets[name]})[name] == to_text(value)


def refuse_faults(given: Mapping[str, Any], definition: Definition | None) -> None:
    """Check names and values.

    Raises:
        InvalidInput: with every fault.
    """
    faults = [
        Fault(f"/env/{name}", "name", f"{name!r} can't be set here: it is the service's or unsafe")
        for name in refused_names(definition, given)
    ]
    for name, value in given.items():
        variable = definition.environment.get(name) if definition else None
        faults += _value_faults(name, value, variable)
    if faults:
        raise InvalidInput(faults)


def _value_faults(name: str, value: Any, variable: Variable | None) -> Iterable[Fault]:
    if "\0" in to_text(value):
        yield Fault(f"/env/{name}", "value", f"{name} has a NUL byte; no process can be given it")
    elif variable is not None and not _fits(variable, value):
        yield Fault(f"/env/{name}", "type", f"{name} must be of type {variable.type}")


def _fits(variable: Variable, value: Any) -> bool:
    if value is None or to_text(value) == "":
        return True
    typed = coerce(variable, value)
    if variable.type is VariableType.BOOL:
        return isinstance(typed, bool)
    return variable.type not in NUMBERS or isinstance(typed, int | float)


def short_secrets(
    given: Mapping[str, Any], secret_names: Collection[str], member: str = "env"
) -> list[Fault]:
    """Warnings about secret values that are too short to be looked for in output (P6)."""
    return [
        Fault(
            f"/{member}/{name}",
            "short_secret",
            f"{name} has fewer than {SHORTEST} characters: it is not masked in output",
        )
        for name, value in given.items()
        if name in secret_names and 0 < len(to_text(value)) < SHORTEST
    ]


def secret_keys(definition: Definition) -> set[str]:
    """The password-typed keys of an application."""
    return {key for key, variable in definition.environment.items() if variable.secret}


def resealed(known: Values, secret_names: Collection[str], box: SecretBox) -> Values:
    """The same values, with those that have become secret sealed."""
    exposed = {name: text for name, text in known.env.items() if name in secret_names}
    plain = {name: text for name, text in known.env.items() if name not in exposed}
    return Values(plain, known.secrets | box.seal(exposed))
