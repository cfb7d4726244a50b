"""Forms: fields, controls, submitted values, and the changes these make.

A control is named by the JSON pointer of its field in the body, so that errors appear beside it.
"""

import base64
import json
import re
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from copy import deepcopy
from dataclasses import dataclass, replace
from datetime import datetime
from math import isfinite
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin
from urllib.parse import parse_qsl
from zoneinfo import ZoneInfo

from fastapi import Depends, HTTPException, Request

from jobauto_prefect.definitions import to_text
from jobauto_prefect.definitions.findings import child
from jobauto_prefect.definitions.values import MASK
from jobauto_prefect.facade.console.contract import ContractError, InputError
from jobauto_prefect.facade.formats.html.cells import is_picture
from jobauto_prefect.facade.formats.html.page_language import Shown
from jobauto_prefect.facade.http.requests import RawBody, away_from_loop
from jobauto_prefect.facade.kinds.resource import Resource
from jobauto_prefect.facade.writes.base import LongText, Note

MAX_FIELDS = 10_000
MAX_ESCAPES = 300_000
"""Percent escapes (`%C5%99`) in a form without files: Python decodes each in a step of its own."""


SENT_FORM = "sent_form"
"""Key in a request's state: the form that was sent after its session had ended."""


class Form(Mapping[str, str]):
    """The fields of a form; the last one of a name counts, `all` returns each."""

    def __init__(self, pairs: Sequence[tuple[str, str]]) -> None:
        self.pairs = pairs
        self._last = dict(pairs)

    def __getitem__(self, name: str) -> str:
        return self._last[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._last)

    def __len__(self) -> int:
        return len(self._last)

    def all(self, name: str) -> list[str]:
        """Return the values of all fields with this name, in order."""
        return [value for field, value in self.pairs if field == name]


async def read_form(raw: RawBody, request: Request) -> Form:
    """Read the fields of a form; an uploaded file becomes a `data:` URL."""
    if request.headers.get("content-type", "").startswith("multipart/form-data"):
        return Form(await _read_parts(raw, request))
    return await away_from_loop(len(raw), lambda: parse_form(raw.decode("utf-8", "replace")))


def parse_form(text: str) -> Form:
    """Parse a URL-encoded form.

    Raises:
        HTTPException: the form has too many fields or escapes.
    """
    if text.count("%") > MAX_ESCAPES:
        raise HTTPException(400, "the form is too long; send its largest text as a file")
    try:
        return Form(parse_qsl(text, keep_blank_values=True, max_num_fields=MAX_FIELDS))
    except ValueError:
        message = f"the form has more than {MAX_FIELDS} fields; send it in several parts"
        raise HTTPException(400, message) from None


async def _read_parts(raw: bytes, request: Request) -> list[tuple[str, str]]:
    # Imported late: few forms have files.
    from starlette.formparsers import MultiPartException, MultiPartParser

    async def stream() -> AsyncGenerator[bytes, None]:
        yield raw

    try:
        parser = MultiPartParser(request.headers, stream(), max_part_size=len(raw))
        parts = await parser.parse()
    except MultiPartException as error:
        raise HTTPException(400, error.message) from None
    pairs = []
    for name, part in parts.multi_items():
        if isinstance(part, str):
            pairs.append((name, part))
        elif content := await part.read():
            data = base64.b64encode(content).decode()
            pairs.append((name, f"data:{part.content_type};base64,{data}"))
    await parts.close()
    return pairs


SentForm = Annotated[Form, Depends(read_form)]


@dataclass(frozen=True, slots=True)
class TextForm:
    """How a control writes a value as text and reads it back; `read` raises ValueError.

    None is written as an empty text; an empty text is not read.
    """

    write: Callable[[Any], str]
    read: Callable[[str], Any]


def lines_of(text: str) -> list[str]:
    """Return the non-empty lines of a text, stripped."""
    return [line.strip() for line in text.splitlines() if line.strip()]


def _read_assignments(text: str) -> dict[str, str]:
    values: dict[str, str] = {}
    for line in lines_of(text):
        name, sign, value = (part.strip() for part in line.partition("="))
        if not sign or not name:
            raise ValueError(f"write name=value instead of {line!r}")
        if name in values:
            raise ValueError(f"{name} is given twice")
        values[name] = value
    return values


