"""The routes that create or update records, for each kind that can be written."""

import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Request, Response
from pydantic import Field, GetJsonSchemaHandler
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema

from jobauto_prefect.errors import Fault, InvalidInput, NotFound, OtherId, RecordExists
from jobauto_prefect.facade import answers
from jobauto_prefect.facade.answers import Answer
from jobauto_prefect.facade.auth.identity import CurrentUser, Identity
from jobauto_prefect.facade.http.addresses import address_of
from jobauto_prefect.facade.http.dialect import TranslatedInput
from jobauto_prefect.facade.http.field_types import Convert, parse_int
from jobauto_prefect.facade.http.idempotency import (
    REPLAYED,
    IdempotentRequest,
    idempotent_request,
)
from jobauto_prefect.facade.http.operations import (
    WRITE_ERRORS,
    answered,
    json_body,
    operation,
    to_pascal_case,
)
from jobauto_prefect.facade.http.parameters import (
    IDEMPOTENCY_KEY,
    IF_NONE_MATCH,
    Json,
    number_or_name,
    query,
)
from jobauto_prefect.facade.http.requests import (
    Fields,
    RawBody,
    translate_input,
)
from jobauto_prefect.facade.http.responses import base_of, format_of, respond
from jobauto_prefect.facade.kinds.natural_keys import (
    is_same_record,
    key_type,
    parse_key,
    require_id,
    resolve_names,
)
from jobauto_prefect.facade.kinds.resource import Resource, link
from jobauto_prefect.facade.resources.lists import view_of
from jobauto_prefect.facade.service import CurrentService, Service
from jobauto_prefect.facade.writes.base import WriteRequest, WriteResult
from jobauto_prefect.ledger.access.ownership import company_of
from jobauto_prefect.ledger.audit.trail import WritingSession
from jobauto_prefect.ledger.base import noun_of
from jobauto_prefect.ledger.queries.names import LOOKS
from jobauto_prefect.ledger.store import ReadingSession

LOCATION: Json = {
    "description": "The address of the record.",
    "required": True,
    "schema": {"type": "string", "format": "uri-reference"},
}
IS_REPLAYED: Json = {
    "description": "This answer repeats the answer to the first request with this "
    "`Idempotency-Key`.",
    "schema": {"type": "string", "enum": ["true"]},
}


class Written(Answer):
    """Fields of the answer to a write, in addition to the record's."""

    created: bool = Field(description="Whether the record is new.")
    warnings: list[answers.Fault] = Field(
        default=[],
        description="What is allowed but almost certainly wrong.",
    )


