"""Error answers: one table from the classes of errors to HTTP statuses."""

from collections.abc import Mapping
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import Response
from starlette.exceptions import HTTPException
from starlette.routing import Match

from jobauto_prefect.console_addresses import CONTRACT
from jobauto_prefect.errors import (
    ClaimOver,
    InProgress,
    InvalidInput,
    JobautoError,
    NotAcceptable,
    StalePlan,
    TooManyRequests,
    UnknownEncoding,
)
from jobauto_prefect.facade.auth.request_state import request_id_of
from jobauto_prefect.facade.http.addresses import requested_path
from jobauto_prefect.facade.http.requests import pydantic_faults
from jobauto_prefect.facade.http.responses import respond_error
from jobauto_prefect.http_statuses import status_of

PHRASES: Mapping[int, str] = {
    400: "Bad Request",
    401: "Unauthorized",
    403: "Forbidden",
    404: "Not Found",
    405: "Method Not Allowed",
    406: "Not Acceptable",
    409: "Conflict",
    412: "Precondition Failed",
    413: "Content Too Large",
    415: "Unsupported Media Type",
    422: "Unprocessable Content",
    429: "Too Many Requests",
    500: "Internal Server Error",
    502: "Bad Gateway",
    503: "Service Unavailable",
}


MOST_TOLD = 1_000
"""Maximum errors reported for one request; the message counts all."""


CHALLENGES = ('Bearer realm="jobauto"', 'Basic realm="jobauto", charset="UTF-8"')
"""A header each: of several in one, Chromium reads the first and asks nobody for a password."""


def _respond(
    request: Request,
    status: int,
    message: str,
    details: Any = None,
    headers: Mapping[str, str] | None = None,
    error: Exception | None = None,
) -> Response:
    body: dict[str, Any] = {"error": PHRASES.get(status, "Error"), "message": message}
    if details:
        body["details"] = details
    body["request_id"] = request_id_of(request)
    all_headers = dict(headers or {})
    if status == 503:
        all_headers["Retry-After"] = "2"
    answer = respond_error(request, status, error, body, all_headers)
    if status == 401:
        for challenge in CHALLENGES:
            answer.headers.append("WWW-Authenticate", challenge)
    return answer


def respond_to_error(request: Request, error: JobautoError) -> Response:
    """Answer with an error of this service."""
    details: Any = [fault.as_dict() for fault in getattr(error, "faults", ())[:MOST_TOLD]]
    headers = {}
    if isinstance(error, TooManyRequests):
        headers["Retry-After"] = str(error.retry_after)
    if isinstance(error, InProgress):
        headers["Retry-After"] = "1"
    if isinstance(error, UnknownEncoding):
        headers["Accept-Encoding"] = "gzip"
    if isinstance(error, ClaimOver):
        details = {"reason": error.reason}
    if isinstance(error, StalePlan):
        details = error.plan
    if isinstance(error, NotAcceptable):
        details = {"formats": list(error.formats)}
    return _respond(request, status_of(error), str(error), details, headers, error)


def add_error_handlers(app: FastAPI) -> None:
    """Register the handlers that turn errors into answers."""

    @app.exception_handler(JobautoError)
    def _ours(request: Request, error: JobautoError) -> Response:
        return respond_to_error(request, error)

    @app.exception_handler(RequestValidationError)
    def _invalid(request: Request, error: RequestValidationError) -> Response:
        return respond_to_error(request, InvalidInput(pydantic_faults(error.errors())))

    @app.exception_handler(HTTPException)
    def _http(request: Request, error: HTTPException) -> Response:
        if isinstance(error.__cause__, JobautoError):  # from FastAPI, if it reads a body itself
            return respond_to_error(request, error.__cause__)
        messages = {
            404: f"there is nothing at {requested_path(request)}; see {CONTRACT}/index.json",
            405: f"{request.method} is not possible here",
        }
        message = messages.get(error.status_code, error.detail)
        headers = dict(error.headers or {})
        if error.status_code == 405:
            headers["Allow"] = ", ".join(allowed_methods(request))
        return _respond(request, error.status_code, message, headers=headers)

    @app.exception_handler(Exception)
    def _unforeseen(request: Request, _error: Exception) -> Response:
        message = "an error in this service; its log has the request id"
        return _respond(request, 500, message)


METHODS = ("DELETE", "GET", "POST", "PUT")
"""Those that routes here are made for; HEAD comes with GET."""


def allowed_methods(request: Request) -> list[str]:
    """Return the methods allowed at this request's path (RFC 9110, 10.2.1)."""
    methods = [
        method
        for method in METHODS
        if any(
            route.matches({**request.scope, "method": method})[0] is Match.FULL
            for route in request.app.routes
        )
    ]
    return [*methods, "HEAD"] if "GET" in methods else methods
