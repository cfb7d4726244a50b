"""Which logins new users may have: none that looks like somebody else's."""

import re
import unicodedata
from collections.abc import Iterator

import regex  # type: ignore[import-untyped] # unlike re it knows scripts

ACTORS = frozenset({"service", "unknown", "worker", "prefect"})
"""Actors in the audit trail that are not users; a worker's token signs in as one."""

SCRIPTS = (
    "Arabic", "Armenian", "Bengali", "Cyrillic", "Devanagari", "Ethiopic", "Georgian", "Greek",
    "Gujarati", "Gurmukhi", "Hebrew", "Kannada", "Khmer", "Lao", "Latin", "Malayalam", "Myanmar",
    "Oriya", "Sinhala", "Tamil", "Telugu", "Thaana", "Thai", "Tibetan",
)  # fmt: skip
"""Scripts in use today that are used alone (Unicode Standard Annex 31, table 5)."""

WRITTEN_TOGETHER = ("Han Hiragana Katakana", "Han Bopomofo", "Han Hangul")
"""Scripts that one language combines (Unicode Technical Standard 39, 5.2)."""

_PLAIN = r"!-9;-@\[-`{-~"  # printable ASCII without letters and the colon
_CHARACTERS = regex.compile(
    rf"[[{_PLAIN}\p{{L}}\p{{M}}]--[\u02B0-\u02FF\p{{Default_Ignorable_Code_Point}}]]+", regex.V1
)
_OF_ONE_SCRIPT = regex.compile(
    "|".join(
        f"[{_PLAIN}{together}]+"
        for together in (
            "".join(rf"\p{{scx={name}}}" for name in names.split())
            for names in (*SCRIPTS, *WRITTEN_TOGETHER)
        )
    )
)


def login_faults(login: str) -> Iterator[str]:
    """Yield why a new user may not have this login; existing users keep theirs."""
    if unicodedata.normalize("NFKC", login) != login:
        yield "write each letter as one plain character (Unicode's form NFKC)"
    elif not _CHARACTERS.fullmatch(login):
        yield "use letters, digits and visible signs; leave out zero-width and direction ones"
    elif not _OF_ONE_SCRIPT.fullmatch(login):
        yield "use the letters of one script; those of others look alike"
    if "".join(map(_letter, login)) in ACTORS:
        yield f"choose another one: {', '.join(sorted(ACTORS))} are not users in the audit trail"


def _letter(character: str) -> str:
    """Return the letter a to z of which this one is a form, with an accent or without a dot.

    Other characters are returned unchanged.
    """
    named = re.search(r"^LATIN .*\b([A-Z])\b", unicodedata.name(character, ""))
    return named[1].lower() if named else character
