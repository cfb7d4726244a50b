"""What goes wrong in a simulated cluster: refusals, and faults that are planned."""

import re
from dataclasses import dataclass
from typing import Any

from aiohttp import web


@dataclass
class Fault:
    """What goes wrong with the next `times` requests of a method to paths that match.

    With a `status` that is the answer; else the connection is cut: before the request is carried
    out, `after` it, or, of a stream, after so many `lines`.
    """

    method: str
    path: str
    status: int = 0
    times: int = 1
    reason: str = ""
    after: bool = False
    lines: int | None = None
    retry_after: int | None = None

    def meets(self, request: web.Request) -> bool:
        """Whether it is a request that this happens to."""
        return self.method == request.method and re.search(self.path, request.path_qs) is not None


class Refused(Exception):
    """An answer that the API gives instead of what was asked for."""

    def __init__(self, code: int, reason: str, message: str) -> None:
        super().__init__(message)
        self.code, self.reason = code, reason

    def status(self) -> dict[str, Any]:
        """The body of the answer."""
        return {
            "kind": "Status",
            "status": "Failure",
            "message": str(self),
            "reason": self.reason,
            "code": self.code,
        }


FAULT = web.RequestKey("fault", object)
"""The fault that a request meets."""


def lines_until_cut(request: web.Request) -> int | None:
    """After how many lines a stream is to be cut."""
    fault = request[FAULT]
    return fault.lines if isinstance(fault, Fault) else None


def cut(request: web.Request) -> web.Response:
    """Break the connection; nobody reads what is returned."""
    if request.transport is not None:
        request.transport.abort()
    return web.Response()
