"""Fields of forms that several kinds have alike, and those of variables and credential types.

A run template that says nothing of topics, notices, retention and so on is as its company.
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
"""Of a channel: nobody is told by it."""


async def choice_fields(visit: Visit) -> list[FormField]:
    """Return the fields of topics and calendars, where there are any to choose."""
    return [
        FormField(f"/{kind.collection}", Text(kind.many), "choices", choices=choices, default=())
        for kind in (KINDS["topic"], KINDS["calendar"])
        if (choices := await visit.choices_by_name(kind.collection))
    ]


def notice_group(*, of_template: bool) -> FieldGroup:
    """Return the fields that say who is told of what."""
    occasions = [
        (Occasion.FAILURE, Text("a job has failed, and no attempt follows")),
        (Occasion.RECOVERY, Text("it is well again after that")),
        (Occasion.MISSED, Text("a window has passed without a job")),
        (Occasion.SLOW, Text("a job runs longer than usual")),
        (Occasion.LATE, Text("a window is late")),
    ]
    nobody = {
        Channel.MAIL: Text("Nobody by mail"),
        Channel.SLACK: Text("Nobody by the webhook"),
    }
    if of_template:
        nobody = {
            Channel.MAIL: Text("Nobody by mail, whatever the company says"),
            Channel.SLACK: Text("Nobody by the webhook, whatever the company says"),
        }

    def channel_fields(channel: Channel, label: str, address: FormField) -> list[FormField]:
        place = f"/{NOTICES}/{channel}"
        return [
            FormField(f"{place}/on", label, "choices", choices=occasions, default=()),
            address,
            FormField(f"{place}/{SILENT}", nobody[channel], "flag"),
        ]

    addresses = FormField(
        f"/{NOTICES}/{Channel.MAIL}/to", Text("Mail addresses"), "long",
        Text("One a line."), form=LINES, blank=[],
    )  # fmt: skip
    webhook = FormField(
        f"/{NOTICES}/{Channel.SLACK}/uri", Text("Address of the webhook"), "secret",
        Text("It is kept encrypted. Taking it away takes away what is ticked, too."),
    )  # fmt: skip
    late = FormField(
        f"/{NOTICES}/finished_by",
        Text("A window is late"),
        hint=Text(
            "So long after it begins (+3h), or at a time of day (06:30); empty means at its "
            "deadline."
        ),
    )
    note = Text("What is left empty is as the company says.") if of_template else ""
    return FieldGroup(
        Text("Notifications"),
        [
            *channel_fields(Channel.MAIL, Text("By mail, when"), addresses),
            *channel_fields(Channel.SLACK, Text("By a webhook like Slack's, when"), webhook),
            late,
        ],
        is_folded=True,
        pointer=f"/{NOTICES}",
        note=note,
    )


def whole_notices(record: Mapping[str, Any] | None) -> WholeValue:
    """Return the notices of a record, as the fields show them; None: it is new."""
    shown = {}
    for name, config in (record[NOTICES] if record else {}).items():
        if name in tuple(Channel):
            shown[name] = {**without_nothing(config), SILENT: not config["on"]}
        elif config is not None:
            shown[name] = config
    return WholeValue(NOTICES, shown, _join_notices)


def _join_notices(shown: dict[str, Any]) -> dict[str, Any]:
    """Return the channels that say something.

    Raises:
        ContractError: one has addresses, and nothing is ticked of which they are told.
    """
    joined: dict[str, Any] = {}
    for channel, named in ((Channel.MAIL, "to"), (Channel.SLACK, "uri")):
        config = shown.get(channel, {})
        on = [] if config.get(SILENT) else config.get("on") or []
        addresses = config.get(named)
        if channel is Channel.SLACK and named in config and addresses is None:
            continue  # taken away
        if not (on or addresses or config.get(SILENT)):
            continue
        if not on and not config.get(SILENT):
            place = f"/{NOTICES}/{channel}/on"
            raise refuse(place, "tick what they are told of, or that nobody is told")
        joined[channel] = {"on": on, named: addresses or ([] if named == "to" else None)}
    if shown.get("finished_by"):
        joined["finished_by"] = shown["finished_by"]
    return joined


def retention_group(*, of_template: bool) -> FieldGroup:
    """Return the fields that say how long what jobs leave is kept."""
    bounds = [
        ("jobs_days", Text("Ended jobs, days")),
        ("jobs_count", Text("Ended jobs of a run template, at most")),
        ("output_days", Text("Their logs and files, days")),
        ("runs_days", Text("Their flow runs in Prefect, days")),
        ("tasks_days", Text("Tasks, days after their deadline")),
    ]
    note = Text("0 means no bound; empty means as the company says, else the service.")
    if not of_template:
        bounds.append(("events_days", Text("Events, days")))
        note = Text("0 means no bound; empty means as the service says.")
    return FieldGroup(
        Text("Retention"),
        [FormField(f"/{RETENTION}/{name}", label, "number") for name, label in bounds],
        is_folded=True,
        pointer=f"/{RETENTION}",
        note=note,
    )


def whole_retention(record: Mapping[str, Any] | None) -> WholeValue:
    """Return the bounds that a record sets itself; None: it is new."""
    return WholeValue(RETENTION, record[RETENTION] if record else {}, without_nothing)


def shown_with(
    record: Mapping[str, Any] | None, wholes: Sequence[WholeValue]
) -> Mapping[str, Any] | None:
    """Return a record with its whole values as controls show them; None: it is new."""
    return record and {**record, **{whole.name: whole.before for whole in wholes}}


_KINDS: Mapping[VariableType, Kind] = {
    VariableType.INTEGER: "number",
    VariableType.FLOAT: "number",
    VariableType.PASSWORD: "secret",
    VariableType.TEXT: "long",
}
"""The controls of types; the others are texts, which may name macros."""


def variable_field(
    variable: Variable,
    languages: Sequence[str],
    translate: Translator,
    *,
    at: str = "/env",
    blank: Any = None,
    empty_label: str | None = None,
) -> FormField:
    """Return the control of a variable, called as in Prefect's run form.

    `empty_label` is what a choice of nothing is called; None: nothing can't be chosen where it
    need not.
    """
    title, rest = split_description(variable, *languages)
    hint = " ".join(part for part in (rest, pick_text(variable.hint, *languages)) if part)
    choices = _choices(variable, languages, translate)
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


def _choices(
    variable: Variable, languages: Sequence[str], translate: Translator
) -> list[tuple[str, str]]:
    if variable.type is VariableType.BOOL:
        return [("true", translate("yes")), ("false", translate("no"))]
    labels = ((option.value, pick_text(option.label, *languages)) for option in variable.options)
    return [(value, label or value) for value, label in labels]


def credential_fields(
    fields: Sequence[Mapping[str, Any]], languages: Sequence[str], translate: Translator
) -> list[FormField]:
    """Return the controls of a credential's values, from the fields of its type."""
    return [_credential_field(field, languages, translate) for field in fields]


