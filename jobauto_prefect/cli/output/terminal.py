"""Output on a terminal: tables that fit it, times, durations, colours."""

import contextlib
import json
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from functools import cache
from typing import TYPE_CHECKING, Any

from jobauto_prefect.wording import escape_controls, pluralize

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
"""The colour of a word for a state."""

LIVE = ("scheduled", "running")
"""States of jobs that have not ended."""

FEW = 3  # names listed if many share a message
PLURALS: Mapping[str, str] = {"company": "companies"}
GAP = 2  # spaces between columns
NARROWEST = 8  # columns are not cut below this
WIDE = 500  # columns without a terminal: readers of a pipe need no line breaks


@cache
def console() -> "Console":
    """Return the console of standard output; without a terminal or with NO_COLOR, no colours."""
    from rich.console import Console

    return Console(highlight=False, emoji=False, width=None if sys.stdout.isatty() else WIDE)


@cache
def error_console() -> "Console":
    """Return the console of standard error: progress and hints.

    So standard output only has the results.
    """
    from rich.console import Console

    return Console(stderr=True, highlight=False, emoji=False)


def print_line(text: str, style: str | None = None) -> None:
    """Print a line as it is: no markup, wrapped only by the terminal."""
    console().print(text, style=style, markup=False, soft_wrap=True)


def print_hint(text: str) -> None:
    """Print a line on standard error."""
    error_console().print(text, markup=False, soft_wrap=True, style="dim")


def warning_messages(record: Mapping[str, Any]) -> list[str]:
    """Collect the service's warnings about a record it has written.

    Oddities in definitions are reported when they are validated; these are about missing records.
    """
    return [
        warning["message"]
        for warning in record.get("warnings", ())
        if "executable" not in record or warning["rule"] == "unknown_requirement"
    ]


def print_grouped_hints(about: Iterable[tuple[str, str, str]], word: str = "warning") -> None:
    """Print messages, each with a noun and a name, on standard error.

    A message that several share is printed once.
    """
    names: dict[tuple[str, str], list[str]] = {}
    for noun, name, message in about:
        names.setdefault((noun, message), []).append(name)
    for (noun, message), named in names.items():
        print_hint(escape_controls(f"{word}: {_name_group(noun, named)}: {message}"))


def _name_group(noun: str, names: Sequence[str]) -> str:
    """Name records: `run template A`, `12 run templates (A, B, C and 9 more)`."""
    if len(names) == 1:
        return f"{noun} {names[0]}"
    first = ", ".join(names[:FEW])
    more = f" and {len(names) - FEW} more" if len(names) > FEW else ""
    return f"{pluralize(len(names), noun, PLURALS.get(noun))} ({first}{more})"


def print_json(value: Any) -> None:
    """Print a JSON value and nothing else."""
    sys.stdout.write(json.dumps(value, ensure_ascii=False, indent=2) + "\n")


def make_cell(value: Any) -> "Text":
    """Make the table cell for a value; words for states are coloured."""
    from rich.text import Text

    text = escape_controls(_format_value(value))
    return Text(text, style=STYLES.get(text, "") if isinstance(value, str) else "")


def _format_value(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, Mapping | list | tuple):
        return json.dumps(value, ensure_ascii=False) if value else ""
    return str(value)


def print_table(columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    """Print a table; on a narrow terminal, long cells are cut."""
    _print_without_trailing_space(make_table(columns, rows))


def make_table(
    columns: Sequence[str], rows: Iterable[Sequence[Any]], width: int | None = None
) -> "Table":
    """Make a table to print; `width` is the terminal's. Short cells are never cut."""
    from rich.table import Table

    cells = [[make_cell(value) for value in row] for row in rows]
    wanted = [
        max(len(column), *(row[number].cell_len for row in cells), 0)
        for number, column in enumerate(columns)
    ]
    fitting = fit_widths(wanted, (width or console().width) - GAP * (len(columns) - 1))
    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, GAP, 0, 0))
    for column, fits in zip(columns, fitting, strict=True):
        table.add_column(column, overflow="ellipsis", no_wrap=True, width=fits)
    for row in cells:
        table.add_row(*row)
    return table


def fit_widths(wanted: Sequence[int], available: int) -> list[int]:
    """Shrink columns until they fit: the widest shrink first."""
    fitting = list(wanted)
    while sum(fitting) > available and max(fitting, default=0) > NARROWEST:
        fitting[fitting.index(max(fitting))] -= 1
    return fitting


def print_record(members: Mapping[str, Any]) -> None:
    """Print one record, a key per line, maps one entry per line; leave out empty values."""
    from rich.table import Table

    table = Table(box=None, pad_edge=False, show_header=False, padding=(0, 2, 0, 0))
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in members.items():
        for label, line in _record_lines(name, value):
            table.add_row(label, make_cell(line))
    _print_without_trailing_space(table)


def print_markdown(text: str) -> None:
    """Print Markdown: rendered on a terminal, otherwise as it is."""
    text = "\n".join(map(escape_controls, text.split("\n")))
    if not console().is_terminal:
        print_line(text)
        return
    from rich.markdown import Markdown

    console().print(Markdown(text))


def _print_without_trailing_space(table: "Table") -> None:
    """Print without the padding of the last column.

    In a pipe, or copied, they are a nuisance.
    """
    with console().capture() as captured:
        console().print(table)
    lines = captured.get().splitlines()
    sys.stdout.write("".join(line.rstrip() + "\n" for line in lines))


def _record_lines(name: str, value: Any) -> Iterable[tuple[str, Any]]:
    if value in (None, "", [], {}):
        return []
    if isinstance(value, Mapping):
        entries = [f"{key}={_format_value(item)}" for key, item in value.items()]
    elif isinstance(value, list):
        entries = [_format_value(item) for item in value]
    elif isinstance(value, str) and "\n" in value.strip():
        entries = value.strip().split("\n")
    else:
        entries = [value]
    return [(name if number == 0 else "", entry) for number, entry in enumerate(entries)]


def format_time(text: str | None) -> str:
    """Format an instant of the contract in local time."""
    if not text:
        return ""
    return datetime.fromisoformat(text).astimezone().strftime("%Y-%m-%d %H:%M:%S")


def format_duration(begin: str | None, end: str | None) -> str:
    """Format the time between two instants of the contract."""
    if not begin or not end:
        return ""
    return format_seconds(
        (datetime.fromisoformat(end) - datetime.fromisoformat(begin)).total_seconds()
    )


def format_seconds(count: float) -> str:
    """Format a duration in usual units."""
    if count < 100:
        return f"{count:.1f} s"
    minutes, over = divmod(round(count), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02} min" if hours else f"{minutes} min {over:02} s"


@contextlib.contextmanager
def show_progress(*, shown: bool) -> Iterator[Callable[[str, int, int], None]]:
    """Show progress on a terminal; yield what is called with a step, how much is done, of what.

    0: unknown.
    """
    if not (shown and sys.stderr.isatty()):
        yield lambda _what, _done, _of: None
        return
    from rich.progress import Progress

    tasks: dict[str, Any] = {}
    with Progress(console=error_console(), transient=True) as bars:

        def tell(what: str, done: int, of: int) -> None:
            if what not in tasks:
                for task in tasks.values():
                    bars.update(task, total=1, completed=1)
                tasks[what] = bars.add_task(what, total=None)
            if of:
                bars.update(tasks[what], total=of, completed=done)

        yield tell