@dataclass(frozen=True, slots=True, eq=False)  # FastAPI needs a hash
class Both:
    """Documents an answer as a record and `Written`, with further fields."""

    fields: Json

    def __get_pydantic_json_schema__(
        self, core: CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        """Return the JSON schema; pydantic calls it."""
        made: Json = {"allOf": handler(core)["anyOf"]}
        return made | ({"properties": self.fields} if self.fields else {})


@dataclass(frozen=True, slots=True)
class UpsertRequest:
    """A request to create or update a record, parsed before anything is written.

    `key` is the id or name of the record to update; None: it is new, or found by its natural key.
    `shows_work`: the answer includes why jobs wait, or numbers of jobs. `once` is set if the
    request has an `Idempotency-Key`.
    """

    request: Request
    raw: bytes
    key: int | str | None
    translated: TranslatedInput
    format_name: str
    shows_work: bool
    once: IdempotentRequest | None


def add_upsert(router: APIRouter, resource: Resource) -> None:
    """Add the routes that write records of a kind."""
    assert resource.body is not None  # noqa: S101 - kinds that can be written have one

    def read_new(fields: Any, raw: RawBody, request: Request, who: CurrentUser) -> UpsertRequest:
        return _read(resource, fields, raw, request, who)

    def read_update(
        record_id: Any,
        fields: Any,
        raw: RawBody,
        request: Request,
        who: CurrentUser,
        service: CurrentService,
    ) -> UpsertRequest:
        given = fields.get("id", record_id)
        if not is_same_record(service, who, resource.record, given, record_id):
            raise OtherId(record_id, given)
        return _read(resource, fields | {"id": record_id}, raw, request, who)

    for function in (read_new, read_update):  # each kind has its own body
        function.__annotations__["fields"] = resource.reader.fields
    read_update.__annotations__["record_id"] = key_type(resource.record)

    def endpoint(read_request: Callable[..., UpsertRequest]) -> Callable[..., Response]:
        def write(
            asked: Annotated[UpsertRequest, Depends(read_request)],
            who: CurrentUser,
            service: CurrentService,
        ) -> Response:
            return _write(resource, asked, who, service)

        return write

    kind = resource.kind
    add = functools.partial(
        operation,
        router,
        tag=kind.many,
        answer=_declare_answer(resource),
        body=resource.body,
        fields=lambda: _body_fields(resource),
        item=kind.item,
        dependencies=resource.reader.dependencies,
    )
    body = resource.body.__name__
    changed = f"{resource.answer.__name__}Change" if resource.change else body
    key = query(kind.parameter, number_or_name(kind), "The record to update.")
    write = add(
        f"POST /{kind.item}/",
        name=f"write{to_pascal_case(kind.noun)}",
        summary=f"Write {kind.noun}",
        description=_describe_write(resource),
        errors=(*WRITE_ERRORS, 412, 422),
        request_body=json_body(body, required=False),
        parameters=lambda: (key, *resource.reader.parameters, IDEMPOTENCY_KEY, IF_NONE_MATCH),
    )
    write(endpoint(read_new))
    change = functools.partial(
        add,
        name=f"update{to_pascal_case(kind.noun)}",
        summary=f"Update {kind.noun}",
        description=f"Changes the given fields. Needs `{kind.permissions}.update`.",
        errors=(*WRITE_ERRORS, 422),
        request_body=json_body(changed, required=False),
        parameters=lambda: (IDEMPOTENCY_KEY,),
        twin=None,
    )
    path, update = f"/{kind.item}/{{record_id}}.{{suffix}}", endpoint(read_update)
    change(f"POST {path}")(update)
    if resource.put:
        change(f"PUT {path}", include_in_schema=False)(update)


def _describe_write(resource: Resource) -> str:
    kind = resource.kind
    known = f" Without an id, the record is found by its {kind.known_by}." if kind.known_by else ""
    needed = " and ".join(map(_either, kind.required))
    return (
        f"Creates or updates: an update changes only the given fields. The id may be in the query "
        f"(`{kind.parameter}`) or in the body (`id` or `{kind.item}_id`).{known}"
        f" A new record needs {needed or 'a complete definition'}.{resource.note}"
        f" Needs `{kind.permissions}.create` or `{kind.permissions}.update`."
    )


def _either(fields: Sequence[str]) -> str:
    first, *others = (f"`{field}`" for field in fields)
    return first + (f" (or {' or '.join(others)})" if others else "")


def _declare_answer(resource: Resource) -> Mapping[int, Json]:
    kind = resource.kind
    words = to_pascal_case(kind.noun)
    verbs = ("get", "update", "delete") if kind.deletable else ("get", "update")
    return answered(
        f"The {kind.noun}, created or updated.",
        Annotated[resource.answer | Written, Both(resource.repeated)],
        status=201,
        headers={"Location": LOCATION, REPLAYED: IS_REPLAYED},
        links={verb: link(f"{verb}{words}", kind.parameter) for verb in verbs}
        | dict(resource.links),
    )


def _body_fields(resource: Resource) -> Iterable[str]:
    kind = resource.kind
    assert resource.body is not None  # noqa: S101 - kinds that can be written have one
    yield from (kind.parameter, "id", f"{kind.item}_id", *kind.aliases)
    yield from resource.reader.names(resource.body)


def _read(
    resource: Resource, fields: Fields, raw: bytes, request: Request, who: Identity
) -> UpsertRequest:
    format_name = format_of(request)
    key = _pop_key(fields, resource)
    known = resource.body.model_fields if resource.body else ()
    named = _apply_aliases(fields, resource.kind.aliases)
    translated = translate_input(request, resource.kind.item, named, known)
    once = idempotent_request(request, who.actor, f"{resource.kind.item} {key or ''}", raw)
    shows_work = resource.annotate is not None or address_of(request).dialect.counts_work
    return UpsertRequest(request, raw, key, translated, format_name, shows_work, once)


def _write(resource: Resource, asked: UpsertRequest, who: Identity, service: Service) -> Response:
    """Write a record and answer with it.

    The answer is made after the commit, so that it holds no locks. One that is stored for an
    `Idempotency-Key`, or shows work, is made before.
    """
    assert resource.write is not None  # noqa: S101 - kinds without it have no route
    ledger, once, answer = service.ledger, asked.once, None
    with ledger.writing(who.actor) as session:
        if once is not None and (first := once.stored_response(session)) is not None:
            _authorize_replay(session, resource, who, first)
            return first
        key = asked.key
        record_id = require_id(session, who, resource.record, key) if isinstance(key, str) else key
        given = asked.translated.fields
        write = WriteRequest(
            session,
            ledger.box,
            service.settings,
            who,
            resolve_names(session, who, resource.kind.item, given, record_id),
            record_id,
            asked.raw,
            asked.translated.defaults,
            outbox_worker=service.outbox_worker,
        )
        written = resource.write(write)
        if asked.request.headers.get("if-none-match") == "*" and not written.created:
            named = f"{resource.kind.one.lower()} {written.record.id}"
            raise RecordExists(f"this name is taken by {named}; change that record, or choose "
                               "another name")  # fmt: skip
        session.flush()
        if once is not None or asked.shows_work:
            answer = _respond_written(session, resource, asked, who, service, written)
            if once is not None:
                once.store(session, answer)
    if written.starts:
        service.outbox_worker.accept(written.starts)
    else:
        service.outbox_worker.wake()
    if answer is not None:
        return answer
    with ledger.reading() as reading:
        reading.add(written.record)
        return _respond_written(reading, resource, asked, who, service, written)


def _authorize_replay(
    session: WritingSession, resource: Resource, who: Identity, first: Response
) -> None:
    """Require that the caller of a repeated request may still change the record in the answer.

    Raises:
        NotFound: the record is deleted, or the caller may no longer see it.
        Forbidden: the caller may see it, but not change it.
    """
    record_id = int(first.headers["location"].rpartition("/")[2].removesuffix(".json"))
    record = session.get(resource.record, record_id)
    if record is None:
        raise NotFound(f"{noun_of(resource.record)} {record_id} no longer exists")
    if not resource.is_own(who, record):
        who.rights.require(resource.kind.permissions, "update", company_of(record), record)


def _pop_key(fields: Fields, resource: Resource) -> int | str | None:
    """Return the id or name of the record to update: query parameter, `id` or `<item>_id`.

    None if it is missing or null: the record is new, or found by its natural key.
    """
    keys = {
        name: fields.pop(name)
        for name in (resource.kind.parameter, "id", f"{resource.kind.item}_id")
        if name in fields
    }
    read: Convert = parse_key if resource.record in LOOKS else parse_int
    given = {name: read(name, value) for name, value in keys.items() if value is not None}
    if len(set(given.values())) > 1:
        message = f"{' and '.join(given)} name different records"
        raise InvalidInput([Fault(f"/{name}", "mismatch", message) for name in given])
    return next(iter(given.values()), None)


def _apply_aliases(fields: Fields, aliases: Mapping[str, str]) -> Fields:
    """Return the fields with aliases replaced by the names that they stand for."""
    other = {name: fields[name] for name in aliases if name in fields}
    kept = {name: value for name, value in fields.items() if name not in other}
    both = [name for name in other if aliases[name] in kept]
    if both:
        message = "{} and {} are the same; send one of them"
        raise InvalidInput(
            [Fault(f"/{name}", "duplicate", message.format(name, aliases[name])) for name in both]
        )
    return kept | {aliases[name]: value for name, value in other.items()}


def _respond_written(
    session: ReadingSession,
    resource: Resource,
    asked: UpsertRequest,
    who: Identity,
    service: Service,
    written: WriteResult,
) -> Response:
    request, record, settings = asked.request, written.record, service.settings
    shown = resource.show(record, settings) | resource.written(record)
    if asked.shows_work:
        resource.complete(session, [record], [shown], service, counts_work=True)
    body = shown | {"created": written.created}
    if written.warnings:
        body["warnings"] = [warning.as_dict() for warning in written.warnings]
    location = f"{base_of(request)}/{resource.kind.item}/{shown['id']}.json"
    view = view_of(resource, request, who, body, title=f"{resource.kind.one} {shown['id']}")
    return respond(request, asked.format_name, view, 201, {"Location": location})
