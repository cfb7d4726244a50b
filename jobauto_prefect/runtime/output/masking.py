"""Known secret values become `********`, wherever a text is cut.

So do the forms in which programs print them. Line breaks within an occurrence hide nothing, for
encoders break what is long; but those in values that are short are ordinary text. Occurrences may
overlap; what any of them covers is masked. `StreamMasker` gives, over all its pieces together, what
`Masker` gives for the whole text.
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
    """Masks a text that comes in pieces.

    What may be the beginning of a secret is held back until it is known; `final` releases it.
    """

    def __init__(self, secrets: "Iterable[str] | SecretIndex") -> None:
        self._index = secrets if isinstance(secrets, SecretIndex) else SecretIndex(secrets)
        self.restart()

    def restart(self) -> None:
        """Forget what came, for a text that has nothing to do with it."""
        self._held = ""
        # So many characters of _held belong to a mask that is out, or are out themselves.
        self._covered = self._out = 0

    def feed(self, text: str, *, final: bool = False) -> str:
        """Add a piece; return the text that is certain by now, masked."""
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
        """Return what is held back up to the end of a line, for a text that has rested there.

        Only what is too short to be told from ordinary text: nearly every line ends like some
        secret begins. Where it goes on as that secret, the rest is masked.
        """
        *_, end = (0, *(match.end() for match in LINE_BREAKS.finditer(self._held)))
        if len(LINE_BREAKS.sub("", self._held)) >= SHORTEST:
            return ""
        released = self._held[self._out : end]
        self._out = max(self._out, end)
        return released


class SecretForm(NamedTuple):
    """A form to look for. `unbroken` has no line breaks, `spellings` have those of the secret."""

    unbroken: str
    spellings: frozenset[str]


class SecretIndex:
    """All forms of some secrets, by their first characters.

    A look at four characters tells of nearly every place of a text that nothing begins there, and
    takes the same time however many secrets there are.
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
        """Return the occurrences, in order of their starts, and what of the text is certain.

        That is where the longest end of it begins that a form may begin with.
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
        """Yield each form that begins in this text, and where; the text's end may cut it off."""
        heads, starts = self._by_head, range(len(text) - SHORTEST + 1)
        for start in [each for each in starts if text[each : each + SHORTEST] in heads]:
            for form in heads[text[start : start + SHORTEST]]:
                there = text[start : start + len(form.unbroken)]
                if form.unbroken.startswith(there):
                    yield start, form


def _opening(text: str, openings: set[str]) -> int:
    """Return the start of the longest suffix of `text` that is one of these."""
    starts = range(max(0, len(text) - SHORTEST + 1), len(text))
    return next((start for start in starts if text[start:] in openings), len(text))


class UnbrokenText:
    """A text without its line breaks: `unbroken`."""

    def __init__(self, text: str) -> None:
        self._text = text
        self.unbroken = LINE_BREAKS.sub("", text)
        self._starts, self._removed = [0], [0]  # of each line; so much was removed before it
        for match in LINE_BREAKS.finditer(text):
            self._removed.append(self._removed[-1] + match.end() - match.start())
            self._starts.append(match.end() - self._removed[-1])

    def place_of(self, position: int) -> int:
        """Return where in the text a character of `unbroken` is; its end is the end of the text."""
        if position == len(self.unbroken):
            return len(self._text)
        line = bisect_right(self._starts, position) - 1
        return position + self._removed[line]
