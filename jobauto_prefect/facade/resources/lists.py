"""Lists of a kind of records: filtered, ordered, complete or in pages."""

import functools
from collections.abc import Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from typing import Any, Literal

from fastapi import APIRouter, Request, Response
from fastapi.responses import StreamingResponse

from jobauto_prefect.errors import Fault, InvalidInput
from jobauto_prefect.facade.answers import JsonObject, key_by_id
from jobauto_prefect.facade.auth.identity import CurrentUser, Identity
from jobauto_prefect.facade.concurrency import long_work
from jobauto_prefect.facade.formats import ListFilter, View, field_label, stream_json
from jobauto_prefect.facade.http.addresses import address_of, requested_path
from jobauto_prefect.facade.http.dialect import Dialect
from jobauto_prefect.facade.http.field_types import parse_datetime, parse_int
from jobauto_prefect.facade.http.operations import answered, keyed, operation, to_pascal_case
from jobauto_prefect.facade.http.parameters import (
    FOR_LISTS,
    MAX_PAGE,
    PAGING,
    Json,
    query,
)
from jobauto_prefect.facade.http.requests import read_query
from jobauto_prefect.facade.http.responses import (
    base_of,
    format_of,
    languages_of,
    load_names,
    path_of,
    respond,
    route_of,
)
from jobauto_prefect.facade.kinds.natural_keys import filter_value
from jobauto_prefect.facade.kinds.registry import field_titles
from jobauto_prefect.facade.kinds.resource import Filter, Resource
from jobauto_prefect.facade.service import CurrentService, Service
from jobauto_prefect.ledger.queries import lists
from jobauto_prefect.ledger.queries.lists import Condition, Selection

DEFAULT_PAGE = 100
COUNT: Json = {
    "description": "The number of records in the complete list.",
    "required": True,
    "schema": {"type": "integer", "minimum": 0},
}
NEXT: Json = {
    "description": 'The next page, as `<…>; rel="next"`; the last page has none.',
    "schema": {"type": "string"},
}


def add_list(router: APIRouter, resource: Resource) -> None:
    """Add the routes of a kind's list."""

    def read_all(request: Request, who: CurrentUser, service: CurrentService) -> Response:
        format_name = format_of(request, is_list=True)
        selection = parse_selection(resource, request, who)
        if selection.limit is None and format_name == "json":
            return _stream_all(request, service, resource, selection)
        if selection.limit is None:
            selection = replace(selection, limit=MAX_PAGE)
        is_long = selection.limit is not None and selection.limit > DEFAULT_PAGE
        with long_work.giving_way() if is_long else nullcontext():
            page, shown, names = read_page(request, who, service, selection, format_name)
        view = _list_view(resource, request, who, shown, page, names)
        headers = {"X-Total-Count": str(page.total)}
        if page.next_cursor is not None:
            url = request.url.include_query_params(cursor=page.next_cursor)
            query = url.remove_query_params("offset").query
            headers["Link"] = f'<{requested_path(request)}?{query}>; rel="next"'
        with long_work.turn() if is_long else nullcontext():
            return respond(request, format_name, view, headers=headers)

    def read_page(
        request: Request, who: Identity, service: Service, selection: Selection, format_name: str
    ) -> tuple[lists.Page, list[JsonObject], Mapping[str, Mapping[str, str]]]:
        with service.ledger.reading() as session:
            page = lists.page(session, resource.record, selection)
            shown = [resource.show(record, service.settings) for record in page.records]
            counts_work = address_of(request).dialect.counts_work
            resource.complete(session, page.records, shown, service, counts_work=counts_work)
            names = load_names(session, who, shown) if format_name == "html" else {}
        return page, shown, names

    kind = resource.kind
    how = f"Newest first, {DEFAULT_PAGE} at a time" if kind.paged else "All records, ordered by id,"
    add = functools.partial(
        operation,
        router,
        name=f"list{to_pascal_case(kind.nouns)}",
        summary=f"List {kind.nouns}",
        description=(
            f"An object keyed by id. {how} unless `limit` says otherwise. Needs `{kind.read}`."
        ),
        tag=kind.many,
        answer=answered(
            f"The {kind.nouns}, keyed by id; empty if there are none.",
            keyed(resource.answer),
            FOR_LISTS,
            headers={"X-Total-Count": COUNT, "Link": NEXT},
        ),
        formats=FOR_LISTS,
        parameters=lambda: _parameters(resource),
    )
    add(f"GET /{kind.collection}.{{suffix}}", route_name=f"list {kind.collection}")(read_all)
    if resource.listed_at_item:
        hidden = add(
            f"GET /{kind.item}/", route_name=f"all {kind.item}", twin=None, include_in_schema=False
        )
        hidden(read_all)


def _parameters(resource: Resource) -> Iterator[Any]:
    yield from (looked.parameter(name) for name, looked in resource.filters.items())
    orders = [f"{sign}{name}" for name in resource.orders for sign in ("", "-")]
    default = "-id" if resource.kind.paged else "id"
    yield query(
        "order",
        {"type": "string", "enum": orders, "default": default},
        "The field to order by, with `-` for descending.",
        allowEmptyValue=True,
    )
    yield from PAGING


