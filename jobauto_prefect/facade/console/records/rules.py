"""Event rules: the list with a diagram, the page of one, and its form."""

from collections import defaultdict
from collections.abc import Hashable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import count
from typing import Any

from jobauto_prefect.console_addresses import page_of
from jobauto_prefect.facade.auth.identity import Identity
from jobauto_prefect.facade.console.contract import ContractError
from jobauto_prefect.facade.console.records.cells import (
    ENABLED,
    Column,
    Record,
    enabled,
    link,
    number,
    text_cell,
)
from jobauto_prefect.facade.console.records.events import read_sources
from jobauto_prefect.facade.console.records.forms import FieldGroup, FormField
from jobauto_prefect.facade.console.records.pages import (
    BY_STATE,
    Action,
    Filter,
    RecordForm,
    RecordPages,
    Table,
)
from jobauto_prefect.facade.console.visit import Choices, Visit
from jobauto_prefect.facade.formats import View
from jobauto_prefect.facade.formats.html.cells import Cell
from jobauto_prefect.facade.formats.html.page_language import Text
from jobauto_prefect.kinds import KINDS

BOX_WIDTH, BOX_HEIGHT = 208, 44
COLUMN, ROW = 300, 66
MARGIN = 8
LABEL = 26  # characters


@dataclass(frozen=True, slots=True)
class Origin:
    """A node of the diagram: what a rule reacts to, or what it starts."""

    label: str
    href: str
    is_source: bool = False


@dataclass(frozen=True, slots=True)
class Arrow:
    """A rule in the diagram; `note` says when it starts something."""

    start: Hashable
    end: Hashable
    href: str
    note: str
    is_enabled: bool


@dataclass(frozen=True, slots=True)
class Box:
    """A placed node; `x` and `y` are its upper left corner."""

    x: int
    y: int
    label: str
    title: str
    href: str
    is_source: bool


@dataclass(frozen=True, slots=True)
class Curve:
    """A placed arrow; `path` is its SVG path."""

    path: str
    href: str
    note: str
    is_enabled: bool


@dataclass(frozen=True, slots=True)
class Picture:
    """The whole diagram; it is empty if there are no rules."""

    width: int
    height: int
    boxes: Sequence[Box]
    curves: Sequence[Curve]


def draw_rules(origins: Mapping[Any, Origin], arrows: Sequence[Arrow]) -> Picture:
    """Place the nodes in columns so that arrows point to the right where possible.

    Arrows with an end that is not in `origins` are left out.
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


def _columns(arrows: Sequence[Arrow]) -> dict[Any, int]:
    """Return each node's column, right of all that start it; the loop bound breaks cycles."""
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


def _places(columns: Mapping[Any, int], arrows: Sequence[Arrow]) -> dict[Any, tuple[int, int]]:
    """Return column and row of each node, close to the nodes that start it."""
    starts = defaultdict(list)
    for arrow in arrows:
        starts[arrow.end].append(arrow.start)
    places: dict[Any, tuple[int, int]] = {}

    def middle(key: Any) -> float:
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


