"""What people see: tables that fit the terminal, times, durations, colours."""

import json
import sys
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from functools import cache
from typing import TYPE_CHECKING, Any

from jobauto_prefect.wording import counted

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

STYLES: Mapping[str, str] = {
    "succeeded": "green",
    "success": "green",
    "info": "green",
    "warning": "yellow",
    "cancelled": "yellow",
    "running": "cyan",
    "scheduled": "dim",
    "failed": "red",
    "error": "red",
    "lost": "red",
    "blocked": "red",
    "skipped": "dim",
    "open": "dim",
    "missed": "red",
    "fulfilled": "green",
    "fulfilled_late": "yellow",
    "critical": "bold red",
    "create": "green",
    "update": "yellow",
    "restore": "magenta",
    "delete": "red",
    "unchanged": "dim",
}
"""The colour of a word that says how something stands."""

FEW = 3  # names that are said where many have something in common
PLURALS: Mapping[str, str] = {"company": "companies"}
GAP = 2  # spaces between columns
NARROWEST = 8  # columns are not cut below it
WIDE = 500  # columns where there is no terminal: what reads a pipe needs no line breaks


@cache
def console() -> "Console":
    """Standard output; without a terminal, or with NO_COLOR, there are no colours."""
    from rich.console import Console

    return Console(highlight=False, emoji=False, width=None if sys.stdout.isatty() else WIDE)


@cache
def messages() -> "Console":
    """Standard error: progress and hints, so that standard output has the results only."""
    from rich.console import Console

    return Console(stderr=True, highlight=False, emoji=False)


def say(text: str, style: str | None = None) -> None:
    """A line on standard output, as it is: no markup, broken only where the terminal ends."""
    console().print(text, style=style, markup=False, soft_wrap=True)


def hint(text: str) -> None:
    """A line on standard error."""
    messages().print(text, markup=False, soft_wrap=True, style="dim")


def warnings_in(record: Mapping[str, Any]) -> list[str]:
    """What the service warns of in a record it has written.

    What is odd in definitions is told when they are judged; here it is what is missing beside them.
    """
    return [
        one["message"]
        for one in record.get("warnings", ())
        if "executable" not in record or one["rule"] == "unknown_requirement"
    ]


def hint_in_common(about: Iterable[tuple[str, str, str]], word: str = "warning") -> None:
    """Messages on standard error, given with a noun and a name each: what they have in common is
    said once.
    """
    names: dict[tuple[str, str], list[str]] = {}
    for noun, name, message in about:
        names.setdefault((noun, message), []).append(name)
    for (noun, message), named in names.items():
        hint(printable(f"{word}: {_named(noun, named)}: {message}"))


def _named(noun: str, names: Sequence[str]) -> str:
    """`run template acme/A`; `12 run templates (acme/A, acme/B, acme/C and 9 more)`."""
    if len(names) == 1:
        return f"{noun} {names[0]}"
    first = ", ".join(names[:FEW])
    rest = f" and {len(names) - FEW} more" if len(names) > FEW else ""
    return f"{counted(len(names), noun, PLURALS.get(noun))} ({first}{rest})"


def print_json(value: Any) -> None:
    """A JSON value and nothing else."""
    sys.stdout.write(json.dumps(value, ensure_ascii=False, indent=2) + "\n")


def printable(text: str) -> str:
    """Text of unknown origin for a terminal: control characters are shown, not obeyed."""
    if text.isprintable():
        return text
    return "".join(map(_visible, text))


def _visible(character: str) -> str:
    if character == "\t" or unicodedata.category(character) != "Cc":
        return character
    return " " if character == "\n" else f"\\x{ord(character):02x}"


def cell(value: Any) -> "Text":
    """A value as the cell of a table; words that say how something stands have their colour."""
    from rich.text import Text

    text = printable(_text(value))
    return Text(text, style=STYLES.get(text, "") if isinstance(value, str) else "")


def _text(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, Mapping | list | tuple):
        return json.dumps(value, ensure_ascii=False) if value else ""
    return str(value)


def print_table(columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    """A table; where the terminal is narrow, the long cells are cut."""
    _print_without_trailing_space(table_of(columns, rows))


def table_of(
    columns: Sequence[str], rows: Iterable[Sequence[Any]], width: int | None = None
) -> "Table":
    """A table to print; `width` is that of the terminal. Short cells are never cut."""
    from rich.table import Table

    cells = [[cell(value) for value in row] for row in rows]
    wanted = [
        max(len(column), *(row[number].cell_len for row in cells), 0)
        for number, column in enumerate(columns)
    ]
    fitting = fitted(wanted, (width or console().width) - GAP * (len(columns) - 1))
    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, GAP, 0, 0))
    for column, fits in zip(columns, fitting, strict=True):
        table.add_column(column, overflow="ellipsis", no_wrap=True, width=fits)
    for row in cells:
        table.add_row(*row)
    return table


def fitted(wanted: Sequence[int], available: int) -> list[int]:
    """Widths of columns that fit together: the widest give way first."""
    fitting = list(wanted)
    while sum(fitting) > available and max(fitting, default=0) > NARROWEST:
        fitting[fitting.index(max(fitting))] -= 1
    return fitting


def print_members(members: Mapping[str, Any]) -> None:
    """One record, a member on each line, maps an entry on each; empty ones are left out."""
    from rich.table import Table

    table = Table(box=None, pad_edge=False, show_header=False, padding=(0, 2, 0, 0))
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in members.items():
        for label, line in _lines(name, value):
            table.add_row(label, cell(line))
    _print_without_trailing_space(table)


def print_markdown(text: str) -> None:
    """Markdown: laid out on a terminal, elsewhere as it is."""
    text = "\n".join(map(printable, text.split("\n")))
    if not console().is_terminal:
        say(text)
        return
    from rich.markdown import Markdown

    console().print(Markdown(text))


def _print_without_trailing_space(table: "Table") -> None:
    """Columns are filled up with spaces; in a pipe, or copied, those at the end are a nuisance."""
    with console().capture() as captured:
        console().print(table)
    lines = captured.get().splitlines()
    sys.stdout.write("".join(line.rstrip() + "\n" for line in lines))


def _lines(name: str, value: Any) -> Iterable[tuple[str, Any]]:
    if value in (None, "", [], {}):
        return []
    if isinstance(value, Mapping):
        entries = [f"{key}={_text(item)}" for key, item in value.items()]
    elif isinstance(value, list):
        entries = [_text(item) for item in value]
    elif isinstance(value, str) and "\n" in value.strip():
        entries = value.strip().split("\n")
    else:
        entries = [value]
    return [(name if number == 0 else "", entry) for number, entry in enumerate(entries)]


def moment(text: str | None) -> str:
    """An instant of the contract, by the clock of this machine."""
    if not text:
        return ""
    return datetime.fromisoformat(text).astimezone().strftime("%Y-%m-%d %H:%M:%S")


def duration(begin: str | None, end: str | None) -> str:
    """The time between two instants of the contract."""
    if not begin or not end:
        return ""
    return seconds((datetime.fromisoformat(end) - datetime.fromisoformat(begin)).total_seconds())


def seconds(count: float) -> str:
    """A length of time in the units people use."""
    if count < 100:
        return f"{count:.1f} s"
    minutes, rest = divmod(round(count), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02} min" if hours else f"{minutes} min {rest:02} s"
