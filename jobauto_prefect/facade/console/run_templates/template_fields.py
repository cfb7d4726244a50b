"""The fields of a run template's form."""

from collections.abc import Iterable, Sequence

from jobauto_prefect.definitions.findings import child
from jobauto_prefect.facade.console.records.choices import Choices
from jobauto_prefect.facade.console.records.common_fields import choice_fields
from jobauto_prefect.facade.console.records.form_fields import FieldGroup, FormField
from jobauto_prefect.facade.console.records.variable_fields import with_empty_label
from jobauto_prefect.facade.console.run_templates.schedule_words import INTERVALS
from jobauto_prefect.facade.console.run_templates.value_sources import (
    SourcedValue,
    describe_source,
)
from jobauto_prefect.facade.formats.html.page_language import Translator


def operated_fields(translate: Translator) -> list[FormField]:
    """Return the fields that whoever may change its jobs' course may change."""
    return [
        FormField(
            "/active",
            translate("Active"),
            "flag",
            translate("Without it nothing starts."),
            default=True,
        ),
        FormField("/note", translate("Note"), "long"),
    ]


def name_field(translate: Translator) -> FormField:
    """Return the field of the name."""
    return FormField("/name", translate("Name"), is_required=True)


def schedule_fields(translate: Translator) -> list[FormField]:
    """Return the fields that say when its windows are."""
    intervals = [(code, translate(text)) for code, text in INTERVALS.items()]
    return [
        FormField("/interv", translate("How often"), "choice", choices=intervals, default="n"),
        FormField(
            "/cron",
            translate("Cron expression"),
            hint=translate(
                "Minute, hour, day, month, weekday; for the custom schedule. 30 6 * * 1-5 is each "
                "working day at 6:30."
            ),
        ),
        FormField(
            "/timezone",
            translate("Time zone"),
            hint=translate("Such as Europe/Prague; empty means that of the company."),
        ),
        FormField(
            "/deadline_offset",
            translate("Deadline"),
            hint=translate(
                "So long after a window begins (+3h), or at a time of day (06:30); empty means "
                "the window's end."
            ),
        ),
        FormField("/allow_late", translate("A success after the deadline counts"), "flag"),
    ]


def attempt_fields(translate: Translator) -> list[FormField]:
    """Return the fields about attempts, and about windows that can't be kept."""

    def choice(pointer: str, label: str, *choices: tuple[str, str]) -> FormField:
        return FormField(pointer, label, "choice", choices=choices, default=choices[0][0])

    def number(pointer: str, label: str, hint: str = "", blank: int | None = None) -> FormField:
        return FormField(pointer, label, "number", hint, blank=blank, default=blank)

    return [
        number("/delay", translate("Starts after the beginning of its window by, seconds"), "", 0),
        number("/timeout_seconds", translate("May run for, seconds")),
        number("/max_attempts", translate("Attempts in all"), translate("Empty means 3.")),
        number("/retry_min_gap", translate("Between two attempts, seconds"), "", 0),
        choice(
            "/retry_backoff",
            translate("The gap between attempts"),
            ("none", translate("stays the same")),
            ("linear", translate("grows by itself each time")),
            ("exponential", translate("doubles each time")),
        ),
        FormField(
            "/retry_undeclared",
            translate("Exit codes that nobody has declared are tried again"),
            "flag",
        ),
        choice(
            "/overlap",
            translate("When the job of the window before still runs"),
            ("wait", translate("wait for its end")),
            ("skip", translate("miss the window")),
            ("parallel", translate("run beside it")),
        ),
        choice(
            "/misfire",
            translate("Of windows that passed in an outage"),
            ("latest", translate("the newest one runs")),
            ("all", translate("all of them run")),
            ("skip", translate("none runs")),
        ),
        choice(
            "/on_closed",
            translate("Windows in closed time"),
            ("excuse", translate("are excused")),
            ("move", translate("are moved to its end")),
        ),
        choice(
            "/on_contact_lost",
            translate("A job whose worker has lost contact"),
            ("finish", translate("goes on")),
            ("stop", translate("is stopped")),
        ),
    ]


def queue_fields(translate: Translator) -> list[FormField]:
    """Return the fields that say which workers run its jobs, and in what order."""
    usual = translate("Empty means the usual one.")
    return [
        FormField("/pool", translate("Work pool"), hint=usual),
        FormField("/queue", translate("Work queue"), hint=usual),
        FormField(
            "/queue_priority",
            translate("Priority of the queue"),
            "number",
            translate("Where workers are full the lowest number comes first; empty: as it is."),
        ),
    ]


def choice_groups(
    translate: Translator, credentials: Choices, topics: Choices, calendars: Choices
) -> list[FieldGroup]:
    """Return the groups of what is chosen among other records."""
    fields = choice_fields(topics, calendars)
    title = translate("Credentials")
    hint = translate("Of two that give the same value the later one counts.")
    held = FormField("/credentials", title, "choices", hint, choices=credentials, default=())
    groups = [FieldGroup(title, [held])]
    return [*groups, FieldGroup(translate("Topics and calendars"), fields)] if fields else groups


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
        origin = describe_source(value.source, translate)
        otherwise = origin if value.is_masked else f"{value.text} ({origin})"
    empty = translate("Empty means: {value}", value=otherwise)
    return with_empty_label(value.variable, languages, translate, empty)
