"""The fields of forms: what their controls show, and what the contract is told of them.

A control is named by the JSON pointer of its field in the body, so that errors find their place.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Literal
from zoneinfo import ZoneInfo

from jobauto_prefect.definitions import to_text
from jobauto_prefect.definitions.mask import MASK
from jobauto_prefect.definitions.validation.pointers import child
from jobauto_prefect.facade.console.contract import ContractError, InputError
from jobauto_prefect.facade.console.forms import Form

Kind = Literal["text", "long", "number", "choice", "choices", "flag", "secret", "time", "pair"]
Values = Mapping[str, Any]
"""Values by the pointers of their fields."""

TRUE = "true"
PAIR_NAME, PAIR_VALUE = "name:", "value:"
"""Before the pointer of a pair: a value with a name that somebody gives it."""

REMOVE = "remove:"
"""Before the pointer of a secret: the name of the control that takes it away."""


@dataclass(frozen=True, slots=True)
class FormField:
    """A control. `key` is the technical name, where people know it; `choices` are value and label.

    `blank` is what an empty control means in a body. `default` is what a new record has unless
    somebody says otherwise. `zone` is the one in which clocks of a time go.
    `is_removable`: a secret that is stored can be taken away.
    """

    pointer: str
    label: str
    kind: Kind = "text"
    hint: str = ""
    key: str = ""
    choices: Sequence[tuple[str, str]] = ()
    is_required: bool = False
    blank: Any = None
    default: Any = None
    zone: str = "UTC"
    is_removable: bool = True


@dataclass(frozen=True, slots=True)
class FieldGroup:
    """Fields that stand together; `is_folded`: they are seldom needed."""

    title: str
    fields: Sequence[FormField]
    is_folded: bool = False


@dataclass(frozen=True, slots=True)
class Control:
    """A field as it is drawn: `text` or, for choices, `chosen`; and what is wrong with it.

    `is_stored`: there is a secret, which nobody is shown.
    """

    field: FormField
    text: str = ""
    chosen: Sequence[str] = ()
    errors: Sequence[str] = ()
    is_stored: bool = False


@dataclass(frozen=True, slots=True)
class ControlGroup:
    """A group as it is drawn; `is_open` where it would be folded, and something is wrong in it."""

    title: str
    controls: Sequence[Control]
    is_folded: bool
    is_open: bool


def fields_of(groups: Sequence[FieldGroup]) -> list[FormField]:
    """Return the fields of all groups."""
    return [field for group in groups for field in group.fields]


def values_of(fields: Sequence[FormField], record: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return what a record has for these fields; None: it is new and has their defaults."""
    if record is None:
        return {field.pointer: field.default for field in fields}
    return {field.pointer: value_at(record, field.pointer) for field in fields}


def value_at(record: Mapping[str, Any], pointer: str) -> Any:
    """Return the value at a pointer in a record; None: there is none."""
    value: Any = record
    for step in _steps(pointer):
        value = value.get(step) if isinstance(value, Mapping) else None
    return value


def draw_groups(
    groups: Sequence[FieldGroup],
    values: Values,
    sent: Form | None = None,
    error: ContractError | None = None,
) -> list[ControlGroup]:
    """Return the controls, with what was typed where a form was sent, and with its errors."""
    errors = error.errors if error else ()
    drawn = []
    for group in groups:
        controls = [_draw(field, values.get(field.pointer), sent, errors) for field in group.fields]
        is_open = any(control.errors for control in controls)
        drawn.append(ControlGroup(group.title, controls, group.is_folded, is_open))
    return drawn


def errors_apart(fields: Sequence[FormField], error: ContractError | None) -> list[str]:
    """Return what is wrong beside the fields; the message itself where nothing has a place."""
    if error is None:
        return []
    apart = [
        f"{problem.pointer} {problem.message}".strip()
        for problem in error.errors
        if not any(_concerns(problem, field) for field in fields)
    ]
    return apart or ([] if error.errors else [str(error)])


