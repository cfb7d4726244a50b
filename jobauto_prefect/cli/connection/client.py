"""The REST contract for commands: of this home's service, of one over the network, or of a facade
in this process.
"""

import asyncio
import contextlib
import json
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from typing import Any, TypeVar

from jobauto_prefect.cli.connection.protocol import Connection, Request, Response
from jobauto_prefect.cli.connection.socket_connection import SocketConnection
from jobauto_prefect.errors import (
    Fault,
    InvalidInput,
    JobautoError,
    RecordExists,
    StalePlan,
    Unavailable,
)
from jobauto_prefect.http_statuses import REFUSALS, STATUS
from jobauto_prefect.local_socket import is_answering
from jobauto_prefect.variables import home

BASE = "/api/v1"
LARGEST_PAGE = 1000
"""Records per request of the facade."""

PATIENCE_SECONDS = 5.0
"""How long the outbox may stall before a command stops waiting for it."""

AWAY_SECONDS = 1.0
"""The same if Prefect does not answer."""

POLL_SECONDS = 0.1
LONGEST_POLL_SECONDS = 1.0
POLL_SECONDS_PER_CHANGE = 0.01
"""Frequent polling slows down what is waited for, so pause about as long as some items take."""

APPLY_SECONDS = 1800.0
"""Timeout for thousands of records."""

Result = TypeVar("Result")

ERRORS: Mapping[int, type[JobautoError]] = {
    **REFUSALS,
    **{STATUS[error]: error for error in (RecordExists, Unavailable)},
}
"""The error for an answer with one of these statuses."""


