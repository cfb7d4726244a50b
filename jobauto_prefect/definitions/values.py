"""Conversion between typed values of definitions and texts of environments."""

import json
import math
import re
from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Any

from jobauto_prefect.definitions.formats import is_uri
from jobauto_prefect.definitions.model import Variable, VariableType
from jobauto_prefect.definitions.storable import Numeral, write_exact

MASK = "********"
"""Shown in place of a secret."""

TRUE = frozenset({"true", "yes", "on", "1", "y", "t"})

FALSE = frozenset({"false", "no", "off", "0", "n", "f"})
"""Notations of false, in lower case."""

EXACT = 2**53  # JSON readers of every language keep integers up to here exactly

_NUMBER = re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]{1,3})?")

_LONGEST_NUMBER = 100  # characters

_EMAIL = re.compile(r"[^@\s]@[^@\s]")


def to_text(value: Any) -> str:
    """Return the environment string of a typed value.

    Booleans are `true` and `false`, integers have no decimal point, None is the empty string,
    arrays and objects are JSON. A number that was read exactly keeps its digits.
    """
    if isinstance(value, str):
        return value
    if value is None:
        return ""
    is_plain = isinstance(value, float) and not isinstance(value, Numeral)
    if is_plain and value.is_integer() and abs(value) <= EXACT:
        value = int(value)
    return json.dumps(value) if isinstance(value, int) else write_exact(value)


def coerce(variable: Variable, raw: Any) -> Any:
    """Convert a raw value to the type of its variable.

    Null and empty texts become None; values that can't be read as the type stay text. A number is
    converted only if its value does not change.
    """
    if raw is None or (isinstance(raw, str) and not raw.strip()):
        return None
    typed = _READERS[variable.type](raw) if variable.type in _READERS else None
    return to_text(raw) if typed is None else typed


def default_value(variable: Variable) -> Any:
    """Return the converted default of a variable; None if it has none or an empty one."""
    return coerce(variable, variable.default)


def fits(variable: Variable, value: Any) -> bool:
    """Whether a converted value has its variable's type; None always has."""
    if value is None or variable.type not in _FITTING:
        return True
    return _FITTING[variable.type](value)


def _bool(raw: Any) -> bool | None:
    if isinstance(raw, bool):
        return raw
    word = to_text(raw).strip().lower()
    return True if word in TRUE else False if word in FALSE else None


def _integer(raw: Any) -> int | None:
    number = _number(raw)
    return int(number) if number is not None and number == int(number) else None


def _float(raw: Any) -> float | None:
    number = _number(raw)
    if number is None:
        return None
    nearest = float(number)
    return nearest if Decimal(repr(nearest)) == number else None


def _number(raw: Any) -> Decimal | None:
    if isinstance(raw, bool):
        return None
    written = to_text(raw).strip()
    if len(written) > _LONGEST_NUMBER or not _NUMBER.fullmatch(written):
        return None
    number = Decimal(written)
    return number if math.isfinite(float(number)) and abs(number) <= EXACT else None


_READERS: Mapping[VariableType, Callable[[Any], Any]] = {
    VariableType.BOOL: _bool,
    VariableType.INTEGER: _integer,
    VariableType.FLOAT: _float,
}
"""Type -> reader of its values, for types other than text; it returns None on failure."""

_FITTING: Mapping[VariableType, Callable[[Any], bool]] = {
    VariableType.BOOL: lambda value: isinstance(value, bool),
    VariableType.INTEGER: lambda value: isinstance(value, int),
    VariableType.FLOAT: lambda value: isinstance(value, float),
    VariableType.EMAIL: lambda value: bool(_EMAIL.search(value)),
    VariableType.URL: is_uri,
}
"""Type -> check of a converted value; other types accept any text."""
