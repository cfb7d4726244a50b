"""Rules for names and slugs of records."""

import re
import unicodedata
from collections.abc import Iterator, Mapping
from string import ascii_lowercase, digits
from typing import Any

from jobauto_prefect.errors import Fault

BLANK_END = "begins or ends with a blank; leave it out"
"""Why such a name is refused: the blank is invisible, and URLs lose it."""


def has_blank_end(name: str) -> bool:
    """Whether a name begins or ends with Unicode white space."""
    return name != name.strip()


def name_faults(document: Any) -> Iterator[Fault]:
    """Yield the faults of a document's name, which may be in several languages."""
    name = document.get("name") if isinstance(document, Mapping) else None
    texts = name.items() if isinstance(name, Mapping) else [("", name)]
    for language, text in texts:
        if isinstance(text, str) and has_blank_end(text):
            yield Fault(f"/name/{language}".rstrip("/"), "blank", BLANK_END)


LONGEST = 64
"""Characters of a slug."""

CODE = 10
"""Characters of a code in the published dialect."""

_DIGITS = digits + ascii_lowercase
_KEPT = 7
_WIDTH = CODE - _KEPT


def slug_of(name: str) -> str:
    """Return the name in lower-case ASCII letters with `-`; empty if nothing is left."""
    plain = unicodedata.normalize("NFKD", name).encode("ascii", "ignore").decode().lower()
    return re.sub("[^a-z0-9]+", "-", plain)[:LONGEST].strip("-")


def append_number(slug: str, number: int) -> str:
    """Return the slug with a number appended, within its length: `acme-2`."""
    ending = f"-{number}"
    return slug[: LONGEST - len(ending)].rstrip("-") + ending


def code_of(slug: str, company_id: int) -> str:
    """Return the code of a company: its slug if short, else its beginning and the id."""
    if len(slug) <= CODE:
        return slug
    number = _base_36(company_id).rjust(_WIDTH, "0")
    return (slug[: max(0, CODE - len(number))] + number)[:CODE]


def parse_company_ids(code: str) -> list[int]:
    """Return the ids of companies that may have this code, judging by its end."""
    if len(code) != CODE or not code.isascii():
        return []
    endings = (code[-width:] for width in range(_WIDTH, CODE))
    return [
        int(ending, 36)
        for ending in endings
        if set(ending) <= {*_DIGITS} and (len(ending) == _WIDTH or ending[0] != "0")
    ]


def _base_36(number: int) -> str:
    shown = ""
    while number > 0:
        number, digit = divmod(number, 36)
        shown = _DIGITS[digit] + shown
    return shown
