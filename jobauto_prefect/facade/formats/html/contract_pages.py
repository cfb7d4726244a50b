"""Pages of lists, records and errors: the values for the templates."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC
from typing import Any
from urllib.parse import quote

from jobauto_prefect.definitions.images import image_address
from jobauto_prefect.facade.formats.csv import scalar_fields
from jobauto_prefect.facade.formats.html.cells import (
    Cell,
    CellContext,
    choose_language,
    draw_field,
    parse_web_address,
)
from jobauto_prefect.facade.formats.html.dates import parse_time
from jobauto_prefect.facade.formats.html.labels import field_label
from jobauto_prefect.facade.formats.html.page import is_error, page_address, render_page
from jobauto_prefect.facade.formats.json_yaml import Record, list_records, to_plain
from jobauto_prefect.facade.formats.view import ListFilter, PageLink, View
from jobauto_prefect.kinds import KINDS

PAGING_PARAMETERS = ("cursor", "offset")
"""Query fields of the position in a list; a new order or filter resets them."""

HEADLINE = ("state", "severity", "enabled", "active")
WIDE_CELLS = frozenset({"table", "output", "fold", "image"})


@dataclass(frozen=True, slots=True)
class ColumnHead:
    """A column's head; `sorted_as` is the value of aria-sort, "" where it can't be sorted."""

    label: str
    href: str = ""
    sorted_as: str = ""


@dataclass(frozen=True, slots=True)
class FilterField:
    """A filter as the form shows it."""

    filter: ListFilter
    value: str


@dataclass(frozen=True, slots=True)
class Section:
    """A named part of a record's page."""

    label: str
    cell: Cell


def render_html(view: View) -> bytes:
    """Render a whole page: an error, a list, or a record."""
    shown = replace(view, data=to_plain(view.data))
    if is_error(shown):
        return render_page("error.html", shown, error=shown.data, details=_details(shown))
    if shown.is_list:
        return render_page("list.html", shown, **_list_parts(shown))
    data = shown.data if isinstance(shown.data, dict) else {"value": shown.data}
    return render_page("record.html", shown, **_record_parts(shown, data))


def _details(view: View) -> Cell | None:
    """Draw an error's details beyond its message; None if there are none, or a list of errors."""
    details = view.data.get("details")
    if not details or isinstance(details, list):
        return None
    return draw_field(view.data, "details", CellContext("", view.base))


# A list.


def _list_parts(view: View) -> dict[str, Any]:
    records = [record for _, record in list_records(view)]
    columns = _columns(view, records)
    place = CellContext(
        view.item,
        view.base,
        brief=True,
        names=view.names,
        languages=view.languages,
        titles_of=view.titles_of,
        titles=view.titles_of(view.item),
    )
    first = view.query if view.first_query is None else view.first_query
    beginning = {name: value for name, value in first.items() if name not in PAGING_PARAMETERS}
    names = {listed.name for listed in view.filters}
    return {
        "heads": [
            _column_head(view, name, field_label(name, place.titles), beginning) for name in columns
        ],
        "rows": [[draw_field(record, name, place) for name in columns] for record in records],
        "count": _count_text(view, len(records)),
        "fields": [
            FilterField(listed, _filter_value(listed, view.query)) for listed in view.filters
        ],
        "kept": {name: value for name, value in beginning.items() if name not in names},
        "is_filtered": any(view.query.get(name) for name in names),
        "clear": page_address(view, {k: v for k, v in beginning.items() if k not in names}),
        "first": None if view.first_query is None else page_address(view, view.first_query),
        "next": None if view.next_query is None else page_address(view, view.next_query),
    }


def _columns(view: View, records: list[Record]) -> list[str]:
    if view.columns:
        return list(view.columns)
    present = {name for record in records for name in record}
    chosen = KINDS[view.item].columns if view.item in KINDS else ()
    return [name for name in chosen if name in present] or scalar_fields(records)


def _column_head(view: View, name: str, label: str, beginning: Mapping[str, str]) -> ColumnHead:
    if name not in view.orders:
        return ColumnHead(label)
    order = view.query.get("order", "")
    state = {name: "ascending", f"-{name}": "descending"}.get(order, "none")
    wanted = f"-{name}" if order == name else name
    return ColumnHead(label, page_address(view, {**beginning, "order": wanted}), state)


def _count_text(view: View, shown: int) -> str:
    total = shown if view.total is None else view.total
    if view.total is None and (view.next_query is not None or view.first_query is not None):
        return f"{shown:,} on this page"
    kind = KINDS.get(view.item)
    one, several = kind.counted or (kind.noun, kind.nouns) if kind else ("entry", "entries")
    counted = f"{total:,} {one if total == 1 else several}"
    return counted if shown == total else f"{shown:,} of {counted}"


def _filter_value(listed: ListFilter, query: Mapping[str, str]) -> str:
    """Return the value in the form control's format: times in UTC without an offset."""
    value = query.get(listed.name, "")
    moment = parse_time(value.replace(" ", "T")) if listed.kind == "time" else None
    return f"{moment.astimezone(UTC):%Y-%m-%dT%H:%M:%S}" if moment else value


# A record.


def _record_parts(view: View, data: Record) -> dict[str, Any]:
    titles = view.titles_of(view.item)
    place = CellContext(
        view.item,
        view.base,
        names=view.names,
        languages=view.languages,
        titles_of=view.titles_of,
        titles=titles,
    )
    cells = {name: draw_field(data, name, place) for name in data}
    link = data.get("prefect_url") if view.item else None
    badges = [name for name in HEADLINE if name in cells and cells[name].kind == "badge"]
    apart = {*badges, "prefect_url"} if parse_web_address(link) else set(badges)
    wide = [name for name in cells if cells[name].kind in WIDE_CELLS]
    return {
        "name": _name(view, data),
        "picture": image_address(data.get("image")) if view.item else None,
        "badges": [Section(field_label(name, titles), cells[name]) for name in badges],
        "prefect_url": parse_web_address(link),
        "facts": [
            (field_label(name, titles), name, cells[name])
            for name in sorted(cells, key=lambda name: name != "id")
            if name not in apart and name not in wide
        ],
        "sections": [Section(field_label(name, titles), cells[name]) for name in wide],
        "related": list(_related(view, data)),
    }


def _name(view: View, data: Record) -> str:
    """Return the record's name if the title does not contain it."""
    for member in ("title", "name", "login"):
        text = choose_language(data.get(member), view.languages) if view.item else None
        if text:
            return "" if text in view.title else text[:200]
    return ""


def _related(view: View, data: Record) -> Iterator[PageLink]:
    if view.item in KINDS and "id" in data:
        for text, path in KINDS[view.item].pages:
            yield PageLink(
                text, f"{view.base}/{view.item}/{quote(str(data['id']), safe='')}/{path}"
            )
    for link in view.related:
        if link.href.startswith(f"{view.base}/") or parse_web_address(link.href):
            yield link
