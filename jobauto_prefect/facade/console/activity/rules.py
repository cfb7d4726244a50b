"""Event rules: a list, a picture of what starts what, and a page of one."""

import contextlib
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any

from fastapi import Request, Response

from jobauto_prefect.console_addresses import CONSOLE, CONTRACT
from jobauto_prefect.facade.console.activity.event_pages import RULES, SOURCES, Names
from jobauto_prefect.facade.console.contract import Contract, ContractError, CurrentContract
from jobauto_prefect.facade.console.records.choices import Choices, read_choices
from jobauto_prefect.facade.console.records.pages import (
    Action,
    AnyCell,
    ListFilter,
    ListPage,
    RecordPage,
    Section,
    enabled_badge,
    language_parts,
    link,
    list_query,
    respond_with_list,
    respond_with_record,
    text_cell,
)
from jobauto_prefect.facade.formats.html.cell_model import Cell
from jobauto_prefect.facade.formats.html.page_language import Translator
from jobauto_prefect.facade.http import late_routes

BOX_WIDTH, BOX_HEIGHT = 208, 44


COLUMN, ROW = 300, 66


MARGIN = 8


LABEL = 26  # characters


@dataclass(frozen=True, slots=True)
class Origin:
    """What a rule reacts to, or starts; `key` is unique among all of them."""

    key: str
    label: str
    href: str
    is_source: bool = False


@dataclass(frozen=True, slots=True)
class Arrow:
    """A rule as the picture is to show it; `note` says on what it starts something."""

    start: str
    end: str
    href: str
    note: str
    is_enabled: bool


@dataclass(frozen=True, slots=True)
class Box:
    """A placed origin; `x` and `y` are of its upper left corner."""

    x: int
    y: int
    label: str
    title: str
    href: str
    is_source: bool


@dataclass(frozen=True, slots=True)
class Curve:
    """A placed arrow: the path of its line."""

    path: str
    href: str
    note: str
    is_enabled: bool


@dataclass(frozen=True, slots=True)
class Picture:
    """All of it; empty where there are no rules."""

    width: int
    height: int
    boxes: Sequence[Box]
    curves: Sequence[Curve]


def draw_rules(origins: Mapping[str, Origin], arrows: Sequence[Arrow]) -> Picture:
    """Place the ends of all arrows in columns, so that arrows lead to the right where they can.

    Arrows whose ends are not among `origins` are left out.
    """
    known = [arrow for arrow in arrows if {arrow.start, arrow.end} <= origins.keys()]
    columns = _columns(known)
    places = _places(columns, known)
    boxes = [_box(origins[key], *place) for key, place in places.items()]
    return Picture(
        width=2 * MARGIN + max((box.x + BOX_WIDTH for box in boxes), default=0),
        height=2 * MARGIN + max((box.y + BOX_HEIGHT for box in boxes), default=0),
        boxes=boxes,
        curves=[_curve(arrow, places) for arrow in known],
    )


def _columns(arrows: Sequence[Arrow]) -> dict[str, int]:
    """Return each end's column: one to the right of all that start it; circles end somewhere."""
    columns = dict.fromkeys((key for arrow in arrows for key in (arrow.start, arrow.end)), 0)
    for _ in range(len(columns)):
        moved = False
        for arrow in arrows:
            wanted = columns[arrow.start] + 1
            if columns[arrow.end] < wanted < len(columns):
                columns[arrow.end], moved = wanted, True
        if not moved:
            break
    used = {column: number for number, column in enumerate(sorted(set(columns.values())))}
    return {key: used[column] for key, column in columns.items()}


