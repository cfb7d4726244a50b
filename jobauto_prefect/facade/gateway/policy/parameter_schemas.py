"""Digests of the schemas by which Prefect's pages have parameters checked. Pure.

The newer pages send a deployment's schema as it is. The older ones leave out what they do not know,
and have single values checked by the property alone, under a name of their own.
"""

import hashlib
import json
from collections.abc import Iterator, Mapping
from typing import Any

REPEATED = frozenset(
    {
        "definitions", "position", "block_type_slug", "$ref", "anyOf", "allOf", "example",
        "default", "const", "description", "enum", "format", "items", "prefixItems",
        "properties", "required", "title", "type", "maxItems", "minItems",
    }
)  # fmt: skip
"""Keywords of a schema that the older pages repeat."""

PROPERTY_KEYS = frozenset({"definitions", "properties"})
"""Keywords of the schema in which they send a single property."""


def digests_of(schema: Any) -> frozenset[bytes]:
    """Digest all forms in which pages send a deployment's schema."""
    return frozenset(map(_digest, _forms(schema)))


def digest_of(schema: Any) -> bytes:
    """Digest the form in which a page sent a schema."""
    properties = schema.get("properties") if isinstance(schema, dict) else None
    if not isinstance(properties, dict) or len(properties) != 1 or set(schema) - PROPERTY_KEYS:
        return _digest(schema)
    return _digest(schema | {"properties": {"": next(iter(properties.values()))}})


def _forms(schema: Any) -> Iterator[Any]:
    yield schema
    if not isinstance(schema, dict):
        return
    repeated = _repeated(schema)
    yield repeated
    definitions = {"definitions": repeated["definitions"]} if "definitions" in repeated else {}
    for value in repeated.get("properties", {}).values():
        yield definitions | {"properties": {"": value}}


def _repeated(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Reduce a schema to what the older pages repeat of it."""
    kept = {name: value for name, value in schema.items() if name in REPEATED}
    for name in PROPERTY_KEYS & kept.keys():
        if isinstance(kept[name], dict):
            kept[name] = {
                key: _repeated(inner) if isinstance(inner, dict) else inner
                for key, inner in kept[name].items()
            }
    return kept


def _digest(value: Any) -> bytes:
    """Hash a value; the order of its keys does not matter."""
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).digest()
