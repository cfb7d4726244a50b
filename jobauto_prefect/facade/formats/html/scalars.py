"""How numbers, flags and texts look: rules by name and form of a field."""

import re
from collections.abc import Mapping, Sequence
from urllib.parse import urlsplit

from jobauto_prefect.facade.formats.html.cell_model import (
    Cell,
    CellKind,
    FieldValue,
    Rule,
    clip,
    fold_text,
    record_address,
)
from jobauto_prefect.facade.formats.html.dates import format_duration, format_time, parse_time
from jobauto_prefect.facade.formats.html.labels import field_label
from jobauto_prefect.facade.formats.json_yaml import dump_json
from jobauto_prefect.facade.formats.record_links import (
    find_entity_kind,
    find_referenced_kind,
    is_id,
)
from jobauto_prefect.kinds import KINDS

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
    return next(drawn for rule in _RULES if (drawn := rule(member)) is not None)


def parse_web_address(value: object) -> str | None:
    """Return the value, if it is the address of a web page; else None."""
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
    """Draw a record's own link to Prefect; None for what people write into values."""
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
    """Whether an address is itself a picture that pages show."""
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
    """Draw a path of the index that a person can follow; None: it is none."""
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


# The most particular rule first.
_RULES: Sequence[Rule] = (
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
