"""The fields of a run template's form."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from jobauto_prefect.definitions.findings import child
from jobauto_prefect.definitions.records.actions import Action, ActionMode
from jobauto_prefect.definitions.values import MASK
from jobauto_prefect.facade.console.records.fields import choice_fields, with_empty_label
from jobauto_prefect.facade.console.records.forms import (
    ASSIGNMENTS,
    LINES,
    NUMBER,
    FieldGroup,
    FormField,
    TextForm,
    WholeValue,
    without_nothing,
)
from jobauto_prefect.facade.console.run_templates.schedules import INTERVALS
from jobauto_prefect.facade.console.run_templates.values import SourcedValue
from jobauto_prefect.facade.console.visit import Choices, Visit
from jobauto_prefect.facade.formats.html.page_language import Text, Translator, tell
from jobauto_prefect.runtime.executors.registry import executor_kinds, isolates


def _choice(pointer: str, label: Text, *choices: tuple[str, Text]) -> FormField:
    return FormField(pointer, label, "choice", choices=choices, default=choices[0][0])


def _number(pointer: str, label: Text, hint: str = "", blank: int | None = None) -> FormField:
    return FormField(pointer, label, "number", hint, blank=blank, default=blank)


OPERATED = FieldGroup(
    Text("State"),
    [
        FormField(
            "/active",
            Text("Active"),
            "flag",
            Text("An inactive run template starts no jobs."),
            default=True,
        ),
        FormField("/note", Text("Note"), "long"),
    ],
)
"""The only fields for visitors who may operate its jobs but not configure it."""

NAMED = FieldGroup(
    Text("Name and schedule"),
    [
        FormField("/name", Text("Name"), is_required=True),
        FormField(
            "/interv",
            Text("Frequency"),
            "choice",
            choices=[(code, Text(text)) for code, text in INTERVALS.items()],
            default="n",
        ),
        FormField(
            "/cron",
            Text("Cron expression"),
            hint=Text(
                "For a custom schedule: minute, hour, day, month, weekday. 30 6 * * 1-5 means "
                "working days at 6:30."
            ),
        ),
        FormField(
            "/timezone",
            Text("Time zone"),
            hint=Text("For example Europe/Prague. Leave empty to use the company's."),
        ),
        FormField(
            "/deadline_offset",
            Text("Deadline"),
            hint=Text(
                "Relative to the begin of the window (+3h) or as a time of day (06:30). Leave "
                "empty for the end of the window."
            ),
        ),
        FormField("/allow_late", Text("Accept success after the deadline"), "flag"),
    ],
)

ATTEMPTS = FieldGroup(
    Text("Attempts and windows"),
    [
        _number("/delay", Text("Delay after the window begins (seconds)"), "", 0),
        _number("/timeout_seconds", Text("Timeout (seconds)")),
        _number("/max_attempts", Text("Maximum attempts"), Text("Leave empty for 3.")),
        _number("/retry_min_gap", Text("Gap between attempts (seconds)"), "", 0),
        _choice(
            "/retry_backoff",
            Text("Growth of the gap"),
            ("none", Text("constant")),
            ("linear", Text("linear")),
            ("exponential", Text("exponential")),
        ),
        FormField(
            "/retry_undeclared",
            Text("Retry undeclared exit codes"),
            "flag",
        ),
        _choice(
            "/overlap",
            Text("Overlap with the previous window's job"),
            ("wait", Text("wait for its end")),
            ("skip", Text("miss the window")),
            ("parallel", Text("run in parallel")),
        ),
        _choice(
            "/misfire",
            Text("Windows that passed during an outage"),
            ("latest", Text("run the newest")),
            ("all", Text("run all")),
            ("skip", Text("run none")),
        ),
        _choice(
            "/on_closed",
            Text("Windows in closed time"),
            ("excuse", Text("excuse")),
            ("move", Text("move to the end of closed time")),
        ),
        _choice(
            "/on_contact_lost",
            Text("Job when its worker loses contact"),
            ("finish", Text("continue")),
            ("stop", Text("stop")),
        ),
    ],
    is_folded=True,
)
"""Attempts, and windows that can't run on time."""

USUAL = Text("Leave empty for the default.")
QUEUE = [
    FormField("/pool", Text("Work pool"), hint=USUAL),
    FormField("/queue", Text("Work queue"), hint=USUAL),
    FormField(
        "/queue_priority",
        Text("Queue priority"),
        "number",
        Text(
            "If workers are full, the lowest number goes first. Leave empty to keep it unchanged."
        ),
    ),
]
"""The fields that decide which workers run its jobs, and in what order."""


