"""Which kind of record a field refers to, and whether a value can be its id."""

from functools import lru_cache

from jobauto_prefect.kinds import KINDS, Kind

_ALIASES = {
    **{each.field: each.kind for kind in KINDS.values() for each in kind.named_in_files.values()},
    "launched_by": "user",
    "event_rule_id": "eventrule",
}


@lru_cache(1000)  # definitions have their own fields
def find_referenced_kind(member: str) -> Kind | None:
    """Return the kind of record whose id a field holds: `app_id`, `fulfilled_by_job_id`.

    None: it does not hold a record's id.
    """
    if member in _ALIASES:
        return KINDS[_ALIASES[member]]
    if not member.endswith("_id"):
        return None
    stem = member.removesuffix("_id")
    fitting = [item for item in KINDS if stem == item or stem.endswith(f"_{item}")]
    return KINDS[max(fitting, key=len)] if fitting else None


def find_entity_kind(name: object) -> Kind | None:
    """Return the kind an audit entry names: `RunTemplate`, `credential_type`; None if unknown."""
    asked = str(name).replace("_", "").lower()
    return next((kind for kind in KINDS.values() if kind.item.replace("_", "") == asked), None)


def is_id(value: object) -> bool:
    """Whether a value can be a record's id."""
    if isinstance(value, str):
        return value.isascii() and value.isdecimal()
    return isinstance(value, int) and not isinstance(value, bool)
