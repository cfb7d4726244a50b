"""Single fields in the published dialect, whose clients always accept null."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from jobauto_prefect.definitions import to_text
from jobauto_prefect.facade.http.field_types import as_integer

JsonObject = dict[str, Any]
Convert = Callable[[Any], Any]
Usable = Callable[[Any], bool]
ELLIPSIS = "…"
"""The end of a text that is cut for published clients."""


def int_or_none(value: Any) -> int | None:
    """Return a JSON integer, or None if it is not one."""
    return value if type(value) is int else None


def bool_or_none(value: Any) -> bool | None:
    """Return true or false, never 1 or 0, or None if it is neither."""
    return bool(value) if isinstance(value, bool | int) else None


def text_or_none(value: Any) -> str | None:
    """Return a value as text, whatever it was; None stays None."""
    return None if value is None else to_text(value)


def object_or_none(value: Any) -> JsonObject | None:
    """Return an object, never an array, or None if it is not one."""
    return dict(value) if isinstance(value, Mapping) else None


def object_or_empty(value: Any) -> JsonObject:
    """Return an object, an empty one if the value is not an object."""
    return object_or_none(value) or {}


def cut_text(length: int) -> Convert:
    """Return a converter to a text for people, cut if it is too long."""

    def cut(value: Any) -> str | None:
        shown = text_or_none(value)
        return shown if shown is None or len(shown) <= length else shown[: length - 1] + ELLIPSIS

    return cut


def short_text(length: int) -> Convert:
    """Return a converter of text that must not be cut; null if it is too long."""

    def whole(value: Any) -> str | None:
        shown = text_or_none(value)
        return shown if shown is None or len(shown) <= length else None

    return whole


def nearest_of(*choices: str, nearest: str | None) -> Convert:
    """Return a converter to one of the published words, else the nearest."""

    def chosen(value: Any) -> str | None:
        return value if value in choices else None if value is None else nearest

    return chosen


def parse_json(value: Any) -> Any:
    """Return the value whose JSON text this is; other values stay as they are."""
    try:
        return json.loads(value) if isinstance(value, str) else value
    except ValueError:
        return value


def is_number(value: Any) -> bool:
    """Whether it is the number of a record, or empty."""
    try:
        as_integer(value)
    except ValueError:
        return value is None
    return True


def is_object(value: Any) -> bool:
    """Whether it is a JSON object."""
    return isinstance(value, dict)


def is_actions(value: Any) -> bool:
    """Whether it is, or is the text of, what names actions, or nothing: some clients send notes."""
    return not value or isinstance(parse_json(value), dict)


def is_uncut(value: Any) -> bool:
    """Whether a text is not a cut one sent back, which would change nothing."""
    return not (isinstance(value, str) and value.endswith(ELLIPSIS))


@dataclass(frozen=True, slots=True)
class RecordShape:
    """A published record: each field's name with ours and how it is converted.

    `more` makes the fields that are made from several. Fields that are not named here stay as
    they are: published clients read over them.

    Of what clients write, `usable` says by our names what a value must be like to be taken, and
    `written` has our names of the fields that are called otherwise; what is not usable is ignored.
    """

    members: Mapping[str, tuple[str, Convert]]
    more: Callable[[JsonObject], JsonObject] = lambda _: {}
    usable: Mapping[str, Usable] = field(default_factory=dict)
    written: Mapping[str, str] = field(default_factory=dict)

    def translate(self, shown: JsonObject) -> JsonObject:
        """Return a record in this shape."""
        named = {
            name: convert(shown[ours])
            for name, (ours, convert) in self.members.items()
            if ours in shown
        }
        made = named | self.more(shown)
        taken = {ours for ours, _ in self.members.values()}
        return made | {
            name: value for name, value in shown.items() if name not in taken and name not in made
        }

    def own_name(self, name: str) -> str:
        """Return our name of a field."""
        return self.members[name][0] if name in self.members else name


def same_names(convert: Convert, *names: str) -> dict[str, tuple[str, Convert]]:
    """Return the fields that have the same name in both."""
    return {name: (name, convert) for name in names}


def time_fields(created: str, updated: str) -> dict[str, tuple[str, Convert]]:
    """Return when a record came and when it last changed, under the published names."""
    return {created: ("created_at", text_or_none), updated: ("updated_at", text_or_none)}
