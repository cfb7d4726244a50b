"""HTML: pages for people, without scripts and without anything from elsewhere."""

import base64
import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC
from functools import cache
from importlib import resources
from typing import Any, Final
from urllib.parse import quote, urlencode

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from jobauto_prefect.definitions.pictures import picture_of
from jobauto_prefect.facade.rendering.cells import cell_in, localized_text
from jobauto_prefect.facade.rendering.data import Record, plain, records_of
from jobauto_prefect.facade.rendering.formats import FORMATS
from jobauto_prefect.facade.rendering.kinds import KINDS
from jobauto_prefect.facade.rendering.labels import label
from jobauto_prefect.facade.rendering.moments import read_moment
from jobauto_prefect.facade.rendering.scalars import web_address
from jobauto_prefect.facade.rendering.shapes import Cell, Place
from jobauto_prefect.facade.rendering.sheet import scalar_members
from jobauto_prefect.facade.rendering.view import Filter, Link, View

STYLE: Final = (resources.files(__package__) / "templates" / "style.css").read_text("utf-8")

_STYLE_HASH = base64.b64encode(hashlib.sha256(STYLE.encode()).digest()).decode()
CONTENT_SECURITY_POLICY: Final = (
    f"default-src 'none'; style-src 'sha256-{_STYLE_HASH}'; img-src data: https:; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
"""The header every page is to be sent with: it may show itself and pictures, and nothing else."""

POSITION = ("cursor", "offset")
"""Query fields that say where in a list one is: another order or filter begins anew."""

HEADLINE = ("state", "severity", "enabled", "active")
WIDE = frozenset({"table", "output", "fold", "image"})


@dataclass(frozen=True, slots=True)
class Head:
    """A column's head; `sorted_as` is the value of aria-sort, "" where it can't be sorted."""

    label: str
    href: str = ""
    sorted_as: str = ""


@dataclass(frozen=True, slots=True)
class Field:
    """A filter as the form shows it."""

    filter: Filter
    value: str


@dataclass(frozen=True, slots=True)
class Section:
    """A named part of a record's page."""

    label: str
    cell: Cell


def render_html(view: View) -> bytes:
    """A whole page: an error, a list, or a record."""
    shown = replace(view, data=plain(view.data))
    if _is_error(shown):
        return render_page("error.html", shown, error=shown.data, details=_details(shown))
    if shown.is_list:
        return render_page("list.html", shown, **_list_parts(shown))
    data = shown.data if isinstance(shown.data, dict) else {"value": shown.data}
    return render_page("record.html", shown, **_record_parts(shown, data))


def _is_error(view: View) -> bool:
    return not view.item and isinstance(view.data, dict) and "error" in view.data


def _details(view: View) -> Cell | None:
    """What an error says beyond its message, where it is no list of faults."""
    details = view.data.get("details")
    if not details or isinstance(details, list):
        return None
    return cell_in(view.data, "details", Place("", view.base))


def render_page(template: str, view: View, **parts: Any) -> bytes:
    """A page of one of the templates; `parts` are what it names."""
    text = (
        _templates()
        .get_template(template)
        .render(
            view=view,
            style=Markup(STYLE),  # noqa: S704 - it is our own file
            navigation=[*((kind.collection, kind.many) for kind in KINDS.values()), *_OTHERS],
            here=_collection(view),
            formats=list(_formats(view)) if view.path and not _is_error(view) else [],
            **parts,
        )
    )
    return text.encode("utf-8", "replace")


_OTHERS = (("status", "Status"), ("index", "Index"))


@cache
def _templates() -> Environment:
    return Environment(
        loader=PackageLoader(__package__),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def _collection(view: View) -> str:
    """The collection whose entry of the navigation is the current one."""
    return KINDS[view.item].collection if view.item in KINDS else view.path.rpartition("/")[2]


def _formats(view: View) -> Iterator[Link]:
    for name, one in FORMATS.items():
        if name != "html" and (view.is_list or not one.for_lists_only):
            yield Link(name.upper(), _address(view, view.query, name))


def _address(view: View, query: Mapping[str, str], suffix: str = "html") -> str:
    # One slash at the beginning: two would name another host.
    path = quote("/" + view.path.lstrip("/"), errors="replace")
    fields = f"?{urlencode(query, errors='replace')}" if query else ""
    return f"{path}.{suffix}{fields}"


# A list.


def _list_parts(view: View) -> dict[str, Any]:
    records = [record for _, record in records_of(view)]
    columns = _columns(view, records)
    place = Place(view.item, view.base, brief=True, names=view.names, languages=view.languages)
    beginning = _beginning(view)
    names = {one.name for one in view.filters}
    return {
        "heads": [_head(view, name, beginning) for name in columns],
        "rows": [[cell_in(record, name, place) for name in columns] for record in records],
        "count": _count(view, len(records)),
        "fields": [Field(one, _filter_value(one, view.query)) for one in view.filters],
        "kept": {name: value for name, value in beginning.items() if name not in names},
        "is_filtered": any(view.query.get(name) for name in names),
        "clear": _address(view, {k: v for k, v in beginning.items() if k not in names}),
        "first": None if view.first_query is None else _address(view, view.first_query),
        "next": None if view.next_query is None else _address(view, view.next_query),
    }


def _columns(view: View, records: list[Record]) -> list[str]:
    if view.columns:
        return list(view.columns)
    present = {name for record in records for name in record}
    chosen = KINDS[view.item].columns if view.item in KINDS else ()
    return [name for name in chosen if name in present] or scalar_members(records)


def _beginning(view: View) -> dict[str, str]:
    query = view.query if view.first_query is None else view.first_query
    return {name: value for name, value in query.items() if name not in POSITION}


def _head(view: View, name: str, beginning: Mapping[str, str]) -> Head:
    if name not in view.orders:
        return Head(label(name))
    order = view.query.get("order", "")
    state = {name: "ascending", f"-{name}": "descending"}.get(order, "none")
    wanted = f"-{name}" if order == name else name
    return Head(label(name), _address(view, {**beginning, "order": wanted}), state)


def _count(view: View, shown: int) -> str:
    total = shown if view.total is None else view.total
    kind = KINDS.get(view.item)
    many = kind.many.lower() if kind and kind.item != "auditlog" else "entries"
    one = kind.one.lower() if kind and kind.item != "auditlog" else "entry"
    if view.total is None and (view.next_query is not None or view.first_query is not None):
        return f"{shown:,} on this page"
    counted = f"{total:,} {one if total == 1 else many}"
    return counted if shown == total else f"{shown:,} of {counted}"


def _filter_value(one: Filter, query: Mapping[str, str]) -> str:
    """The value as the form's control takes it: times in UTC without an offset."""
    value = query.get(one.name, "")
    moment = read_moment(value.replace(" ", "T")) if one.kind == "time" else None
    return f"{moment.astimezone(UTC):%Y-%m-%dT%H:%M:%S}" if moment else value


# A record.


def _record_parts(view: View, data: Record) -> dict[str, Any]:
    place = Place(view.item, view.base, names=view.names, languages=view.languages)
    cells = {name: cell_in(data, name, place) for name in data}
    link = data.get("prefect_url") if view.item else None
    badges = [name for name in HEADLINE if name in cells and cells[name].kind == "badge"]
    apart = {*badges, "prefect_url"} if web_address(link) else set(badges)
    wide = [name for name in cells if cells[name].kind in WIDE]
    return {
        "name": _name(view, data),
        "picture": picture_of(data.get("image")) if view.item == "app" else None,
        "badges": [Section(label(name), cells[name]) for name in badges],
        "prefect_url": web_address(link),
        "facts": [
            (label(name), name, cells[name])
            for name in sorted(cells, key=lambda name: name != "id")
            if name not in apart and name not in wide
        ],
        "sections": [Section(label(name), cells[name]) for name in wide],
        "related": list(_related(view, data)),
    }


def _name(view: View, data: Record) -> str:
    """What the record is called, where the title does not say it."""
    for member in ("title", "name", "login"):
        text = localized_text(data.get(member), view.languages) if view.item else None
        if text:
            return "" if text in view.title else text[:200]
    return ""


def _related(view: View, data: Record) -> Iterator[Link]:
    if view.item in KINDS and "id" in data:
        for text, path in KINDS[view.item].pages:
            yield Link(text, f"{view.base}/{view.item}/{quote(str(data['id']), safe='')}/{path}")
    for link in view.related:
        if link.href.startswith(f"{view.base}/") or web_address(link.href):
            yield link