def _read_number(text: str) -> Any:
    """Return the number, or the text unchanged: the contract then reports the error."""
    try:
        number = json.loads(text)
    except ValueError:
        return text
    is_number = isinstance(number, int | float) and not isinstance(number, bool)
    return number if is_number and isfinite(number) else text


LINES = TextForm("\n".join, lines_of)
"""A list of texts, one per line."""


ASSIGNMENTS = TextForm(
    lambda values: "\n".join(f"{name}={value}" for name, value in values.items()),
    _read_assignments,
)
"""Texts by name: `name=value`, one per line."""


NUMBER = TextForm(str, _read_number)
"""A number, for fields of a body that take no text."""


_LANGUAGE_LINE = re.compile(r"([a-z]{2}): ?(.*)")


def _write_json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, indent=2) if value else ""


def _read_json(text: str) -> Any:
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        place = f"line {error.lineno}, column {error.colno}"
        raise ValueError(f"this is not valid JSON: {error.msg}, {place}") from None
    except RecursionError:
        raise ValueError("this JSON is nested too deeply") from None


def _write_localized(value: Any) -> str:
    if not isinstance(value, Mapping):
        return str(value)
    if any("\n" in text for text in value.values()):
        return _write_json(value)
    return "\n".join(f"{language}: {text}" for language, text in value.items())


def _read_localized(text: str) -> Any:
    if text.lstrip().startswith("{"):
        return _read_json(text)
    matches = [_LANGUAGE_LINE.fullmatch(line) for line in lines_of(text)]
    if all(matches):
        return {match[1]: match[2] for match in matches if match}
    return text


JSON = TextForm(_write_json, _read_json)
"""Any value."""


LOCALIZED = TextForm(_write_localized, _read_localized)
"""A text, or texts in several languages: one per line, after `en: `."""


WORDS = TextForm(", ".join, lambda text: [word.strip() for word in text.split(",") if word.strip()])
"""A list of words, separated by commas."""


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
"""Prefixes of the pointer of a pair: a value whose name is entered, too."""


MOST_ROWS = 12
"""Lines of a text that are shown without scrolling."""


REMOVE = "remove:"
"""Prefix of the pointer of a secret or a picture: names the control that removes it."""


FILE = "file:"
"""Prefix of the pointer of a picture: names the control that uploads its file."""


@dataclass(frozen=True, slots=True)
class FormField:
    """A control. `key` is the technical name, if people know it; `choices` are value and label.

    `blank` is the value of an empty control in a body, `default` the value of a new record. `zone`
    is the time zone of a time. `is_removable`: a stored secret can be removed. `form` is None for
    texts. A `named` field takes any text and suggests those in its form's `offers` under `offer`.
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
    """Fields that are shown together, some given by name; `is_folded`: they are seldom needed.

    `pointer` is that of the value they are parts of, if an error may concern all of them together.
    """

    title: str
    fields: Sequence[Any]
    is_folded: bool = False
    pointer: str = ""
    note: str = ""


CONTROLS: Mapping[str, tuple[Kind, TextForm | None]] = {
    "json": ("long", JSON),
    "lines": ("long", LINES),
    "localized": ("long", LOCALIZED),
    "picture": ("picture", None),
    "secret": ("secret", None),
    "words": ("text", WORDS),
}
"""Controls of fields whose type does not determine one."""


def control_of(resource: Resource, name: str, shown: Shown) -> FormField:
    """Return the control of a field of a kind's body; empty means the body's default."""
    assert resource.body is not None  # noqa: S101 - kinds with forms have a body
    declared = resource.body.model_fields[name]
    default = declared.get_default(call_default_factory=True)
    kind, form = CONTROLS.get(shown.control) or (_kind_of(declared.annotation), None)
    values = get_args(_bare(declared.annotation)) if kind == "choice" else ()
    choices = {**shown.choices, **{each: each for each in values if each not in shown.choices}}
    return FormField(
        f"/{name}",
        shown.label,
        kind,
        shown.hint,
        choices=list(choices.items()),
        is_required=(name,) in resource.kind.required,
        blank=default,
        default=default if isinstance(default, str | int) else None,
        form=form,
    )


def _bare(annotation: Any) -> Any:
    """Return the annotation without None."""
    if get_origin(annotation) in (Union, UnionType):
        return next(each for each in get_args(annotation) if each is not NoneType)
    return annotation


def _kind_of(annotation: Any) -> Kind:
    bare = _bare(annotation)
    if bare in (Note, LongText):
        return "long"
    if get_origin(bare) is Literal:
        return "choice"
    held = get_args(bare)[0] if get_origin(bare) is Annotated else bare
    return "flag" if held is bool else "number" if held is int else "text"


@dataclass(frozen=True, slots=True)
class Control:
    """A field as it is drawn: `text` or, for choices, `chosen`, with its errors.

    `is_stored`: the record has a secret, which is never shown, or a picture stored as data.
    `picture` is shown, `file` was uploaded in the refused form. `value` is that of a pair.
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
        """The height in lines, within a minimum and a maximum."""
        least, lines = 2 if self.field.form else 4, self.text.count("\n") + 1
        return min(max(least, lines), MOST_ROWS)


