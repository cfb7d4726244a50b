"""What a request's state says: which request it is, and who sent it from this machine."""

import uuid

from starlette.requests import HTTPConnection


def request_id_of(request: HTTPConnection) -> str:
    """Return the id of this request, as audit entries and error answers name it."""
    request_id: str | None = getattr(request.state, "request_id", None)
    if request_id is None:
        request_id = request.state.request_id = uuid.uuid4().hex
    return request_id


OPERATOR = "operator"
"""Key in a request's state: the person at this machine's command line (`local_listener`)."""

ANSWER_HEADERS = "answer_headers"
"""Key in a request's state: headers that its answer gets besides its own, whoever makes it."""
