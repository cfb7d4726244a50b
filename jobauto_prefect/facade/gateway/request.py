"""A request to Prefect, as the policy sees it."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qsl

from starlette.requests import ClientDisconnect
from starlette.types import Receive, Scope

from jobauto_prefect.definitions.storable import MAX_VALUES, has_many_values
from jobauto_prefect.errors import Fault, InvalidInput
from jobauto_prefect.facade.http.requests import read_json, refuse_constant

WORKERS_VALUES = 2 * MAX_VALUES
"""For a worker's log lines and states, which Prefect gets in parts: as many as 4 MB of the shortest
lines have."""

WORKERS_OTHER_VALUES = 20_000
"""For a worker's other bodies: Prefect reads them at once."""


@dataclass(frozen=True, slots=True)
class ProxyRequest:
    """A request to Prefect: the path without `/api`, its parameters, the query, the body.

    `body` is parsed JSON, None if there is no body.
    """

    path: str
    path_parameters: Mapping[str, str] = field(default_factory=dict)
    query: Mapping[str, str] = field(default_factory=dict)
    body: Any = None


async def read_body(receive: Receive) -> bytes:
    """Read the whole body.

    Raises:
        ClientDisconnect: the client hung up before its end.
    """
    content = bytearray()
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ClientDisconnect
        content += message.get("body", b"")
        if not message.get("more_body"):
            return bytes(content)


def parse_body(raw: bytes, workers_values: int | None) -> Any:
    """Parse a JSON body; None if there is no body.

    `workers_values` is how many values a worker's body may have; None for a person's body. A
    worker's log lines and artifacts may contain characters that a person's request may not.

    Raises:
        InvalidInput: it is not JSON, or can't be stored (`read_json`).
    """
    if not raw.strip():
        return None
    if workers_values is None:
        return read_json(raw)
    if has_many_values(raw, workers_values):
        message = f"the body has more than {workers_values} values; send it in several parts"
        raise InvalidInput([Fault("", "size", message)])
    try:
        return json.loads(raw, parse_constant=refuse_constant)
    except (ValueError, RecursionError):
        raise InvalidInput([Fault("", "syntax", "the body is no JSON")]) from None


def parse_query(scope: Scope) -> dict[str, str]:
    """Parse the query; of several values of a name the last counts, as Prefect reads it."""
    return dict(parse_qsl(scope.get("query_string", b"").decode("latin-1"), keep_blank_values=True))
