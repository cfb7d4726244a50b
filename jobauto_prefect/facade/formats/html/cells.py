"""How values look on pages, before `templates/cells.html` draws them.

Scalars are drawn by rules on name and form of their field, objects and arrays as tables.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal
from urllib.parse import urlsplit

from jobauto_prefect.definitions import pick_text
from jobauto_prefect.facade.formats.html.dates import format_duration, format_time, parse_time
from jobauto_prefect.facade.formats.html.labels import field_label
from jobauto_prefect.facade.formats.json_yaml import Record, dump_json
from jobauto_prefect.facade.formats.record_links import (
    find_entity_kind,
    find_referenced_kind,
    is_id,
)
from jobauto_prefect.facade.formats.view import no_titles
from jobauto_prefect.kinds import COLLECTIONS, KINDS
from jobauto_prefect.wording import pluralize

CellKind = Literal[
    "none",
    "text",
    "number",
    "badge",
    "link",
    "time",
    "image",
    "colour",
    "code",
    "output",
    "fold",
    "chips",
    "languages",
    "table",
]

MAX_UNFOLDED = 400  # characters; longer texts are folded
MAX_UNFOLDED_LINES = 8
MAX_BRIEF = 120  # characters of a text in a list


@dataclass(frozen=True, slots=True)
class Cell:
    """One value, ready to draw; `heads` may be empty; the first cell of a row is its header."""

    kind: CellKind
    text: str = ""
    href: str = ""
    title: str = ""
    tone: str = ""
    note: str = ""
    heads: Sequence[str] = ()
    rows: Sequence[Sequence["Cell"]] = ()


@dataclass(frozen=True, slots=True)
class CellContext:
    """Where a value stands: in a record of kind `item`, `depth` tables deep.

    `brief`: in a list, where a value has one line. `names` and `languages` are those of the view,
    `titles` those of the kind's fields, `titles_of` gives those of others.
    """

    item: str
    base: str
    brief: bool = False
    depth: int = 0
    names: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    languages: Sequence[str] = ()
    titles_of: Callable[[str], Mapping[str, str]] = no_titles
    titles: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class FieldValue:
    """A named value of a record."""

    name: str
    value: Any
    record: Record
    place: CellContext


Rule = Callable[[FieldValue], Cell | None]
"""Draws the fields it knows; returns None for others."""


def fold_text(text: str, place: CellContext, kind: CellKind) -> Cell:
    """Return text of any length: cut to a line in lists, folded away on a record's page."""
    if place.brief:
        return Cell(kind, clip(text), title=text[:1000] if len(text) > MAX_BRIEF else "")
    if len(text) > MAX_UNFOLDED or text.count("\n") > MAX_UNFOLDED_LINES:
        return Cell("fold", text, title=clip(" ".join(text[:1000].split()), 80))
    return Cell(kind, text)


def record_address(place: CellContext, item: str, key: object) -> str:
    """Return the address of a record's page."""
    return f"{place.base}/{item}/{key}.html"


def clip(text: str, length: int = MAX_BRIEF) -> str:
    """Return the text, cut to `length` characters."""
    return text if len(text) <= length else f"{text[: length - 1].rstrip()}…"


TONES: Mapping[str, str] = {
    **dict.fromkeys(("succeeded", "success", "fulfilled", "ok", "available", "create"), "good"),
    **dict.fromkeys(("running", "info", "update"), "live"),
    **dict.fromkeys(("warning", "fulfilled_late", "lost"), "warn"),
    **dict.fromkeys(("failed", "error", "missed", "refused", "blocked", "delete"), "bad"),
    "critical": "worst",
}
BADGES = frozenset({"state", "severity", "status", "action"})
CODE = frozenset(
    {
        "command",
        "executable",
        "setup",
        "cmdparamsTemplate",
        "cron",
        "ociimage",
        "path",
        "pointer",
        "rule",
        "slug",
        "code",
        "request_id",
        "env_mapping",
        "evidence",
    }
)
OUTPUT = frozenset({"stdout", "stderr"})

