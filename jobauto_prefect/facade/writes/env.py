"""The `env` field of companies, run templates and jobs: plain and secret values, separated."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from jobauto_prefect.definitions import Definition, VariableType, coerce, fits, to_text
from jobauto_prefect.definitions.findings import child
from jobauto_prefect.definitions.placeholders import MACRO
from jobauto_prefect.definitions.records.value_rules import ValueRules
from jobauto_prefect.definitions.values import MASK
from jobauto_prefect.errors import Fault, InvalidInput
from jobauto_prefect.ledger.secrets import SecretBox
from jobauto_prefect.runtime.output.secret_forms import SHORTEST, is_too_short

MOST_BYTES = 256 * 1024
"""Limit for all plain values of a record: each list repeats them, and Prefect accepts 512 KiB."""

ADDRESSES = (VariableType.EMAIL, VariableType.URL)


@dataclass(frozen=True, slots=True)
class StoredValues:
    """Plain values as text, and secret ones sealed."""

    env: dict[str, str]
    secrets: dict[str, str]

    def shown(self) -> dict[str, str]:
        """Return the values for display: secrets masked, sorted by name."""
        return dict(sorted((self.env | dict.fromkeys(self.secrets, MASK)).items()))


def merge_values(
    stored: StoredValues,
    given: Mapping[str, Any],
    secret_names: Collection[str],
    box: SecretBox,
    rules: ValueRules,
) -> StoredValues:
    """Return `stored` with the given values: null removes one, a masked secret stays as it is.

    `secret_names` are sealed. Stored names are validated, too.

    Raises:
        InvalidInput: with the error of every name and value.
    """
    kept = {
        name: value for name, value in given.items() if not _is_unchanged(stored, name, value, box)
    }
    env = {name: text for name, text in stored.env.items() if name not in kept}
    secrets = {name: sealed for name, sealed in stored.secrets.items() if name not in kept}
    texts = {name: to_text(value) for name, value in kept.items() if value is not None}
    faults = list(rules.faults(dict.fromkeys([*env, *secrets, *texts]), given))
    plain = {name: text for name, text in texts.items() if name not in secret_names}
    if texts and sum(len(text.encode()) for text in (env | plain).values()) > MOST_BYTES:
        message = f"all values together have more than {MOST_BYTES} bytes; shorten some"
        faults.append(Fault("/env", "size", message))
    if faults:
        raise InvalidInput(faults)
    sealed = {name: text for name, text in texts.items() if name in secret_names}
    return StoredValues(env | plain, secrets | box.seal(sealed))


def _is_unchanged(stored: StoredValues, name: str, value: Any, box: SecretBox) -> bool:
    """Whether a secret is sent unchanged or masked, and so is not sealed again."""
    if value is None or name not in stored.secrets:
        return False
    return value == MASK or box.open({name: stored.secrets[name]})[name] == to_text(value)


def address_warnings(given: Mapping[str, Any], definition: Definition) -> list[Fault]:
    """Return warnings about addresses that can't be right."""
    return [
        Fault(child("/env", name), "format", f"{name} does not have the format of {variable.type}")
        for name, value in given.items()
        if (variable := definition.environment.get(name)) is not None
        and variable.type in ADDRESSES
        and value is not None
        and not MACRO.search(to_text(value))
        and not fits(variable, coerce(variable, value))
    ]


def short_secret_warnings(
    given: Mapping[str, Any], secret_names: Collection[str], member: str = "env"
) -> list[Fault]:
    """Return warnings about secret values that are too short to be masked in output (P6)."""
    return [
        Fault(
            child(f"/{member}", name),
            "short_secret",
            f"{name} has fewer than {SHORTEST} characters, so it is not masked in output",
        )
        for name, value in given.items()
        if name in secret_names and to_text(value) and is_too_short(to_text(value))
    ]


def seal_exposed(
    stored: StoredValues, secret_names: Collection[str], box: SecretBox
) -> StoredValues:
    """Return the values, with those that have become secret sealed."""
    exposed = {name: text for name, text in stored.env.items() if name in secret_names}
    plain = {name: text for name, text in stored.env.items() if name not in exposed}
    return StoredValues(plain, stored.secrets | box.seal(exposed))
