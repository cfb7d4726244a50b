"""Fields of forms for the variables of a definition and for the fields of a credential type."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from jobauto_prefect.compiler.parameters import split_description
from jobauto_prefect.definitions import Option, Variable, VariableType, pick_text, to_text
from jobauto_prefect.definitions.findings import child
from jobauto_prefect.definitions.records.credentials import is_secret
from jobauto_prefect.facade.console.records.form_fields import FormField, Kind
from jobauto_prefect.facade.formats.html.page_language import Translator

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
