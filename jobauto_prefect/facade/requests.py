"""What is read from a request: its id, its fields, and which format it asks for."""

import json
import uuid
from collections.abc import Collection, Iterable, Mapping
from typing import Annotated, Any, TypeVar
from urllib.parse import quote

from fastapi import Depends, Request
from pydantic import BaseModel, ConfigDict, ValidationError
from starlette.exceptions import HTTPException
from starlette.requests import HTTPConnection

from jobauto_prefect.definitions.limits import beyond_limits, read_integer
from jobauto_prefect.errors import Fault, InvalidInput
from jobauto_prefect.facade.addresses import address_of
from jobauto_prefect.facade.dialect import Heard

Fields = dict[str, Any]
WARNED = 50  # names in a Warning header
SAFE = "$/:@[]-_. "
SECRETS = ("password", "db_password")
"""Members that are secret themselves; those of `env` and `values` can't be in a query at all."""


def request_id_of(request: HTTPConnection) -> str:
    """The id of this request, as its audit entries and error answers name it."""
    known: str | None = getattr(request.state, "request_id", None)
    if known is None:
        known = request.state.request_id = uuid.uuid4().hex
    return known


MEANINGLESS = ("limit", "offset", "order", "token")
"""Query parameters that a published client adds to any request; to a write they say nothing."""


class Body(BaseModel):
    """Base of what clients write: unknown members are faults."""

    model_config = ConfigDict(extra="forbid")


def _no_duplicates(pairs: list[tuple[str, Any]]) -> Fields:
    members: Fields = {}
    for name, value in pairs:
        if name in members:
            raise InvalidInput([Fault(f"/{name}", "duplicate", f"{name} is given twice")])
        members[name] = value
    return members


def refuse_constant(name: str) -> Any:
    """For `json.loads`: NaN and Infinity, which it takes and JSON does not have.

    Raises:
        InvalidInput: always.
    """
    raise InvalidInput([Fault("", "number", f"{name} is no JSON value; leave it out or use null")])


def read_json(raw: bytes) -> Any:
    """The JSON value of a body.

    Raises:
        InvalidInput: it is no JSON in UTF-8, has duplicate members, or has what no database keeps:
            NaN, Infinity, numbers beyond them, NUL, halves of surrogate pairs, great depth.
    """
    try:
        value = json.loads(
            raw.decode("utf-8-sig"),
            object_pairs_hook=_no_duplicates,
            parse_constant=refuse_constant,
            parse_int=read_integer,
        )
    except json.JSONDecodeError as error:
        fault = Fault("", "syntax", f"the body is no JSON: {error.msg}", error.lineno, error.colno)
    except (UnicodeDecodeError, RecursionError):
        fault = Fault("", "syntax", "the body is no JSON in UTF-8 of reasonable depth")
    else:
        refuse_unfit(value)
        return value
    raise InvalidInput([fault])


def refuse_unfit(value: Any) -> None:
    """Refuse what JSON does not have and no database keeps.

    Raises:
        InvalidInput: with every fault.
    """
    found = [Fault(one.pointer, one.rule, one.message) for one in beyond_limits(value)]
    if found:
        raise InvalidInput(found)


def query_fields(request: Request) -> Fields:
    """The fields of the query.

    Raises:
        InvalidInput: one is given twice, or has what no database keeps.
    """
    fields = _no_duplicates(request.query_params.multi_items())
    refuse_unfit(fields)
    return fields


def written_query(request: Request) -> Fields:
    """The fields of the query of a write.

    Raises:
        InvalidInput: as `query_fields`.
    """
    fields = query_fields(request)
    return {name: value for name, value in fields.items() if name not in MEANINGLESS}


async def raw_body(request: Request) -> bytes:
    """The whole body, up to the limit of the settings (else 413)."""
    return await _limited(request, request.app.state.service.settings.body_limit_bytes)


async def artifact_body(request: Request) -> bytes:
    """The whole body, up to the limit for a job's artifacts (else 413)."""
    return await _limited(request, request.app.state.service.settings.artifact_limit_bytes)