_PICTURE = re.compile(r"data:image/(png|jpeg|gif|webp);base64,[A-Za-z0-9+/=\s]+")
_COLOUR = re.compile(r"#?([0-9A-Fa-f]{6})")
_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)


def draw_scalar(member: FieldValue) -> Cell:
    """Draw a scalar by the first rule that knows its field."""
    return next(drawn for rule in _SCALARS if (drawn := rule(member)) is not None)


def parse_web_address(value: object) -> str | None:
    """Return the value if it is the address of a web page, else None."""
    if not isinstance(value, str) or not re.fullmatch(r"https?://[^\s<>\"'\\]+", value):
        return None
    try:
        return value if urlsplit(value).hostname else None
    except ValueError:
        return None


def _nothing(member: FieldValue) -> Cell | None:
    return Cell("none", "\N{EN DASH}") if member.value in {None, ""} else None


def _flag(member: FieldValue) -> Cell | None:
    if not isinstance(member.value, bool):
        return None
    positive = member.value and member.name in {"enabled", "active"}
    return Cell("badge", "yes" if member.value else "no", tone="good" if positive else "")


def _own_id(member: FieldValue) -> Cell | None:
    place = member.place
    if member.name != "id" or not is_id(member.value):
        return None
    if place.item == "artifact":
        return Cell("link", str(member.value), href=f"{place.base}/artifact/{member.value}")
    # On its own page a record needs no link to itself.
    if place.item in KINDS and (place.brief or place.depth):
        return Cell("link", str(member.value), href=record_address(place, place.item, member.value))
    return None


def draw_list_name(member: FieldValue) -> Cell | None:
    place, record = member.place, member.record
    is_name = member.name in {"name", "login"} and place.brief and place.item in KINDS
    if not is_name or not is_id(record.get("id")):
        return None
    return Cell(
        "link", clip(str(member.value)), href=record_address(place, place.item, record["id"])
    )


def _reference(member: FieldValue) -> Cell | None:
    kind = find_referenced_kind(member.name)
    if member.name == "entity_id":
        kind = find_entity_kind(member.record.get("entity_type"))
    if kind is None or not is_id(member.value):
        return None
    place = member.place
    key = str(member.value)
    name = place.names.get(kind.item, {}).get(key)
    alone = place.brief or place.depth
    text = key if not name else clip(name) if alone else f"{clip(name)} · {key}"
    return Cell("link", text, href=record_address(place, kind.item, key), title=f"{kind.one} {key}")


def _prefect(member: FieldValue) -> Cell | None:
    """Draw a record's own link to Prefect; None for links that people enter as values."""
    if member.name != "prefect_url" or not member.place.item or not parse_web_address(member.value):
        return None
    return Cell("link", "Prefect", href=member.value, title="Show in Prefect", tone="away")


def _badge(member: FieldValue) -> Cell | None:
    if member.name not in BADGES or not isinstance(member.value, str):
        return None
    return Cell("badge", member.value.replace("_", " ")[:40], tone=TONES.get(member.value, ""))


def _time(member: FieldValue) -> Cell | None:
    moment = parse_time(member.value)
    if moment is None:
        return None
    begin = parse_time(member.record.get("begin")) if member.name == "end" else None
    note = f"after {format_duration(moment - begin)}" if begin and moment >= begin else ""
    return Cell("time", format_time(moment), title=member.value, note=note)


def is_picture(address: str) -> bool:
    """Whether an address is a picture that pages can show inline."""
    return _PICTURE.fullmatch(address) is not None


def _picture(member: FieldValue) -> Cell | None:
    if member.name not in {"logo", "image"} or not isinstance(member.value, str):
        return None
    if is_picture(member.value):
        return Cell("image", field_label(member.name, member.place.titles), href=member.value)
    return None


def _colour(member: FieldValue) -> Cell | None:
    match = _COLOUR.fullmatch(member.value) if isinstance(member.value, str) else None
    if member.name != "color" or match is None:
        return None
    return Cell("colour", f"#{match[1]}")


