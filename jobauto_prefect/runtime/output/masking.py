"""Replaces known secret values by `********`, wherever a text is split.

The forms in which programs print them are replaced, too. Line breaks inside an occurrence do not
hide it, because encoders wrap long text; short values must match including their line breaks.
Occurrences may overlap; everything they cover is masked. The pieces from `StreamMasker` together
equal the output of `Masker` for the whole text.
"""

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from jobauto_prefect.definitions.values import MASK
from jobauto_prefect.runtime.output.secret_forms import (
    LINE_BREAKS,
    SHORTEST,
    SHORTEST_LINE,
    forms_of,
)


class Masker:
    """Masks whole texts."""

    def __init__(self, secrets: Iterable[str]) -> None:
        self._index = SecretIndex(secrets)

    def mask(self, text: str) -> str:
        """Mask every known secret in `text`."""
        return StreamMasker(self._index).feed(text, final=True)


class StreamMasker:
    """Masks a text that arrives in pieces.

    What may be the beginning of a secret is held back until that is decided; `final` releases it.
    """

    def __init__(self, secrets: "Iterable[str] | SecretIndex") -> None:
        self._index = secrets if isinstance(secrets, SecretIndex) else SecretIndex(secrets)
        self.restart()

    def restart(self) -> None:
        """Forget the text so far, before an unrelated text."""
        self._held = ""
        # This many characters of _held belong to an emitted mask, or are emitted themselves.
        self._covered = self._out = 0

    def feed(self, text: str, *, final: bool = False) -> str:
        """Add a piece; return the text that is decided by now, masked."""
        if not self._index:
            return text
        text = self._held + text
        occurrences, certain = self._index.search(text)
        certain = len(text) if final else certain
        covered, out, output = self._covered, self._out, []
        for start, end in occurrences:
            if start >= certain:
                break
            if start >= covered:
                output.append(text[out:start] + MASK)
            covered = max(covered, end)
            out = max(out, covered)
        output.append(text[out:certain])
        self._held = text[certain:]
        self._covered, self._out = max(0, covered - certain), max(0, out - certain)
        return "".join(output)

    def release_line_end(self) -> str:
        """Return what is held back up to the end of a line, for a text that has paused there.

        Only if it is too short to differ from ordinary text, as nearly every line ends like the
        beginning of some secret. If the text continues as that secret, the rest is masked.
        """
        *_, end = (0, *(match.end() for match in LINE_BREAKS.finditer(self._held)))
        if len(LINE_BREAKS.sub("", self._held)) >= SHORTEST:
            return ""
        released = self._held[self._out : end]
        self._out = max(self._out, end)
        return released


class SecretForm(NamedTuple):
    """A form to search for. `unbroken` has no line breaks, `spellings` have those of the secret."""

    unbroken: str
    spellings: frozenset[str]


class SecretIndex:
    """All forms of some secrets, by their first characters.

    Looking at four characters rules out nearly every position of a text, in a time that does not
    depend on the number of secrets.
    """

    def __init__(self, secrets: Iterable[str]) -> None:
        spellings = defaultdict[str, set[str]](set)
        for form in forms_of(secrets):
            spellings[LINE_BREAKS.sub("", form)].add(form.strip("\r\n"))
        self._by_head = defaultdict[str, list[SecretForm]](list)
        for unbroken, spelled in spellings.items():
            self._by_head[unbroken[:SHORTEST]].append(SecretForm(unbroken, frozenset(spelled)))
        self.longest = max(map(len, spellings), default=0)  # characters, without line breaks
        self._openings = {head[:length] for head in self._by_head for length in range(1, SHORTEST)}

    def __bool__(self) -> bool:
        return bool(self._by_head)

    def search(self, text: str) -> tuple[list[tuple[int, int]], int]:
        """Return the occurrences, in order of their starts, and how much of the text is decided.

        Undecided is the longest suffix that may be the beginning of a form.
        """
        lines = UnbrokenText(text)
        occurrences, certain = [], _opening(lines.unbroken, self._openings)
        for start, form in self._begun(lines.unbroken):
            end = start + len(form.unbroken)
            if end > len(lines.unbroken):
                certain = min(certain, start)
                continue
            place, over = lines.place_of(start), lines.place_of(end - 1) + 1
            if len(form.unbroken) >= SHORTEST_LINE or text[place:over] in form.spellings:
                occurrences.append((place, over))
        return occurrences, lines.place_of(certain)

    def _begun(self, text: str) -> Iterator[tuple[int, SecretForm]]:
        """Yield each form that begins in this text, and its start; the text may cut it off."""
        heads, starts = self._by_head, range(len(text) - SHORTEST + 1)
        for start in [each for each in starts if text[each : each + SHORTEST] in heads]:
            for form in heads[text[start : start + SHORTEST]]:
                there = text[start : start + len(form.unbroken)]
                if form.unbroken.startswith(there):
                    yield start, form


def _opening(text: str, openings: set[str]) -> int:
    """Return the start of the longest suffix of `text` that is in `openings`."""
    starts = range(max(0, len(text) - SHORTEST + 1), len(text))
    return next((start for start in starts if text[start:] in openings), len(text))


class UnbrokenText:
    """A text without its line breaks, as `unbroken`."""

    def __init__(self, text: str) -> None:
        self._text = text
        self.unbroken = LINE_BREAKS.sub("", text)
        self._starts, self._removed = [0], [0]  # of each line; line breaks removed before it
        for match in LINE_BREAKS.finditer(text):
            self._removed.append(self._removed[-1] + match.end() - match.start())
            self._starts.append(match.end() - self._removed[-1])

    def place_of(self, position: int) -> int:
        """Return a position of `unbroken` as a position in the text; its end is the text's end."""
        if position == len(self.unbroken):
            return len(self._text)
        line = bisect_right(self._starts, position) - 1
        return position + self._removed[line]
