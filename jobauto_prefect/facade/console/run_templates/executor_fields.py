"""What executors can be told: fields of a run template's form, made of what each takes."""

from collections.abc import Mapping, Sequence
from typing import Any

from jobauto_prefect.facade.console.records.form_changes import WholeValue, without_nothing
from jobauto_prefect.facade.console.records.form_fields import FieldGroup, FormField
from jobauto_prefect.facade.console.records.text_forms import ASSIGNMENTS, LINES, NUMBER
from jobauto_prefect.facade.formats.html.page_language import Translator
from jobauto_prefect.runtime.executors.registry import executor_kinds, isolates

SETTINGS = "executor_settings"


def possible_executors(app: Mapping[str, Any], *, may_any: bool) -> list[str]:
    """Return the executors that can run an application.

    What has an image is run without it only where somebody may choose `may_any`.
    """
    image = app.get("ociimage")
    return [
        name
        for name, kind in executor_kinds().items()
        if (image and (may_any or isolates(name))) or not (image or kind.needs_image)
    ]


def executor_fields(translate: Translator, names: Sequence[str]) -> list[FormField]:
    """Return the fields that say which of these executors run its jobs."""
    choices = [(name, name) for name in names]
    first = FormField(
        "/executor", translate("Executor"), "choice", choices=choices, default="Native"
    )
    if len(choices) < 2:
        return [first]
    others = FormField(
        "/executors",
        translate("Executors that a job may name instead"),
        "choices",
        choices=choices,
        default=(),
    )
    return [first, others]


def setting_groups(translate: Translator, names: Sequence[str]) -> list[FieldGroup]:
    """Return the fields of what executors take, together where the same ones take them."""
    takers: dict[str, list[str]] = {}
    schemas: dict[str, Mapping[str, Any]] = {}
    for name in names:
        properties = executor_kinds()[name].settings.model_json_schema().get("properties", {})
        for setting, schema in properties.items():
            takers.setdefault(setting, []).append(name)
            schemas.setdefault(setting, schema)
    groups: dict[str, list[FormField]] = {}
    for setting, executors in takers.items():
        field = _field(setting, schemas[setting], translate)
        groups.setdefault(", ".join(executors), []).append(field)
    return [
        FieldGroup(
            translate("Settings of {executors}", executors=executors), fields, is_folded=True
        )
        for executors, fields in groups.items()
    ]


def whole_settings(record: Mapping[str, Any] | None) -> WholeValue:
    """Return a record's executor settings; None: it is new."""
    return WholeValue(SETTINGS, record[SETTINGS] if record else {}, without_nothing)


def _field(name: str, schema: Mapping[str, Any], translate: Translator) -> FormField:
    pointer = f"/{SETTINGS}/{name}"
    label, hint = _words(name, translate) or (name, schema.get("description", ""))
    types = _types(schema)
    if "enum" in schema:
        called = {
            "always": translate("always"),
            "missing": translate("where it is missing"),
            "never": translate("never"),
        }
        labels = {value: called.get(value, value) for value in schema["enum"]}
        usual = labels.get(schema.get("default"), translate("nothing"))
        choices = [("", translate("Empty means: {value}", value=usual)), *labels.items()]
        return FormField(pointer, label, "choice", hint, choices=choices)
    if "boolean" in types:
        return FormField(pointer, label, "flag", hint)
    if {"number", "integer"} & types:
        return FormField(pointer, label, "number", hint, form=NUMBER)
    if "object" in types:
        each = translate("name=value, one a line.")
        return FormField(pointer, label, "long", f"{hint} {each}".strip(), form=ASSIGNMENTS)
    if "array" in types:
        each = translate("One a line.")
        return FormField(pointer, label, "long", f"{hint} {each}".strip(), form=LINES)
    return FormField(pointer, label, "text", hint)


def _types(schema: Mapping[str, Any]) -> set[str]:
    return {str(part.get("type")) for part in (schema, *schema.get("anyOf", ()))}


def _words(name: str, translate: Translator) -> tuple[str, str] | None:
    """Return what a setting is called, and a hint; None: another package has added it."""
    words = {
        "user": (translate("User"), translate("UID or UID:GID of the process.")),
        "memory": (translate("Memory at most"), translate("In bytes, or with k, m, g: 512m.")),
        "cpu": (translate("Cores at most"), translate("Such as 0.5.")),
        "pull": (translate("The image is pulled"), ""),
        "read_only": (
            translate("Read-only"), translate("Nothing can be written but the job's folder."),
        ),
        "network": (translate("Network"), translate("Empty means the engine's own; none is none.")),
        "ulimits": (translate("Limits of the process"), translate("Such as nofile=1024:2048.")),
        "runtime": (translate("Runtime"), translate("Empty means the engine's own.")),
        "init": (
            translate("A small init comes first"), translate("It passes signals on."),
        ),
        "memory_request": (
            translate("Memory a node must have left"), translate("Empty means: as at most."),
        ),
        "cpu_request": (
            translate("Cores a node must have left"), translate("Empty means: as at most."),
        ),
        "service_account": (
            translate("Service account"), translate("Empty means the namespace's, without token."),
        ),
        "image_pull_secrets": (translate("Secrets for pulling the image"), ""),
        "labels": (translate("Labels of the Job and its pod"), ""),
        "node_selector": (translate("Labels a node must have"), ""),
    }  # fmt: skip
    return words.get(name)
