"""Building blocks of Markdown, as Prefect's UI shows it.

There are no tables: Prefect does not wrap their lines, so wide ones are cut off.
"""

from collections.abc import Iterable


def join_paragraphs(*parts: str) -> str:
    """Join the non-empty parts as paragraphs."""
    return "\n\n".join(part for part in parts if part)


def section(title: str, body: str, level: int = 2) -> str:
    """Put a title above a body; empty without a body."""
    return f"{'#' * level} {title}\n\n{body}" if body else ""


def fact_list(named: Iterable[tuple[str, str | None]]) -> str:
    """List names with their facts; empty facts are left out."""
    return "\n".join(f"- **{name}:** {one_line(fact)}" for name, fact in named if fact)


def list_item(subject: str, details: Iterable[str], description: str) -> str:
    """Build a list item: subject, its non-empty details, and a description."""
    shown = ", ".join(detail for detail in details if detail)
    return f"- {subject}{f' ({shown})' if shown else ''}{f': {description}' if description else ''}"


def one_line(text: str) -> str:
    """Put text on one line."""
    return " ".join(text.split())


def plain_text(text: str) -> str:
    """Return text on one line, without HTML elements."""
    return one_line(text).replace("<", "&lt;")


def code(text: str) -> str:
    """Quote text as code; empty for no text."""
    shown = one_line(text).replace("`", "'")  # a code span can't contain one
    return f"`{shown}`" if shown else ""
