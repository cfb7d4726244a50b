"""Known secret values become `********`, wherever a text is cut.

So do the forms in which programs print them: URL-encoded, in base64 (also where it is of a longer
text, such as a Basic header), and as in JSON. Occurrences may overlap; what any of them covers is
masked. `StreamMasker` gives, over all its pieces together, what `Masker` gives for the whole text.
"""

import base64
import json
import re
from collections.abc import Iterable, Iterator
from urllib.parse import quote, quote_plus

MASK = "********"
SHORTEST = 4  # shorter values would blacken ordinary text (design, P6)
SHORTEST_LINE = 8  # of a secret that has several lines


class Masker:
    """Masks whole texts."""

    def __init__(self, secrets: Iterable[str]) -> None:
        self._searched = _searched(secrets)

    def mask(self, text: str) -> str:
        """`text` with every known secret covered."""
        if not self._searched:
            return text
        masker = StreamMasker(())
        masker._secrets = self._searched  # noqa: SLF001 - found once, used for many texts
        return masker.feed(text, final=True)


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
    """What to look for: the values without white space around them, long lines of them, and the
    forms of all these.

    A private key is often printed line by line, with something in front of each.
    """
    found = set()
    for secret in secrets:
        bare = secret.strip()
        found.add(bare if len(bare) >= SHORTEST else secret)
        if "\n" in bare:
            lines = (line.strip() for line in bare.splitlines())
            found.update(line for line in lines if len(line) >= SHORTEST_LINE)
    known = {secret for secret in found if len(secret) >= SHORTEST}
    forms = {form for secret in known for form in _forms(secret) if len(form) >= SHORTEST}
    return tuple(sorted(known | forms))


def _forms(secret: str) -> Iterator[str]:
    encodable = secret.encode(errors="surrogatepass")
    for encoded in (
        quote(encodable, safe=""), quote(encodable), quote(encodable, safe="!'()*"),
        quote_plus(encodable),
    ):  # fmt: skip
        yield encoded
        yield _ESCAPE.sub(lambda match: match[0].lower(), encoded)
    yield json.dumps(secret)[1:-1]
    yield json.dumps(secret, ensure_ascii=False)[1:-1]
    for before in range(3):
        inside = _base64_within(encodable, before)
        yield inside
        yield inside.translate(_URL_SAFE)


_ESCAPE = re.compile("%[0-9A-F]{2}")
_URL_SAFE = str.maketrans("+/", "-_")


def _base64_within(secret: bytes, before: int) -> str:
    """What is the same in every base64 of a text that has so many bytes (modulo 3) before it.

    The first and the last digit may also depend on what stands around it.
    """
    digits = base64.b64encode(bytes(before) + secret).decode().rstrip("=")
    whole = (before + len(secret)) * 8 // 6
    return digits[(before * 8 + 5) // 6 : whole]