def view_of(resource: Resource, request: Request, who: Identity, data: Any, **members: Any) -> View:
    """Return a view of records of a kind; `members` are further fields of the view."""
    return View(
        item=resource.kind.item,
        data=data,
        base=base_of(request),
        path=path_of(request),
        user=who.actor.name,
        languages=languages_of(request),
        titles_of=field_titles,
        **members,
    )


def _list_view(
    resource: Resource,
    request: Request,
    who: Identity,
    shown: Sequence[JsonObject],
    page: lists.Page,
    names: Mapping[str, Mapping[str, str]],
) -> View:
    query = dict(request.query_params)
    first = {name: value for name, value in query.items() if name not in ("cursor", "offset")}
    titles = field_titles(resource.kind.item)
    return view_of(
        resource,
        request,
        who,
        key_by_id(shown),
        title=resource.kind.many,
        is_list=True,
        query=query,
        total=page.total,
        next_query={**first, "cursor": page.next_cursor} if page.next_cursor else None,
        first_query=first if first != query else None,
        filters=[_shown_filter(name, looked, titles) for name, looked in resource.filters.items()],
        orders=resource.orders,
        columns=resource.kind.columns,
        names=names,
    )


def parse_selection(resource: Resource, request: Request, who: Identity) -> Selection:
    """Return the selection of a request, limited to what the caller may see.

    Raises:
        InvalidInput: with every error of the query.
    """
    dialect, query = address_of(request).dialect, read_query(request)
    faults: list[Fault] = []
    only = dialect.only(resource.kind.item)
    conditions: list[Condition] = [only] if only else []
    for name, looked in resource.filters.items():
        if query.get(name):
            try:
                given = filter_value(request, who, looked, query[name])
                conditions.append(looked.condition(name, given))
            except InvalidInput as error:
                faults += error.faults
    limit, offset, order = _parse_paging(resource, dialect, query, faults)
    if faults:
        raise InvalidInput(faults)
    companies = who.rights.companies_with(resource.kind.read)
    if resource.own is not None and companies is not None:
        conditions.append(Condition("id", resource.own(who) or 0))
    elif resource.record not in lists.IN_COMPANIES and not who.rights.anywhere(resource.kind.read):
        conditions.append(Condition("id", 0))
    cursor = query.get("cursor") or None
    return Selection(companies, tuple(conditions), order, limit, offset, cursor)


def _parse_paging(
    resource: Resource, dialect: Dialect, query: Mapping[str, str], faults: list[Fault]
) -> tuple[int | None, int, str]:
    asked = query.get("order") or ("-id" if resource.kind.paged else "id")
    by = dialect.member(resource.kind.item, asked.removeprefix("-"))
    order = f"-{by}" if asked.startswith("-") else by
    if by not in resource.orders:
        message = f"order must be one of {', '.join(resource.orders)}, with - for descending"
        faults.append(Fault("/order", "enum", message))
    limit, offset = _parse_number(query, "limit", faults), _parse_number(query, "offset", faults)
    if limit is not None and not 1 <= limit <= MAX_PAGE:
        faults.append(Fault("/limit", "range", f"limit must be from 1 to {MAX_PAGE}"))
    if limit is None and (resource.kind.paged or query.get("cursor")):
        limit = DEFAULT_PAGE
    return limit, offset or 0, order


def _parse_number(query: Mapping[str, str], name: str, faults: list[Fault]) -> int | None:
    if not query.get(name):
        return None
    try:
        return parse_int(name, query[name])
    except InvalidInput as error:
        faults += error.faults
        return None


def _stream_all(
    request: Request, service: Service, resource: Resource, selection: Selection
) -> Response:
    """Return a response that streams a complete list while it is read."""
    dialect = address_of(request).dialect
    with service.ledger.reading() as session:
        total = lists.count(session, resource.record, selection)

    def shown() -> Iterator[JsonObject]:
        with service.ledger.snapshot() as session:
            for batch in lists.batches(session, resource.record, selection):
                records = [resource.show(record, service.settings) for record in batch]
                if dialect.counts_work:
                    resource.count_work(session, batch, records)
                for record in records:
                    yield dialect.show(resource.kind.item, record)

    headers = {"X-Total-Count": str(total), "Vary": "Accept, Authorization"}
    pieces = long_work.pieces(stream_json(shown(), as_array=dialect.arrays(route_of(request))))
    return StreamingResponse(pieces, media_type="application/json", headers=headers)


def _shown_filter(name: str, offered: Filter, titles: Mapping[str, str]) -> ListFilter:
    """Return a filter as pages show it; `titles` are those of the list's fields."""
    kind: Literal["text", "choice", "time", "number"] = "choice" if offered.choices else "text"
    if offered.convert is parse_int and not offered.refers_to:
        kind = "number"
    if offered.convert is parse_datetime:
        kind = "time"
    label = field_label(name, titles)
    if offered.how == "template":
        label = f"{field_label(offered.column, titles)} (part of its name)"
    return ListFilter(name, label, offered.choices, kind)
