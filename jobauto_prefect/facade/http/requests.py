"""Reading requests: the query and the body, as fields."""

import asyncio
import json
from collections.abc import Callable, Collection, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from functools import partial
from typing import Annotated, Any, ClassVar, TypeVar
from urllib.parse import quote

from fastapi import Depends, Request
from pydantic import BaseModel, ConfigDict, ValidationError

from jobauto_prefect.definitions.storable import TOO_MANY, has_many_values, read_integer, unstorable
from jobauto_prefect.errors import Fault, InvalidInput
from jobauto_prefect.facade.concurrency import long_work
from jobauto_prefect.facade.http.addresses import address_of
from jobauto_prefect.facade.http.dialect import TranslatedInput
from jobauto_prefect.text_patterns import error_message

T = TypeVar("T")

Fields = dict[str, Any]
INLINE_BYTES = 16 * 1024
"""Larger bodies are processed in a thread: other requests need the event loop."""

MAX_WARNED = 50  # maximum names in a Warning header
SAFE = "$/:@[]-_. "
SECRETS = ("password", "db_password")
"""Fields that are secret themselves; those of `env` and `values` can't be in a query at all."""


IGNORED_PARAMETERS = ("limit", "offset", "order", "token")
"""Query parameters that a published client adds to any request; writes ignore them."""


class Body(BaseModel):
    """Base of what clients write: unknown fields are errors.

    A field without a description has that of the field of `record` with the same name; `record` is
    the model of the record that is written.
    """

    model_config = ConfigDict(extra="forbid", defer_build=True)
    record: ClassVar[type[BaseModel]] = BaseModel

    @classmethod
    def __pydantic_init_subclass__(cls, **kwargs: Any) -> None:
        """Take over the descriptions; pydantic calls it."""
        super().__pydantic_init_subclass__(**kwargs)
        described = cls.record.model_fields
        for name, written in cls.model_fields.items():
            if written.description is None and name in described:
                written.description = described[name].description


MAX_MEMBERS = 5_000
"""Maximum keys of an object: each key's errors are reported, which takes long."""


def _unique_fields(pairs: list[tuple[str, Any]]) -> Fields:
    if len(pairs) > MAX_MEMBERS:
        message = f"an object has {len(pairs)} keys; send at most {MAX_MEMBERS}"
        raise InvalidInput([Fault("", "size", message)])
    members: Fields = {}
    for name, value in pairs:
        if name in members:
            raise InvalidInput([Fault(f"/{name}", "duplicate", f"{name} is given twice")])
        members[name] = value
    return members


def refuse_constant(name: str) -> Any:
    """Refuse NaN and Infinity, which `json.loads` takes and JSON does not have.

    Raises:
        InvalidInput: always.
    """
    raise InvalidInput([Fault("", "number", f"{name} is no JSON value; leave it out or use null")])


def read_json(raw: bytes) -> Any:
    """Return the JSON value of a body.

    Raises:
        InvalidInput: it is no JSON in UTF-8, has duplicate keys, or has what no database keeps:
            NaN, Infinity, numbers beyond them, NUL, halves of surrogate pairs, great depth.
    """
    if has_many_values(raw):
        raise InvalidInput([Fault("", "size", TOO_MANY)])
    try:
        value = json.loads(
            raw.decode("utf-8-sig"),
            object_pairs_hook=_unique_fields,
            parse_constant=refuse_constant,
            parse_int=read_integer,
        )
    except json.JSONDecodeError as error:
        fault = Fault("", "syntax", f"the body is no JSON: {error.msg}", error.lineno, error.colno)
    except (UnicodeDecodeError, RecursionError):
        fault = Fault("", "syntax", "the body is no JSON in UTF-8 of reasonable depth")
    else:
        refuse_unstorable(value)
        return value
    raise InvalidInput([fault])


def refuse_unstorable(value: Any) -> None:
    """Refuse what JSON does not have or no database can store.

    Raises:
        InvalidInput: with every error.
    """
    faults = [Fault(fault.pointer, fault.rule, fault.message) for fault in unstorable(value)]
    if faults:
        raise InvalidInput(faults)


def read_query(request: Request) -> Fields:
    """Return the fields of the query.

    Raises:
        InvalidInput: one is given twice, or has what no database keeps.
    """
    fields = _unique_fields(request.query_params.multi_items())
    refuse_unstorable(fields)
    return fields


def read_write_query(request: Request) -> Fields:
    """Return the fields of the query of a write.

    Raises:
        InvalidInput: as for `read_query`.
    """
    fields = read_query(request)
    return {name: value for name, value in fields.items() if name not in IGNORED_PARAMETERS}


_LARGE = ThreadPoolExecutor(2, "large bodies")
"""For all clients together: each thread takes its share of the interpreter from other requests."""


