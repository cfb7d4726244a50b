"""The REST contract: routes made from the table of resources."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Request, Response
from fastapi.responses import StreamingResponse

from jobauto_prefect.errors import Fault, InvalidInput, NotFound
from jobauto_prefect.facade import (
    general,
    memberships,
    neighbours,
    output,
    people,
    records,
    sessions,
    sources,
)
from jobauto_prefect.facade.access import allow
from jobauto_prefect.facade.answers import (
    base_of,
    format_of,
    languages_of,
    names_in,
    path_of,
    plain,
    respond,
)
from jobauto_prefect.facade.auth import Identity, Person
from jobauto_prefect.facade.idempotency import once
from jobauto_prefect.facade.rendering import KINDS, View, stream_json
from jobauto_prefect.facade.requests import BodyFields, Fields, RawBody, joined, query_fields
from jobauto_prefect.facade.resources import RESOURCES, Resource, integer
from jobauto_prefect.facade.service import CurrentService, Service
from jobauto_prefect.facade.spellings import Integer
from jobauto_prefect.facade.writes.applications import read_definition
from jobauto_prefect.facade.writes.base import Write, Written
from jobauto_prefect.ledger import listing, queries
from jobauto_prefect.ledger.listing import Condition, Selection
from jobauto_prefect.ledger.records import App, Job, Task, User
from jobauto_prefect.ledger.retiring import retire
from jobauto_prefect.ledger.store import ReadingSession

PAGE = 100
LARGEST_PAGE = 1000
PAGING = ("limit", "offset", "order", "cursor")


def contract_router() -> APIRouter:
    """All routes of the contract, without a prefix."""
    router = APIRouter()
    for module in (general, memberships, neighbours, sessions, sources, output):
        module.add_routes(router)  # before the patterns, which would take some of their paths
    for resource in RESOURCES:
        _add_list(router, resource)
        _add_read(router, resource)
        if resource.write is not None:
            _add_upsert(router, resource)
        if resource.deletable:
            _add_delete(router, resource)
    return router


def _add_read(router: APIRouter, resource: Resource) -> None:
    def read(
        record_id: Integer, request: Request, who: Person, service: CurrentService
    ) -> Response:
        format_name = format_of(request)
        with service.ledger.reading() as session:
            record = _visible(session, resource, record_id, who)
            shown = resource.show(record, service.settings) | _details(session, record, service)
            names = names_in(session, [shown]) if format_name == "html" else {}
        view = _view(resource, request, who, shown, title=_title(resource, shown), names=names)
        return respond(format_name, view)

    name = resource.item
    router.get(f"/{name}/{{record_id}}.{{suffix}}", name=f"get {name}")(read)
    router.get(f"/{name}/{{record_id}}", include_in_schema=False)(read)


def _visible(session: ReadingSession, resource: Resource, record_id: int, who: Identity) -> Any:
    """The record, for somebody who may see it.

    Raises:
        NotFound: there is none, or none they may see.
    """
    record = queries.get(session, resource.kind, record_id)
    own = isinstance(record, User) and record.id == who.user_id
    if own or who.rights.may(resource.read, listing.company_of(record)):
        return record
    raise NotFound(f"there is no {resource.kind.__tablename__} {record_id}")


def _details(session: ReadingSession, record: Any, service: Service) -> records.Shown:
    if isinstance(record, Job):
        lines = queries.last_output_of(session, record.id)
        return records.job_details(lines, queries.artifacts_of(session, record.id))
    if isinstance(record, Task):
        attempts = queries.attempts_of(session, record.id)
        return {"jobs": [records.job_record(job, service.settings) for job in attempts]}
    return {}


def _add_list(router: APIRouter, resource: Resource) -> None:
    def read_all(request: Request, who: Person, service: CurrentService) -> Response:
        format_name = format_of(request, is_list=True)
        query = query_fields(request)
        selection = _selection(resource, query, who)
        if selection.limit is None and format_name == "json":
            return _whole(service, resource, selection)
        if selection.limit is None:
            selection = replace(selection, limit=LARGEST_PAGE)
        with service.ledger.reading() as session:
            page = listing.page(session, resource.kind, selection)
            shown = [resource.show(record, service.settings) for record in page.records]
            names = names_in(session, shown) if format_name == "html" else {}
        view = _list_view(resource, request, who, shown, page, names)
        return respond(format_name, view, headers=_headers(request, page))

    router.get(f"/{resource.collection}.{{suffix}}", name=f"list {resource.collection}")(read_all)
    router.get(f"/{resource.collection}", include_in_schema=False)(read_all)


def _view(resource: Resource, request: Request, who: Identity, data: Any, **members: Any) -> View:
    return View(
        item=resource.item,
        data=data,
        base=base_of(request),
        path=path_of(request),
        user=who.actor.name,
        languages=languages_of(request),
        **members,
    )


def _title(resource: Resource, shown: records.Shown) -> str:
    return f"{KINDS[resource.item].one} {shown['id']}"


def _list_view(
    resource: Resource,
    request: Request,
    who: Identity,
    shown: Sequence[records.Shown],
    page: listing.Page,
    names: Mapping[str, Mapping[str, str]],
) -> View:
    query = dict(request.query_params)
    first = {name: value for name, value in query.items() if name not in ("cursor", "offset")}
    return _view(
        resource,
        request,
        who,
        records.id_keyed(shown),
        title=KINDS[resource.item].many,
        is_list=True,
        query=query,
        total=page.total,
        next_query={**first, "cursor": page.next_cursor} if page.next_cursor else None,
        first_query=first if first != query else None,
        filters=[one.shown(name) for name, one in resource.filters.items()],
        orders=resource.orders,
        columns=resource.columns,
        names=names,
    )


def _selection(resource: Resource, query: Mapping[str, str], who: Identity) -> Selection:
    """What a request asks for, of what its sender may see.

    Raises:
        InvalidInput: with every fault of the query.
    """
    faults: list[Fault] = []
    conditions: list[Condition] = []
    for name, one in resource.filters.items():
        if query.get(name):
            try:
                conditions.append(one.condition(name, query[name]))
            except InvalidInput as error:
                faults += error.faults
    limit, offset, order = _paging(resource, query, faults)
    if faults:
        raise InvalidInput(faults)
    companies = who.rights.companies_with(resource.read)
    if resource.kind is User and companies is not None:
        conditions.append(Condition("id", who.user_id or 0))
    elif resource.kind not in listing.IN_COMPANIES and not who.rights.anywhere(resource.read):
        conditions.append(Condition("id", 0))
    cursor = query.get("cursor") or None
    return Selection(companies, tuple(conditions), order, limit, offset, cursor)


def _paging(
    resource: Resource, query: Mapping[str, str], faults: list[Fault]
) -> tuple[int | None, int, str]:
    order = query.get("order") or ("-id" if resource.paged else "id")
    if order.removeprefix("-") not in resource.orders:
        message = f"order must be one of {', '.join(resource.orders)}, with - for descending"
        faults.append(Fault("/order", "enum", message))
    limit, offset = _number(query, "limit", faults), _number(query, "offset", faults)
    if limit is not None and not 1 <= limit <= LARGEST_PAGE:
        faults.append(Fault("/limit", "range", f"limit must be from 1 to {LARGEST_PAGE}"))
    if limit is None and (resource.paged or query.get("cursor")):
        limit = PAGE
    return limit, offset or 0, order


def _number(query: Mapping[str, str], name: str, faults: list[Fault]) -> int | None:
    if not query.get(name):
        return None
    try:
        return integer(name, query[name])
    except InvalidInput as error:
        faults += error.faults
        return None


def _headers(request: Request, page: listing.Page) -> dict[str, str]:
    headers = {"X-Total-Count": str(page.total)}
    if page.next_cursor is not None:
        url = request.url.include_query_params(cursor=page.next_cursor).remove_query_params(
            "offset"
        )
        headers["Link"] = f'<{url.path}?{url.query}>; rel="next"'
    return headers


def _whole(service: Service, resource: Resource, selection: Selection) -> Response:
    """A list that comes whole, as it is read."""
    with service.ledger.reading() as session:
        total = listing.count(session, resource.kind, selection)

    def shown() -> Iterator[records.Shown]:
        with service.ledger.reading() as session:
            for record in listing.stream(session, resource.kind, selection):
                yield resource.show(record, service.settings)

    headers = {"X-Total-Count": str(total), "Vary": "Accept, Authorization"}
    return StreamingResponse(stream_json(shown()), media_type="application/json", headers=headers)


def definition_fields(raw: RawBody, request: Request) -> Fields:
    """As `body_fields`, for a body that is a definition: every fault with line and column."""
    return joined(query_fields(request), read_definition(raw) if raw.strip() else {})


DefinitionFields = Annotated[Fields, Depends(definition_fields)]


def _add_upsert(router: APIRouter, resource: Resource) -> None:
    read: Any = DefinitionFields if resource.kind is App else BodyFields

    def upsert(
        fields: Any, raw: RawBody, request: Request, who: Person, service: CurrentService
    ) -> Response:
        return _write(resource, fields, raw, request, who, service)

    def update(
        record_id: Integer,
        fields: Any,
        raw: RawBody,
        request: Request,
        who: Person,
        service: CurrentService,
    ) -> Response:
        given = fields.get("id", record_id)
        if str(given) != str(record_id):
            raise InvalidInput([Fault("/id", "mismatch", "id is another than the path's")])
        return _write(resource, fields | {"id": record_id}, raw, request, who, service)

    for function in (upsert, update):  # each row has its own kind of body
        function.__annotations__["fields"] = read
    name = resource.item
    router.post(f"/{name}/", status_code=201, name=f"write {name}")(upsert)
    router.post(f"/{name}", status_code=201, include_in_schema=False)(upsert)
    router.post(f"/{name}/{{record_id}}.{{suffix}}", status_code=201, name=f"update {name}")(update)


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
    record_id = _take_key(fields, resource)
    doing = once(request, who.actor, f"{resource.item} {record_id or ''}", raw)
    ledger = service.ledger
    with ledger.writing(who.actor) as session:
        first = doing.first_answer(session)
        if first is not None:
            return first
        write = Write(session, ledger.box, service.settings, who, fields, record_id, raw)
        written = resource.write(write)
        session.flush()
        shown = resource.show(written.record, service.settings)
        answered = _created(resource, request, who, shown, written, format_name)
        doing.keep(session, answered)
    service.carrier.wake()
    return answered


def _take_key(fields: Fields, resource: Resource) -> int | None:
    """The id of the record to update: query parameter, `id` or `<item>_id`; None: a new record."""
    given = {
        name: integer(name, fields.pop(name))
        for name in (resource.parameter, "id", f"{resource.item}_id")
        if name in fields
    }
    if len(set(given.values())) > 1:
        message = f"{' and '.join(given)} name different records"
        raise InvalidInput([Fault(f"/{name}", "mismatch", message) for name in given])
    return next(iter(given.values()), None)


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
        body["job_id"] = shown["id"]
    if written.warnings:
        body["warnings"] = [warning.as_dict() for warning in written.warnings]
    location = f"{base_of(request)}/{resource.item}/{shown['id']}.json"
    view = _view(resource, request, who, body, title=_title(resource, shown))
    return respond(format_name, view, 201, {"Location": location})


def _add_delete(router: APIRouter, resource: Resource) -> None:
    def delete(
        record_id: Integer, request: Request, who: Person, service: CurrentService
    ) -> Response:
        format_of(request)
        with service.ledger.writing(who.actor) as session:
            record = queries.get(session, resource.kind, record_id)
            allow(who, resource.permissions, "delete", listing.company_of(record), record)
            if isinstance(record, User):
                people.refuse_above(who, record, session.clock())
            retire(session, record)
            people.keep_a_super_admin(session)
        service.carrier.wake()
        gone = {"id": record_id, "deleted": True, "success": True}
        return plain(request, who, f"Deleted {resource.item} {record_id}", gone)

    name = resource.item
    router.delete(f"/{name}/{{record_id}}.{{suffix}}", name=f"delete {name}")(delete)
    router.delete(f"/{name}/{{record_id}}", include_in_schema=False)(delete)
