"""The REST contract: routes made from the table of resources."""

import functools
from collections.abc import Mapping
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Request, Response

from jobauto_prefect.errors import Fault, Forbidden, InvalidInput, NotFound, OtherId
from jobauto_prefect.facade import (
    applying,
    clearing,
    events,
    forecasts,
    general,
    maintenance,
    memberships,
    neighbours,
    obligations,
    output,
    people,
    records,
    revealing,
    sessions,
    sources,
    suggestions,
    workers,
)
from jobauto_prefect.facade.access import allow
from jobauto_prefect.facade.addresses import address_of
from jobauto_prefect.facade.answers import (
    base_of,
    format_of,
    names_in,
    plain,
    respond,
)
from jobauto_prefect.facade.auth import Identity, Person
from jobauto_prefect.facade.idempotency import once
from jobauto_prefect.facade.lists import add_list, view_of
from jobauto_prefect.facade.names import is_name, key_of, known_id, same_record, with_ids
from jobauto_prefect.facade.parameters import refuse_unknown
from jobauto_prefect.facade.rendering import KINDS
from jobauto_prefect.facade.requests import (
    WHOLE,
    BodyFields,
    Fields,
    RawBody,
    hear,
    joined,
    written_query,
)
from jobauto_prefect.facade.resources import RESOURCES, Convert, Resource, integer, words
from jobauto_prefect.facade.service import CurrentService, Service
from jobauto_prefect.facade.writes.applications import read_definition
from jobauto_prefect.facade.writes.base import Write, Written, flag
from jobauto_prefect.jobs.tasks import switch_off
from jobauto_prefect.ledger import actions, deliveries, listing, queries
from jobauto_prefect.ledger.names import LOOKS
from jobauto_prefect.ledger.records import App, Event, Job, RunTemplate, Task, User
from jobauto_prefect.ledger.retiring import retire
from jobauto_prefect.ledger.store import ReadingSession
from jobauto_prefect.ledger.topics import topics_of
from jobauto_prefect.logs import current

OTHERS = (
    applying,
    clearing,
    forecasts,
    general,
    maintenance,
    memberships,
    neighbours,
    obligations,
    revealing,
    sessions,
    events,
    sources,
    suggestions,
    output,
    workers,
)
"""Modules of routes that follow no pattern."""


@functools.cache  # it holds no state, and takes a tenth of a second
def contract_router() -> APIRouter:
    """All routes of the contract, without a prefix."""
    router = APIRouter(dependencies=[Depends(refuse_unknown)])
    for module in OTHERS:
        module.add_routes(router)  # before the patterns, which would take some of their paths
    for resource in RESOURCES:
        add_list(router, resource)
        _add_read(router, resource)
        if resource.write is not None:
            _add_upsert(router, resource)
        if resource.deletable:
            _add_delete(router, resource)
    return router


def _add_read(router: APIRouter, resource: Resource) -> None:
    def read(record_id: Any, request: Request, who: Person, service: CurrentService) -> Response:
        format_name = format_of(request)
        with service.ledger.reading() as session:
            record = _visible(session, resource, record_id, who, request)
            shown = resource.show(record, service.settings) | _details(session, record, service)
            now = service.ledger.clock()
            records.add_waits(session, [record], [shown], service.settings, now)
            if address_of(request).dialect.counts_work:
                records.add_work(session, [record], [shown])
            names = names_in(session, who, [shown]) if format_name == "html" else {}
        view = view_of(resource, request, who, shown, title=_title(resource, shown), names=names)
        return respond(request, format_name, view)

    read.__annotations__["record_id"] = key_of(resource.kind)
    name = resource.item
    router.get(f"/{name}/{{record_id}}.{{suffix}}", name=f"get {name}")(read)
    router.get(f"/{name}/{{record_id}}", include_in_schema=False)(read)