async def choice_groups(visit: Visit, company_id: int) -> list[FieldGroup]:
    """Return the groups of fields that refer to other records."""
    credentials = await visit.choices("credentials", {"company_id": company_id})
    fields = await choice_fields(visit)
    title = Text("Credentials")
    hint = Text("If two provide the same value, the later one applies.")
    held = FormField("/credentials", title, "choices", hint, choices=credentials, default=())
    groups = [FieldGroup(title, [held])]
    return [*groups, FieldGroup(Text("Topics and calendars"), fields)] if fields else groups


def value_fields(
    values: Iterable[SourcedValue],
    own_keys: Iterable[str],
    languages: Sequence[str],
    translate: Translator,
) -> list[FormField]:
    """Return the fields of the run template's values; `values` apply where it sets none."""
    inherited = {value.key: value for value in values}
    fields = []
    for value in inherited.values():
        if value.variable is None:
            continue
        otherwise = translate("nothing")
        if value.source is not None and value.text:
            origin = tell(value.source.label, translate)
            otherwise = origin if value.is_masked else f"{value.text} ({origin})"
        empty = translate("Empty means: {value}", value=otherwise)
        fields.append(with_empty_label(value.variable, languages, translate, empty))
    undeclared = [key for key in own_keys if key not in inherited]
    return [*fields, *(FormField(child("/env", key), key) for key in undeclared)]


TEMPLATES = "templates"
"""Key of the suggestions with the names of run templates."""


LEADING = {
    Action.CHAIN: "runtemplate_id",
    Action.LAUNCH: "app_id",
    Action.RESCHEDULE: "delay",
    Action.WEBHOOK: "uri",
}
"""The required part of each action that has settings."""


def action_groups(apps: Choices) -> list[FieldGroup]:
    """Return the fields for the actions after a success and after a failure."""
    titles = {
        ActionMode.SUCCESS: Text("After a success"),
        ActionMode.FAIL: Text("After a failure"),
    }
    return [
        FieldGroup(title, _fields(f"/{mode}", apps), True, pointer=f"/{mode}")
        for mode, title in titles.items()
    ]


def _fields(pointer: str, apps: Choices) -> list[FormField]:
    nothing = ("", Text("nothing"))
    return [
        FormField(
            f"{pointer}/{Action.CHAIN}/runtemplate_id",
            Text("Run template to start"),
            "named",
            Text("Short name of the company, a slash, and the name of the run template."),
            offer=TEMPLATES,
        ),
        FormField(
            f"{pointer}/{Action.LAUNCH}/app_id",
            Text("Application to start (by its only run template in the company)"),
            "choice",
            choices=[nothing, *apps],
        ),
        FormField(
            f"{pointer}/{Action.RESCHEDULE}/delay",
            Text("Restart after (seconds)"),
            "number",
        ),
        FormField(
            f"{pointer}/{Action.STOP}",
            Text("Stop following the schedule"),
            "flag",
        ),
        FormField(
            f"{pointer}/{Action.WEBHOOK}/uri",
            Text("Webhook URL"),
            hint=Text("The service calls it after the job: https://…"),
        ),
        FormField(
            f"{pointer}/{Action.WEBHOOK}/secret",
            Text("Signing key"),
            "secret",
            Text("Enter it again when you change the URL."),
        ),
    ]


def whole_actions(record: Mapping[str, Any] | None, paths: Mapping[str, str]) -> list[WholeValue]:
    """Return the actions of a record as the fields show them; None: a new record.

    `paths` are the run templates as `company/name`, by id.
    """
    return [
        WholeValue(mode, _shown(record[mode] if record else {}, paths), _join_actions)
        for mode in ActionMode
    ]


def _shown(actions: Mapping[str, Any], paths: Mapping[str, str]) -> dict[str, Any]:
    shown: dict[str, Any] = {name: dict(config) for name, config in actions.items()}
    if Action.STOP in shown:
        shown[Action.STOP] = True
    if Action.CHAIN in shown:
        target = str(shown[Action.CHAIN]["runtemplate_id"])
        shown[Action.CHAIN] = {"runtemplate_id": paths.get(target, target)}
    return shown


def _join_actions(shown: dict[str, Any]) -> dict[str, Any]:
    """Return the set actions; one with just a new signing key stays for the contract to refuse."""
    joined = {}
    for name, config in shown.items():
        leading = LEADING.get(Action(name))
        if leading is None:
            joined[name] = bool(config)
        elif config.get(leading) or config.get("secret") not in (None, MASK):
            joined[name] = config
    return joined


