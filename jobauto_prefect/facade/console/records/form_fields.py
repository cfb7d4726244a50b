"""The fields of forms, and what their controls show.

A control is named by the JSON pointer of its field in the body, so that errors find their place.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from jobauto_prefect.definitions import to_text
from jobauto_prefect.definitions.mask import MASK
from jobauto_prefect.facade.console.contract import ContractError, InputError
from jobauto_prefect.facade.console.forms import Form
from jobauto_prefect.facade.console.records.text_forms import LINES, TextForm
from jobauto_prefect.facade.formats.html.page_language import Translator, tell
from jobauto_prefect.facade.formats.html.scalars import is_picture

Kind = Literal[
    "text",
    "long",
    "number",
    "named",
    "choice",
    "choices",
    "flag",
    "secret",
    "time",
    "pair",
    "picture",
]
Values = Mapping[str, Any]
"""Values by the pointers of their fields."""

TRUE = "true"
PAIR_NAME, PAIR_VALUE = "name:", "value:"
"""Before the pointer of a pair: a value with a name that somebody gives it."""

MOST_ROWS = 12
"""Lines of a text that are shown without scrolling."""

REMOVE = "remove:"
"""Before the pointer of a secret or a picture: the name of the control that takes it away."""

FILE = "file:"
"""Before the pointer of a picture: the name of the control that takes its file."""


@dataclass(frozen=True, slots=True)
class FormField:
    """A control. `key` is the technical name, where people know it; `choices` are value and label.

    `blank` is what an empty control means in a body. `default` is what a new record has unless
    somebody says otherwise. `zone` is the one in which clocks of a time go.
    `is_removable`: a secret that is stored can be taken away. `form`: None for texts. A `named`
    field takes any text, and offers the texts that its form has by the name `offer`.
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
    form: TextForm | None = None
    offer: str = ""


@dataclass(frozen=True, slots=True)
class FieldGroup:
    """Fields that stand together; `is_folded`: they are seldom needed.

    `pointer` is that of the value they are parts of, where there may be something wrong with all of
    them together.
    """

    title: str
    fields: Sequence[FormField]
    is_folded: bool = False
    pointer: str = ""
    note: str = ""


@dataclass(frozen=True, slots=True)
class Control:
    """A field as it is drawn: `text` or, for choices, `chosen`; and what is wrong with it.

    `is_stored`: there is a secret, which nobody is shown, or a picture without an address of its
    own. `picture` is one that is shown, `file` one that was sent before. `value` is that of a pair.
    """

    field: FormField
    text: str = ""
    chosen: Sequence[str] = ()
    errors: Sequence[str] = ()
    is_stored: bool = False
    picture: str = ""
    file: str = ""
    value: str = ""

    @property
    def rows(self) -> int:
        """How many lines it has at least, and shows at most."""
        least, lines = 2 if self.field.form else 4, self.text.count("\n") + 1
        return min(max(least, lines), MOST_ROWS)


@dataclass(frozen=True, slots=True)
class ControlGroup:
    """A group as it is drawn; `is_open` where it would be folded, and something is wrong in it.

    `is_filled`: a control says something that a new record does not.
    """

    title: str
    controls: Sequence[Control]
    is_folded: bool
    is_open: bool
    is_filled: bool
    note: str
    errors: Sequence[str]


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
    for step in steps_of(pointer):
        value = value.get(step) if isinstance(value, Mapping) else None
    return value


def draw_groups(
    groups: Sequence[FieldGroup],
    values: Values,
    translate: Translator,
    sent: Form | None = None,
    error: ContractError | None = None,
) -> list[ControlGroup]:
    """Return the controls, with what was typed where a form was sent, and with its errors."""
    errors = error.errors if error else ()
    drawn = []
    for group in groups:
        controls = [
            _draw(_told(field, translate), values.get(field.pointer), sent, errors)
            for field in group.fields
        ]
        together = [
            problem.message for problem in errors if _is_of_group(problem, group, group.fields)
        ]
        drawn.append(
            ControlGroup(
                tell(group.title, translate),
                controls,
                group.is_folded,
                is_open=bool(together) or any(control.errors for control in controls),
                is_filled=any(map(_is_filled, controls)),
                note=tell(group.note, translate),
                errors=together,
            )
        )
    return drawn


