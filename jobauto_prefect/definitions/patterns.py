"""Patterns by which definitions find files, matched in bounded time."""

import fnmatch
import re
import time
from collections.abc import Iterable, Iterator

import regex  # type: ignore[import-untyped] # unlike re it has a timeout

LONGEST = 1_000
"""Characters of a regular expression; longer ones are taken as plain paths."""

PATTERN_SECONDS = 1.0
"""Time limit of one pattern for all paths."""

ALL_SECONDS = 5.0
"""Time limit of all patterns of a definition together."""


def pattern_of(text: str) -> str:
    """Return a pattern as a regular expression; globs such as `*.json` are translated."""
    try:
        re.compile(text[: LONGEST + 1])
    except re.error:
        return fnmatch.translate(text)
    return text


class PatternMatcher:
    """Matches the patterns of one definition; other threads keep running meanwhile.

    `gave_up`: a pattern took too long, so matches may be missing.
    """

    def __init__(self, seconds: float = ALL_SECONDS) -> None:
        self._left = seconds
        self.gave_up = False

    def matching(self, pattern: str, paths: Iterable[str]) -> Iterator[str]:
        """Yield the paths that a regular expression matches entirely; none if it is invalid.

        Raises:
            TimeoutError: it takes too long.
        """
        if len(pattern) > LONGEST:
            return
        try:
            expression = regex.compile(pattern)
        except regex.error:
            return
        left = min(PATTERN_SECONDS, self._left)
        for path in paths:
            if left <= 0:
                self.gave_up = True
                raise TimeoutError
            began = time.thread_time()  # CPU time: a busy machine is not the pattern's fault
            try:
                matched = expression.fullmatch(path, timeout=left, concurrent=True)
            except TimeoutError:
                self.gave_up = True
                raise
            finally:
                spent = time.thread_time() - began
                left -= spent
                self._left -= spent
            if matched:
                yield path