def _places(columns: Mapping[str, int], arrows: Sequence[Arrow]) -> dict[str, tuple[int, int]]:
    """Return column and row of each end; what is started stands near to what starts it."""
    starts = defaultdict(list)
    for arrow in arrows:
        starts[arrow.end].append(arrow.start)
    places: dict[str, tuple[int, int]] = {}

    def middle(key: str) -> float:
        rows = [places[start][1] for start in starts[key] if start in places]
        return sum(rows) / len(rows) if rows else float(len(places))

    for column in range(max(columns.values(), default=-1) + 1):
        keys = [key for key, its_column in columns.items() if its_column == column]
        for row, key in zip(count(), sorted(keys, key=middle), strict=False):
            places[key] = (column, row)
    return places


def _box(origin: Origin, column: int, row: int) -> Box:
    label = origin.label if len(origin.label) <= LABEL else f"{origin.label[: LABEL - 1]}…"
    x, y = MARGIN + column * COLUMN, MARGIN + row * ROW
    return Box(x, y, label, origin.label, origin.href, origin.is_source)


def _curve(arrow: Arrow, places: Mapping[str, tuple[int, int]]) -> Curve:
    (left, top), (right, bottom) = places[arrow.start], places[arrow.end]
    x, y = MARGIN + left * COLUMN + BOX_WIDTH, MARGIN + top * ROW + BOX_HEIGHT // 2
    to_x, to_y = MARGIN + right * COLUMN, MARGIN + bottom * ROW + BOX_HEIGHT // 2
    bend = max(40, abs(to_x - x) // 2)
    # One that leads past a column does so between its rows.
    sag = 0 if right == left + 1 else 2 * ROW // 3
    path = f"M{x},{y} C{x + bend},{y + sag} {to_x - bend},{to_y + sag} {to_x - 4},{to_y}"
    return Curve(path, arrow.href, arrow.note, arrow.is_enabled)


FILTERS = ("event_source_id", "runtemplate_source_id", "runtemplate_id", "enabled")


MAX_SHOWN = 200
"""Rules of a page: a picture of more is nothing to look at."""


router = late_routes.router(include_in_schema=False)


Rule = Mapping[str, Any]


Origins = Mapping[str, Origin]


@router.get(RULES)
async def list_rules(request: Request, contract: CurrentContract) -> Response:
    """List the rules that the visitor may see, each page as a picture and as a table."""
    translate, languages = language_parts(request)
    query = list_query(request, FILTERS)
    view = await contract.read("/eventrules", {**query, "limit": MAX_SHOWN})
    rules = list(view.data.values())
    templates = await read_choices(contract, "runtemplates", languages)
    sources = await read_choices(contract, "eventsources", languages)
    origins = _origins(view.names, templates, sources)
    arrows = [_arrow(rule, translate) for rule in rules]
    new = Action(translate("New event rule"), f"{RULES}/new", is_main=True)
    page = ListPage(
        collection="rules",
        title="Event rules",
        here="Events",
        heads=[
            translate("When"),
            translate("Of"),
            translate("Starts"),
            translate("Priority"),
            translate("State"),
        ],
        rows=[_row(rule, origins, translate) for rule in rules],
        filters=[
            ListFilter("event_source_id", translate("Event source"), sources),
            ListFilter("runtemplate_source_id", translate("After run template"), templates),
            ListFilter("runtemplate_id", translate("Starts run template"), templates),
            ListFilter(
                "enabled",
                translate("State"),
                [("true", translate("enabled")), ("false", translate("switched off"))],
            ),
        ],
        empty=translate(
            "There is no event rule yet. One says which change, or which end of a job, starts a "
            "run template."
        ),
        actions=[new] if contract.who.rights.anywhere("jobs.create") else [],
    )
    return respond_with_list(
        request,
        contract.who,
        page,
        view,
        template="activity/rules.html",
        picture=draw_rules(origins, arrows),
        is_part=(view.total or 0) > len(rules),
    )


@router.get(f"{RULES}/{{eventrule:int}}")
async def show_rule(eventrule: int, request: Request, contract: CurrentContract) -> Response:
    """Show a rule: on what it starts which run template, with which values."""
    translate, languages = language_parts(request)
    view = await contract.read(f"/eventrule/{eventrule}")
    templates = await read_choices(contract, "runtemplates", languages)
    sources = await read_choices(contract, "eventsources", languages)
    origins = _origins(view.names, templates, sources)
    rule = view.data
    target = await _read_target(contract, rule)
    may_edit = target and contract.who.rights.may("jobs.update", target["company_id"])
    _, origin, started, priority, state = _row(rule, origins, translate)
    page = RecordPage(
        title=_occasion(rule, translate),
        about=[],
        badges=[state] if isinstance(state, Cell) else [],
        actions=[Action(translate("Edit"), f"{RULES}/{eventrule}/edit")] if may_edit else [],
        facts=[
            (translate("Of"), origin),
            (translate("Starts"), started),
            (translate("Priority"), priority),
        ],
        sections=[
            Section(
                "mapping",
                translate("Values from the event"),
                [translate("Key"), translate("Where it stands in the event")],
                [
                    [Cell("code", key), Cell("code", str(selector))]
                    for key, selector in rule["env_mapping"].items()
                ],
                translate("The event gives no values."),
            )
        ],
        contract_href=f"{CONTRACT}/eventrule/{eventrule}.html",
        prefect_url=rule["prefect_url"],
    )
    return respond_with_record(request, contract.who, page, here="Events")


async def _read_target(contract: Contract, rule: Rule) -> Mapping[str, Any] | None:
    """Read the run template that a rule starts; None: the visitor may not see it."""
    with contextlib.suppress(ContractError):
        template: Mapping[str, Any] = (
            await contract.read(f"/runtemplate/{rule['runtemplate_id']}")
        ).data
        return template
    return None


def _origins(names: Mapping[str, Names], templates: Choices, sources: Choices) -> Origins:
    """Return what rules react to or start, as far as the visitor may know its name, by its key.

    What choices say of it tells apart those that have one name.
    """
    template_labels, source_labels = dict(templates), dict(sources)
    known: Iterable[Origin] = (
        *(
            Origin(_source_key(key), source_labels.get(key, name), f"{SOURCES}/{key}", True)
            for key, name in names.get("eventsource", {}).items()
        ),
        *(
            Origin(
                _template_key(key), template_labels.get(key, name), f"{CONSOLE}/runtemplates/{key}"
            )
            for key, name in names.get("runtemplate", {}).items()
        ),
    )
    return {origin.key: origin for origin in known}


def _source_key(key: object) -> str:
    return f"source {key}"


def _template_key(key: object) -> str:
    return f"template {key}"


def _start(rule: Rule) -> str:
    """Return the key of what a rule reacts to."""
    source = rule["event_source_id"]
    return _template_key(rule["runtemplate_source_id"]) if source is None else _source_key(source)


def _arrow(rule: Rule, translate: Translator) -> Arrow:
    return Arrow(
        _start(rule),
        _template_key(rule["runtemplate_id"]),
        f"{RULES}/{rule['id']}",
        _occasion(rule, translate),
        rule["enabled"],
    )


def _occasion(rule: Rule, translate: Translator) -> str:
    """Return on what a rule starts its run template."""
    if rule["event_source_id"] is None:
        if rule["on"] == "any":
            return translate("After any end")
        return translate("After {outcome}", outcome=translate(rule["on"]))
    evidence = rule["evidence"] or translate("any record")
    return f"{evidence}: {translate(rule['operation'])}"


def _row(rule: Rule, origins: Origins, translate: Translator) -> list[AnyCell]:
    return [
        link(_occasion(rule, translate), f"{RULES}/{rule['id']}"),
        _cell(_start(rule), origins),
        _cell(_template_key(rule["runtemplate_id"]), origins),
        Cell("number", str(rule["priority"])),
        enabled_badge(rule, translate),
    ]


def _cell(key: str, origins: Origins) -> Cell:
    """Return an end of a rule; of one that the visitor may not see, its number."""
    if key in origins:
        return link(origins[key].label, origins[key].href)
    return text_cell(f"#{key.rpartition(' ')[2]}")
