"""How numbers, flags and texts look: rules by name and form of a member."""

import re
from collections.abc import Mapping, Sequence
from urllib.parse import urlsplit

from jobauto_prefect.facade.rendering.data import json_text
from jobauto_prefect.facade.rendering.kinds import (
    KINDS,
    is_id,
    kind_of_entity,
    kind_of_reference,
)
from jobauto_prefect.facade.rendering.labels import label
from jobauto_prefect.facade.rendering.moments import duration_text, moment_text, read_moment
from jobauto_prefect.facade.rendering.shapes import (
    Cell,
    CellKind,
    Member,
    Rule,
    clip,
    folded,
    page_of,
)

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


def scalar_cell(member: Member) -> Cell:
    """The first rule that knows a member draws it."""
    return next(drawn for rule in _RULES if (drawn := rule(member)) is not None)


def web_address(value: object) -> str | None:
    """The value, if it is the address of a web page."""
    if not isinstance(value, str) or not re.fullmatch(r"https?://[^\s<>\"'\\]+", value):
        return None
    try:
        return value if urlsplit(value).hostname else None
    except ValueError:
        return None


def _nothing(member: Member) -> Cell | None:
    return Cell("none", "\N{EN DASH}") if member.value in {None, ""} else None


def _flag(member: Member) -> Cell | None:
    if not isinstance(member.value, bool):
        return None
    positive = member.value and member.name in {"enabled", "active"}
    return Cell("badge", "yes" if member.value else "no", tone="good" if positive else "")


def _own_id(member: Member) -> Cell | None:
    place = member.place
    if member.name != "id" or not is_id(member.value):
        return None
    if place.item == "artifact":
        return Cell("link", str(member.value), href=f"{place.base}/artifact/{member.value}")
    # On its own page a record needs no link to itself.
    if place.item in KINDS and (place.brief or place.depth):
        return Cell("link", str(member.value), href=page_of(place, place.item, member.value))
    return None


def name_in_list(member: Member) -> Cell | None:
    place, record = member.place, member.record
    is_name = member.name in {"name", "login"} and place.brief and place.item in KINDS
    if not is_name or not is_id(record.get("id")):
        return None
    return Cell("link", clip(str(member.value)), href=page_of(place, place.item, record["id"]))


def _reference(member: Member) -> Cell | None:
    kind = kind_of_reference(member.name)
    if member.name == "entity_id":
        kind = kind_of_entity(member.record.get("entity_type"))
    if kind is None or not is_id(member.value):
        return None
    place = member.place
    key = str(member.value)
    name = place.names.get(kind.item, {}).get(key)
    alone = place.brief or place.depth
    text = key if not name else clip(name) if alone else f"{clip(name)} · {key}"
    return Cell("link", text, href=page_of(place, kind.item, key), title=f"{kind.one} {key}")


def _prefect(member: Member) -> Cell | None:
    """Only a record's own link is named so: what people write into values never is."""
    if member.name != "prefect_url" or not member.place.item or not web_address(member.value):
        return None
    return Cell("link", "Prefect", href=member.value, title="Show in Prefect", tone="away")


def _badge(member: Member) -> Cell | None:
    if member.name not in BADGES or not isinstance(member.value, str):
        return None
    return Cell("badge", member.value.replace("_", " ")[:40], tone=TONES.get(member.value, ""))


def _moment(member: Member) -> Cell | None:
    moment = read_moment(member.value)
    if moment is None:
        return None
    begin = read_moment(member.record.get("begin")) if member.name == "end" else None
    note = f"after {duration_text(moment - begin)}" if begin and moment >= begin else ""
    return Cell("time", moment_text(moment), title=member.value, note=note)


def _picture(member: Member) -> Cell | None:
    if member.name not in {"logo", "image"} or not isinstance(member.value, str):
        return None
    if _PICTURE.fullmatch(member.value):
        return Cell("image", label(member.name), href=member.value)
    return None


def _colour(member: Member) -> Cell | None:
    found = _COLOUR.fullmatch(member.value) if isinstance(member.value, str) else None
    if member.name != "color" or found is None:
        return None
    return Cell("colour", f"#{found[1]}")


def _address(member: Member) -> Cell | None:
    value = member.value
    if web_address(value):
        return Cell("link", clip(value, 80), href=value, tone="away")
    inside = isinstance(value, str) and value.startswith(f"{member.place.base}/")
    if inside and re.fullmatch(r"[\w./?=&%-]+", value, re.ASCII):
        return Cell("link", value, href=_as_page(value))
    return None


def _endpoint(member: Member) -> Cell | None:
    """A path of the index that a person can follow."""
    methods, value = member.record.get("methods"), member.value
    if member.name != "path" or not isinstance(methods, list) or not isinstance(value, str):
        return None
    path = value.removesuffix(".{suffix}")
    if "GET" not in methods or not re.fullmatch(r"/[\w/-]+", path, re.ASCII):
        return None
    return Cell("link", value, href=f"{member.place.base}{path}.html", tone="code")


def _output(member: Member) -> Cell | None:
    return Cell("output", str(member.value)) if member.name in OUTPUT else None


def _text(member: Member) -> Cell:
    if not isinstance(member.value, str):
        return Cell("number", json_text(member.value))
    kind: CellKind = "code" if member.name in CODE or _UUID.fullmatch(member.value) else "text"
    return folded(member.value, member.place, kind)


def _as_page(path: str) -> str:
    """The page of a path that was written for programs."""
    return re.sub(r"\.json$", ".html", path)


# The most particular rule first.
_RULES: Sequence[Rule] = (
    _nothing,
    _flag,
    _own_id,
    name_in_list,
    _reference,
    _prefect,
    _badge,
    _moment,
    _picture,
    _colour,
    _endpoint,
    _address,
    _output,
    _text,
)