def _visible(
    session: ReadingSession, resource: Resource, record_id: int, who: Identity, request: Request
) -> Any:
    """The record, for somebody who may see it, at an address where there is such a record.

    Raises:
        NotFound: there is none, or none they may see.
    """
    record = queries.get(session, resource.kind, record_id)
    own = isinstance(record, User) and record.id == who.user_id
    only = address_of(request).dialect.only(resource.item)
    there = only is None or getattr(record, only.column) in only.value
    if there and (own or who.rights.may(resource.read, listing.company_of(record))):
        return record
    raise NotFound(f"there is no {resource.kind.__tablename__} {record_id}")


def _details(session: ReadingSession, record: Any, service: Service) -> records.Shown:
    if isinstance(record, Job):
        return _job_details(session, record)
    if isinstance(record, Event):
        owed = deliveries.of_event(session, record.id)
        return records.event_details(record, owed, actions.of_event(session, record.id))
    if isinstance(record, RunTemplate):
        return _all_topics(record)
    if isinstance(record, App):
        return {"rule_selectors": suggestions.selectors(record, service.settings.language)}
    if isinstance(record, Task):
        attempts = queries.attempts_of(session, record.id)
        return {"jobs": [records.job_record(job, service.settings) for job in attempts]}
    return {}


def _all_topics(record: Any) -> records.Shown:
    """What a run template's own record has of its application and its company."""
    return {"all_topics": [*topics_of(record)]} if isinstance(record, RunTemplate) else {}


def _job_details(session: ReadingSession, job: Job) -> records.Shown:
    if job.begin is None:
        return records.job_details((), ())  # it has left nothing yet
    lines = queries.last_output_of(session, job.id)
    return records.job_details(lines, queries.artifacts_of(session, job.id))


def _title(resource: Resource, shown: records.Shown) -> str:
    return f"{KINDS[resource.item].one} {shown['id']}"


def definition_fields(raw: RawBody, request: Request) -> Fields:
    """As `body_fields`, for a body that is a definition: every fault with line and column.

    With `definition` in the query its members are all the document's; the write reads them.
    """
    query = written_query(request)
    if flag(query.pop("definition", False), "/definition"):
        return query | {"definition": WHOLE}
    return joined(query, read_definition(raw) if raw.strip() else {})


DefinitionFields = Annotated[Fields, Depends(definition_fields)]


async def writer_of_definitions(who: Person) -> None:
    """Somebody who may write definitions at all: to judge one takes long.

    Raises:
        Forbidden: they may write none.
    """
    if not any(who.rights.anywhere(f"applications.{action}") for action in ("create", "update")):
        raise Forbidden("this needs the permission applications.update; ask an administrator")


def _add_upsert(router: APIRouter, resource: Resource) -> None:
    read: Any = DefinitionFields if resource.kind is App else BodyFields

    def upsert(
        fields: Any, raw: RawBody, request: Request, who: Person, service: CurrentService
    ) -> Response:
        return _write(resource, fields, raw, request, who, service)

    def update(
        record_id: Any,
        fields: Any,
        raw: RawBody,
        request: Request,
        who: Person,
        service: CurrentService,
    ) -> Response:
        given = fields.get("id", record_id)
        if not same_record(service, who, resource.kind, given, record_id):
            raise OtherId(record_id, given)
        return _write(resource, fields | {"id": record_id}, raw, request, who, service)

    for function in (upsert, update):  # each row has its own kind of body
        function.__annotations__["fields"] = read
    update.__annotations__["record_id"] = key_of(resource.kind)
    name = resource.item
    post = functools.partial(
        router.post,
        status_code=201,
        dependencies=[Depends(writer_of_definitions)] if resource.kind is App else None,
    )
    post(f"/{name}/", name=f"write {name}")(upsert)
    post(f"/{name}", name=f"write {name}", include_in_schema=False)(upsert)
    path = f"/{name}/{{record_id}}.{{suffix}}"
    post(path, name=f"update {name}")(update)
    if resource.put:
        router.put(path, status_code=201, name=f"update {name}", include_in_schema=False)(update)


