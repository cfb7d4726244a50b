"""Log lines as a terminal would show them; colours are classes of the stylesheet."""

from collections.abc import Iterator
from dataclasses import dataclass

from rich.ansi import AnsiDecoder
from rich.color import Color, ColorSystem
from rich.style import Style

ESCAPE = "\x1b"
MAX_LINE = 4000  # characters of a line that a page shows
MAX_MARKS = 50  # highlighted matches in a text
_CONTROLS = dict.fromkeys((*range(9), *range(10, 32), 127))  # all but tabs


@dataclass(frozen=True, slots=True)
class TextPart:
    """A text in one style; `classes` are those of the stylesheet.

    `is_match`: it matches the search.
    """

    text: str
    classes: str = ""
    is_match: bool = False


class TerminalText:
    """Parses the lines of one stream in order: a colour lasts until the next one."""

    def __init__(self) -> None:
        self._decoder = AnsiDecoder()

    def parts_of(self, line: str, sought: str = "") -> list[TextPart]:
        """Return the parts of a line, truncated if too long; matches of `sought` are marked."""
        parts = _clip(self._decode(line.rstrip("\r\n")))
        return [split for part in parts for split in _mark(part, sought)]

    def _decode(self, line: str) -> Iterator[TextPart]:
        if ESCAPE not in line and not self._decoder.style:
            # What came before a carriage return was overwritten.
            yield TextPart(line.rpartition("\r")[2].translate(_CONTROLS))
            return
        decoded = self._decoder.decode_line(line)
        at = 0
        for span in decoded.spans:
            yield TextPart(decoded.plain[at : span.start].translate(_CONTROLS))
            shown = decoded.plain[span.start : span.end].translate(_CONTROLS)
            yield TextPart(shown, _classes(span.style))
            at = span.end
        yield TextPart(decoded.plain[at:].translate(_CONTROLS))


def _classes(style: Style | str) -> str:
    """Return the classes of a style: `f1` to `f15` and `b1` to `b15` are a terminal's colours."""
    if isinstance(style, str):
        return ""
    text, ground = (style.bgcolor, style.color) if style.reverse else (style.color, style.bgcolor)
    names = [_colour("f", text), _colour("b", ground)]
    names += ["bold"] if style.bold else []
    names += ["dim"] if style.dim else []
    names += ["italic"] if style.italic else []
    names += ["underline"] if style.underline else []
    return " ".join(filter(None, names))


def _colour(kind: str, color: Color | None) -> str:
    number = color.downgrade(ColorSystem.STANDARD).number if color else None
    return "" if number is None else f"{kind}{number}"


def _clip(parts: Iterator[TextPart]) -> Iterator[TextPart]:
    left = MAX_LINE
    for part in parts:
        if len(part.text) > left:
            yield TextPart(f"{part.text[:left]}…", part.classes)
            return
        left -= len(part.text)
        if part.text:
            yield part


def _mark(part: TextPart, sought: str) -> Iterator[TextPart]:
    """Split a part at the first `MAX_MARKS` matches of a text, ignoring case."""
    folded, wanted = part.text.lower(), sought.lower()
    if not wanted or len(folded) != len(part.text):
        yield part
        return
    at = marks = 0
    while (begin := folded.find(wanted, at)) >= 0 and marks < MAX_MARKS:
        end = begin + len(wanted)
        if begin > at:
            yield TextPart(part.text[at:begin], part.classes)
        yield TextPart(part.text[begin:end], part.classes, is_match=True)
        at, marks = end, marks + 1
    if at < len(part.text):
        yield TextPart(part.text[at:], part.classes)
