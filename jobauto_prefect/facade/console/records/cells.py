"""Cells on pages of records, and the columns that draw them."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

from jobauto_prefect.console_addresses import page_of
from jobauto_prefect.definitions import pick_text
from jobauto_prefect.facade.console.visit import Visit
from jobauto_prefect.facade.formats.html.cells import CODE, Cell, clip
from jobauto_prefect.facade.formats.html.page_language import Text
from jobauto_prefect.facade.formats.record_links import find_referenced_kind

Record = Mapping[str, Any]
NOTHING = Cell("none", "\N{EN DASH}")


@dataclass(frozen=True, slots=True)
class Mark:
    """A mark of a strip; `note` is its description."""

    href: str
    tone: str
    note: str


@dataclass(frozen=True, slots=True)
class Strip:
    """A cell of marks, the newest last."""

    marks: Sequence[Mark]
    empty: str
    kind: Literal["strip"] = "strip"


AnyCell = Cell | Strip
Draw = Callable[[Any, Visit], AnyCell]
"""Draws a cell for a record, or for any other content of a row."""


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a list or a fact of a record; `when` selects the records that have the fact."""

    label: str
    draw: Draw
    when: Callable[[Any], object] | None = None


def name_of(record: Record, languages: Sequence[str]) -> str:
    """Return a record's name, in the first of the languages that has one."""
    translated = (record.get("translations") or {}).get("name")
    return pick_text(translated or record["name"], *languages)


def link(text: str, href: str) -> Cell:
    """Return a link with a clipped text."""
    return Cell("link", clip(text), href=href, title=text if clip(text) != text else "")


def link_to(item: str, record_id: object, text: str = "") -> Cell:
    """Return a link to a record of a kind; without a text it shows the id."""
    return link(text or f"#{record_id}", page_of(item, record_id))


def text_cell(text: str) -> Cell:
    """Return a text, or a dash if it is empty."""
    return Cell("text", text) if text else NOTHING


def moment_cell(moment: datetime | str | None, visit: Visit) -> Cell:
    """Return a time relative to now, with the exact one as its title, or a dash for None."""
    text = moment.isoformat() if isinstance(moment, datetime) else moment
    shown = visit.tell(text)
    return Cell("time", shown.text, title=shown.at.isoformat()) if shown else NOTHING


def yes_or_no(value: object, visit: Visit) -> Cell:
    """Return yes or no."""
    return text_cell(visit.translate("yes") if value else visit.translate("no"))


def badge(state: str, tones: Mapping[str, str]) -> Draw:
    """Draw a field that holds a state, in the state's colour."""
    return lambda record, visit: Cell(
        "badge", visit.translate(record[state]), tone=tones.get(record[state], "")
    )


def has(field: str) -> Callable[[Record], object]:
    """Return a test of whether a record has a value in a field."""
    return lambda record: record.get(field)


def text(field: str) -> Draw:
    """Draw a text or a list of texts."""

    def draw(record: Record, _: Visit) -> AnyCell:
        value = record.get(field)
        return text_cell(", ".join(value) if isinstance(value, list) else str(value or ""))

    return draw


def clipped(field: str) -> Draw:
    """Draw the beginning of a text."""
    return lambda record, _: text_cell(clip(record[field] or ""))


def code(field: str) -> Draw:
    """Draw a value that programs use, in a monospaced font."""
    return lambda record, _: Cell("code", record[field])


def number(field: str) -> Draw:
    """Draw a number."""
    return lambda record, _: Cell("number", str(record[field]))


def moment(field: str) -> Draw:
    """Draw a time."""
    return lambda record, visit: moment_cell(record[field], visit)


def colour(record: Record, _: Visit) -> Cell:
    """Draw a record's colour."""
    return Cell("colour", f"#{record['color']}")


def enabled(record: Record, visit: Visit) -> Cell:
    """Draw whether a record is enabled."""
    if record["enabled"]:
        return Cell("badge", visit.translate("enabled"), tone="good")
    return Cell("badge", visit.translate("disabled"), tone="warn")


def active(template: Record, visit: Visit) -> Cell:
    """Draw whether a run template is active."""
    if template["active"]:
        return Cell("badge", visit.translate("active"), tone="good")
    return Cell("badge", visit.translate("paused"), tone="warn")


def company(record: Record, visit: Visit) -> Cell:
    """Draw the name of the record's company."""
    return text_cell(visit.named(record, "company_id", ""))


def owner(record: Record, visit: Visit) -> Cell:
    """Draw the owner of a record."""
    if record["company_id"] is None:
        return Cell("text", visit.translate("shared"))
    return link_to("company", record["company_id"], visit.named(record, "company_id"))


def referred(field: str) -> Draw:
    """Draw a link to the record that a field refers to, or a dash if there is none."""

    def draw(record: Record, visit: Visit) -> AnyCell:
        kind = find_referenced_kind(field)
        if kind is None or record[field] is None:
            return NOTHING
        return link_to(kind.item, record[field], visit.named(record, field))

    return draw


OWNER = Column(Text("Company"), owner)
COMPANY = Column(Text("Company"), company)
ENABLED = Column(Text("State"), enabled)
ACTIVE = Column(Text("State"), active)
DRAWN: Mapping[str, Draw] = {"color": colour, "enabled": enabled, "active": active}
"""How fields with the same meaning in all kinds are drawn."""


def drawn(field: str) -> Draw:
    """Return how to draw a field, decided by its name."""
    if field in DRAWN:
        return DRAWN[field]
    if field.endswith("_at"):
        return moment(field)
    return code(field) if field in CODE or field in ("address", "door") else text(field)


def record_link(item: str) -> Draw:
    """Draw the name of a record as a link to its page."""
    return lambda record, visit: link_to(item, record["id"], name_of(record, visit.languages))


def name(item: str) -> Column:
    """Return the column with the names of a kind's records."""
    return Column(Text("Name"), record_link(item))
