"""A request, as the checks look at it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Ask:
    """What somebody asks of Prefect: the path without `/api`, what it and the query say, the body.

    `body` is parsed JSON, None where there is none.
    """

    path: str
    said: Mapping[str, str] = field(default_factory=dict)
    query: Mapping[str, str] = field(default_factory=dict)
    body: Any = None
