"""Signing in and out with a form."""

import re
from datetime import timedelta
from typing import Annotated
from urllib.parse import parse_qsl, quote

from fastapi import Depends, Request, Response
from fastapi.responses import RedirectResponse

from jobauto_prefect.errors import TooManyRequests, Unauthorized
from jobauto_prefect.facade.auth.identity import Identity, current_identity, sign_in
from jobauto_prefect.facade.console.page_response import language_of, respond_with_page
from jobauto_prefect.facade.console.visitor_sessions import (
    DOOR,
    SESSION_LIFETIME,
    SIGN_IN,
    SIGN_OUT,
    START,
    forget_session,
    keep_session,
)
from jobauto_prefect.facade.formats import View
from jobauto_prefect.facade.formats.html.dates import format_duration
from jobauto_prefect.facade.formats.html.page_language import translator
from jobauto_prefect.facade.http import late_routes
from jobauto_prefect.facade.http.addresses import requested_path
from jobauto_prefect.facade.http.requests import RawBody
from jobauto_prefect.facade.resources.sessions import issue_login_token
from jobauto_prefect.facade.service import CurrentService
from jobauto_prefect.ledger.queries.lookup import get_record
from jobauto_prefect.ledger.records import Token

CHALLENGE = 'Bearer realm="jobauto"'
"""What a 401 has to name (RFC 9110, 11.6.1); unlike Basic, browsers ask nobody for it."""

MAX_ADDRESS = 2000  # characters of the page that was wanted
_LOCAL_ADDRESS = re.compile(r"/(?!/)[!-\[\]-~]*")  # printable ASCII without a backslash

router = late_routes.router(include_in_schema=False)


@router.get(SIGN_IN)
def show_sign_in(request: Request) -> Response:
    """Show the form."""
    return respond_with_form(request, wanted=local_address(request.query_params.get("next", "")))


@router.post(SIGN_IN)
def sign_in_by_form(raw: RawBody, request: Request, service: CurrentService) -> Response:
    """Begin a session, and lead to the page that was wanted."""
    fields = dict(parse_qsl(raw.decode("utf-8", "replace"), keep_blank_values=True))
    login, wanted = fields.get("login", ""), local_address(fields.get("next", ""))
    translate = translator(language_of(request))
    request.state.door = DOOR
    try:
        account = sign_in(service, request, login, fields.get("password", ""))
    except Unauthorized:
        return respond_with_form(
            request, 401, wanted=wanted, login=login, fault=translate("Login or password is wrong.")
        )
    except TooManyRequests as error:
        again = format_duration(timedelta(seconds=error.retry_after))
        fault = translate("Too many failed attempts. Try again in {time}.", time=again)
        answer = respond_with_form(request, 429, wanted=wanted, login=login, fault=fault)
        answer.headers["Retry-After"] = str(error.retry_after)
        return answer
    text, _ = issue_login_token(service, request, account, SESSION_LIFETIME)
    answer = RedirectResponse(wanted, 303)
    keep_session(request, answer, text)
    return answer


@router.post(SIGN_OUT)
def sign_out(
    request: Request,
    who: Annotated[Identity, Depends(current_identity)],
    service: CurrentService,
) -> Response:
    """End the session: its token is revoked, and the browser forgets it. No role is needed."""
    if who.token_id is not None and who.in_session:
        with service.ledger.writing(who.actor) as session:
            get_record(session, Token, who.token_id).revoked_at = session.clock()
    answer = RedirectResponse(SIGN_IN, 303)
    forget_session(request, answer)
    return answer


def respond_signed_out(request: Request) -> Response:
    """Ask somebody unknown to sign in, instead of the page they wanted.

    Whoever follows a link from another site comes without the cookie, and is known as soon as the
    page asks for itself.
    """
    wanted = _requested_address(request) if request.method == "GET" else START
    return respond_with_form(
        request, 401, wanted=local_address(wanted), asks_again=_is_from_another_site(request)
    )


def respond_with_form(
    request: Request,
    status: int = 200,
    *,
    wanted: str = START,
    login: str = "",
    fault: str = "",
    asks_again: bool = False,
) -> Response:
    """Send the sign-in page; `fault` says why it is shown again.

    `asks_again`: it asks for its own address once more, as soon as it is there.
    """
    language = language_of(request)
    view = View(title=translator(language)("Sign in"), item="", data={}, language=language)
    headers = {"WWW-Authenticate": CHALLENGE} if status == 401 else {}
    return respond_with_page(
        "sign_in.html",
        view,
        status,
        headers,
        wanted=wanted,
        login=login,
        fault=fault,
        asks_again=asks_again,
    )


def local_address(text: str) -> str:
    """Return the text, if it is an address of this service; else that of the start page."""
    local = len(text) <= MAX_ADDRESS and _LOCAL_ADDRESS.fullmatch(text) is not None
    return text if local else START


def _requested_address(request: Request) -> str:
    """Return path and query as they were sent."""
    raw: bytes = request.scope.get("raw_path") or quote(requested_path(request)).encode()
    query: bytes = request.scope["query_string"]
    path = raw.partition(b"?")[0]
    return (path + (b"?" + query if query else b"")).decode("ascii", "replace")


def _is_from_another_site(request: Request) -> bool:
    """Whether somebody opens a page by a link of another site; browsers say so."""
    return request.method == "GET" and request.headers.get("sec-fetch-site") == "cross-site"
