"""What is shown of a record: columns and facts as data, and how each is drawn."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from jobauto_prefect.console_addresses import CONSOLE
from jobauto_prefect.facade.console.records.page_parts import (
    AnyCell,
    enabled_badge,
    link,
    moment_cell,
    name_of,
    state_badge,
    text_cell,
)
from jobauto_prefect.facade.console.visit import Visit
from jobauto_prefect.facade.formats import View
from jobauto_prefect.facade.formats.html.cell_model import Cell, clip
from jobauto_prefect.facade.formats.html.page_language import Text, tell

Record = Mapping[str, Any]
Draw = Callable[[Any, View, Visit], AnyCell]
"""Draws something of a record; the view is the one that has it, with the names of what it names."""


@dataclass(frozen=True, slots=True)
class Column:
    """A column, or a fact; `when`: of which records the fact is told, None: of all."""

    label: Text
    draw: Draw
    when: Callable[[Any], object] | None = None


def has(field: str) -> Callable[[Record], object]:
    """Return whether records say something in a field."""
    return lambda record: record.get(field)


def text(field: str) -> Draw:
    """Draw a text, or several."""

    def draw(record: Record, _view: View, _visit: Visit) -> AnyCell:
        value = record.get(field)
        return text_cell(", ".join(value) if isinstance(value, list) else str(value or ""))

    return draw


def fact(label: Text, field: str) -> Column:
    """Return the fact that a field says, where it says something."""
    return Column(label, text(field), when=has(field))


def clipped(field: str) -> Draw:
    """Draw the beginning of a text."""
    return lambda record, _view, _visit: text_cell(clip(record[field] or ""))


def code(field: str) -> Draw:
    """Draw what programs are told, too."""
    return lambda record, _view, _visit: Cell("code", record[field])


def colour(field: str) -> Draw:
    """Draw a colour."""
    return lambda record, _view, _visit: Cell("colour", f"#{record[field]}")


def moment(field: str) -> Draw:
    """Draw a time."""
    return lambda record, _view, visit: moment_cell(record[field], visit.now, visit.translate)


def record_link(folder: str) -> Draw:
    """Draw a record's name, which leads to its page in this folder of the console."""
    return lambda record, _view, visit: link(
        name_of(record, visit.languages), f"{CONSOLE}/{folder}/{record['id']}"
    )


def company(record: Record, view: View, _visit: Visit) -> AnyCell:
    """Draw the name of the record's company."""
    return text_cell(view.names.get("company", {}).get(str(record["company_id"]), ""))


def owner(record: Record, view: View, visit: Visit) -> AnyCell:
    """Draw whose a definition is."""
    number = record["company_id"]
    if number is None:
        return Cell("text", visit.translate("shared by all"))
    name = view.names.get("company", {}).get(str(number), f"#{number}")
    return link(name, f"{CONSOLE}/companies/{number}")


def enabled(record: Record, _view: View, visit: Visit) -> AnyCell:
    """Draw whether a record may be used."""
    return enabled_badge(record, visit.translate)


OWNER = Column(Text("Company"), owner)
COMPANY = Column(Text("Company"), company)
ENABLED = Column(Text("State"), enabled)
ACTIVE = Column(Text("State"), lambda record, _view, visit: state_badge(record, visit.translate))


def heads(columns: Sequence[Column], visit: Visit) -> list[str]:
    """Return the heads of a table."""
    return [tell(column.label, visit.translate) for column in columns]


def rows(
    columns: Sequence[Column], records: Iterable[Record], view: View, visit: Visit
) -> list[list[AnyCell]]:
    """Return the rows of a table."""
    return [[column.draw(record, view, visit) for column in columns] for record in records]


def facts(
    columns: Sequence[Column], record: Record, view: View, visit: Visit
) -> list[tuple[str, AnyCell]]:
    """Return what a record's page says first."""
    return [
        (tell(column.label, visit.translate), column.draw(record, view, visit))
        for column in columns
        if column.when is None or column.when(record)
    ]
