"""How any value looks: objects and arrays as tables, the rest by `scalars`."""

import re
from collections.abc import Sequence
from dataclasses import replace

from jobauto_prefect.definitions import pick_text
from jobauto_prefect.facade.formats.html.cell_model import (
    Cell,
    CellContext,
    FieldValue,
    Rule,
    clip,
    fold_text,
)
from jobauto_prefect.facade.formats.html.labels import field_label
from jobauto_prefect.facade.formats.html.scalars import draw_list_name, draw_scalar
from jobauto_prefect.facade.formats.json_yaml import Record, dump_json
from jobauto_prefect.kinds import COLLECTIONS, KINDS
from jobauto_prefect.wording import pluralize

MAX_DEPTH = 4  # tables inside each other; below them is JSON
MAX_COLUMNS = 9  # columns of a nested table
MAX_BRIEF_ENTRIES = 12  # entries that a list shows in one line

LOCALIZED = frozenset({"name", "title", "description", "hint"})
_LANGUAGE = re.compile(r"[a-z]{2}")


def draw_value(member: FieldValue) -> Cell:
    """Draw a field's value by the first rule that knows it."""
    if not isinstance(member.value, dict | list):
        return draw_scalar(member)
    return next(drawn for rule in _RULES if (drawn := rule(member)) is not None)


def draw_field(record: Record, name: str, place: CellContext) -> Cell:
    """Draw one field of a record; fields it lacks are drawn as those without a value."""
    return draw_value(FieldValue(name, record.get(name), record, place))


def choose_language(value: object, languages: Sequence[str]) -> str | None:
    """Return a text, or of one in several languages the one preferred; None: it is no text."""
    if isinstance(value, str):
        return value
    if isinstance(value, dict) and value and all(isinstance(each, str) for each in value.values()):
        return pick_text(value, *languages)
    return None


def _empty(member: FieldValue) -> Cell | None:
    return None if member.value else Cell("none", "none")


def _localized(member: FieldValue) -> Cell | None:
    shown = choose_language(member.value, member.place.languages)
    if member.name not in LOCALIZED or shown is None or isinstance(member.value, list):
        return None
    if not all(_LANGUAGE.fullmatch(code) for code in member.value):
        return None
    if member.place.brief:
        drawn = draw_list_name(replace(member, value=shown))
        return drawn or fold_text(shown, member.place, "text")
    if len(member.value) == 1:
        return fold_text(shown, member.place, "text")
    rows = [[Cell("code", code), Cell("text", each)] for code, each in member.value.items()]
    return Cell("languages", rows=rows)


def _in_brief(member: FieldValue) -> Cell | None:
    if not member.place.brief:
        return None
    count = len(member.value)
    is_deep = any(isinstance(value, dict | list) for value in member.value)
    if is_deep or count > MAX_BRIEF_ENTRIES:
        return Cell("text", pluralize(count, "entry", "entries"))
    return Cell("text", clip(", ".join(str(value) for value in member.value)))


def _too_deep(member: FieldValue) -> Cell | None:
    if member.place.depth < MAX_DEPTH:
        return None
    return fold_text(dump_json(member.value), member.place, "code")


def _chips(member: FieldValue) -> Cell | None:
    if not isinstance(member.value, list):
        return None
    texts = [text for text in member.value if isinstance(text, str | int) and len(str(text)) <= 60]
    if len(texts) < len(member.value):
        return None
    return Cell("chips", rows=[[Cell("text", str(text)) for text in texts]])


def _changes(member: FieldValue) -> Cell | None:
    value = member.value
    if member.name != "changes" or not isinstance(value, dict):
        return None
    if not all(isinstance(pair, list) and len(pair) == 2 for pair in value.values()):
        return None
    below = _nest(member)
    rows = [
        [Cell("code", name), *(draw_value(FieldValue(name, each, {}, below)) for each in pair)]
        for name, pair in value.items()
    ]
    return Cell("table", heads=("Field", "Before", "After"), rows=rows)


def _records(member: FieldValue) -> Cell | None:
    """Draw objects of one shape, in an array or under keys, as a table; None: they are none."""
    value = member.value
    records = list(value.values()) if isinstance(value, dict) else value
    if not all(isinstance(record, dict) for record in records):
        return None
    item = _nested_kind(member)
    below = replace(
        _nest(member), item=item, titles=member.place.titles_of(item) or member.place.titles
    )
    columns = _columns(records, below.item)
    if not columns or (len(columns) > MAX_COLUMNS and not below.item):
        return None
    rows = [[draw_field(record, name, below) for name in columns] for record in records]
    heads = [field_label(name, below.titles) for name in columns]
    if isinstance(value, dict) and "id" not in columns:
        heads = ["", *heads]
        rows = [[Cell("code", key), *row] for key, row in zip(value, rows, strict=True)]
    return Cell("table", heads=heads, rows=rows)


def _columns(records: list[Record], item: str) -> list[str]:
    present = list(dict.fromkeys(name for record in records for name in record))
    if item in KINDS:
        return [name for name in KINDS[item].columns if name in present]
    return present


def _nested_kind(member: FieldValue) -> str:
    if member.name == "artifacts" and member.place.item == "job":
        return "artifact"
    return COLLECTIONS[member.name].item if member.name in COLLECTIONS else ""


def _pairs(member: FieldValue) -> Cell:
    value = member.value
    below = _nest(member)
    if isinstance(value, list):
        rows = [[draw_value(FieldValue("", item, {}, below))] for item in value]
    else:
        rows = [
            [Cell("code", key), draw_value(FieldValue(key, item, value, below))]
            for key, item in value.items()
        ]
    return Cell("table", rows=rows)


def _nest(member: FieldValue) -> CellContext:
    return replace(member.place, item="", depth=member.place.depth + 1)


# The most particular rule first.
_RULES: Sequence[Rule] = (
    _empty,
    _localized,
    _in_brief,
    _too_deep,
    _chips,
    _changes,
    _records,
    _pairs,
)
