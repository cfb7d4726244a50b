"""Saved searches for jobs: predefined ones, and the visitor's own.

The visitor's own are kept in a cookie: a search is only an address, so it needs no record, no
permission and no audit entry.
"""

import base64
import binascii
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass

from fastapi import Request, Response

from jobauto_prefect.console_addresses import CONSOLE
from jobauto_prefect.ledger.states import FAILED_JOBS, JobState

COOKIE = "jobauto_searches"
MAX_SEARCHES = 10
MAX_NAME = 60  # characters
MAX_QUERY = 200  # characters; browsers guarantee room for cookies of 4 KB only
KEPT_FOR = 400 * 24 * 3600  # seconds; browsers keep no cookie longer

_QUERY = re.compile(r"[\w.~%+&=,:*-]*", re.ASCII)


@dataclass(frozen=True, slots=True)
class SavedSearch:
    """A filtered list of jobs; `query` is the query of its address."""

    name: str
    query: str

    @property
    def href(self) -> str:
        """The address of the list."""
        return f"{CONSOLE}/jobs{'?' if self.query else ''}{self.query}"


FAILED = ",".join((*FAILED_JOBS, JobState.BLOCKED))
PREDEFINED: Sequence[SavedSearch] = (
    SavedSearch("All", ""),
    SavedSearch("Failed since yesterday", f"state={FAILED}&since=yesterday&order=-end"),
    SavedSearch("Warnings since yesterday", "state=warning&since=yesterday&order=-end"),
    SavedSearch("Running", "state=running"),
    SavedSearch("Waiting", "state=scheduled&order=schedule"),
    SavedSearch("Lost", "state=lost&order=-end"),
)
"""Names are in English; pages translate them."""


def read_searches(request: Request) -> list[SavedSearch]:
    """Return the visitor's own searches; invalid content of the cookie is ignored."""
    text = request.cookies.get(COOKIE, "")
    try:
        pairs = json.loads(base64.urlsafe_b64decode(text.encode() + b"=" * (-len(text) % 4)))
        searches = [SavedSearch(str(name), str(query)) for name, query in pairs]
    except (ValueError, TypeError, binascii.Error, RecursionError):
        return []
    return [search for search in searches if is_possible(search)][:MAX_SEARCHES]


def is_possible(search: SavedSearch) -> bool:
    """Whether a search has a valid name and a valid query."""
    return (
        0 < len(search.name) <= MAX_NAME
        and len(search.query) <= MAX_QUERY
        and _QUERY.fullmatch(search.query) is not None
    )


def keep_searches(request: Request, response: Response, searches: Sequence[SavedSearch]) -> None:
    """Store the visitor's own searches in the browser."""
    pairs = json.dumps([[search.name, search.query] for search in searches])
    response.set_cookie(
        COOKIE,
        base64.urlsafe_b64encode(pairs.encode()).decode().rstrip("="),
        max_age=KEPT_FOR,
        path=f"{CONSOLE}/jobs",
        secure=request.url.scheme == "https",
        httponly=True,
        samesite="strict",
    )