async def files_body(request: Request) -> bytes:
    """The whole body, up to the limit for files that are applied (else 413)."""
    return await _limited(request, request.app.state.service.settings.apply_limit_bytes)


async def _limited(request: Request, limit: int) -> bytes:
    content = bytearray()
    async for chunk in request.stream():
        content += chunk
        if len(content) > limit:
            raise HTTPException(413, f"the body is larger than {limit} bytes")
    return bytes(content)


ArtifactBody = Annotated[bytes, Depends(artifact_body)]
FilesBody = Annotated[bytes, Depends(files_body)]
RawBody = Annotated[bytes, Depends(raw_body)]


def body_fields(raw: RawBody, request: Request) -> Fields:
    """The members of the body, JSON whatever its Content-Type says, and those of the query.

    Raises:
        InvalidInput: it is no JSON object, or a secret is in the query, which logs may show.
    """
    fields = written_query(request)
    faults = [
        Fault(f"/{name}", "secret", f"{name} must be in the body: addresses are no place for it")
        for name in SECRETS
        if name in fields
    ]
    if faults:
        raise InvalidInput(faults)
    return joined(fields, json_fields(raw) if raw.strip() else {})


WHOLE = object()
"""The value of `definition` where the body is a definition and nothing else."""


def joined(query: Fields, body: Fields) -> Fields:
    """The fields of both.

    Raises:
        InvalidInput: one is in both: nobody could say which of them counts.
    """
    both = [name for name in query if name in body]
    if both:
        message = "{} is in the query and in the body"
        raise InvalidInput([Fault(f"/{name}", "duplicate", message.format(name)) for name in both])
    return query | body


def json_fields(raw: bytes) -> Fields:
    """The members of a body that is a JSON object.

    Raises:
        InvalidInput: it is none.
    """
    body = read_json(raw)
    if not isinstance(body, dict):
        raise InvalidInput([Fault("", "type", "the body must be a JSON object")])
    return body


BodyFields = Annotated[Fields, Depends(body_fields)]


def faults_in(errors: Iterable[Mapping[str, Any]]) -> list[Fault]:
    """What pydantic found, as faults; inputs are left out, they may be secrets."""
    outer = {"body", "query", "path"}
    return [
        Fault(
            pointer="".join(f"/{part}" for part in item["loc"] if part not in outer),
            rule=item["type"],
            message=item["msg"],
        )
        for item in errors
    ]


B = TypeVar("B", bound=Body)


def parse(model: type[B], fields: Mapping[str, Any]) -> B:
    """The fields as a model.

    Raises:
        InvalidInput: with every fault at once.
    """
    try:
        return model.model_validate(fields)
    except ValidationError as error:
        raise InvalidInput(faults_in(error.errors(include_input=False))) from None


def hear(request: Request, item: str, fields: Fields, known: Collection[str]) -> Heard:
    """The fields of a request for an item, translated from the dialect of its address.

    What is ignored is said in the answer (`warning_of`).
    """
    heard = address_of(request).dialect.hear(item, fields, known)
    request.state.ignored = heard.ignored
    return heard


def parse_heard(request: Request, item: str, model: type[B], fields: Fields) -> B:
    """`hear`, then `parse`."""
    return parse(model, hear(request, item, fields, model.model_fields).fields)


def warning_of(request: Request) -> dict[str, str]:
    """The header that names the fields which were ignored, if any were."""
    ignored = getattr(request.state, "ignored", ())
    if not ignored:
        return {}
    named = ", ".join(quote(name[:64], safe=SAFE) for name in ignored[:WARNED])
    return {"Warning": f'199 jobauto "unknown fields are ignored: {named}"'}


def asked_of(request: Request) -> Mapping[str, Any]:
    """The fields a request was made with, as far as they were read: at least its query."""
    fields: Mapping[str, Any] = getattr(request.state, "fields", request.query_params)
    return fields