def read_changes(fields: Sequence[FormField], sent: Form, values: Values) -> dict[str, Any]:
    """Return the body of a write: what was sent and is not what the record has.

    A field that was not sent stays as it is, an empty secret, too.
    """
    body: dict[str, Any] = {}
    for field in fields:
        if field.kind == "pair":
            _place_pair(body, field.pointer, sent)
        elif _is_changed(field, sent, values.get(field.pointer)):
            _place(body, field.pointer, _read(field, sent, values.get(field.pointer)))
    return body


def text_of(value: Any) -> str:
    """Return a value as a control shows it."""
    return to_text(value).replace("\r\n", "\n")


def _draw(field: FormField, value: Any, sent: Form | None, errors: Sequence[InputError]) -> Control:
    wrong = [problem.message for problem in errors if _concerns(problem, field)]
    if field.kind == "secret":
        return Control(field, errors=wrong, is_stored=value == MASK)
    if field.kind == "pair":
        # Its value is not shown again: it may be a secret.
        return Control(field, sent.get(f"{PAIR_NAME}{field.pointer}", "") if sent else "")
    if field.kind == "choices":
        before = [text_of(each) for each in value or ()]
        chosen = sent.all(field.pointer) if sent and field.pointer in sent else before
        return Control(field, chosen=chosen, errors=wrong)
    text = sent[field.pointer] if sent and field.pointer in sent else text_of(value)
    known = {choice for choice, _ in field.choices}
    if field.kind == "choice" and text and text not in known:
        field = _with_choice(field, text)
    return Control(field, text, errors=wrong)


def _with_choice(field: FormField, text: str) -> FormField:
    """Return a field that can also say what a record has and nobody offers."""
    return replace(field, choices=[*field.choices, (text, text)])


def _concerns(problem: InputError, field: FormField) -> bool:
    return problem.pointer == field.pointer or problem.pointer.startswith(f"{field.pointer}/")


def _is_changed(field: FormField, sent: Form, before: Any) -> bool:
    if field.kind == "secret":
        return bool(sent.get(field.pointer)) or f"{REMOVE}{field.pointer}" in sent
    if field.pointer not in sent:
        return False
    if field.kind == "choices":
        return set(_chosen(field, sent)) != {text_of(each) for each in before or ()}
    if field.kind == "flag":
        return (sent[field.pointer] == TRUE) is not bool(before)
    return text_of(sent[field.pointer]) != text_of(before)


def _read(field: FormField, sent: Form, before: Any) -> Any:
    if field.kind == "secret":
        return sent.get(field.pointer) or None
    if field.kind == "choices":
        chosen = _chosen(field, sent)
        kept = [text for each in before or () if (text := text_of(each)) in chosen]
        return [*kept, *(text for text in chosen if text not in kept)]
    if field.kind == "flag":
        return sent[field.pointer] == TRUE
    text = text_of(sent[field.pointer])
    if not text:
        return field.blank
    return _with_offset(text, field.zone) if field.kind == "time" else text


def _with_offset(text: str, zone: str) -> str:
    """Return a time of a wall clock as an instant; what is no time stays as it is."""
    try:
        return datetime.fromisoformat(text).replace(tzinfo=ZoneInfo(zone)).isoformat()
    except ValueError:
        return text


def _chosen(field: FormField, sent: Form) -> list[str]:
    return [text for text in sent.all(field.pointer) if text]


def _place_pair(body: dict[str, Any], pointer: str, sent: Form) -> None:
    name = sent.get(f"{PAIR_NAME}{pointer}", "").strip()
    if name:
        parent = pointer.rpartition("/")[0]
        _place(body, child(parent, name), text_of(sent.get(f"{PAIR_VALUE}{pointer}", "")))


def _place(body: dict[str, Any], pointer: str, value: Any) -> None:
    *path, last = _steps(pointer)
    for step in path:
        body = body.setdefault(step, {})
    body[last] = value


def _steps(pointer: str) -> Iterator[str]:
    for step in pointer.split("/")[1:]:
        yield step.replace("~1", "/").replace("~0", "~")
