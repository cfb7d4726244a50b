"""Lists of a record kind: filtered, ordered, whole or a page at a time."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from fastapi import APIRouter, Request, Response
from fastapi.responses import StreamingResponse

from jobauto_prefect.errors import Fault, InvalidInput
from jobauto_prefect.facade import records
from jobauto_prefect.facade.addresses import address_of, asked_path
from jobauto_prefect.facade.answers import (
    base_of,
    format_of,
    languages_of,
    names_in,
    path_of,
    respond,
    route_of,
)
from jobauto_prefect.facade.auth import Identity, Person
from jobauto_prefect.facade.dialect import Dialect
from jobauto_prefect.facade.names import filtered_by
from jobauto_prefect.facade.rendering import KINDS, View, stream_json
from jobauto_prefect.facade.requests import query_fields
from jobauto_prefect.facade.resources import Resource, integer
from jobauto_prefect.facade.service import CurrentService, Service
from jobauto_prefect.ledger import listing
from jobauto_prefect.ledger.listing import Condition, Selection
from jobauto_prefect.ledger.records import User

PAGE = 100
LARGEST_PAGE = 1000
PAGING = ("limit", "offset", "order", "cursor")


def add_list(router: APIRouter, resource: Resource) -> None:
    """The routes of a kind's list."""

    def read_all(request: Request, who: Person, service: CurrentService) -> Response:
        format_name = format_of(request, is_list=True)
        selection = selection_of(resource, request, who)
        if selection.limit is None and format_name == "json":
            return _whole(request, service, resource, selection)
        if selection.limit is None:
            selection = replace(selection, limit=LARGEST_PAGE)
        with service.ledger.reading() as session:
            page = listing.page(session, resource.kind, selection)
            shown = [resource.show(record, service.settings) for record in page.records]
            now = service.ledger.clock()
            records.add_waits(session, page.records, shown, service.settings, now)
            if address_of(request).dialect.counts_work:
                records.add_work(session, page.records, shown)
            names = names_in(session, who, shown) if format_name == "html" else {}
        view = _list_view(resource, request, who, shown, page, names)
        return respond(request, format_name, view, headers=_headers(request, page))

    name = f"list {resource.collection}"
    router.get(f"/{resource.collection}.{{suffix}}", name=name)(read_all)
    router.get(f"/{resource.collection}", name=name, include_in_schema=False)(read_all)
    if resource.listed_at_item:
        router.get(f"/{resource.item}/", name=f"all {resource.item}", include_in_schema=False)(
            read_all
        )


def view_of(resource: Resource, request: Request, who: Identity, data: Any, **members: Any) -> View:
    """What there is to show of a record kind; `members` are further ones of the view."""
    return View(
        item=resource.item,
        data=data,
        base=base_of(request),
        path=path_of(request),
        user=who.actor.name,
        languages=languages_of(request),
        **members,
    )


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
    return view_of(
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
        filters=[looked.shown(name) for name, looked in resource.filters.items()],
        orders=resource.orders,
        columns=resource.columns,
        names=names,
    )


def selection_of(resource: Resource, request: Request, who: Identity) -> Selection:
    """What a request asks for, of what its sender may see.

    Raises:
        InvalidInput: with every fault of the query.
    """
    dialect, query = address_of(request).dialect, query_fields(request)
    faults: list[Fault] = []
    only = dialect.only(resource.item)
    conditions: list[Condition] = [only] if only else []
    for name, looked in resource.filters.items():
        if query.get(name):
            try:
                given = filtered_by(request, who, looked, query[name])
                conditions.append(looked.condition(name, given))
            except InvalidInput as error:
                faults += error.faults
    limit, offset, order = _paging(resource, dialect, query, faults)
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
    resource: Resource, dialect: Dialect, query: Mapping[str, str], faults: list[Fault]
) -> tuple[int | None, int, str]:
    asked = query.get("order") or ("-id" if resource.paged else "id")
    by = dialect.member(resource.item, asked.removeprefix("-"))
    order = f"-{by}" if asked.startswith("-") else by
    if by not in resource.orders:
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
        headers["Link"] = f'<{asked_path(request)}?{url.query}>; rel="next"'
    return headers


def _whole(
    request: Request, service: Service, resource: Resource, selection: Selection
) -> Response:
    """A list that comes whole, as it is read."""
    dialect = address_of(request).dialect
    with service.ledger.reading() as session:
        total = listing.count(session, resource.kind, selection)

    def shown() -> Iterator[records.Shown]:
        with service.ledger.snapshot() as session:
            for batch in listing.batches(session, resource.kind, selection):
                found = [resource.show(record, service.settings) for record in batch]
                if dialect.counts_work:
                    records.add_work(session, batch, found)
                for record in found:
                    yield dialect.show(resource.item, record)

    headers = {"X-Total-Count": str(total), "Vary": "Accept, Authorization"}
    pieces = stream_json(shown(), as_array=dialect.arrays(route_of(request)))
    return StreamingResponse(pieces, media_type="application/json", headers=headers)