def _address(member: FieldValue) -> Cell | None:
    value = member.value
    if parse_web_address(value):
        return Cell("link", clip(value, 80), href=value, tone="away")
    inside = isinstance(value, str) and value.startswith(f"{member.place.base}/")
    if inside and re.fullmatch(r"[\w./?=&%-]+", value, re.ASCII):
        return Cell("link", value, href=re.sub(r"\.json$", ".html", value))
    return None


def _endpoint(member: FieldValue) -> Cell | None:
    """Draw a path of the index as a link; return None if a browser can't open it."""
    methods, value = member.record.get("methods"), member.value
    if member.name != "path" or not isinstance(methods, list) or not isinstance(value, str):
        return None
    path = value.removesuffix(".{suffix}")
    if "GET" not in methods or not re.fullmatch(r"/[\w/-]+", path, re.ASCII):
        return None
    return Cell("link", value, href=f"{member.place.base}{path}.html", tone="code")


def _output(member: FieldValue) -> Cell | None:
    return Cell("output", str(member.value)) if member.name in OUTPUT else None


def _text(member: FieldValue) -> Cell:
    if not isinstance(member.value, str):
        return Cell("number", dump_json(member.value))
    kind: CellKind = "code" if member.name in CODE or _UUID.fullmatch(member.value) else "text"
    return fold_text(member.value, member.place, kind)


# The most specific rule first.
_SCALARS: Sequence[Rule] = (
    _nothing,
    _flag,
    _own_id,
    draw_list_name,
    _reference,
    _prefect,
    _badge,
    _time,
    _picture,
    _colour,
    _endpoint,
    _address,
    _output,
    _text,
)


MAX_DEPTH = 4  # nested tables; deeper values are JSON
MAX_COLUMNS = 9  # columns of a nested table
MAX_BRIEF_ENTRIES = 12  # entries shown on one line in a list

LOCALIZED = frozenset({"name", "title", "description", "hint"})
PARTS: Mapping[tuple[str, str], str] = {("job", "artifacts"): "artifact"}
"""Names of a field's nested records that are not a kind themselves."""

_LANGUAGE = re.compile(r"[a-z]{2}")


def draw_value(member: FieldValue) -> Cell:
    """Draw a field's value by the first rule that knows it."""
    if not isinstance(member.value, dict | list):
        return draw_scalar(member)
    return next(drawn for rule in _RULES if (drawn := rule(member)) is not None)


def draw_field(record: Record, name: str, place: CellContext) -> Cell:
    """Draw one field of a record; a missing field is drawn like one without a value."""
    return draw_value(FieldValue(name, record.get(name), record, place))


def choose_language(value: object, languages: Sequence[str]) -> str | None:
    """Return a text, in the preferred language if it has several; None if it is not a text."""
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
    """Draw objects of one shape, in an array or under keys, as a table; None for anything else."""
    value = member.value
    records = list(value.values()) if isinstance(value, dict) else value
    if not all(isinstance(record, dict) for record in records):
        return None
    item = PARTS.get((member.place.item, member.name), "")
    if not item and member.name in COLLECTIONS:
        item = COLLECTIONS[member.name].item
    below = replace(
        _nest(member), item=item, titles=member.place.titles_of(item) or member.place.titles
    )
    columns = list(dict.fromkeys(name for record in records for name in record))
    if item in KINDS:
        columns = [name for name in KINDS[item].columns if name in columns]
    if not columns or (len(columns) > MAX_COLUMNS and not item):
        return None
    rows = [[draw_field(record, name, below) for name in columns] for record in records]
    heads = [field_label(name, below.titles) for name in columns]
    if isinstance(value, dict) and "id" not in columns:
        heads = ["", *heads]
        rows = [[Cell("code", key), *row] for key, row in zip(value, rows, strict=True)]
    return Cell("table", heads=heads, rows=rows)


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


# The most specific rule first.
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
