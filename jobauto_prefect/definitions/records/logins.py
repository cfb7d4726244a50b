"""Which logins new users may have: nobody reads one of them as somebody else."""

import re
import unicodedata
from collections.abc import Iterator

import regex  # type: ignore[import-untyped] # unlike re it knows scripts

ACTORS = frozenset({"service", "unknown", "worker", "prefect"})
"""Whom the audit trail names where no user did something; a worker's token signs in as one."""

SCRIPTS = (
    "Arabic", "Armenian", "Bengali", "Cyrillic", "Devanagari", "Ethiopic", "Georgian", "Greek",
    "Gujarati", "Gurmukhi", "Hebrew", "Kannada", "Khmer", "Lao", "Latin", "Malayalam", "Myanmar",
    "Oriya", "Sinhala", "Tamil", "Telugu", "Thaana", "Thai", "Tibetan",
)  # fmt: skip
"""Those in use today that are written alone (Unicode Standard Annex 31, table 5)."""

WRITTEN_TOGETHER = ("Han Hiragana Katakana", "Han Bopomofo", "Han Hangul")
"""Scripts of one language (Unicode Technical Standard 39, 5.2)."""

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
    """Yield why a new user may not have this login; those there are keep theirs."""
    if unicodedata.normalize("NFKC", login) != login:
        yield "write each letter as one plain character (Unicode's form NFKC)"
    elif not _CHARACTERS.fullmatch(login):
        yield "use letters, digits and signs that are seen; leave out zero-width and direction ones"
    elif not _OF_ONE_SCRIPT.fullmatch(login):
        yield "use the letters of one script; those of others look alike"
    if "".join(map(_letter, login)) in ACTORS:
        yield f"choose another one: {', '.join(sorted(ACTORS))} are no users in the audit trail"


def _letter(character: str) -> str:
    """Return the letter of a to z that this one is a form of, with an accent or without a dot.

    Any other character is returned as it is.
    """
    named = re.search(r"^LATIN .*\b([A-Z])\b", unicodedata.name(character, ""))
    return named[1].lower() if named else character