def _curve(arrow: Arrow, places: Mapping[Any, tuple[int, int]]) -> Curve:
    (left, top), (right, bottom) = places[arrow.start], places[arrow.end]
    x, y = MARGIN + left * COLUMN + BOX_WIDTH, MARGIN + top * ROW + BOX_HEIGHT // 2
    to_x, to_y = MARGIN + right * COLUMN, MARGIN + bottom * ROW + BOX_HEIGHT // 2
    bend = max(40, abs(to_x - x) // 2)
    # An arrow that passes a column goes between its rows.
    sag = 0 if right == left + 1 else 2 * ROW // 3
    path = f"M{x},{y} C{x + bend},{y + sag} {to_x - bend},{to_y + sag} {to_x - 4},{to_y}"
    return Curve(path, arrow.href, arrow.note, arrow.is_enabled)


MAX_SHOWN = 200
"""Rules on a page: a diagram of more is unreadable."""

ENDS = {"event_source_id": "eventsource", "runtemplate_source_id": "runtemplate"}
"""What a rule can react to: field and kind."""


def _place(rule: Record, field: str) -> tuple[str, str]:
    """Return kind and id, as text, of the record that a field of a rule refers to."""
    return ENDS.get(field, "runtemplate"), str(rule[field])


def _start(rule: Record) -> tuple[str, str]:
    """Return kind and id of what a rule reacts to."""
    return _place(rule, next(field for field in ENDS if rule[field] is not None))


async def _read_origins(visit: Visit) -> dict[tuple[str, str], Origin]:
    """Return the records that the rules read so far refer to and whose names the visitor may see.

    Labels of choices are used because they distinguish records with the same name.
    """
    origins = {}
    for item, is_source in (("eventsource", True), ("runtemplate", False)):
        labels = dict(await visit.choices(KINDS[item].collection))
        for key, name in visit.names.get(item, {}).items():
            label = labels.get(key, name)
            origins[item, key] = Origin(label, page_of(item, key), is_source)
    return origins


def _occasion(rule: Record, visit: Visit) -> str:
    """Describe the event on which a rule starts its run template."""
    translate = visit.translate
    if rule["event_source_id"] is None:
        if rule["on"] == "any":
            return translate("After any end")
        return translate("After {outcome}", outcome=translate(rule["on"]))
    evidence = rule["evidence"] or translate("any record")
    return f"{evidence}: {translate(rule['operation'])}"


def _end(place: tuple[str, str], rule: Record) -> Cell:
    """Return a link to a record of a rule; its id if the visitor may not see it."""
    if origin := rule["origins"].get(place):
        return link(origin.label, origin.href)
    return text_cell(f"#{place[1]}")


OF = Column(Text("Origin"), lambda rule, _: _end(_start(rule), rule))
STARTS = Column(Text("Target"), lambda rule, _: _end(_place(rule, "runtemplate_id"), rule))
PRIORITY = Column(Text("Priority"), number("priority"))


async def _templates(visit: Visit) -> Choices:
    return await visit.choices("runtemplates")


class RulePages(RecordPages):
    """The pages of event rules; the list has a diagram, too."""

    kind, new, list_template = KINDS["eventrule"], Text("New event rule"), "records/rules.html"
    page_length = MAX_SHOWN
    columns = (
        Column(
            Text("Trigger"),
            lambda rule, visit: link(_occasion(rule, visit), page_of("eventrule", rule["id"])),
        ),
        OF,
        STARTS,
        PRIORITY,
        ENABLED,
    )
    filters = (
        Filter(
            "event_source_id", Text("Event source"), lambda visit: visit.choices("eventsources")
        ),
        Filter("runtemplate_source_id", Text("After run template"), _templates),
        Filter("runtemplate_id", Text("Starts run template"), _templates),
        BY_STATE,
    )
    empty = Text(
        "There are no event rules yet. A rule defines which change, or which end of a job, "
        "starts a run template."
    )
    badges = (enabled,)
    facts = (OF, STARTS, PRIORITY)
    tables = (
        Table(
            "mapping",
            Text("Values from the event"),
            lambda rule, _: rule["env_mapping"].items(),
            (
                Column(Text("Key"), lambda pair, _: Cell("code", pair[0])),
                Column(
                    Text("Path in the event"),
                    lambda pair, _: Cell("code", str(pair[1])),
                ),
            ),
            Text("The rule takes no values from the event."),
        ),
    )
    form = (
        FieldGroup(Text("When a run template ends"), ("runtemplate_source_id", "on")),
        FieldGroup(
            Text("Or when an event source changes"), ("event_source_id", "evidence", "operation")
        ),
        FieldGroup(
            Text("Target"), ("runtemplate_id", "env_mapping", "fan_out", "priority", "enabled")
        ),
    )

    async def read_list(self, visit: Visit) -> tuple[View, Sequence[Any]]:
        """Read rules, each with the records that all of them refer to."""
        view, rules = await super().read_list(visit)
        origins = await _read_origins(visit)
        return view, [{**rule, "origins": origins} for rule in rules]

    async def beside_list(
        self, visit: Visit, view: View, records: Sequence[Any]
    ) -> Mapping[str, Any]:
        """Return the diagram of the rules."""
        arrows = [
            Arrow(
                _start(rule),
                _place(rule, "runtemplate_id"),
                page_of("eventrule", rule["id"]),
                _occasion(rule, visit),
                rule["enabled"],
            )
            for rule in records
        ]
        origins = records[0]["origins"] if records else {}
        is_part = (view.total or 0) > len(records)
        return {"picture": draw_rules(origins, arrows), "is_part": is_part}

    async def read(self, visit: Visit, key: Any) -> Record:
        """Read a rule, with the run template it starts if the visitor may see that."""
        rule, target = await super().read(visit, key), None
        with suppress(ContractError):
            target = await visit.get(f"/runtemplate/{rule['runtemplate_id']}")
        return {**rule, "origins": await _read_origins(visit), "target": target}

    def title(self, record: Record, visit: Visit) -> str:
        """Describe the event on which the rule starts its run template."""
        return _occasion(record, visit)

    def company_of(self, record: Record | None) -> int | None:
        """Return the company of the run template that a rule starts."""
        return record["target"]["company_id"] if record and record["target"] else None

    def actions(self, visit: Visit, record: Record) -> list[Action]:
        """Return the actions of a rule; without its run template there are none."""
        edits = super().actions(visit, record) if record["target"] else []
        return [replace(action, is_main=False) for action in edits]

    def may(self, who: Identity, action: str, record: Record | None = None) -> bool:
        """Whether somebody may do this to a rule; to create one, in any company."""
        if record is None:
            return who.rights.anywhere(f"{self.kind.permissions}.{action}")
        return super().may(who, action, record)

    async def groups(self, visit: Visit, _record: Record | None) -> Sequence[FieldGroup]:
        """Return the fields of a rule's form, with their choices."""
        templates, nothing = await _templates(visit), ("", Text("nothing"))
        offered = {
            "event_source_id": [nothing, *await read_sources(visit)],
            "runtemplate_source_id": [nothing, *templates],
            "runtemplate_id": templates,
        }

        def filled(field: str) -> FormField:
            control = self.control(field)
            if field not in offered:
                return control
            return replace(control, kind="choice", choices=offered[field])

        return [
            replace(each, fields=[filled(field) for field in each.fields]) for each in self.form
        ]

    async def edit_form(self, visit: Visit) -> RecordForm:
        """Return the form of a rule. Raises ContractError."""
        rule = await visit.get(f"/eventrule/{visit.request.path_params[self.parameter]}")
        target = await visit.get(f"/runtemplate/{rule['runtemplate_id']}")
        self.require(visit, "update", {**rule, "target": target})
        return await self.form_of(visit, rule)

    def form_title(self, _record: Record) -> Text:
        """Return a title without a name: rules have none."""
        return Text("Edit event rule")


router = RulePages().router()