def errors_apart(groups: Sequence[FieldGroup], error: ContractError | None) -> list[str]:
    """Return what is wrong beside the fields; the message itself where nothing has a place."""
    if error is None:
        return []
    apart = [
        f"{problem.pointer} {problem.message}".strip()
        for problem in error.errors
        if not any(_concerns(problem, field) for field in fields_of(groups))
        and not any(_is_of_group(problem, group, group.fields) for group in groups)
    ]
    return apart or ([] if error.errors else [str(error)])


def steps_of(pointer: str) -> Iterator[str]:
    """Yield the names that a pointer is made of."""
    for step in pointer.split("/")[1:]:
        yield step.replace("~1", "/").replace("~0", "~")


def text_of(value: Any, form: TextForm | None = None) -> str:
    """Return a value as a control shows it."""
    text = form.write(value) if form is not None and value is not None else to_text(value)
    return text.replace("\r\n", "\n")


def _told(field: FormField, translate: Translator) -> FormField:
    """Return a field with its texts in a language."""
    return replace(
        field,
        label=tell(field.label, translate),
        hint=tell(field.hint, translate),
        choices=[(value, tell(label, translate)) for value, label in field.choices],
    )


def _draw(field: FormField, value: Any, sent: Form | None, errors: Sequence[InputError]) -> Control:
    wrong = [_words_of(problem, field) for problem in errors if _concerns(problem, field)]
    if field.kind == "secret":
        if sent and sent.get(field.pointer):
            wrong.append("type this again: what is secret is not sent back")
        return Control(field, errors=wrong, is_stored=value == MASK)
    if field.kind == "pair":
        typed = [sent.get(f"{part}{field.pointer}", "") if sent else ""
                 for part in (PAIR_NAME, PAIR_VALUE)]  # fmt: skip
        return Control(field, typed[0], errors=wrong, value=typed[1])
    if field.kind == "choices":
        before = [text_of(each) for each in value or ()]
        chosen = sent.all(field.pointer) if sent and field.pointer in sent else before
        return Control(field, chosen=chosen, errors=wrong)
    if field.kind == "picture":
        return _draw_picture(field, text_of(value), sent, wrong)
    shown = text_of(value, field.form)
    text = sent[field.pointer] if sent and field.pointer in sent else shown
    known = {choice for choice, _ in field.choices}
    if field.kind == "choice" and text and text not in known:
        field = _with_choice(field, text)
    return Control(field, text, errors=wrong)


def _draw_picture(field: FormField, value: str, sent: Form | None, wrong: list[str]) -> Control:
    file = sent.get(f"{FILE}{field.pointer}", "") if sent else ""
    typed = sent.get(field.pointer, "") if sent else "" if is_data(value) else value
    file = file if is_picture(file) else ""
    picture = file or (value if is_picture(value) else "")
    return Control(field, typed, errors=wrong, is_stored=is_data(value), picture=picture, file=file)


def is_data(address: str) -> bool:
    """Whether an address is the data itself: too long for anybody to read or type."""
    return address.startswith("data:")


def _with_choice(field: FormField, text: str) -> FormField:
    """Return a field that can also say what a record has and nobody offers."""
    return replace(field, choices=[*field.choices, (text, text)])


def _is_filled(control: Control) -> bool:
    field = control.field
    if field.kind == "pair":
        return False
    if field.kind == "flag":
        return (control.text == TRUE) is not bool(field.default)
    default = "" if field.kind == "choices" else text_of(field.default, field.form)
    return control.is_stored or bool(control.chosen) or control.text not in ("", default)


def _words_of(problem: InputError, field: FormField) -> str:
    """Return what is wrong with a field, with its number where it is one of several."""
    item = problem.pointer.removeprefix(f"{field.pointer}/")
    if field.form is LINES and item.isascii() and item.isdecimal():
        return f"entry {int(item) + 1}: {problem.message}"
    return problem.message


def _is_of_group(problem: InputError, group: FieldGroup, fields: Sequence[FormField]) -> bool:
    """Whether something is wrong with the fields of a group together."""
    if not group.pointer or any(_concerns(problem, field) for field in fields):
        return False
    return problem.pointer == group.pointer or problem.pointer.startswith(f"{group.pointer}/")


def _concerns(problem: InputError, field: FormField) -> bool:
    return problem.pointer == field.pointer or problem.pointer.startswith(f"{field.pointer}/")
