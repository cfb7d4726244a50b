"""What names of records may be, whichever way they come."""

from collections.abc import Iterator, Mapping
from typing import Any

from jobauto_prefect.errors import Fault

BLANK_END = "begins or ends with a blank; leave it out"
"""Why such a name is refused: nobody sees the blank, and addresses lose it."""


def has_blank_end(name: str) -> bool:
    """Whether a name begins or ends with white space, as Unicode has it."""
    return name != name.strip()


def name_faults(document: Any) -> Iterator[Fault]:
    """Yield what is wrong with the name of a document, which may be in several languages."""
    name = document.get("name") if isinstance(document, Mapping) else None
    texts = name.items() if isinstance(name, Mapping) else [("", name)]
    for language, text in texts:
        if isinstance(text, str) and has_blank_end(text):
            yield Fault(f"/name/{language}".rstrip("/"), "blank", BLANK_END)
