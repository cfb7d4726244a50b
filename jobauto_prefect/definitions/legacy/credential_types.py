"""Conversion of credential types of older programs to current records."""

import re
from collections.abc import Iterator, Mapping
from typing import Any, Literal

from jobauto_prefect.definitions.legacy.upgrade import TYPE_NAMES
from jobauto_prefect.definitions.values import FALSE, TRUE, to_text
from jobauto_prefect.errors import Fault

Older = Literal["type", "prototype"]

KEPT = (
    "code", "uuid", "name", "description", "version", "url", "homepage", "logo", "tags", "fields",
    "availability", "source", "labels",
)  # fmt: skip
IGNORED = frozenset({"$schema", "schema", "schemaVersion", "id", "type", "kind", "prototype"})
"""Keys whose content a record does not store."""

FIELD_NAMES: Mapping[str, str] = {
    "id": "keyword",
    "title": "name",
    "default": "default_value",
    "defval": "default_value",
    "example": "hint",
    "values": "options",
}
"""Keys of older fields -> their current names; a current name in the document wins."""

FIELD_MEMBERS = (
    "keyword", "type", "name", "description", "hint", "default_value", "required", "options",
)  # fmt: skip


def is_legacy_type(document: Any) -> bool:
    """Whether a document is an older credential type: it has fields and runs nothing."""
    return (
        isinstance(document, Mapping)
        and "kind" not in document
        and "executable" not in document
        and isinstance(document.get("fields"), list)
    )


def legacy_kind(document: Mapping[str, Any]) -> Older:
    """Whether an older document is a type, or a prototype for types, according to its schema."""
    named = document.get("$schema") or document.get("schema")
    return "prototype" if "prototype" in to_text(named).lower() else "type"


def upgrade_type(document: Mapping[str, Any]) -> tuple[dict[str, Any], list[Fault]]:
    """Convert an older document to a record. Returns: it, and warnings about dropped keys."""
    record: dict[str, Any] = {"kind": "credential_type"}
    record |= {name: document[name] for name in KEPT if name in document}
    if "code" not in record and document.get("id") is not None:
        record["code"] = document["id"]
    if isinstance(record.get("version"), int | float):
        record["version"] = to_text(record["version"])
    if isinstance(record.get("tags"), str):
        record["tags"] = [word.strip() for word in record["tags"].split(",") if word.strip()]
    fields = record.get("fields")
    if isinstance(fields, list):
        record["fields"] = [
            _field(field) if isinstance(field, Mapping) else field for field in fields
        ]
    return record, list(_warnings(document))


def _field(written: Mapping[str, Any]) -> dict[str, Any]:
    renamed = {FIELD_NAMES.get(name, name): value for name, value in written.items()}
    renamed |= {name: written[name] for name in FIELD_MEMBERS if name in written}
    kept = {name: renamed[name] for name in FIELD_MEMBERS if renamed.get(name) is not None}
    kept = {name: value for name, value in kept.items() if value != "" or name == "keyword"}
    if isinstance(kept.get("type"), str):
        kept["type"] = _type(kept["type"], kept.get("default_value"))
    word = to_text(kept.get("required")).strip().lower()
    if word in TRUE | FALSE:
        kept["required"] = word in TRUE
    if isinstance(kept.get("options"), str):
        kept["options"] = [part.strip() for part in kept["options"].split(",") if part.strip()]
    return kept


def _type(written: str, default: Any) -> str:
    name = written.strip().lower()
    if name == "number":
        return "integer" if re.fullmatch(r"[+-]?[0-9]+", to_text(default).strip()) else "float"
    return name if name == "secret" else TYPE_NAMES.get(name, name)


def _warnings(document: Mapping[str, Any]) -> Iterator[Fault]:
    for name in document:
        if name not in KEPT and name not in IGNORED:
            yield Fault(f"/{name}", "unknown", f"{name} is not kept")
    fields = document.get("fields")
    for place, field in enumerate(fields if isinstance(fields, list) else ()):
        for name in field if isinstance(field, Mapping) else ():
            if name not in FIELD_MEMBERS and name not in FIELD_NAMES:
                yield Fault(f"/fields/{place}/{name}", "unknown", f"{name} is not kept")
