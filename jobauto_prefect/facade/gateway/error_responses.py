"""Error responses of the gateway, readable by this service's clients and by Prefect's."""

from typing import Any

from starlette.datastructures import Headers
from starlette.requests import HTTPConnection
from starlette.responses import JSONResponse

from jobauto_prefect.errors import InvalidInput, JobautoError, TooManyRequests
from jobauto_prefect.facade.auth.request_state import request_id_of
from jobauto_prefect.facade.http.errors import CHALLENGES, PHRASES
from jobauto_prefect.http_statuses import status_of

UI_HEADER = "x-prefect-ui"

CONTENT_SECURITY_POLICY = (
    "default-src 'self'; img-src 'self' data: https:; style-src 'self' 'unsafe-inline'; "
    "font-src 'self' data:; worker-src 'self' blob:; object-src 'none'; base-uri 'self'; "
    "form-action 'self'; frame-ancestors 'none'"
)
"""For Prefect's pages, which keep the password in the browser: they connect to this server only."""


def is_browser_page(headers: Headers) -> bool:
    """Whether the request comes from a page in a browser rather than a program."""
    return UI_HEADER in headers or "sec-fetch-mode" in headers


def audited_door(headers: Headers) -> str:
    """Return a request's channel in the audit trail: `ui` or `prefect-api`."""
    return "ui" if is_browser_page(headers) else "prefect-api"


def error_response(connection: HTTPConnection, error: JobautoError) -> JSONResponse:
    """Make the response for an error: this service's fields, and those Prefect's clients show."""
    status, message = status_of(error), str(error)
    body: dict[str, Any] = {
        "error": PHRASES.get(status, "Error"),
        "message": message,
        "detail": message,
        "exception_message": message,
        "request_id": request_id_of(connection),
    }
    if isinstance(error, InvalidInput):
        body["details"] = [fault.as_dict() for fault in error.faults]
    response = JSONResponse(body, status_code=status)
    if isinstance(error, TooManyRequests):
        response.headers["Retry-After"] = str(error.retry_after)
    if status == 503:
        response.headers["Retry-After"] = "2"
    # The browser's own dialog would cover the password form of the pages.
    if status == 401 and not is_browser_page(connection.headers):
        for challenge in CHALLENGES:
            response.headers.append("WWW-Authenticate", challenge)
    return response
