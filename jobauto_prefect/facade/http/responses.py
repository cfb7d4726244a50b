"""Responses in the requested format: the path's suffix, else the Accept header."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from fastapi import Request
from fastapi.responses import Response

from jobauto_prefect.facade.auth.identity import Identity
from jobauto_prefect.facade.formats import (
    FORMATS,
    View,
    negotiate,
    negotiate_error,
    parse_accept_language,
    render,
)
from jobauto_prefect.facade.formats.record_links import find_referenced_kind
from jobauto_prefect.facade.http.addresses import address_of, requested_path
from jobauto_prefect.facade.http.requests import requested_fields, warning_header
from jobauto_prefect.ledger.queries.lookup import names_of
from jobauto_prefect.ledger.records import App, Company, EventSource, RunTemplate, User
from jobauto_prefect.ledger.store import ReadingSession

NAMED = {
    "app": App,
    "company": Company,
    "eventsource": EventSource,
    "runtemplate": RunTemplate,
    "user": User,
}
"""Kinds whose names pages show in links instead of their ids."""

VIEW_SINK = "view_sink"
"""In a request's state: a list that receives the unrendered view for a page."""


def format_of(request: Request, *, is_list: bool = False) -> str:
    """Return the name of the format a request asks for.

    Raises:
        NotAcceptable: the format is not available here.
    """
    suffix = request.path_params.get("suffix")
    return negotiate(suffix, request.headers.get("accept"), is_list=is_list)


def base_of(request: Request) -> str:
    """Return the contract prefix of the request."""
    return address_of(request).prefix


def path_of(request: Request) -> str:
    """Return the path without its suffix."""
    path, suffix = requested_path(request), request.path_params.get("suffix")
    return path.removesuffix(f".{suffix}") if suffix else path


def languages_of(request: Request) -> tuple[str, ...]:
    """Return the languages for localized texts: those the browser accepts, then the service's."""
    asked = parse_accept_language(request.headers.get("accept-language"))
    return (*asked, request.app.state.service.settings.language)


def respond(
    request: Request,
    format_name: str,
    view: View,
    status: int = 200,
    headers: Mapping[str, str] | None = None,
) -> Response:
    """Render a view in a format and in the dialect of the address; HTML is the same everywhere."""
    if format_name != "html":
        view = address_of(request).dialect.view(route_of(request), view, requested_fields(request))
    else:
        view = replace(view, session=visitor_in_session(request) is not None)
    return _send(request, format_name, view, status, {**(headers or {}), **warning_header(request)})


def visitor_in_session(request: Request) -> Identity | None:
    """Return the user of the console session, for display on their page."""
    identity: Identity | None = getattr(request.state, "identity", None)
    return identity if identity is not None and identity.in_session else None


def route_of(request: Request) -> str:
    """Return the name of the route that matched a request."""
    name: str = request.scope["route"].name
    return name


def _send(
    request: Request, format_name: str, view: View, status: int, headers: Mapping[str, str]
) -> Response:
    sink: list[View] | None = getattr(request.state, VIEW_SINK, None)
    if sink is not None:
        sink.append(view)
        return Response(status_code=status, headers=dict(headers))
    return _render(format_name, view, status, headers)


def _render(format_name: str, view: View, status: int, headers: Mapping[str, str]) -> Response:
    body, content_type = render(format_name, view)
    all_headers = {"Content-Type": content_type, "Vary": "Accept, Authorization", **headers}
    if format_name == "html":
        from jobauto_prefect.facade.formats.html.page import CONTENT_SECURITY_POLICY

        all_headers["Content-Security-Policy"] = CONTENT_SECURITY_POLICY
        all_headers["Vary"] += ", Accept-Language, Cookie"
        if view.session:
            all_headers["Referrer-Policy"] = "same-origin"  # the sign-out form sends its page
    return Response(body, status_code=status, headers=all_headers)


def respond_error(
    request: Request,
    status: int,
    error: Exception | None,
    body: dict[str, Any],
    headers: Mapping[str, str],
) -> Response:
    """Render an error in the format the request asks for, else as JSON."""
    _, dot, suffix = requested_path(request).rpartition("/")[2].rpartition(".")
    known_suffix = suffix if dot and suffix in FORMATS else None
    format_name = negotiate_error(known_suffix, request.headers.get("accept"))
    translated = address_of(request).dialect.error(error, body)
    visitor = visitor_in_session(request)
    view = View(
        title=str(body["error"]),
        item="",
        data=translated,
        base=base_of(request),
        user=visitor.actor.name if visitor else "",
        session=visitor is not None,
    )
    return _send(request, format_name, view, status, headers)


def respond_plain(
    request: Request, who: Identity | None, title: str, data: Any, status: int = 200
) -> Response:
    """Render data that is not a resource's record."""
    view = View(
        title=title,
        item="",
        data=data,
        base=base_of(request),
        path=path_of(request),
        user=who.actor.name if who else "",
    )
    return respond(request, format_of(request, is_list=view.is_list), view, status)


def load_names(
    session: ReadingSession, who: Identity, shown: Iterable[Mapping[str, Any]]
) -> dict[str, dict[str, str]]:
    """Return names for the ids in records, by kind and id: one query for each kind.

    A formerly referenced application may belong to another company by now: it has no name.
    """
    wanted: dict[str, set[int]] = {}
    for record in shown:
        for name, value in record.items():
            referred = find_referenced_kind(name)
            # A definition may have fields of the same name, with any content.
            if referred is not None and referred.item in NAMED and isinstance(value, int):
                wanted.setdefault(referred.item, set()).add(value)
    companies = who.rights.companies_with("applications.read")
    return {item: names_of(session, NAMED[item], ids, companies) for item, ids in wanted.items()}
