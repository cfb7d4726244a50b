"""Fan-out: a list among an event's values gives each job one element."""

from collections.abc import Mapping
from typing import Any

from jobauto_prefect.compiler.events.selectors import UnresolvedSelector
from jobauto_prefect.wording import pluralize

MOST_ELEMENTS = 1000
"""Jobs that one event may start for one rule."""


def fan_out_key(values: Mapping[str, Any]) -> str | None:
    """Return the environment key whose value is a list; None: there is none.

    Raises:
        UnresolvedSelector: several are, or the list is too long.
    """
    lists = [key for key, value in values.items() if isinstance(value, list)]
    if len(lists) > 1:
        raise UnresolvedSelector(f"a rule fans out over one list; {', '.join(lists)} are lists")
    if lists and len(values[lists[0]]) > MOST_ELEMENTS:
        count = len(values[lists[0]])
        raise UnresolvedSelector(
            f"{lists[0]} has {count} elements; a rule starts {MOST_ELEMENTS} at most"
        )
    return lists[0] if lists else None


def element_of(values: Mapping[str, Any], key: str, element: int) -> dict[str, Any]:
    """Return the values of one job: of the list only its element.

    Raises:
        UnresolvedSelector: the list has no such element.
    """
    elements = values[key]
    if element >= len(elements):
        raise UnresolvedSelector(
            f"{key} has {pluralize(len(elements), 'element')}, and no number {element}"
        )
    return {**values, key: elements[element]}
