"""Requests to a facade, its responses, and the interface of connections."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol
from urllib.parse import parse_qs, urlsplit

_NEXT = re.compile(r'<([^>]*)>\s*;[^,]*rel="?next"?')


@dataclass(frozen=True, slots=True)
class Request:
    """One request. `path` and `query` are those of the address.

    `seconds` is the timeout; None: the default. `creates`: don't change an existing record.
    """

    method: str
    path: str
    query: Mapping[str, Any] = field(default_factory=dict)
    content: bytes | None = None
    seconds: float | None = None
    creates: bool = False

    @property
    def headers(self) -> Mapping[str, str]:
        """Headers in addition to those of every request."""
        return {"If-None-Match": "*"} if self.creates else {}


@dataclass(frozen=True, slots=True)
class Response:
    """The response to a request; header names are in lower case."""

    status: int
    headers: Mapping[str, str]
    content: bytes

    @property
    def is_success(self) -> bool:
        """Whether the request succeeded."""
        return 200 <= self.status < 300

    def json(self) -> Any:
        """Parse the body as JSON."""
        return json.loads(self.content)

    @property
    def cursor(self) -> str | None:
        """The cursor of the next page of a list; None on the last page."""
        following = _NEXT.search(self.headers.get("link", ""))
        query = urlsplit(following[1]).query if following else ""
        return parse_qs(query).get("cursor", [None])[0]


class Connection(Protocol):
    """A connection to one facade."""

    async def ask(self, question: Request) -> Response:
        """Send a request and return the response.

        Raises:
            FacadeUnavailable: it does not answer.
        """
