"""The published dialect: the contract's routes, rules and records under other names."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from typing import Any

from jobauto_prefect.errors import OtherId
from jobauto_prefect.facade.compat.applications import FLAT_FIELDS, from_flat_record, to_flat_record
from jobauto_prefect.facade.compat.fields import JsonObject, RecordShape, parse_json
from jobauto_prefect.facade.compat.other_responses import TRANSLATIONS
from jobauto_prefect.facade.compat.records import ACTIONS, SHAPES
from jobauto_prefect.facade.formats import View
from jobauto_prefect.facade.http.dialect import Dialect, Fields, TranslatedInput
from jobauto_prefect.facade.http.field_types import as_integer
from jobauto_prefect.facade.http.requests import IGNORED_PARAMETERS
from jobauto_prefect.ledger.queries.lists import Condition

READERS: Mapping[str, Callable[[JsonObject], TranslatedInput]] = {"app": from_flat_record}
MAKERS: Mapping[str, Callable[[JsonObject, str], JsonObject]] = {"app": to_flat_record}
"""Conversions of records that differ in more than names in the dialect."""


def translate_input(
    item: str, fields: JsonObject, known_fields: Collection[str]
) -> TranslatedInput:
    """Translate the fields of a request for an item; those that are unknown are ignored."""
    given = {name: value for name, value in fields.items() if name not in IGNORED_PARAMETERS}
    read = READERS.get(item)
    return read(given) if read else _translate_known(item, given, known_fields)


def _translate_known(
    item: str, fields: JsonObject, known_fields: Collection[str]
) -> TranslatedInput:
    shape = SHAPES.get(item, RecordShape({}))
    used: JsonObject = {}
    ignored = []
    for name, given in fields.items():
        ours = shape.written.get(name, name)
        value = parse_json(given) if ours == "env" else given
        doubled = ours != name and ours in fields
        if ours in known_fields and not doubled and shape.usable.get(ours, lambda _: True)(value):
            used[ours] = value
        else:
            ignored.append(name)
    return TranslatedInput(used, ignored)


PREFIX = "/VitexSoftware/MultiFlexi/1.0.0"


PREFIXES = (f"/api{PREFIX}", PREFIX)
"""The prefixes of this dialect; one client has the second hard-coded."""


FIELDS: Mapping[str, Collection[str]] = {
    **{item: tuple(shape.members) for item, shape in SHAPES.items()},
    "app": FLAT_FIELDS,
}
"""The fields that records have in the dialect, by record kind."""


BY_ID = frozenset({"list apps", "list jobs", "list runtemplates"})
"""Lists that are JSON objects; the others are arrays."""


CONDITIONS: Mapping[str, Condition] = {"auditlog": Condition("action", ACTIONS, "in")}


ORDERS: Mapping[str, str] = {"DatCreate": "created_at", "DatUpdate": "updated_at"}


def published_dialect(language: str) -> Dialect:
    """Return the dialect, with texts in a language."""

    def show(item: str, shown: Fields) -> Fields:
        if item in MAKERS:
            return MAKERS[item](shown, language)
        return SHAPES[item].translate(shown) if item in SHAPES else shown

    def translated(route: str, view: View, asked: Mapping[str, Any]) -> View:
        if not view.item:
            return TRANSLATIONS[route](view, asked) if route in TRANSLATIONS else view
        if not view.is_list:
            return replace(view, data=show(view.item, view.data))
        data = {key: show(view.item, record) for key, record in view.data.items()}
        return replace(view, data=data, columns=(), as_array=is_array(route))

    return Dialect(
        translate_input=translate_input,
        member=field_name,
        only=CONDITIONS.get,
        show=show,
        arrays=is_array,
        counts_work=True,
        view=translated,
        error=translate_error,
    )


def is_array(route: str) -> bool:
    """Whether a list is an array."""
    return route not in BY_ID


def field_name(item: str, name: str) -> str:
    """Return this service's name of a field."""
    return SHAPES[item].own_name(name) if item in SHAPES else ORDERS.get(name, name)


def translate_error(failure: Exception | None, body: Fields) -> Fields:
    """Return an error with the members this dialect's clients expect, besides the contract's."""
    translated = body | {"success": False}
    if isinstance(failure, OtherId):
        translated |= {
            "error": "ID mismatch",
            "expected": failure.expected,
            "received": _number(failure.received),
        }
    return translated


def _number(value: Any) -> int | None:
    try:
        return as_integer(value)
    except ValueError:
        return None
