"""Searches for jobs: those there are for everybody, and a visitor's own.

One's own are in a cookie: a search is nothing but an address, so that it needs no place in the
ledger, no rights and no entry in the audit trail. It stays with the browser.
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
MAX_QUERY = 200  # characters; cookies of 4 KB are all that browsers promise
KEPT_FOR = 400 * 24 * 3600  # seconds; browsers keep none for longer

_QUERY = re.compile(r"[\w.~%+&=,:*-]*", re.ASCII)


@dataclass(frozen=True, slots=True)
class SavedSearch:
    """A list of jobs; `query` is that of its address."""

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
    SavedSearch("Warned since yesterday", "state=warning&since=yesterday&order=-end"),
    SavedSearch("Running", "state=running"),
    SavedSearch("Waiting", "state=scheduled&order=schedule"),
    SavedSearch("Lost", "state=lost&order=-end"),
)
"""With names in English."""


def read_searches(request: Request) -> list[SavedSearch]:
    """Return the visitor's own searches; what a cookie has otherwise is none."""
    text = request.cookies.get(COOKIE, "")
    try:
        pairs = json.loads(base64.urlsafe_b64decode(text.encode() + b"=" * (-len(text) % 4)))
        searches = [SavedSearch(str(name), str(query)) for name, query in pairs]
    except (ValueError, TypeError, binascii.Error, RecursionError):
        return []
    return [search for search in searches if is_possible(search)][:MAX_SEARCHES]


def is_possible(search: SavedSearch) -> bool:
    """Whether a search has a name, and a query that can stand in an address."""
    return (
        0 < len(search.name) <= MAX_NAME
        and len(search.query) <= MAX_QUERY
        and _QUERY.fullmatch(search.query) is not None
    )


def keep_searches(request: Request, response: Response, searches: Sequence[SavedSearch]) -> None:
    """Let the browser keep these as the visitor's own."""
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
