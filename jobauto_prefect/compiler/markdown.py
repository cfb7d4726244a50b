"""Pieces of Markdown, as Prefect's UI shows it.

There are no tables: Prefect breaks no line in them, so wide ones are cut off.
"""

from collections.abc import Iterable


def joined(*parts: str) -> str:
    """The parts that say something, as paragraphs."""
    return "\n\n".join(part for part in parts if part)


def section(title: str, body: str, level: int = 2) -> str:
    """A body under its title; nothing where there is no body."""
    return f"{'#' * level} {title}\n\n{body}" if body else ""


def facts(named: Iterable[tuple[str, str | None]]) -> str:
    """A list of names and what is known of each; what is not known is left out."""
    return "\n".join(f"- **{name}:** {line(fact)}" for name, fact in named if fact)


def entry(subject: str, details: Iterable[str], said: str) -> str:
    """A line of a list: the subject, its details that say something, and a text about it."""
    shown = ", ".join(detail for detail in details if detail)
    return f"- {subject}{f' ({shown})' if shown else ''}{f': {said}' if said else ''}"


def line(text: str) -> str:
    """Text on one line."""
    return " ".join(text.split())


def prose(text: str) -> str:
    """Text on one line, without elements of HTML."""
    return line(text).replace("<", "&lt;")


def code(text: str) -> str:
    """Text as it is; nothing for no text."""
    shown = line(text).replace("`", "'")  # which a code span can't hold
    return f"`{shown}`" if shown else ""