SETTINGS = "executor_settings"


def possible_executors(app: Mapping[str, Any], *, may_any: bool) -> list[str]:
    """Return the executors that can run an application.

    An application with an image runs without it only if the visitor `may_any`.
    """
    image = app.get("ociimage")
    return [
        name
        for name, kind in executor_kinds().items()
        if (image and (may_any or isolates(name))) or not (image or kind.needs_image)
    ]


def executor_fields(names: Sequence[str]) -> list[FormField]:
    """Return the fields for the executor and its alternatives."""
    choices = [(name, name) for name in names]
    first = FormField("/executor", Text("Executor"), "choice", choices=choices, default="Native")
    if len(choices) < 2:
        return [first]
    others = FormField(
        "/executors",
        Text("Alternative executors for single jobs"),
        "choices",
        choices=choices,
        default=(),
    )
    return [first, others]


def setting_groups(translate: Translator, names: Sequence[str]) -> list[FieldGroup]:
    """Return the fields of executor settings, grouped by the executors that take them."""
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
    """Return a record's executor settings; None: a new record."""
    return WholeValue(SETTINGS, record[SETTINGS] if record else {}, without_nothing)


def _field(name: str, schema: Mapping[str, Any], translate: Translator) -> FormField:
    pointer = f"/{SETTINGS}/{name}"
    label, hint = _words(name, translate) or (name, schema.get("description", ""))
    types = {str(part.get("type")) for part in (schema, *schema.get("anyOf", ()))}
    if "enum" in schema:
        called = {
            "always": translate("always"),
            "missing": translate("if missing"),
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
        each = translate("name=value, one per line.")
        return FormField(pointer, label, "long", f"{hint} {each}".strip(), form=ASSIGNMENTS)
    if "array" in types:
        each = translate("One per line.")
        return FormField(pointer, label, "long", f"{hint} {each}".strip(), form=LINES)
    return FormField(pointer, label, "text", hint)


def _words(name: str, translate: Translator) -> tuple[str, str] | None:
    """Return label and hint of a setting; None if another package has added it."""
    words = {
        "user": (translate("User"), translate("UID or UID:GID of the process.")),
        "memory": (translate("Memory limit"), translate("In bytes, or with k, m or g: 512m.")),
        "cpu": (translate("CPU limit (cores)"), translate("For example 0.5.")),
        "pull": (translate("Image pull"), ""),
        "read_only": (
            translate("Read-only"), translate("Only the job's folder is writable."),
        ),
        "network": (translate("Network"), translate(
                "Leave empty for the engine's default; none disables the network.")),
        "ulimits": (translate("Process limits"), translate("For example nofile=1024:2048.")),
        "runtime": (translate("Runtime"), translate("Leave empty for the engine's default.")),
        "init": (
            translate("Init process"), translate("Forwards signals to the program."),
        ),
        "memory_request": (
            translate("Memory request"), translate("Leave empty to use the limit."),
        ),
        "cpu_request": (
            translate("CPU request (cores)"), translate("Leave empty to use the limit."),
        ),
        "service_account": (
            translate("Service account"), translate(
                    "Leave empty for the namespace's default, without a token."),
        ),
        "image_pull_secrets": (translate("Image pull secrets"), ""),
        "labels": (translate("Labels of the Job and its pod"), ""),
        "node_selector": (translate("Node selector"), ""),
    }  # fmt: skip
    return words.get(name)


def _write(blocks: Sequence[Mapping[str, Any]]) -> str:
    return "\n".join(
        f"{variable}={block['block']}/{field}"
        for block in blocks
        for variable, field in block["env"].items()
    )


def _read(text: str) -> list[dict[str, Any]]:
    env: dict[str, dict[str, str]] = {}
    for variable, place in ASSIGNMENTS.read(text).items():
        parts = place.split("/", 2)
        if len(parts) < 3:
            raise ValueError(f"write type/name/field instead of {place!r}")
        env.setdefault("/".join(parts[:2]), {})[variable] = parts[2]
    return [{"block": block, "env": variables} for block, variables in env.items()]


BLOCKS = FieldGroup(
    Text("Prefect blocks"),
    [
        FormField(
            "/blocks",
            Text("Values from blocks"),
            "long",
            Text(
                "One per line: VARIABLE=type/name/field, for example "
                "DB_PASSWORD=secret/acme-db/value. a.b is the field b of a."
            ),
            form=TextForm(_write, _read),
            blank=[],
        ),
    ],
    is_folded=True,
)
