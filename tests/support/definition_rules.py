"""A second reading of the format, written from its text and not from the schema.

`faults` yields the JSON pointers at which a document breaks a rule: of the object where a member
is missing, is not allowed or has a bad name, else of the value.
"""

from typing import Any

from tests.support.definition_forms import (
    DIGITS,
    UPPER,
    WORD,
    Pointers,
    anything,
    array,
    boolean,
    form,
    is_chart,
    is_image,
    is_label,
    is_uri,
    is_uuid,
    is_version,
    is_whole,
    json_path,
    keyed,
    kind,
    localized,
    obj,
    object_or_array,
    one_of,
    only,
    scalar,
    text,
)


def is_name(key: str) -> bool:
    """Whether it is a key of an output or an input."""
    return only(key, WORD | {"-"})


def is_event(key: str) -> bool:
    """Whether it is a key of an event."""
    return only(key, WORD | set(".-"))


FORMATS = one_of("file", "json", "text", "url", "custom")
SCALARS = one_of("string", "integer", "float", "boolean")

VARIABLE = obj(
    {
        "type": one_of(
            "string",
            "file-path",
            "email",
            "url",
            "integer",
            "float",
            "bool",
            "password",
            "set",
            "text",
        ),
        "category": one_of("API", "Database", "Behavior", "Security", "Other"),
        "description": localized,
        "hint": localized,
        "defval": anything,
        "required": boolean,
        "options": object_or_array,
    }
)
ARTIFACT = obj(
    {"name": localized, "path": text, "type": text, "description": localized},
    "name",
    "path",
    "type",
    closed=True,
)
OUTPUT = obj(
    {
        "description": localized,
        "patterns": array(text),
        "format": FORMATS,
        "fields": keyed(
            is_name, obj({"type": SCALARS, "description": localized, "path": json_path}, "type")
        ),
    },
    "format",
)
INPUT = obj(
    {
        "description": localized,
        "required": boolean,
        "format": FORMATS,
        "target": text,
        "fields": keyed(is_name, obj({"target": text, "format": SCALARS}, "target")),
    },
    "format",
)
EMITTED = obj(
    {
        "description": localized,
        "evidence": text,
        "operation": one_of("create", "update", "delete", "any"),
    }
)
CONSUMED = obj({"description": localized, "format": FORMATS})
EXIT_CODE = obj(
    {
        "description": localized,
        "severity": one_of("success", "info", "warning", "error", "critical"),
        "retry": boolean,
    },
    "description",
    closed=True,
)
HELM_MEMBERS = obj(
    {
        "enabled": boolean,
        "releaseName": form(is_label),
        "namespace": form(is_label),
        "chart": form(is_chart),
        "valuesFiles": array(text, least=1),
        "set": keyed(lambda _: True, scalar),
        "upgradeInstall": boolean,
        "timeoutSeconds": kind(lambda value: is_whole(value) and 1 <= value <= 3600),
        "atomic": boolean,
        "wait": boolean,
    },
    closed=True,
)


def helm(pointer: str, value: Any) -> Pointers:
    """A section of Helm; an enabled one names chart and release."""
    yield from HELM_MEMBERS(pointer, value)
    enabled = isinstance(value, dict) and value.get("enabled") is True
    if enabled and not {"chart", "releaseName"} <= value.keys():
        yield pointer


KUBERNETES = obj(
    {
        "helm": helm,
        "artifacts": obj(
            {"enabled": boolean, "outputPath": text, "keepPodOnFailure": boolean}, closed=True
        ),
    },
    "helm",
    closed=True,
)
DOCUMENT = obj(
    {
        "$schema": form(is_uri),
        "image": text,
        "title": localized,
        "name": localized,
        "description": localized,
        "author": text,
        "license": text,
        "category": text,
        "tags": array(text),
        "homepage": form(is_uri),
        "uuid": form(is_uuid),
        "version": form(is_version),
        "schemaVersion": text,
        "ociimage": form(is_image),
        "executable": text,
        "cmdparamsTemplate": text,
        "environment": keyed(lambda key: only(key, UPPER | DIGITS | {"_"}), VARIABLE),
        "artifacts": array(ARTIFACT),
        "produces": keyed(is_name, OUTPUT),
        "consumes": keyed(is_name, INPUT),
        "events": obj(
            {"emits": keyed(is_event, EMITTED), "consumes": keyed(is_event, CONSUMED)}, closed=True
        ),
        "exitCodes": keyed(lambda key: only(key, DIGITS), EXIT_CODE),
        "kubernetes": KUBERNETES,
        "requirements": array(text),
    },
    "$schema",
    "name",
    "description",
    "executable",
    "environment",
)


def errors(document: Any) -> set[str]:
    """Where a document breaks a rule."""
    return set(DOCUMENT("", document))
