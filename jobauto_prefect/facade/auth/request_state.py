"""A request's state: its id, and who sent it from this machine."""

import uuid

from starlette.requests import HTTPConnection


def request_id_of(request: HTTPConnection) -> str:
    """Return this request's id, which audit entries and error responses repeat."""
    request_id: str | None = getattr(request.state, "request_id", None)
    if request_id is None:
        request_id = request.state.request_id = uuid.uuid4().hex
    return request_id


OPERATOR = "operator"
"""Key in a request's state: the person at this machine's command line (`local_listener`)."""

ANSWER_HEADERS = "answer_headers"
"""Key in a request's state: headers added to its response, whatever creates the response."""
