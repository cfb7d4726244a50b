"""Bodies of requests, narrowed: what is read is among what one may see. Pure."""

from collections.abc import Collection, Iterator, Mapping
from typing import Any

from jobauto_prefect.errors import Fault, Forbidden, InvalidInput

Body = dict[str, Any]

WIDE_ONLY = "this can't be narrowed to your companies; ask an administrator"
PLAIN_KINDS = (None, "none", "json")
"""Values in parameters that Prefect does not look up elsewhere."""


def members_of(body: Any) -> Body:
    """The members of a body; none where there is no body.

    Raises:
        InvalidInput: it is no JSON object.
    """
    if body is None:
        return {}
    if not isinstance(body, dict):
        raise InvalidInput([Fault("", "type", "the body must be a JSON object")])
    return body


def within(body: Any, filter_name: str, member: str, allowed: Collection[str]) -> Body:
    """A body whose filter of that name lets only these values of a member through.

    Raises:
        Forbidden: the filter, or the member's, joins its conditions by `or`.
        InvalidInput: it is no filter.
    """
    given = members_of(body)
    chosen = _object(given, filter_name)
    condition = _object(chosen, member)
    for name, joined in ((filter_name, chosen), (f"{filter_name}.{member}", condition)):
        if joined.get("operator") not in (None, "and_"):
            raise Forbidden(f"{name} joined by or_: {WIDE_ONLY}")
    asked = condition.get("any_")
    kept = sorted(allowed) if asked is None else [one for one in _texts(asked) if one in allowed]
    return given | {filter_name: chosen | {member: condition | {"any_": kept}}}


def named_ids(body: Any, filter_name: str, member: str) -> list[str] | None:
    """What a filter asks for by `any_`; None: it does not.

    Raises:
        Forbidden: the filter joins its conditions by `or`.
    """
    chosen = _object(members_of(body), filter_name)
    if chosen.get("operator") not in (None, "and_"):
        raise Forbidden(f"{filter_name} joined by or_: {WIDE_ONLY}")
    asked = _object(chosen, member).get("any_")
    return None if asked is None else _texts(asked)


def _object(body: Mapping[str, Any], name: str) -> Body:
    found = body.get(name)
    if found is None:
        return {}
    if not isinstance(found, dict):
        raise InvalidInput([Fault(f"/{name}", "type", f"{name} must be a JSON object")])
    return found


def _texts(values: Any) -> list[str]:
    if not isinstance(values, list) or not all(isinstance(one, str) for one in values):
        raise InvalidInput([Fault("", "type", "a filter's any_ must be a list of texts")])
    return [one.lower() if len(one) == 36 else one for one in values]


def require_members(body: Any, allowed: Collection[str], current: Mapping[str, Any]) -> None:
    """Let nobody but administrators say where and what Prefect runs.

    A member without a value passes, and one that repeats what `current` says: Prefect's pages
    send them all.

    Raises:
        Forbidden: naming the members that are refused.
    """
    items = body if isinstance(body, list) else [body]
    found = {
        name
        for item in items
        for name, value in members_of(item).items()
        if name not in allowed and value not in (None, {}, [], "") and current.get(name) != value
    }
    if found:
        named = ", ".join(sorted(found))
        raise Forbidden(f"only administrators may send {named} here; leave it out")


def changed_members(body: Any, current: Mapping[str, Any]) -> set[str]:
    """The members of a body, or of the items of one, that say something else than `current`."""
    items = body if isinstance(body, list) else [body]
    return {
        name
        for item in items
        for name, value in members_of(item).items()
        if name not in current or current[name] != value
    }


def require_plain(body: Any) -> None:
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
