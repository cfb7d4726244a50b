"""What the contract is told of a form that was sent: what is not as the record has it."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from zoneinfo import ZoneInfo

from jobauto_prefect.definitions.findings import child
from jobauto_prefect.facade.console.contract import ContractError, InputError
from jobauto_prefect.facade.console.forms import Form
from jobauto_prefect.facade.console.records.form_fields import (
    FILE,
    PAIR_NAME,
    PAIR_VALUE,
    REMOVE,
    TRUE,
    FormField,
    Values,
    is_data,
    steps_of,
    text_of,
)
from jobauto_prefect.facade.formats.html.scalars import is_picture

STORED = ("secret", "picture")
"""Kinds of controls that do not show what there is: empty means that it stays."""

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class WholeValue:
    """A field of a body that is written as a whole, and whose parts have controls of their own.

    `before` is what the record has, as the controls show it. `join` makes of such a value what the
    contract takes; it raises ContractError where a value means nothing.
    """

    name: str
    before: Mapping[str, Any]
    join: Callable[[Json], Json]


def read_changes(
    fields: Sequence[FormField], sent: Form, values: Values, wholes: Sequence[WholeValue] = ()
) -> Json:
    """Return the body of a write: what was sent and is not what the record has.

    A field that was not sent stays as it is, an empty secret, too. With a part of a whole value
    that is changed goes what stays of it.

    Raises:
        ContractError: naming each field that says what can't be read.
    """
    body: Json = {}
    errors: list[InputError] = []
    before = {whole.name: whole.before for whole in wholes}
    named = {field.pointer for field in fields}
    for field in fields:
        if field.kind == "pair":
            errors += _place_pair(body, field.pointer, sent, named)
        elif _is_changed(field, sent, values.get(field.pointer)):
            name = next(steps_of(field.pointer))
            if name in before and name not in body:
                body[name] = deepcopy(dict(before[name]))
            try:
                _place(body, field.pointer, _read(field, sent, values.get(field.pointer)))
            except ValueError as error:
                errors.append(InputError(field.pointer, str(error)))
    for whole in wholes:
        try:
            body |= {whole.name: whole.join(body[whole.name])} if whole.name in body else {}
        except ContractError as error:
            errors += error.errors
    if errors:
        raise ContractError(400, errors[0].message, errors)
    return body


def refuse(pointer: str, message: str) -> ContractError:
    """Return the error of a field that the contract need not be asked about."""
    return ContractError(400, message, [InputError(pointer, message)])


def without_nothing(value: Mapping[str, Any]) -> Json:
    """Return the parts of a value that say something."""
    return {
        name: part
        for name, part in value.items()
        if part is not None and part is not False and part not in ("", [], {})
    }


def _is_changed(field: FormField, sent: Form, before: Any) -> bool:
    if field.kind in STORED:
        apart = (sent.get(f"{prefix}{field.pointer}") for prefix in (REMOVE, FILE))
        return any(apart) or _is_retyped(field, sent, text_of(before))
    if field.pointer not in sent:
        return False
    if field.kind == "choices":
        return set(_chosen(field, sent)) != {text_of(each) for each in before or ()}
    if field.kind == "flag":
        return (sent[field.pointer] == TRUE) is not bool(before)
    return text_of(sent[field.pointer]) != text_of(before, field.form)


def _is_retyped(field: FormField, sent: Form, before: str) -> bool:
    """Whether there is another text than what was shown: of secrets and of data nothing is."""
    shown = "" if field.kind == "secret" or is_data(before) else before
    return sent.get(field.pointer, shown) != shown


def _read(field: FormField, sent: Form, before: Any) -> Any:
    if field.kind in STORED:
        file = _read_picture(sent.get(f"{FILE}{field.pointer}", ""))
        return file or sent.get(field.pointer) or None
    if field.kind == "choices":
        chosen = _chosen(field, sent)
        kept = [text for each in before or () if (text := text_of(each)) in chosen]
        return [*kept, *(text for text in chosen if text not in kept)]
    if field.kind == "flag":
        return sent[field.pointer] == TRUE
    text = text_of(sent[field.pointer])
    if not text or (field.form is not None and not text.strip()):
        return field.blank
    if field.form is not None:
        return field.form.read(text)
    return _with_offset(text, field.zone) if field.kind == "time" else text


def _read_picture(file: str) -> str:
    if file and not is_picture(file):
        raise ValueError("this is no picture that browsers show: choose PNG, JPEG, GIF or WebP")
    return file


def _with_offset(text: str, zone: str) -> str:
    """Return a time of a wall clock as an instant; what is no time stays as it is."""
    try:
        return datetime.fromisoformat(text).replace(tzinfo=ZoneInfo(zone)).isoformat()
    except ValueError:
        return text


def _chosen(field: FormField, sent: Form) -> list[str]:
    return [text for text in sent.all(field.pointer) if text]


def _place_pair(body: Json, pointer: str, sent: Form, named: set[str]) -> Iterator[InputError]:
    """Place a value with the name that somebody gave it; `named` are the values there are."""
    name = sent.get(f"{PAIR_NAME}{pointer}", "").strip()
    value = text_of(sent.get(f"{PAIR_VALUE}{pointer}", ""))
    place = child(pointer.rpartition("/")[0], name)
    if not name and value:
        yield InputError(pointer, "give this value a name")
    elif name and place in named:
        yield InputError(pointer, f"there is a value {name} already; change it there")
    elif name:
        named.add(place)
        _place(body, place, value)


def _place(body: Json, pointer: str, value: Any) -> None:
    *path, last = steps_of(pointer)
    for step in path:
        body = body.setdefault(step, {})
    body[last] = value
