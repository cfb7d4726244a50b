"""The patterns of `produces`."""

import fnmatch
import re


def pattern_of(text: str) -> str:
    """A pattern as a regular expression; `*.json`, which is none, is taken for what it means."""
    try:
        re.compile(text)
    except re.error:
        return fnmatch.translate(text)
    return text
