"""Sessions of the console: a cookie that names a token, and the requests at which it counts."""

from datetime import timedelta

from starlette.requests import HTTPConnection, Request
from starlette.responses import Response

from jobauto_prefect.console_addresses import CONSOLE, CONTRACT
from jobauto_prefect.errors import Forbidden

START = "/"


SIGN_IN = "/login.html"


SIGN_OUT = "/logout"


DOOR = "console"
"""How the audit trail calls the console."""


SESSION = "session"
"""Key in a request's state: the session that the console's own calls of the contract are of."""


SESSION_LIFETIME = timedelta(hours=12)


_COOKIE = "jobauto_session"


def session_token(request: Request) -> str | None:
    """Return the token that the cookie of a request names; None where there is none that counts.

    It is no bearer token: whoever gets hold of the cookie has nothing for the contract or Prefect.
    It counts at the console's own addresses and for the contract's pages. Every other address
    knows the Authorization header alone.

    Raises:
        Forbidden: the request changes something, and nothing says that a page from here sent it.
    """
    called: str | None = getattr(request.state, SESSION, None)
    if called is not None:
        return called
    if _is_console(request) or _is_page(request):
        token = request.cookies.get(_cookie_name(request))
        if token and request.method != "GET" and not is_from_own_page(request):
            raise Forbidden("only this console's own pages may do this; open it and try again")
        return token or None
    return None


def offers_sign_in(request: Request) -> bool:
    """Whether somebody unknown is shown the form here, and not asked by the browser."""
    return _is_console(request) or (
        _is_page(request)
        and _cookie_name(request) in request.cookies
        and "authorization" not in request.headers
    )


def keep_session(request: Request, response: Response, token: str) -> None:
    """Let the browser come with this token from now on."""
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
    """Return the Cookie header of a browser that has this session."""
    return f"{_cookie_name(request)}={token}"


def forget_session(request: Request, response: Response) -> None:
    """Let the browser forget its token."""
    response.delete_cookie(
        _cookie_name(request),
        path="/",
        secure=_is_encrypted(request),
        httponly=True,
        samesite="strict",
    )


def _is_console(request: Request) -> bool:
    """Whether this is an address of the console that wants somebody who is signed in."""
    path: str = request.scope["path"]
    return path in (START, SIGN_OUT, CONSOLE) or path.startswith(f"{CONSOLE}/")


def _is_page(request: Request) -> bool:
    path: str = request.scope["path"]
    return request.method == "GET" and path.startswith(f"{CONTRACT}/") and path.endswith(".html")


def _is_encrypted(request: HTTPConnection) -> bool:
    """Whether HTTPS is spoken; without it nobody but this machine is answered."""
    return request.url.scheme == "https"


def _cookie_name(request: HTTPConnection) -> str:
    """Return what the cookie is called.

    Over HTTPS its prefix lets browsers take it from this very host alone. Cookies know no ports:
    over plain HTTP the name has it, so that two installations of a machine do not share a session.
    """
    if _is_encrypted(request):
        return f"__Host-{_COOKIE}"
    return f"{_COOKIE}_{request.url.port or 80}"


def is_from_own_page(request: Request) -> bool:
    """Whether a browser says so; an Origin of elsewhere did not come so far."""
    fetched = request.headers.get("sec-fetch-site")
    return fetched == "same-origin" if fetched is not None else "origin" in request.headers
