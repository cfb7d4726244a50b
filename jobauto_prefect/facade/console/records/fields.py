"""Form fields that several kinds share, and fields made from variables and credential types.

Topics, notifications, retention and so on that a run template leaves empty are inherited from its
company.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from jobauto_prefect.compiler.parameters import split_description
from jobauto_prefect.definitions import Option, Variable, VariableType, pick_text, to_text
from jobauto_prefect.definitions.findings import child
from jobauto_prefect.definitions.records.credentials import is_secret
from jobauto_prefect.definitions.records.notices import Channel, Occasion
from jobauto_prefect.facade.console.records.forms import (
    LINES,
    FieldGroup,
    FormField,
    Kind,
    WholeValue,
    refuse,
    without_nothing,
)
from jobauto_prefect.facade.console.visit import Visit
from jobauto_prefect.facade.formats.html.page_language import Text, Translator
from jobauto_prefect.kinds import KINDS

NOTICES, RETENTION = "notices", "retention"


SILENT = "silent"
"""Member of a channel: it sends no notifications."""


async def choice_fields(visit: Visit) -> list[FormField]:
    """Return the fields for topics and calendars; none for kinds without records."""
    return [
        FormField(f"/{kind.collection}", Text(kind.many), "choices", choices=choices, default=())
        for kind in (KINDS["topic"], KINDS["calendar"])
        if (choices := await visit.choices_by_name(kind.collection))
    ]


def notice_group(*, of_template: bool) -> FieldGroup:
    """Return the fields for notifications."""
    occasions = [
        (Occasion.FAILURE, Text("a job failed and will not be retried")),
        (Occasion.RECOVERY, Text("a job succeeds again after a problem")),
        (Occasion.MISSED, Text("a window passed without a job")),
        (Occasion.SLOW, Text("a job runs longer than usual")),
        (Occasion.LATE, Text("a window is late")),
    ]
    off_labels = {
        Channel.MAIL: Text("No mail"),
        Channel.SLACK: Text("No webhook"),
    }
    if of_template:
        off_labels = {
            Channel.MAIL: Text("No mail, whatever the company's setting"),
            Channel.SLACK: Text("No webhook, whatever the company's setting"),
        }

    def channel_fields(channel: Channel, label: str, address: FormField) -> list[FormField]:
        place = f"/{NOTICES}/{channel}"
        return [
            FormField(f"{place}/on", label, "choices", choices=occasions, default=()),
            address,
            FormField(f"{place}/{SILENT}", off_labels[channel], "flag"),
        ]

    addresses = FormField(
        f"/{NOTICES}/{Channel.MAIL}/to", Text("Mail addresses"), "long",
        Text("One per line."), form=LINES, blank=[],
    )  # fmt: skip
    webhook = FormField(
        f"/{NOTICES}/{Channel.SLACK}/uri", Text("Webhook URL"), "secret",
        Text("It is stored encrypted. Removing it also clears the selected events."),
    )  # fmt: skip
    late = FormField(
        f"/{NOTICES}/finished_by",
        Text("Expected end of a window"),
        hint=Text(
            "Relative to its begin (+3h) or as a time of day (06:30). Leave empty for its deadline."
        ),
    )
    note = Text("Empty fields use the company's settings.") if of_template else ""
    return FieldGroup(
        Text("Notifications"),
        [
            *channel_fields(Channel.MAIL, Text("Mail events"), addresses),
            *channel_fields(Channel.SLACK, Text("Webhook events (Slack-compatible)"), webhook),
            late,
        ],
        is_folded=True,
        pointer=f"/{NOTICES}",
        note=note,
    )


def whole_notices(record: Mapping[str, Any] | None) -> WholeValue:
    """Return the notices of a record as the fields show them; None: a new record."""
    shown = {}
    for name, config in (record[NOTICES] if record else {}).items():
        if name in tuple(Channel):
            shown[name] = {**without_nothing(config), SILENT: not config["on"]}
        elif config is not None:
            shown[name] = config
    return WholeValue(NOTICES, shown, _join_notices)


def _join_notices(shown: dict[str, Any]) -> dict[str, Any]:
    """Return the channels that are set.

    Raises:
        ContractError: a channel has addresses, but no event is selected for it.
    """
    joined: dict[str, Any] = {}
    for channel, named in ((Channel.MAIL, "to"), (Channel.SLACK, "uri")):
        config = shown.get(channel, {})
        on = [] if config.get(SILENT) else config.get("on") or []
        addresses = config.get(named)
        if channel is Channel.SLACK and named in config and addresses is None:
            continue  # removed
        if not (on or addresses or config.get(SILENT)):
            continue
        if not on and not config.get(SILENT):
            place = f"/{NOTICES}/{channel}/on"
            raise refuse(place, "select at least one event, or turn the channel off")
        joined[channel] = {"on": on, named: addresses or ([] if named == "to" else None)}
    if shown.get("finished_by"):
        joined["finished_by"] = shown["finished_by"]
    return joined


def retention_group(*, of_template: bool) -> FieldGroup:
    """Return the fields for retention."""
    bounds = [
        ("jobs_days", Text("Ended jobs (days)")),
        ("jobs_count", Text("Ended jobs per run template (maximum)")),
        ("output_days", Text("Logs and files (days)")),
        ("runs_days", Text("Flow runs in Prefect (days)")),
        ("tasks_days", Text("Tasks (days after the deadline)")),
    ]
    note = Text(
        "0 means no limit. Leave empty to use the setting of the company or, if it has "
        "none, of the service."
    )
    if not of_template:
        bounds.append(("events_days", Text("Events (days)")))
        note = Text("0 means no limit. Leave empty to use the service's setting.")
    return FieldGroup(
        Text("Retention"),
        [FormField(f"/{RETENTION}/{name}", label, "number") for name, label in bounds],
        is_folded=True,
        pointer=f"/{RETENTION}",
        note=note,
    )


def whole_retention(record: Mapping[str, Any] | None) -> WholeValue:
    """Return the limits that a record sets itself; None: a new record."""
    return WholeValue(RETENTION, record[RETENTION] if record else {}, without_nothing)


def shown_with(
    record: Mapping[str, Any] | None, wholes: Sequence[WholeValue]
) -> Mapping[str, Any] | None:
    """Return a record with its whole values as controls show them; None: a new record."""
    return record and {**record, **{whole.name: whole.before for whole in wholes}}


_KINDS: Mapping[VariableType, Kind] = {
    VariableType.INTEGER: "number",
    VariableType.FLOAT: "number",
    VariableType.PASSWORD: "secret",
    VariableType.TEXT: "long",
}
"""The controls of types; all others are texts, because a value may contain macros."""


def variable_field(
    variable: Variable,
    languages: Sequence[str],
    translate: Translator,
    *,
    at: str = "/env",
    blank: Any = None,
    empty_label: str | None = None,
) -> FormField:
    """Return the control of a variable, with the label that Prefect's run form shows.

    `empty_label` is the label of the empty choice; None: a required variable has no empty choice.
    """
    title, rest = split_description(variable, *languages)
    hint = " ".join(part for part in (rest, pick_text(variable.hint, *languages)) if part)
    if variable.type is VariableType.BOOL:
        choices = [("true", translate("yes")), ("false", translate("no"))]
    else:
        labels = [(each.value, pick_text(each.label, *languages)) for each in variable.options]
        choices = [(value, label or value) for value, label in labels]
    kind: Kind = "choice" if choices else _KINDS.get(variable.type, "text")
    if choices and (empty_label is not None or not variable.required):
        choices = [("", empty_label or translate("nothing")), *choices]
    return FormField(
        child(at, variable.key),
        title,
        kind,
        hint,
        key=variable.key,
        choices=choices,
        blank=blank,
    )


def credential_fields(
    fields: Sequence[Mapping[str, Any]], languages: Sequence[str], translate: Translator
) -> list[FormField]:
    """Return the controls of a credential's values, made from the fields of its type."""
    controls = []
    for field in fields:
        options = field.get("options") or ()
        labels = (
            options.items()
            if isinstance(options, Mapping)
            else [(each, to_text(each)) for each in options]
        )
        is_text = not is_secret(field)
        variable = Variable(
            field["keyword"],
            VariableType(field.get("type", "string")) if is_text else VariableType.PASSWORD,
            description=field.get("name") or field.get("description") or "",
            hint=field.get("hint") or "",
            required=bool(field.get("required")),
            options=tuple(Option(to_text(value), label) for value, label in labels),
        )
        default = field.get("default_value")
        if default in (None, ""):
            control = variable_field(variable, languages, translate, at="/values")
        else:
            empty = translate("Empty means: {value}", value=to_text(default))
            control = with_empty_label(variable, languages, translate, empty, at="/values")
        controls.append(control)
    return controls


def with_empty_label(
    variable: Variable,
    languages: Sequence[str],
    translate: Translator,
    empty: str,
    *,
    at: str = "/env",
) -> FormField:
    """Return the control of a variable, with what an empty value means."""
    field = variable_field(variable, languages, translate, at=at, empty_label=empty)
    if field.kind in ("choice", "secret"):  # an empty secret keeps the stored one
        return field
    return replace(field, hint=f"{field.hint} {empty}".strip())


def _options(options: Any) -> list[Option]:
    if isinstance(options, Mapping):
        return [Option(to_text(value), label) for value, label in options.items()]
    return [Option(to_text(value), to_text(value)) for value in options or ()]
