"""How much one request of a person may ask Prefect for. Pure."""

import re
from typing import Any

from jobauto_prefect.definitions.limits import walk
from jobauto_prefect.errors import Fault, InvalidInput

MOST_ITEMS = 1_000
"""Items of any list in a body."""

LONGEST_NAME = 250
"""Characters of a name, and of a tag."""

LONGEST_TERM = 1_000
"""Characters of any text in a filter."""

_NAME = re.compile(r"(/[0-9]+)?/(name|tags/[0-9]+)")
"""Of what is written, alone or in a list; not a parameter that is called so."""


def require_limits(body: Any, *, reads: bool) -> None:
    """Refuse what costs too much; `reads`: the body is a filter and not something to be kept.

    Raises:
        InvalidInput: with every fault.
    """
    found = []
    for pointer, value, _ in walk(body):
        if isinstance(value, list) and len(value) > MOST_ITEMS:
            message = f"has {len(value)} items; send at most {MOST_ITEMS} at once"
            found.append(Fault(pointer, "items", message))
        longest = _longest(pointer, reads)
        if longest is not None and isinstance(value, str) and len(value) > longest:
            message = f"has {len(value)} characters; send at most {longest}"
            found.append(Fault(pointer, "length", message))
    if found:
        raise InvalidInput(found)


def _longest(pointer: str, reads: bool) -> int | None:
    if reads:
        return LONGEST_TERM
    return LONGEST_NAME if _NAME.fullmatch(pointer) else None