def _credential_field(
    field: Mapping[str, Any], languages: Sequence[str], translate: Translator
) -> FormField:
    variable = Variable(
        field["keyword"],
        VariableType.PASSWORD if is_secret(field) else VariableType(field.get("type", "string")),
        description=field.get("name") or field.get("description") or "",
        hint=field.get("hint") or "",
        required=bool(field.get("required")),
        options=tuple(_options(field.get("options"))),
    )
    default = field.get("default_value")
    if default in (None, ""):
        return variable_field(variable, languages, translate, at="/values")
    empty = translate("Empty means: {value}", value=to_text(default))
    return with_empty_label(variable, languages, translate, empty, at="/values")


def with_empty_label(
    variable: Variable,
    languages: Sequence[str],
    translate: Translator,
    empty: str,
    *,
    at: str = "/env",
) -> FormField:
    """Return the control of a variable that says what it means to leave it empty."""
    field = variable_field(variable, languages, translate, at=at, empty_label=empty)
    if field.kind in ("choice", "secret"):  # an empty secret means the one that is stored
        return field
    return replace(field, hint=f"{field.hint} {empty}".strip())


def _options(options: Any) -> list[Option]:
    if isinstance(options, Mapping):
        return [Option(to_text(value), label) for value, label in options.items()]
    return [Option(to_text(value), to_text(value)) for value in options or ()]
