"""Applications: a definition in the contract, a flat record in the published dialect."""

from collections.abc import Mapping, Sequence
from typing import Any

from jobauto_prefect.definitions import pick_text, schema
from jobauto_prefect.facade.compat.fields import JsonObject, nearest_of, object_or_empty
from jobauto_prefect.facade.compat.fields import text_or_none as as_text
from jobauto_prefect.facade.http.dialect import TranslatedInput
from jobauto_prefect.facade.http.requests import WHOLE_BODY

DEFAULTS: Mapping[str, Any] = {
    "$schema": schema()["properties"]["$schema"]["default"],
    "description": "",
    "environment": {},
}
"""What a definition must have and a flat record may lack."""

OWN_FIELDS = ("enabled", "labels", "force", "company_id")
TYPES = ("text", "string", "password", "file-path", "bool", "integer", "set")
SEVERITIES = ("success", "info", "warning", "error")
READ_ONLY = ("created", "warnings", "prefect_url", "labels", "company_id")
"""The contract's keys that a flat record keeps."""

SAME_NAMES = ("image", "executable", "homepage", "ociimage", "version", "uuid", "author", "license",
         "category")  # fmt: skip
ABSENT = ("setup", "deploy", "code", "resultfile", "deffile", "status")
"""Published keys without a counterpart in definitions."""

FLAT_FIELDS = (*SAME_NAMES, *ABSENT, "cmdparams", "helmchart", "topics", "DatCreate", "DatUpdate")
"""Keys of a flat record that definitions don't have, among others."""

_type = nearest_of(*TYPES, nearest="string")
_severity = nearest_of(*SEVERITIES, nearest="error")


def to_flat_record(shown: JsonObject, language: str) -> JsonObject:
    """Return the flat record of an application, its texts in a language."""
    listed = {name: _join(shown.get(name)) for name in ("tags", "requirements")}
    return {
        "id": shown["id"],
        "enabled": shown["enabled"],
        "name": pick_text(shown["name"], language),
        "description": pick_text(shown.get("description") or "", language),
        **{name: as_text(shown.get(name)) for name in SAME_NAMES},
        **dict.fromkeys(ABSENT),
        "cmdparams": as_text(shown.get("cmdparamsTemplate")),
        "helmchart": as_text(
            object_or_empty(object_or_empty(shown.get("kubernetes")).get("helm")).get("chart")
        ),
        "artifacts": _join([artifact.get("path") for artifact in shown.get("artifacts") or ()]),
        "topics": listed["tags"],
        **listed,
        "environment": {
            key: _variable(variable, language)
            for key, variable in object_or_empty(shown.get("environment")).items()
        },
        "exitCodes": {
            code: _exit_code(exit_code)
            for code, exit_code in object_or_empty(shown.get("exitCodes")).items()
        },
        "produces": object_or_empty(shown.get("produces")),
        "consumes": object_or_empty(shown.get("consumes")),
        "DatCreate": shown["created_at"],
        "DatUpdate": shown["updated_at"],
        **{name: shown[name] for name in READ_ONLY if name in shown},
    }


def _join(words: Any) -> str | None:
    if isinstance(words, Sequence) and not isinstance(words, str):
        return ",".join(str(word) for word in words)
    return as_text(words)


def _variable(declared: Any, language: str) -> JsonObject:
    variable = object_or_empty(declared)
    return {
        "type": _type(variable.get("type")),
        "description": pick_text(variable.get("description") or "", language),
        "defval": as_text(variable.get("defval")),
        "required": variable.get("required") is True,
    }


def _exit_code(declared: Any) -> JsonObject:
    exit_code = object_or_empty(declared)
    described = exit_code.get("description")
    return {
        "severity": _severity(exit_code.get("severity") or "error"),
        "retry": exit_code.get("retry") is True,
        "description": described if isinstance(described, dict) else {"en": as_text(described)},
    }


def from_flat_record(fields: JsonObject) -> TranslatedInput:
    """Translate a flat record to a part of a definition; a definition is one already."""
    if fields.get("definition") is WHOLE_BODY:
        return TranslatedInput(fields)
    if "$schema" in fields:
        # Definitions have the command line under another name.
        both = "cmdparamsTemplate" in fields
        renamed = {} if both else {"cmdparams": "cmdparamsTemplate"}
        return TranslatedInput({renamed.get(name, name): fields[name] for name in fields})
    known_fields = {*schema()["properties"], *OWN_FIELDS, "cmdparams"}
    used = {
        name: value for name, value in fields.items() if name in known_fields and value is not None
    }
    if isinstance(used.get("artifacts"), str):
        del used["artifacts"]  # a list of paths has less information than the definition
    for name in ("tags", "requirements"):
        if isinstance(used.get(name), str):
            used[name] = [word.strip() for word in used[name].split(",") if word.strip()]
    ignored = [name for name in fields if name not in used and fields[name] is not None]
    if "cmdparams" in used:
        used.setdefault("cmdparamsTemplate", used.pop("cmdparams"))
    return TranslatedInput(used, ignored, DEFAULTS)
