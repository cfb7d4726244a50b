"""The fields of a run template's form: schedule, attempts, actions, executor, blocks."""

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
            "/active", Text("Active"), "flag", Text("Without it nothing starts."), default=True
        ),
        FormField("/note", Text("Note"), "long"),
    ],
)
"""What whoever may change its jobs' course may change."""

NAMED = FieldGroup(
    Text("Name and schedule"),
    [
        FormField("/name", Text("Name"), is_required=True),
        FormField(
            "/interv",
            Text("How often"),
            "choice",
            choices=[(code, Text(text)) for code, text in INTERVALS.items()],
            default="n",
        ),
        FormField(
            "/cron",
            Text("Cron expression"),
            hint=Text(
                "Minute, hour, day, month, weekday; for the custom schedule. 30 6 * * 1-5 is each "
                "working day at 6:30."
            ),
        ),
        FormField(
            "/timezone",
            Text("Time zone"),
            hint=Text("Such as Europe/Prague; empty means that of the company."),
        ),
        FormField(
            "/deadline_offset",
            Text("Deadline"),
            hint=Text(
                "So long after a window begins (+3h), or at a time of day (06:30); empty means "
                "the window's end."
            ),
        ),
        FormField("/allow_late", Text("A success after the deadline counts"), "flag"),
    ],
)

ATTEMPTS = FieldGroup(
    Text("Attempts and windows"),
    [
        _number("/delay", Text("Starts after the beginning of its window by, seconds"), "", 0),
        _number("/timeout_seconds", Text("May run for, seconds")),
        _number("/max_attempts", Text("Attempts in all"), Text("Empty means 3.")),
        _number("/retry_min_gap", Text("Between two attempts, seconds"), "", 0),
        _choice(
            "/retry_backoff",
            Text("The gap between attempts"),
            ("none", Text("stays the same")),
            ("linear", Text("grows by itself each time")),
            ("exponential", Text("doubles each time")),
        ),
        FormField(
            "/retry_undeclared",
            Text("Exit codes that nobody has declared are tried again"),
            "flag",
        ),
        _choice(
            "/overlap",
            Text("When the job of the window before still runs"),
            ("wait", Text("wait for its end")),
            ("skip", Text("miss the window")),
            ("parallel", Text("run beside it")),
        ),
        _choice(
            "/misfire",
            Text("Of windows that passed in an outage"),
            ("latest", Text("the newest one runs")),
            ("all", Text("all of them run")),
            ("skip", Text("none runs")),
        ),
        _choice(
            "/on_closed",
            Text("Windows in closed time"),
            ("excuse", Text("are excused")),
            ("move", Text("are moved to its end")),
        ),
        _choice(
            "/on_contact_lost",
            Text("A job whose worker has lost contact"),
            ("finish", Text("goes on")),
            ("stop", Text("is stopped")),
        ),
    ],
    is_folded=True,
)
"""What is about attempts, and about windows that can't be kept."""

USUAL = Text("Empty means the usual one.")
QUEUE = [
    FormField("/pool", Text("Work pool"), hint=USUAL),
    FormField("/queue", Text("Work queue"), hint=USUAL),
    FormField(
        "/queue_priority",
        Text("Priority of the queue"),
        "number",
        Text("Where workers are full the lowest number comes first; empty: as it is."),
    ),
]
"""The fields that say which workers run its jobs, and in what order."""


async def choice_groups(visit: Visit, company_id: int) -> list[FieldGroup]:
    """Return the groups of what is chosen among other records."""
    credentials = await visit.choices("credentials", {"company_id": company_id})
    fields = await choice_fields(visit)
    title = Text("Credentials")
    hint = Text("Of two that give the same value the later one counts.")
    held = FormField("/credentials", title, "choices", hint, choices=credentials, default=())
    groups = [FieldGroup(title, [held])]
    return [*groups, FieldGroup(Text("Topics and calendars"), fields)] if fields else groups