@dataclass(frozen=True, slots=True)
class ControlGroup:
    """A group as it is drawn; `is_open`: it has errors, so it must not be folded.

    `is_filled`: a control differs from that of a new record.
    """

    group: FieldGroup
    controls: Sequence[Control]
    is_open: bool
    is_filled: bool
    errors: Sequence[str]


def fields_of(groups: Sequence[FieldGroup]) -> list[FormField]:
    return [field for group in groups for field in group.fields]


def values_of(fields: Sequence[FormField], record: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return a record's values of these fields; None: a new record, which has their defaults."""
    if record is None:
        return {field.pointer: field.default for field in fields}
    return {field.pointer: value_at(record, field.pointer) for field in fields}


def value_at(record: Mapping[str, Any], pointer: str) -> Any:
    """Return the value at a pointer in a record, or None."""
    value: Any = record
    for step in steps_of(pointer):
        value = value.get(step) if isinstance(value, Mapping) else None
    return value


def draw_groups(
    groups: Sequence[FieldGroup],
    values: Values,
    sent: Form | None,
    error: ContractError | None,
) -> list[ControlGroup]:
    """Return the controls; those of a submitted form have the typed values and the errors."""
    errors = error.errors if error else ()
    drawn = []
    for group in groups:
        controls = [_draw(field, values.get(field.pointer), sent, errors) for field in group.fields]
        together = [problem.message for problem in errors if _is_of_group(problem, group)]
        drawn.append(
            ControlGroup(
                group,
                controls,
                is_open=bool(together) or any(control.errors for control in controls),
                is_filled=any(map(_is_filled, controls)),
                errors=together,
            )
        )
    return drawn


def errors_apart(groups: Sequence[FieldGroup], error: ContractError | None) -> list[str]:
    """Return errors that belong to no field; without any field errors, the error's message."""
    if error is None:
        return []
    apart = [
        f"{problem.pointer} {problem.message}".strip()
        for problem in error.errors
        if not any(_concerns(problem, field) for field in fields_of(groups))
        and not any(_is_of_group(problem, group) for group in groups)
    ]
    return apart or ([] if error.errors else [str(error)])


def steps_of(pointer: str) -> Iterator[str]:
    """Yield the unescaped steps of a JSON pointer."""
    for step in pointer.split("/")[1:]:
        yield step.replace("~1", "/").replace("~0", "~")


def text_of(value: Any, form: TextForm | None = None) -> str:
    """Return a value as a control shows it."""
    text = form.write(value) if form is not None and value is not None else to_text(value)
    return text.replace("\r\n", "\n")


def _draw(field: FormField, value: Any, sent: Form | None, errors: Sequence[InputError]) -> Control:
    wrong = [_message_of(problem, field) for problem in errors if _concerns(problem, field)]
    if field.kind == "secret":
        if sent and sent.get(field.pointer):
            wrong.append("type this again: secrets are not sent back to the browser")
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
        field = replace(field, choices=[*field.choices, (text, text)])
    return Control(field, text, errors=wrong)


def _draw_picture(field: FormField, value: str, sent: Form | None, wrong: list[str]) -> Control:
    file = sent.get(f"{FILE}{field.pointer}", "") if sent else ""
    typed = sent.get(field.pointer, "") if sent else "" if is_data(value) else value
    file = file if is_picture(file) else ""
    picture = file or (value if is_picture(value) else "")
    return Control(field, typed, errors=wrong, is_stored=is_data(value), picture=picture, file=file)


def is_data(address: str) -> bool:
    """Whether an address is a `data:` URL, which is too long to read or type."""
    return address.startswith("data:")


def _is_filled(control: Control) -> bool:
    field = control.field
    if field.kind == "pair":
        return False
    if field.kind == "flag":
        return (control.text == TRUE) is not bool(field.default)
    default = "" if field.kind == "choices" else text_of(field.default, field.form)
    return control.is_stored or bool(control.chosen) or control.text not in ("", default)


def _message_of(problem: InputError, field: FormField) -> str:
    """Return an error's message, with the number of the entry if the field is a list."""
    item = problem.pointer.removeprefix(f"{field.pointer}/")
    if field.form is LINES and item.isascii() and item.isdecimal():
        return f"entry {int(item) + 1}: {problem.message}"
    return problem.message


def _is_of_group(problem: InputError, group: FieldGroup) -> bool:
    if not group.pointer or any(_concerns(problem, field) for field in group.fields):
        return False
    return _concerns(problem, group)


def _concerns(problem: InputError, place: FormField | FieldGroup) -> bool:
    return problem.pointer == place.pointer or problem.pointer.startswith(f"{place.pointer}/")


STORED = ("secret", "picture")
"""Kinds of controls that do not show the stored value: empty means keep it."""


Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class WholeValue:
    """A field of a body that is sent as a whole, and whose parts have controls of their own.

    `before` is the record's value as the controls show it. `join` turns such a value into one that
    the contract takes; it raises ContractError for a combination that makes no sense.
    """

    name: str
    before: Mapping[str, Any]
    join: Callable[[Json], Json]


def read_changes(
    fields: Sequence[FormField], sent: Form, values: Values, wholes: Sequence[WholeValue] = ()
) -> Json:
    """Return the body of a write: the submitted values that differ from the record's.

    Fields that were not sent and empty secrets are left out. If part of a whole value has changed,
    its other parts are sent along.

    Raises:
        ContractError: with an error for each field that can't be parsed.
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
    """Return the error of a field that is refused without asking the contract."""
    return ContractError(400, message, [InputError(pointer, message)])


def without_nothing(value: Mapping[str, Any]) -> Json:
    """Return the parts of a value that are set."""
    return {
        name: part
        for name, part in value.items()
        if part is not None and part is not False and part not in ("", [], {})
    }


def _is_changed(field: FormField, sent: Form, before: Any) -> bool:
    if field.kind in STORED:
        apart = (sent.get(f"{prefix}{field.pointer}") for prefix in (REMOVE, FILE))
        text = text_of(before)
        shown = "" if field.kind == "secret" or is_data(text) else text  # neither is in the page
        return any(apart) or sent.get(field.pointer, shown) != shown
    if field.pointer not in sent:
        return False
    if field.kind == "choices":
        return set(_chosen(field, sent)) != {text_of(each) for each in before or ()}
    if field.kind == "flag":
        return (sent[field.pointer] == TRUE) is not bool(before)
    return text_of(sent[field.pointer]) != text_of(before, field.form)


def _read(field: FormField, sent: Form, before: Any) -> Any:
    if field.kind in STORED:
        file = sent.get(f"{FILE}{field.pointer}", "")
        if file and not is_picture(file):
            raise ValueError(
                "browsers can't show this picture: choose a PNG, JPEG, GIF or WebP file"
            )
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
    if field.kind == "time":
        with suppress(ValueError):  # what is no time stays as it is, for the contract to refuse
            text = datetime.fromisoformat(text).replace(tzinfo=ZoneInfo(field.zone)).isoformat()
    return text


def _chosen(field: FormField, sent: Form) -> list[str]:
    return [text for text in sent.all(field.pointer) if text]


def _place_pair(body: Json, pointer: str, sent: Form, named: set[str]) -> Iterator[InputError]:
    """Place a value under the name that was entered; `named` are the pointers already used."""
    name = sent.get(f"{PAIR_NAME}{pointer}", "").strip()
    value = text_of(sent.get(f"{PAIR_VALUE}{pointer}", ""))
    place = child(pointer.rpartition("/")[0], name)
    if not name and value:
        yield InputError(pointer, "give this value a name")
    elif name and place in named:
        yield InputError(pointer, f"a value {name} exists already; change it there")
    elif name:
        named.add(place)
        _place(body, place, value)


def _place(body: Json, pointer: str, value: Any) -> None:
    *path, last = steps_of(pointer)
    for step in path:
        body = body.setdefault(step, {})
    body[last] = value