def _write(
    resource: Resource,
    fields: Fields,
    raw: bytes,
    request: Request,
    who: Identity,
    service: Service,
) -> Response:
    assert resource.write is not None  # noqa: S101 - rows without it have no route
    format_name = format_of(request)
    key = _take_key(fields, resource)
    known = resource.body.model_fields if resource.body else ()
    heard = hear(request, resource.item, _renamed(fields, resource.aliases), known)
    doing = once(request, who.actor, f"{resource.item} {key or ''}", raw)
    ledger = service.ledger
    with ledger.writing(who.actor) as session:
        first = doing.first_answer(session)
        if first is not None:
            return first
        record_id = known_id(session, who, resource.kind, key) if isinstance(key, str) else key
        heard_fields = with_ids(session, who, resource.item, heard.fields, record_id)
        said = (heard_fields, record_id, raw, heard.defaults, service.carrier.is_running)
        write = Write(session, ledger.box, service.settings, who, *said)
        written = resource.write(write)
        session.flush()
        shown = resource.show(written.record, service.settings) | _all_topics(written.record)
        records.add_waits(session, [written.record], [shown], service.settings, ledger.clock())
        if address_of(request).dialect.counts_work:
            records.add_work(session, [written.record], [shown])
        answered = _created(resource, request, who, shown, written, format_name)
        doing.keep(session, answered)
    if written.messages:
        service.carrier.carry(written.messages)
    else:
        service.carrier.wake()
    return answered


def _take_key(fields: Fields, resource: Resource) -> int | str | None:
    """The id, or the name, of the record to update: query parameter, `id` or `<item>_id`.

    None: there is none, or it is null; the record is new or known by its natural key.
    """
    said = {
        name: fields.pop(name)
        for name in (resource.parameter, "id", f"{resource.item}_id")
        if name in fields
    }
    read: Convert = _key if resource.kind in LOOKS else integer
    given = {name: read(name, value) for name, value in said.items() if value is not None}
    if len(set(given.values())) > 1:
        message = f"{' and '.join(given)} name different records"
        raise InvalidInput([Fault(f"/{name}", "mismatch", message) for name in given])
    return next(iter(given.values()), None)


def _key(name: str, value: Any) -> int | str:
    word: int | str = words(name, value) if is_name(value) else integer(name, value)
    return word


def _renamed(fields: Fields, aliases: Mapping[str, str]) -> Fields:
    """The fields, with those that have another name under the one we know."""
    other = {name: fields[name] for name in aliases if name in fields}
    kept = {name: value for name, value in fields.items() if name not in other}
    both = [name for name in other if aliases[name] in kept]
    if both:
        message = "{} and {} are the same; send one of them"
        raise InvalidInput(
            [Fault(f"/{name}", "duplicate", message.format(name, aliases[name])) for name in both]
        )
    return kept | {aliases[name]: value for name, value in other.items()}


def _created(
    resource: Resource,
    request: Request,
    who: Identity,
    shown: records.Shown,
    written: Written,
    format_name: str,
) -> Response:
    body = shown | {"created": written.created}
    if resource.item == "job":
        body["job_id"] = current().job_id = shown["id"]
    if written.warnings:
        body["warnings"] = [warning.as_dict() for warning in written.warnings]
    location = f"{base_of(request)}/{resource.item}/{shown['id']}.json"
    view = view_of(resource, request, who, body, title=_title(resource, shown))
    return respond(request, format_name, view, 201, {"Location": location})


def _add_delete(router: APIRouter, resource: Resource) -> None:
    def delete(record_id: Any, request: Request, who: Person, service: CurrentService) -> Response:
        format_of(request)
        with service.ledger.writing(who.actor) as session:
            record = queries.get(session, resource.kind, record_id)
            allow(who, resource.permissions, "delete", listing.company_of(record), record)
            if isinstance(record, User):
                people.refuse_above(who, record, session.clock())
            retire(session, record, switch_off)
            people.keep_a_super_admin(session)
        service.carrier.wake()
        gone = {"id": record_id, "deleted": True, "success": True}
        return plain(request, who, f"Deleted {resource.item} {record_id}", gone)

    delete.__annotations__["record_id"] = key_of(resource.kind)
    name = resource.item
    router.delete(f"/{name}/{{record_id}}.{{suffix}}", name=f"delete {name}")(delete)
    router.delete(f"/{name}/{{record_id}}", include_in_schema=False)(delete)
