"""Answers in the format that was asked for: the path's suffix, else the Accept header."""

from collections.abc import Iterable, Mapping
from typing import Any

from fastapi import Request
from fastapi.responses import Response

from jobauto_prefect.facade.addresses import address_of, asked_path
from jobauto_prefect.facade.auth import Identity
from jobauto_prefect.facade.rendering import (
    CONTENT_SECURITY_POLICY,
    FORMATS,
    View,
    asked_languages,
    negotiate,
    negotiate_error,
    render,
)
from jobauto_prefect.facade.requests import asked_of, warning_of
from jobauto_prefect.ledger import queries
from jobauto_prefect.ledger.records import App, Company, RunTemplate, User
from jobauto_prefect.ledger.store import ReadingSession

NAMED = {"app": App, "company": Company, "runtemplate": RunTemplate, "user": User}
"""Kinds whose names pages show in links, instead of their ids."""


def format_of(request: Request, *, is_list: bool = False) -> str:
    """The name of the format a request asks for.

    Raises:
        NotAcceptable: it is not spoken here.
    """
    suffix = request.path_params.get("suffix")
    return negotiate(suffix, request.headers.get("accept"), is_list=is_list)


def base_of(request: Request) -> str:
    """The prefix of the contract that was used."""
    return address_of(request).prefix


def path_of(request: Request) -> str:
    """The path without its suffix."""
    path, suffix = asked_path(request), request.path_params.get("suffix")
    return path.removesuffix(f".{suffix}") if suffix else path


def languages_of(request: Request) -> tuple[str, ...]:
    """The languages for texts in several: those the browser asks for, then the service's own."""
    asked = asked_languages(request.headers.get("accept-language"))
    return (*asked, request.app.state.service.settings.language)


def answer(
    request: Request, view: View, status: int = 200, headers: Mapping[str, str] | None = None
) -> Response:
    """A view in the format asked for."""
    return respond(request, format_of(request, is_list=view.is_list), view, status, headers)


def respond(
    request: Request,
    format_name: str,
    view: View,
    status: int = 200,
    headers: Mapping[str, str] | None = None,
) -> Response:
    """A view in a format and in the dialect of the address; pages are the same everywhere."""
    if format_name != "html":
        view = address_of(request).dialect.view(route_of(request), view, asked_of(request))
    return _rendered(format_name, view, status, {**(headers or {}), **warning_of(request)})


def route_of(request: Request) -> str:
    """The name of the route a request was led to."""
    name: str = request.scope["route"].name
    return name


def _rendered(format_name: str, view: View, status: int, headers: Mapping[str, str]) -> Response:
    body, content_type = render(format_name, view)
    said = {"Content-Type": content_type, "Vary": "Accept, Authorization", **headers}
    if format_name == "html":
        said["Content-Security-Policy"] = CONTENT_SECURITY_POLICY
        said["Vary"] += ", Accept-Language"
    return Response(body, status_code=status, headers=said)


def error_answer(
    request: Request,
    status: int,
    error: Exception | None,
    body: dict[str, Any],
    headers: Mapping[str, str],
) -> Response:
    """An error in the format that was asked for, JSON where it is none we speak."""
    _, dot, suffix = asked_path(request).rpartition("/")[2].rpartition(".")
    known = suffix if dot and suffix in FORMATS else None
    format_name = negotiate_error(known, request.headers.get("accept"))
    said = address_of(request).dialect.error(error, body)
    view = View(title=str(body["error"]), item="", data=said, base=base_of(request))
    return _rendered(format_name, view, status, headers)


def plain(
    request: Request, who: Identity | None, title: str, data: Any, status: int = 200
) -> Response:
    """The answer of a route that follows no pattern."""
    view = View(
        title=title,
        item="",
        data=data,
        base=base_of(request),
        path=path_of(request),
        user=who.actor.name if who else "",
    )
    return answer(request, view, status)


def names_in(
    session: ReadingSession, who: Identity, shown: Iterable[Mapping[str, Any]]
) -> dict[str, dict[str, str]]:
    """Names for the ids in records, by kind and id: one query for each kind.

    An application that a record referred to once may be another company's by now: it has none.
    """
    records = list(shown)
    companies = who.rights.companies_with("applications.read")
    return {
        item: queries.names_of(session, kind, wanted, companies)
        for item, kind in NAMED.items()
        if (wanted := {one[f"{item}_id"] for one in records if one.get(f"{item}_id")})
    }
