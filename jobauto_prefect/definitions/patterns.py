"""The patterns by which definitions find files, matched in a bounded time."""

import fnmatch
import re
import time
from collections.abc import Iterable, Iterator

import regex  # type: ignore[import-untyped] # unlike re it has a timeout

LONGEST = 1_000
"""Characters of a regular expression; what is longer is a path and no more."""

PATTERN_SECONDS = 1.0
"""What one pattern may take for all paths."""

ALL_SECONDS = 5.0
"""What all patterns of a definition may take together."""


def pattern_of(text: str) -> str:
    """Return a pattern as a regular expression; `*.json`, which is none, as what it means."""
    try:
        re.compile(text[: LONGEST + 1])
    except re.error:
        return fnmatch.translate(text)
    return text


class PatternMatcher:
    """Matches the patterns of one definition; other threads go on meanwhile.

    `gave_up`: one took too long, so that what was found may not be all there is.
    """

    def __init__(self, seconds: float = ALL_SECONDS) -> None:
        self._left = seconds
        self.gave_up = False

    def matching(self, pattern: str, paths: Iterable[str]) -> Iterator[str]:
        """Yield the paths that a regular expression matches whole; none where it is none.

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
            began = time.thread_time()  # a busy machine is no fault of the pattern's
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