async def away_from_loop(size: int, work: Callable[[], T]) -> T:
    """Process a body of this size: in one of a few threads, unless it is small."""
    if size <= INLINE_BYTES:
        return work()
    run = partial(copy_context().run, long_work.compute, work)
    return await asyncio.get_running_loop().run_in_executor(_LARGE, run)


async def read_body(request: Request) -> bytes:
    """Return the whole body; `IdentificationMiddleware` bounds it by its path (else 413)."""
    return await request.body()


RawBody = Annotated[bytes, Depends(read_body)]


def read_body_fields(raw: RawBody, request: Request) -> Fields:
    """Return the keys of the body, JSON whatever its Content-Type says, and those of the query.

    Raises:
        InvalidInput: it is no JSON object, or a secret is in the query, which logs may show.
    """
    fields = read_write_query(request)
    faults = [
        Fault(f"/{name}", "secret", f"{name} must be in the body: addresses are no place for it")
        for name in SECRETS
        if name in fields
    ]
    if faults:
        raise InvalidInput(faults)
    return merge_fields(fields, read_json_object(raw) if raw.strip() else {})


WHOLE_BODY = object()
"""The value of `definition` if the body is just a definition."""


def merge_fields(query: Fields, body: Fields) -> Fields:
    """Return the fields of the query and of the body together.

    Raises:
        InvalidInput: one is in both, which is ambiguous.
    """
    both = [name for name in query if name in body]
    if both:
        message = "{} is in the query and in the body"
        raise InvalidInput([Fault(f"/{name}", "duplicate", message.format(name)) for name in both])
    return query | body


def read_json_object(raw: bytes) -> Fields:
    """Return the keys of a body that is a JSON object.

    Raises:
        InvalidInput: it is no JSON object.
    """
    body = read_json(raw)
    if not isinstance(body, dict):
        raise InvalidInput([Fault("", "type", "the body must be a JSON object")])
    return body


async def receive_fields(raw: RawBody, request: Request) -> Fields:
    """Return what `read_body_fields` does, without blocking other requests. Raises as it does."""
    return await away_from_loop(len(raw), partial(read_body_fields, raw, request))


BodyFields = Annotated[Fields, Depends(receive_fields)]


def pydantic_faults(errors: Iterable[Mapping[str, Any]]) -> list[Fault]:
    """Convert pydantic's errors; inputs are left out, they may be secrets."""
    outer = {"body", "query", "path"}
    return [
        Fault(
            pointer="".join(f"/{part}" for part in item["loc"] if part not in outer),
            rule=item["type"],
            message=error_message(item),
        )
        for item in errors
    ]


B = TypeVar("B", bound=BaseModel)


def parse(model: type[B], fields: Mapping[str, Any]) -> B:
    """Validate fields against a model.

    Raises:
        InvalidInput: with every error at once.
    """
    try:
        return model.model_validate(fields)
    except ValidationError as error:
        errors = error.errors(include_url=False, include_input=False)
        raise InvalidInput(pydantic_faults(errors)) from None


def sent(model: type[BaseModel]) -> Any:
    """Return the dependency that reads a message from a body; FastAPI's own holds up the loop."""

    async def read(raw: RawBody) -> BaseModel:
        return await read_message(model, raw)

    return Depends(read)


async def read_message(model: type[B], raw: bytes) -> B:
    """Return the message in a body.

    Raises:
        InvalidInput: with every error at once.
    """
    return await away_from_loop(len(raw), lambda: parse(model, _members(raw)))


def _members(raw: bytes) -> Fields:
    if has_many_values(raw):
        raise InvalidInput([Fault("", "size", TOO_MANY)])
    try:
        members: Fields = json.loads(raw, object_pairs_hook=_unique_fields)
    except (ValueError, RecursionError):
        raise InvalidInput([Fault("", "syntax", "the body is no JSON")]) from None
    return members


def translate_input(
    request: Request, item: str, fields: Fields, known_fields: Collection[str]
) -> TranslatedInput:
    """Return the fields of a request for an item, translated from the dialect of its address.

    Ignored fields are kept for the response's `warning_header`.
    """
    translated = address_of(request).dialect.translate_input(item, fields, known_fields)
    request.state.ignored = translated.ignored
    return translated


def parse_translated(request: Request, item: str, model: type[B], fields: Fields) -> B:
    """Translate the fields of a request with `translate_input`, then `parse` them."""
    return parse(model, translate_input(request, item, fields, model.model_fields).fields)


def warning_header(request: Request) -> dict[str, str]:
    """Return the Warning header that names ignored fields; empty if there are none."""
    ignored = getattr(request.state, "ignored", ())
    if not ignored:
        return {}
    named = ", ".join(quote(name[:64], safe=SAFE) for name in ignored[:MAX_WARNED])
    return {"Warning": f'199 jobauto "unknown fields are ignored: {named}"'}


def requested_fields(request: Request) -> Mapping[str, Any]:
    """Return the fields of a request that have been read: at least its query."""
    fields: Mapping[str, Any] = getattr(request.state, "fields", request.query_params)
    return fields