class Client:
    """A client of one facade."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def get(self, path: str, **query: Any) -> Any:
        """Fetch the JSON of a path below the base, such as `/jobs.json`."""
        return await self._ask("GET", path, query=query)

    async def get_raw(self, path: str) -> bytes:
        """Fetch what is at a path below the base, as bytes."""
        return (await self._answer("GET", path)).content

    async def list(self, collection: str, limit: int | None = None) -> dict[int, dict[str, Any]]:
        """Fetch records of a collection by id, the newest first.

        `limit` None: the facade's default.
        """
        records = await self.get(f"/{collection}.json", **({"limit": limit} if limit else {}))
        return {int(key): records[key] for key in sorted(records, key=int, reverse=True)}

    async def newest(
        self, collection: str, rows: int | None, **query: Any
    ) -> dict[int, dict[str, Any]]:
        """Fetch the newest records by id, page by page; `rows` None: all of them."""
        records: dict[int, dict[str, Any]] = {}
        cursor: str | None = None
        while rows is None or len(records) < rows:
            limit = min(LARGEST_PAGE, rows - len(records)) if rows else LARGEST_PAGE
            asked = {**query, "order": "-id", "limit": limit}
            page, cursor = await self.page(
                f"/{collection}.json", **asked, **({"cursor": cursor} if cursor else {})
            )
            records |= {int(number): record for number, record in page.items()}
            if cursor is None:
                break
        return dict(sorted(records.items(), reverse=True))

    async def page(self, path: str, **query: Any) -> tuple[dict[str, Any], str | None]:
        """Fetch one page of a list, and the cursor of the next, None on the last page."""
        answer = await self._answer("GET", path, query=query)
        return answer.json(), answer.cursor

    async def post(self, item: str, fields: Mapping[str, Any], **query: Any) -> Any:
        """Create or update a record."""
        return await self._ask("POST", f"/{item}/", content=_encode_json(fields), query=query)

    async def create(self, item: str, fields: Mapping[str, Any]) -> Any:
        """Create a record.

        Raises:
            RecordExists: one with this name exists; it is unchanged.
        """
        content = _encode_json(fields)
        return await self._ask("POST", f"/{item}/", content=content, creates=True)

    async def post_to(
        self, path: str, fields: Mapping[str, Any] | None = None, **query: Any
    ) -> Any:
        """Post JSON, or nothing, to a path below the base; return the answer."""
        content = _encode_json(fields) if fields else None
        return await self._ask("POST", path, content=content, query=query)

    async def put(self, path: str, fields: Mapping[str, Any]) -> Any:
        """Put JSON to a path below the base; return the answer."""
        return await self._ask("PUT", path, content=_encode_json(fields))

    async def delete(self, path: str) -> None:
        """Delete the record at a path below the base."""
        await self._ask("DELETE", path)

    async def post_definition(self, content: bytes, **query: Any) -> Any:
        """Create or update an application from a definition, which is stored unchanged."""
        asked = {**query, "definition": "true"}
        return await self._ask("POST", "/app/", content=content, query=asked)

    async def apply(self, wanted: Mapping[str, Any]) -> Any:
        """Fetch the plan of files to apply; with its digest among the keys, carry it out.

        Raises:
            InvalidInput: all errors.
            StalePlan: the plan no longer has this digest.
        """
        asked = Request("POST", f"{BASE}/apply.json", {}, _encode_json(wanted), APPLY_SECONDS)
        answer = await self._connection.ask(asked)
        details = answer.json().get("details") if answer.status == 409 else None
        if isinstance(details, dict) and "digest" in details:
            raise StalePlan(details)
        if not answer.is_success:
            raise _make_error(asked, answer)
        return answer.json()

    async def _ask(self, method: str, path: str, **more: Any) -> Any:
        return (await self._answer(method, path, **more)).json()

    async def _answer(
        self,
        method: str,
        path: str,
        query: Mapping[str, Any] | None = None,
        content: bytes | None = None,
        creates: bool = False,
    ) -> Response:
        question = Request(method, BASE + path, query or {}, content, creates=creates)
        answer = await self._connection.ask(question)
        if not answer.is_success:
            raise _make_error(question, answer)
        return answer

    async def wait_for_prefect(
        self,
        progress: Callable[[int], None] = lambda _left: None,
        patience_seconds: float | None = None,
    ) -> int:
        """Wait until Prefect has all changes; return how many it lacks.

        It gives up if there was no progress for `patience_seconds` (None: `PATIENCE_SECONDS`, or
        `AWAY_SECONDS` if Prefect does not answer); the rest is done when Prefect is back.
        """
        fewest, since = None, time.monotonic()
        while True:
            status = await self.get("/status")
            left: int = status["waiting_for_prefect"]
            progress(left)
            is_away = status.get("prefect_away") is not None
            usual = min(AWAY_SECONDS, PATIENCE_SECONDS) if is_away else PATIENCE_SECONDS
            patience = usual if patience_seconds is None else patience_seconds
            if fewest is None or left < fewest:
                fewest, since = left, time.monotonic()
            if left == 0 or time.monotonic() - since > patience:
                return left
            pause = max(POLL_SECONDS, left * POLL_SECONDS_PER_CHANGE)
            await asyncio.sleep(min(pause, LONGEST_POLL_SECONDS))


def _encode_json(fields: Mapping[str, Any]) -> bytes:
    return json.dumps(fields, ensure_ascii=False, allow_nan=False).encode()


def _make_error(question: Request, answer: Response) -> JobautoError:
    try:
        body = answer.json()
        message, details = str(body["message"]), body.get("details") or []
    except (ValueError, KeyError, TypeError):
        asked = f"{question.method} {question.path}"
        return JobautoError(f"{asked} was answered {answer.status}; is that a jobauto facade?")
    if details:
        names = Fault.__dataclass_fields__
        faults = [Fault(**{k: v for k, v in detail.items() if k in names}) for detail in details]
        return InvalidInput(faults, message)
    return ERRORS.get(answer.status, JobautoError)(message)


def call_facade(
    url: str | None,
    work: Callable[[Client], Coroutine[Any, Any, Result]],
    writes: bool = False,
    *,
    takes_long: bool = False,
    signed: tuple[str, str] | None = None,
) -> Result:
    """Do some work with a client; without `url`, of this home's service or its own ledger.

    `writes`: the work makes changes that go to Prefect. `takes_long`: on this machine's own ledger
    the database may take as long as for a migration. `signed` are login and password for `url`,
    instead of a token.
    """

    async def session() -> Result:
        async with open_client(url, writes, takes_long=takes_long, signed=signed) as client:
            return await work(client)

    return asyncio.run(session())


@contextlib.asynccontextmanager
async def open_client(
    url: str | None,
    writes: bool = False,
    *,
    takes_long: bool = False,
    signed: tuple[str, str] | None = None,
) -> AsyncIterator[Client]:
    """Open a client of the facade at an address, in this home, or in this process.

    A facade running in this home is preferred to one in this process. See `call_facade`. Only loads
    what it needs, so that a command to a running service is fast.
    """
    if url is None and is_answering(home()):
        yield Client(SocketConnection(home()))
        return
    from jobauto_prefect.cli.connection.http_connection import connect_in_process, connect_remote

    way = (
        connect_in_process(writes, takes_long=takes_long)
        if url is None
        else connect_remote(url, BASE, signed)
    )
    async with way as connection:
        yield Client(connection)