def value_fields(
    values: Iterable[SourcedValue],
    own_keys: Iterable[str],
    languages: Sequence[str],
    translate: Translator,
) -> list[FormField]:
    """Return the fields of its own values; `values` are what counts where it says nothing."""
    inherited = {value.key: value for value in values}
    fields = [
        _value_field(value, languages, translate)
        for value in inherited.values()
        if value.variable is not None
    ]
    undeclared = [key for key in own_keys if key not in inherited]
    return [*fields, *(FormField(child("/env", key), key) for key in undeclared)]


def _value_field(value: SourcedValue, languages: Sequence[str], translate: Translator) -> FormField:
    assert value.variable is not None  # noqa: S101 - declared values have one
    otherwise = translate("nothing")
    if value.source is not None and value.text:
        origin = tell(value.source.label, translate)
        otherwise = origin if value.is_masked else f"{value.text} ({origin})"
    empty = translate("Empty means: {value}", value=otherwise)
    return with_empty_label(value.variable, languages, translate, empty)


TEMPLATES = "templates"
"""What a form offers with the names of run templates."""


LEADING = {
    Action.CHAIN: "runtemplate_id",
    Action.LAUNCH: "app_id",
    Action.RESCHEDULE: "delay",
    Action.WEBHOOK: "uri",
}
"""Of each action that says more than its name the part without which there is none."""


def action_groups(apps: Choices) -> list[FieldGroup]:
    """Return the fields of what follows a success, and of what follows a failure."""
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
            Text("This run template starts"),
            "named",
            Text("The short name of a company, a slash, and the name of its run template."),
            offer=TEMPLATES,
        ),
        FormField(
            f"{pointer}/{Action.LAUNCH}/app_id",
            Text("This application starts, by its only run template in the company"),
            "choice",
            choices=[nothing, *apps],
        ),
        FormField(
            f"{pointer}/{Action.RESCHEDULE}/delay",
            Text("It starts again after, seconds"),
            "number",
        ),
        FormField(
            f"{pointer}/{Action.STOP}",
            Text("It follows its schedule no more"),
            "flag",
        ),
        FormField(
            f"{pointer}/{Action.WEBHOOK}/uri",
            Text("This address is told"),
            hint=Text("A webhook: https://…"),
        ),
        FormField(
            f"{pointer}/{Action.WEBHOOK}/secret",
            Text("Key of the signature"),
            "secret",
            Text("For another address it has to be given again."),
        ),
    ]


def whole_actions(record: Mapping[str, Any] | None, paths: Mapping[str, str]) -> list[WholeValue]:
    """Return the actions of a record, as the fields show them; None: it is new.

    `paths` are the names of run templates, with their companies, by their ids.
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
    """Return the actions that there are; a key stays with the action whose it is."""
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

    What has an image is run without it only where somebody may choose `may_any`.
    """
    image = app.get("ociimage")
    return [
        name
        for name, kind in executor_kinds().items()
        if (image and (may_any or isolates(name))) or not (image or kind.needs_image)
    ]


def executor_fields(names: Sequence[str]) -> list[FormField]:
    """Return the fields that say which of these executors run its jobs."""
    choices = [(name, name) for name in names]
    first = FormField("/executor", Text("Executor"), "choice", choices=choices, default="Native")
    if len(choices) < 2:
        return [first]
    others = FormField(
        "/executors",
        Text("Executors that a job may name instead"),
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
    types = {str(part.get("type")) for part in (schema, *schema.get("anyOf", ()))}
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
        each = translate("One per line.")
        return FormField(pointer, label, "long", f"{hint} {each}".strip(), form=LINES)
    return FormField(pointer, label, "text", hint)


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
    Text("Blocks of Prefect"),
    [
        FormField(
            "/blocks",
            Text("Values from blocks"),
            "long",
            Text(
                "One a line: VARIABLE=type/name/field, such as DB_PASSWORD=secret/acme-db/value; "
                "a.b is the field b of a."
            ),
            form=TextForm(_write, _read),
            blank=[],
        ),
    ],
    is_folded=True,
)
