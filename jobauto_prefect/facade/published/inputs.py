"""What published clients send, in our words."""

import json
from collections.abc import Callable, Collection, Mapping
from typing import Any

from jobauto_prefect.facade.dialect import Heard
from jobauto_prefect.facade.published.applications import definition
from jobauto_prefect.facade.published.members import CUT, Shown
from jobauto_prefect.facade.requests import MEANINGLESS
from jobauto_prefect.facade.spellings import as_integer

NAMES: Mapping[str, Mapping[str, str]] = {
    "company": {"code": "slug"},
    "job": {"schedule": "scheduled"},
}
"""Published name -> ours, where a record kind has another."""

Usable = Callable[[Any], bool]


def _number(value: Any) -> bool:
    try:
        as_integer(value)
    except ValueError:
        return value is None
    return True


def _object(value: Any) -> bool:
    return isinstance(value, dict)


def _actions(value: Any) -> bool:
    """Whether it is, or is the text of, what names actions, or nothing: some clients send notes."""
    return not value or isinstance(_read(value), dict)


def _whole(value: Any) -> bool:
    """Whether a text is no cut one that comes back: that stays as it is."""
    return not (isinstance(value, str) and value.endswith(CUT))


USABLE: Mapping[str, Mapping[str, Usable]] = {
    "company": {"customer": _number, "name": _whole, "slug": bool},
    "job": {"env": _object},
    "credential": {"name": _whole},
    "credential_type": {"name": _whole, "description": _whole},
    "topic": {"name": _whole, "description": _whole},
    "runtemplate": {"name": _whole, "success": _actions, "fail": _actions},
}
"""What a value must be like to be taken; others are ignored."""


def hear(item: str, fields: Shown, known: Collection[str]) -> Heard:
    """The fields of a request for an item; those that are unknown are ignored."""
    said = {name: value for name, value in fields.items() if name not in MEANINGLESS}
    return definition(said) if item == "app" else _known(item, said, known)


def _known(item: str, fields: Shown, known: Collection[str]) -> Heard:
    names, usable = NAMES.get(item, {}), USABLE.get(item, {})
    used: Shown = {}
    ignored = []
    for name, given in fields.items():
        ours = names.get(name, name)
        value = _read(given) if ours == "env" else given
        doubled = ours != name and ours in fields
        if ours in known and not doubled and usable.get(ours, _any)(value):
            used[ours] = value
        else:
            ignored.append(name)
    return Heard(used, ignored)


def _any(_value: Any) -> bool:
    return True


def _read(value: Any) -> Any:
    """An object that came as its JSON text."""
    try:
        return json.loads(value) if isinstance(value, str) else value
    except ValueError:
        return value
