"""Filters in bodies, narrowed to what the caller may see, and checks of fields. Pure."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from jobauto_prefect.errors import Fault, Forbidden, InvalidInput

Body = dict[str, Any]

ADMINISTRATORS_ONLY = "this can't be narrowed to your companies; ask an administrator"
EMPTY: Sequence[Any] = (None, {}, [], "")
PLAIN_KINDS = (None, "none", "json")
"""Kinds of values in parameters that Prefect takes unchanged."""


def require_object(body: Any) -> Body:
    """Return a body that is an object; no body is an empty one.

    Raises:
        InvalidInput: it is not a JSON object.
    """
    if body is None:
        return {}
    if not isinstance(body, dict):
        raise InvalidInput([Fault("", "type", "the body must be a JSON object")])
    return body


def narrow_filter(body: Any, filter_name: str, field: str, allowed: Collection[str]) -> Body:
    """Narrow the filter of that name in a body to these values of a field.

    Raises:
        Forbidden: the filter, or the field's, joins its conditions by `or`.
        InvalidInput: it is not a filter.
    """
    fields = require_object(body)
    chosen = _object(fields, filter_name)
    condition = _object(chosen, field)
    for name, joined in ((filter_name, chosen), (f"{filter_name}.{field}", condition)):
        if joined.get("operator") not in (None, "and_"):
            raise Forbidden(f"{name} joined by or_: {ADMINISTRATORS_ONLY}")
    requested = condition.get("any_")
    if requested is None:
        kept = sorted(allowed)
    else:
        kept = [value for value in _listed_ids(requested) if value in allowed]
    return fields | {filter_name: chosen | {field: condition | {"any_": kept}}}


def requested_ids(body: Any, filter_name: str, field: str) -> list[str] | None:
    """Read the ids that a filter requests by `any_`; None if it has none.

    Raises:
        Forbidden: the filter joins its conditions by `or`.
    """
    chosen = _object(require_object(body), filter_name)
    if chosen.get("operator") not in (None, "and_"):
        raise Forbidden(f"{filter_name} joined by or_: {ADMINISTRATORS_ONLY}")
    requested = _object(chosen, field).get("any_")
    return None if requested is None else _listed_ids(requested)


def _object(body: Mapping[str, Any], name: str) -> Body:
    value = body.get(name)
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise InvalidInput([Fault(f"/{name}", "type", f"{name} must be a JSON object")])
    return value


def _listed_ids(values: Any) -> list[str]:
    if not isinstance(values, list) or not all(isinstance(value, str) for value in values):
        raise InvalidInput([Fault("", "type", "a filter's any_ must be a list of texts")])
    return [value.lower() if len(value) == 36 else value for value in values]


def require_allowed_fields(
    body: Any, allowed: Collection[str], current: Mapping[str, Any], *, is_new: bool
) -> None:
    """Refuse fields that only administrators may send: where and what Prefect runs.

    A field that repeats the value in `current` passes, and so does one without a value unless it
    removes the present value: Prefect's pages send all fields. `is_new`: the body creates an
    object, which gets its values from `current` where the body has none.

    Raises:
        Forbidden: naming the refused fields.
    """
    items = body if isinstance(body, list) else [body]
    refused = {
        name
        for item in items
        for name, value in require_object(item).items()
        if name not in allowed and current.get(name) != value
        if value not in EMPTY or not (is_new or current.get(name) in EMPTY)
    }
    if refused:
        names = ", ".join(sorted(refused))
        raise Forbidden(f"only administrators may send {names} here; leave it out")


def changed_fields(body: Any, current: Mapping[str, Any]) -> set[str]:
    """List the fields of a body, or of its items, that differ from `current`."""
    items = body if isinstance(body, list) else [body]
    return {
        name
        for item in items
        for name, value in require_object(item).items()
        if name not in current or current[name] != value
    }


def refuse_templates(body: Any) -> None:
    """Refuse values that Prefect would take from its variables.

    Raises:
        Forbidden: there is one.
    """
    if any(kind not in PLAIN_KINDS for kind in _kinds(body)):
        raise Forbidden("only administrators may use Prefect's variables and templates in values")


def _kinds(value: Any) -> Iterator[Any]:
    if isinstance(value, dict):
        yield value.get("__prefect_kind")
        for inner in value.values():
            yield from _kinds(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _kinds(inner)
