"""JSONPath according to RFC 9535, limited to paths that can be evaluated in bounded time.

The library is imported with the first path, because most processes need none.
"""

import functools
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

LONGEST = 500
"""Characters of a path."""

MOST: Mapping[str, int] = {"..": 2, ",": 5, "$": 2}
"""Limits of parts that multiply the work: each visits everything once more."""

PATTERN_SECONDS = 0.1
"""Time limit of a filter's regular expression for one text."""

KEPT = 512


@functools.cache
def _environment() -> Any:
    """Return the library, with regular expressions that match nothing if they take too long."""
    from jsonpath import JSONPathEnvironment
    from jsonpath.function_extensions import Match, Search

    def in_time(method: Any, text: str) -> bool:
        try:
            return bool(method(text, timeout=PATTERN_SECONDS))
        except TimeoutError:
            return False

    class MatchInTime(Match):
        def __call__(self, value: object, pattern: object) -> bool:
            if not (isinstance(value, str) and isinstance(pattern, str)):
                return False
            compiled = self.check_cache(pattern)
            return compiled is not None and in_time(compiled.fullmatch, value)

    class SearchInTime(Search):
        def __call__(self, value: object, pattern: object) -> bool:
            if not (isinstance(value, str) and isinstance(pattern, str)):
                return False
            compiled = self.check_cache(pattern)
            return compiled is not None and in_time(compiled.search, value)

    environment = JSONPathEnvironment(strict=True)
    environment.function_extensions["match"] = MatchInTime(thread_safe=True)
    environment.function_extensions["search"] = SearchInTime(thread_safe=True)
    return environment


@dataclass(frozen=True, slots=True)
class JsonPath:
    """A parsed path. `single`: its form allows at most one value.

    `first` is the first key below the root; None if it may be any.
    """

    single: bool
    first: str | None
    _compiled: Any

    def chooses_none(self, document: Any) -> bool:
        """Whether nothing is found because there is nothing to choose from.

        That is an empty list, or one without elements that match a filter; not a missing member.
        """
        from jsonpath.selectors import IndexSelector, NameSelector

        segments = self._compiled.segments
        for count in range(len(segments) - 1, -1, -1):
            before = type(self._compiled)(env=self._compiled.env, segments=segments[:count])
            if found := JsonPath(False, None, before).find(document):
                return any(isinstance(value, Mapping | list) for value in found) and not any(
                    isinstance(selector, NameSelector | IndexSelector)
                    for selector in segments[count].selectors
                )
        return False

    def find(self, document: Any) -> list[Any]:
        """Return all values found, in the order of the document; none in scalars."""
        if not self._compiled.segments:
            return [document]
        if not isinstance(document, Mapping | list):
            return []
        from jsonpath.exceptions import JSONPathError

        try:
            return list(self._compiled.findall(document))
        except (JSONPathError, RecursionError):  # nested deeper than the library can go
            return []


def most_steps(text: str, values: int) -> float:
    """Return roughly how many steps a path may take in a document of this many values.

    Each selector visits all values at most once; parts that visit everything once more, and regular
    expressions, multiply that.
    """
    if "match(" in text or "search(" in text:
        return math.inf
    again = sum(text.count(part) for part in MOST) - 1  # without the leading $
    return float((text.count("[") + text.count(".") + 1) * values ** (1 + again))


@functools.lru_cache(maxsize=KEPT)
def read_json_path(text: str) -> JsonPath:
    """Parse a JSONPath.

    Raises:
        ValueError: it is invalid, or could take too long; the message says why.
    """
    if len(text) > LONGEST:
        raise ValueError(f"must have at most {LONGEST} characters")
    for part, most in MOST.items():
        if text.count(part) > most:
            raise ValueError(f"may have {part!r} at most {most} times")
    if not text.startswith("$"):
        raise ValueError("must be a JSONPath (RFC 9535), which begins with $: $.customer.id")
    from jsonpath.exceptions import JSONPathError

    try:
        compiled = _environment().compile(text)
    except (JSONPathError, RecursionError) as error:
        reason = str(error.args[0]) if error.args else "can't be read"
        raise ValueError(f"is not a JSONPath (RFC 9535): {reason}") from None
    return JsonPath(all(map(_is_single, compiled.segments)), _first(compiled), compiled)


def _is_single(segment: Any) -> bool:
    from jsonpath.segments import JSONPathChildSegment
    from jsonpath.selectors import IndexSelector, NameSelector, SliceSelector

    if not isinstance(segment, JSONPathChildSegment) or len(segment.selectors) != 1:
        return False
    selector = segment.selectors[0]
    if isinstance(selector, SliceSelector):
        return _is_one(selector.slice)
    return isinstance(selector, NameSelector | IndexSelector)


def _is_one(part: slice) -> bool:
    """Whether a slice has at most one element: `[-1:]`, `[0:1]`."""
    if part.start is None:
        return part.stop in (0, 1) and part.step in (None, 1)
    if part.step not in (None, 1):
        return False
    if part.stop is None:
        return bool(part.start == -1)
    return bool((part.start < 0) == (part.stop < 0) and part.stop - part.start <= 1)


def _first(compiled: Any) -> str | None:
    from jsonpath.segments import JSONPathChildSegment
    from jsonpath.selectors import NameSelector

    segment = compiled.segments[0] if compiled.segments else None
    if isinstance(segment, JSONPathChildSegment) and len(segment.selectors) == 1:
        selector = segment.selectors[0]
        return str(selector.name) if isinstance(selector, NameSelector) else None
    return None
