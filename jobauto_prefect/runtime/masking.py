"""Known secret values become `********`, wherever a text is cut.

Occurrences may overlap; what any of them covers is masked. `StreamMasker` gives, over all its
pieces together, what `Masker` gives for the whole text.
"""

from collections.abc import Iterable, Iterator

MASK = "********"
SHORTEST = 4  # shorter values would blacken ordinary text (design, P6)
SHORTEST_LINE = 8  # of a secret that has several lines


class Masker:
    """Masks whole texts."""

    def __init__(self, secrets: Iterable[str]) -> None:
        self._secrets = _searched(secrets)

    def mask(self, text: str) -> str:
        """`text` with every known secret covered."""
        return StreamMasker(self._secrets).feed(text, final=True) if self._secrets else text


class StreamMasker:
    """Masks a text that comes in pieces.

    What may be the beginning of a secret is held back until it is known; `final` releases it.
    """

    def __init__(self, secrets: Iterable[str]) -> None:
        self._secrets = _searched(secrets)
        self._held = ""
        self._covered = 0  # so many characters of _held belong to a mask that is already out

    def feed(self, text: str, *, final: bool = False) -> str:
        """The next piece, masked as far as it is certain."""
        if not self._secrets:
            return text
        text = self._held + text
        certain = len(text) if final else self._certain(text)
        output = []
        position = self._covered
        for start, end, is_new in self._covers(text):
            if start >= certain:
                break
            if is_new:
                output.append(text[position:start] + MASK)
            position = end
        output.append(text[position:certain])
        self._held = text[certain:]
        self._covered = max(0, position - certain)
        return "".join(output)

    def _covers(self, text: str) -> Iterator[tuple[int, int, bool]]:
        """Merged occurrences in order; the first may be the rest of one whose mask is out."""
        current: tuple[int, int, bool] | None = (0, self._covered, False) if self._covered else None
        for start, end in sorted(self._occurrences(text)):
            if current is not None and start < current[1]:
                current = (current[0], max(current[1], end), current[2])
                continue
            if current is not None:
                yield current
            current = (start, end, True)
        if current is not None:
            yield current

    def _occurrences(self, text: str) -> Iterator[tuple[int, int]]:
        for secret in self._secrets:
            start = text.find(secret)
            while start >= 0:
                yield start, start + len(secret)
                start = text.find(secret, start + 1)

    def _certain(self, text: str) -> int:
        """Where the longest end of `text` begins that a secret may begin with."""
        return min((_beginning(secret, text) for secret in self._secrets), default=len(text))


def _beginning(secret: str, text: str) -> int:
    start = text.find(secret[0], max(0, len(text) - len(secret) + 1))
    while start >= 0:
        if secret.startswith(text[start:]):
            return start
        start = text.find(secret[0], start + 1)
    return len(text)


def _searched(secrets: Iterable[str]) -> tuple[str, ...]:
    """What to look for: the values without white space around them, and long lines of them.

    A private key is often printed line by line, with something in front of each.
    """
    found = set()
    for secret in secrets:
        bare = secret.strip()
        found.add(bare if len(bare) >= SHORTEST else secret)
        if "\n" in bare:
            lines = (line.strip() for line in bare.splitlines())
            found.update(line for line in lines if len(line) >= SHORTEST_LINE)
    return tuple(sorted(secret for secret in found if len(secret) >= SHORTEST))
