"""Signing in and out with a form."""

import re
from datetime import timedelta
from typing import Annotated
from urllib.parse import quote, unquote, urlencode, urlsplit

from fastapi import Depends, HTTPException, Request, Response
from fastapi.responses import RedirectResponse

from jobauto_prefect.console_addresses import CONSOLE
from jobauto_prefect.errors import TooManyRequests, Unauthorized
from jobauto_prefect.facade.auth.identity import (
    Identity,
    current_identity,
    issue_login_token,
    sign_in,
)
from jobauto_prefect.facade.auth.visitor_sessions import (
    DOOR,
    SESSION_LIFETIME,
    SIGN_IN,
    SIGN_OUT,
    START,
    forget_session,
    is_from_own_page,
    keep_session,
    session_cookie,
)
from jobauto_prefect.facade.console.contract import PassedOn
from jobauto_prefect.facade.console.moments import format_span
from jobauto_prefect.facade.console.page_response import language_of, respond_with_page
from jobauto_prefect.facade.console.records.forms import SENT_FORM, parse_form, read_form
from jobauto_prefect.facade.formats import View
from jobauto_prefect.facade.formats.html.page_language import translator
from jobauto_prefect.facade.http import late_routes
from jobauto_prefect.facade.http.addresses import requested_path
from jobauto_prefect.facade.http.requests import RawBody
from jobauto_prefect.facade.service import CurrentService, Service
from jobauto_prefect.ledger.access.tokens import TokenKind
from jobauto_prefect.ledger.queries.lookup import get_record
from jobauto_prefect.ledger.records import Token

CHALLENGE = 'Bearer realm="jobauto"'
"""A 401 needs a challenge (RFC 9110, 11.6.1); unlike Basic, this one opens no browser prompt."""

MAX_KEPT = 65_536  # bytes of a form that is kept after its session has ended
MAX_ADDRESS = 2000  # characters of the requested page's address
_LOCAL_ADDRESS = re.compile(r"/(?!/)[!-\[\]-~]*")  # printable ASCII without a backslash

router = late_routes.router(include_in_schema=False)


@router.get(SIGN_IN)
def show_sign_in(request: Request) -> Response:
    return respond_with_form(request, wanted=local_address(request.query_params.get("next", "")))


@router.post(SIGN_IN)
def sign_in_by_form(raw: RawBody, request: Request, service: CurrentService) -> Response:
    """Begin a session and redirect to the requested page."""
    fields = parse_form(raw.decode("utf-8", "replace"))
    login, wanted = fields.get("login", ""), local_address(fields.get("next", ""))
    kept = fields.get("form", "")
    translate = translator(language_of(request))
    request.state.door = DOOR
    answer: Response = RedirectResponse(wanted, 303)
    try:
        text = begin_session(service, request, answer, login, fields.get("password", ""))
    except Unauthorized:
        return respond_with_form(
            request,
            401,
            wanted=wanted,
            login=login,
            fault=translate("Login or password is wrong."),
            kept=kept,
        )
    except TooManyRequests as error:
        again = format_span(timedelta(seconds=error.retry_after))
        fault = translate("Too many failed attempts. Try again in {time}.", time=again)
        answer = respond_with_form(request, 429, wanted=wanted, login=login, fault=fault, kept=kept)
        answer.headers["Retry-After"] = str(error.retry_after)
        return answer
    return _show_again(request, wanted, kept, text, answer) if kept else answer


def begin_session(
    service: Service, request: Request, answer: Response, login: str, password: str
) -> str:
    """Begin a session: set its cookie in `answer` and return its token.

    Raises:
        Unauthorized: login or password is wrong.
        TooManyRequests: the account had too many failed attempts recently.
    """
    account = sign_in(service, request, login, password)
    text, _ = issue_login_token(service, request, account, TokenKind.SESSION, SESSION_LIFETIME)
    keep_session(request, answer, text)
    return text


@router.post(SIGN_OUT)
def sign_out(
    request: Request,
    who: Annotated[Identity, Depends(current_identity)],
    service: CurrentService,
) -> Response:
    """End the session: revoke its token and delete the cookie. No role is needed."""
    if who.token_id is not None and who.in_session:
        with service.ledger.writing(who.actor) as session:
            get_record(session, Token, who.token_id).revoked_at = session.clock()
    answer = RedirectResponse(SIGN_IN, 303)
    forget_session(request, answer)
    return answer


async def respond_signed_out(request: Request) -> Response:
    """Send the sign-in page in place of the requested one.

    A form that was sent after its session had ended is kept in the page and shown again after
    signing in. A visitor who follows a link from another site arrives without the cookie
    (SameSite=Strict); the page reloads itself, and that request has the cookie.
    """
    if request.method == "GET":
        # Path and query as they were sent.
        raw: bytes = request.scope.get("raw_path") or quote(requested_path(request)).encode()
        query: bytes = request.scope["query_string"]
        sent = raw.partition(b"?")[0] + (b"?" + query if query else b"")
        wanted, kept = sent.decode("ascii", "replace"), ""
    else:
        wanted, kept = _page_before(request), await _read_kept(request)
    return respond_with_form(
        request,
        401,
        wanted=local_address(wanted),
        reloads=request.method == "GET" and request.headers.get("sec-fetch-site") == "cross-site",
        kept=kept,
    )


def respond_with_form(
    request: Request,
    status: int = 200,
    *,
    wanted: str = START,
    login: str = "",
    fault: str = "",
    reloads: bool = False,
    kept: str = "",
) -> Response:
    """Send the sign-in page; `fault` is an error to show, `kept` are the encoded fields of a form.

    `reloads`: the page reloads itself at once.
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
        reloads=reloads,
        kept=kept,
    )


def local_address(text: str) -> str:
    """Return the text if it is a local address, otherwise the start page's address."""
    local = len(text) <= MAX_ADDRESS and _LOCAL_ADDRESS.fullmatch(text) is not None
    return text if local else START


def _page_before(request: Request) -> str:
    """Return path and query of the console page that sent a form."""
    page = urlsplit(request.headers.get("referer", ""))
    if not is_from_own_page(request) or not page.path.startswith(f"{CONSOLE}/"):
        return START
    return page._replace(scheme="", netloc="", fragment="").geturl()


async def _read_kept(request: Request) -> str:
    """Return the encoded fields of a form that a console page sent; "" if it is too long."""
    length = request.headers.get("content-length", "")
    is_short = length.isascii() and length.isdecimal() and int(length) <= MAX_KEPT
    if not is_short or not is_from_own_page(request):
        return ""
    try:
        form = await read_form(await request.body(), request)
    except HTTPException:  # not a form
        return ""
    return urlencode(form.pairs)


def _show_again(
    request: Request, wanted: str, kept: str, token: str, signed_in: Response
) -> Response:
    """Show a form's page with the values that were typed; the form is not submitted."""
    path, _, query = wanted.partition("?")
    outer = request.scope
    apart = {b"cookie", b"content-length", b"content-type", b"authorization"}
    headers = [(name, value) for name, value in outer["headers"] if name not in apart]
    headers.append((b"cookie", session_cookie(request, token).encode()))
    scope = {name: outer[name] for name in ("type", "asgi", "http_version", "scheme")}
    scope |= {
        "method": "GET",
        "path": unquote(path),
        "raw_path": path.encode(),
        "query_string": query.encode(),
        "root_path": "",
        "headers": headers,
        "client": outer.get("client"),
        "server": outer.get("server"),
        "state": {SENT_FORM: parse_form(kept)},
    }
    return PassedOn(request.app, scope, {"set-cookie": signed_in.headers["set-cookie"]})
