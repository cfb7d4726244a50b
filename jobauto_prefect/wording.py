"""Plural forms, and text without invisible characters."""

import unicodedata


def pluralize(number: float, noun: str, plural: str | None = None, *, zero: str = "0") -> str:
    """Return `1 error`, `2 errors`; `2 companies` with a given plural; `zero` instead of 0."""
    shown = f"{number:g}" if isinstance(number, float) else f"{number}"
    return f"{shown if number else zero} {noun if number == 1 else plural or f'{noun}s'}"


def escape_controls(text: str) -> str:
    """Make text of unknown origin safe to display: control characters are shown, not executed.

    Characters that change the direction of text, and other invisible ones, are shown as codes, too.
    """
    if text.isprintable():
        return text
    return "".join(map(_escape_character, text))


def _escape_character(character: str) -> str:
    # Joiners shape letters and emoji, but move nothing.
    hidden = unicodedata.category(character) in ("Cc", "Cf", "Zl", "Zp")
    if not hidden or character in "\t\u200c\u200d":
        return character
    if character == "\n":
        return " "
    code = ord(character)
    width, letter = (2, "x") if code < 0x100 else (4, "u") if code < 0x10000 else (8, "U")
    return f"\\{letter}{code:0{width}x}"
