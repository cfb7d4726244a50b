"""Pieces of Markdown, as Prefect's UI shows it."""

from collections.abc import Sequence


def joined(*parts: str) -> str:
    """The parts that say something, as paragraphs."""
    return "\n\n".join(part for part in parts if part)


def section(title: str, body: str, level: int = 2) -> str:
    """A body under its title; nothing where there is no body."""
    return f"{'#' * level} {title}\n\n{body}" if body else ""


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table of cells that are Markdown already; nothing without rows."""
    if not rows:
        return ""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def line(text: str) -> str:
    """Text on one line."""
    return " ".join(text.split())


def cell(text: str) -> str:
    """Text that does not leave its cell."""
    return line(text).replace("|", "\\|").replace("<", "&lt;")


def code(text: str) -> str:
    """Text as it is, in a table too; nothing for no text."""
    # A code span can't hold a backtick, and a table cell no bar.
    shown = line(text).replace("`", "'").replace("|", "\\|")
    return f"`{shown}`" if shown else ""
