"""Console sessions: a cookie that names a token, and the requests for which it is valid."""

from datetime import timedelta

from starlette.requests import HTTPConnection, Request
from starlette.responses import Response

from jobauto_prefect.console_addresses import CONSOLE, CONTRACT
from jobauto_prefect.errors import Forbidden

START = "/"


SIGN_IN = "/login.html"


SIGN_OUT = "/logout"


DOOR = "console"
"""The console's name in the audit trail."""


SESSION_LIFETIME = timedelta(hours=12)


_COOKIE = "jobauto_session"


def session_token(request: Request) -> str | None:
    """Return the token that a request's cookie names; None if there is no valid one.

    It is not a bearer token: a stolen cookie gives no access to the contract's data or Prefect. It
    is valid at the console's own addresses and for the contract's pages. Every other address
    accepts the Authorization header only.

    Raises:
        Forbidden: the request changes something, and has no proof that a page from here sent it.
    """
    if _is_console(request) or _is_page(request):
        token = request.cookies.get(_cookie_name(request))
        if token and request.method != "GET" and not is_from_own_page(request):
            raise Forbidden("only this console's own pages may do this; open it and try again")
        return token or None
    return None


def offers_sign_in(request: Request) -> bool:
    """Whether an anonymous visitor gets the sign-in form instead of the browser's dialog."""
    return _is_console(request) or (
        _is_page(request)
        and _cookie_name(request) in request.cookies
        and "authorization" not in request.headers
    )


def keep_session(request: Request, response: Response, token: str) -> None:
    """Set the cookie: the browser sends this token from now on."""
    response.set_cookie(
        _cookie_name(request),
        token,
        max_age=int(SESSION_LIFETIME.total_seconds()),
        path="/",
        secure=_is_encrypted(request),
        httponly=True,
        samesite="strict",
    )


def session_cookie(request: Request, token: str) -> str:
    """Return the Cookie header of a browser with this session."""
    return f"{_cookie_name(request)}={token}"


def forget_session(request: Request, response: Response) -> None:
    """Delete the browser's cookie."""
    response.delete_cookie(
        _cookie_name(request),
        path="/",
        secure=_is_encrypted(request),
        httponly=True,
        samesite="strict",
    )


def _is_console(request: Request) -> bool:
    """Whether this is an address of the console that requires sign-in."""
    path: str = request.scope["path"]
    return path in (START, SIGN_OUT, CONSOLE) or path.startswith(f"{CONSOLE}/")


def _is_page(request: Request) -> bool:
    path: str = request.scope["path"]
    return request.method == "GET" and path.startswith(f"{CONTRACT}/") and path.endswith(".html")


def _is_encrypted(request: HTTPConnection) -> bool:
    """Whether the request came over HTTPS; over HTTP only this machine is answered."""
    return request.url.scheme == "https"


def _cookie_name(request: HTTPConnection) -> str:
    """Return the cookie's name.

    Over HTTPS its prefix makes browsers accept it from this host only. Cookies ignore ports: over
    plain HTTP the name includes it, so that two installations on a machine do not share a session.
    """
    if _is_encrypted(request):
        return f"__Host-{_COOKIE}"
    return f"{_COOKIE}_{request.url.port or 80}"


def is_from_own_page(request: Request) -> bool:
    """Whether a browser sent it from here; other origins were refused before."""
    fetched = request.headers.get("sec-fetch-site")
    return fetched == "same-origin" if fetched is not None else "origin" in request.headers
