"""The REST contract, spoken by commands: over the network, or to a facade in this process."""

import asyncio
import contextlib
import ipaddress
import logging
import os
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from typing import Any, TypeVar
from urllib.parse import urlsplit

import httpx

from jobauto_prefect import certificates
from jobauto_prefect.errors import (
    Conflict,
    FacadeUnavailable,
    Fault,
    Forbidden,
    InvalidInput,
    JobautoError,
    NotFound,
    Unauthorized,
    Unavailable,
)

BASE = "/api/v1"
TIMEOUT_SECONDS = 30.0
LARGEST_PAGE = 1000
"""Records the facade gives at once."""

PATIENCE_SECONDS = 5.0
"""How long the outbox may stand still before a command no longer waits for it."""

POLL_SECONDS = 0.1

Answer = TypeVar("Answer")

ERRORS: Mapping[int, type[JobautoError]] = {
    401: Unauthorized,
    403: Forbidden,
    404: NotFound,
    409: Conflict,
    503: Unavailable,
}
"""What an answer with one of these statuses is raised as."""


class Client:
    """Speaks to one facade."""

    def __init__(self, http: httpx.AsyncClient) -> None:
        self._http = http

    async def get(self, path: str, **query: Any) -> Any:
        """The JSON of a path below the base, such as `/jobs.json`."""
        return await self._ask("GET", path, params=query)

    async def get_raw(self, path: str) -> bytes:
        """What is at a path below the base, byte for byte."""
        return (await self._answer("GET", path)).content

    async def list(self, collection: str, limit: int | None = None) -> dict[int, dict[str, Any]]:
        """Records of a collection by id, the newest first; None: as many as the facade gives."""
        found = await self.get(f"/{collection}.json", **({"limit": limit} if limit else {}))
        return {int(key): found[key] for key in sorted(found, key=int, reverse=True)}

    async def newest(
        self, collection: str, rows: int | None, **query: Any
    ) -> dict[int, dict[str, Any]]:
        """So many records of a collection by id, the newest first; None: all of them."""
        found: dict[int, dict[str, Any]] = {}
        cursor: str | None = None
        while rows is None or len(found) < rows:
            limit = min(LARGEST_PAGE, rows - len(found)) if rows else LARGEST_PAGE
            asked = {**query, "order": "-id", "limit": limit}
            page, cursor = await self.page(
                f"/{collection}.json", **asked, **({"cursor": cursor} if cursor else {})
            )
            found |= {int(number): record for number, record in page.items()}
            if cursor is None:
                break
        return dict(sorted(found.items(), reverse=True))

    async def page(self, path: str, **query: Any) -> tuple[dict[str, Any], str | None]:
        """One page of a list, and the cursor of the next; None: there is none."""
        answer = await self._answer("GET", path, params=query)
        following = answer.links.get("next", {}).get("url")
        cursor = httpx.URL(following).params.get("cursor") if following else None
        return answer.json(), cursor

    async def post(self, item: str, fields: Mapping[str, Any], **query: Any) -> Any:
        """Create or update a record."""
        return await self._ask("POST", f"/{item}/", json=fields, params=query)

    async def post_to(self, path: str, fields: Mapping[str, Any] | None = None) -> Any:
        """What a POST, without a body or with JSON, is answered at a path below the base."""
        return await self._ask("POST", path, **({"json": fields} if fields else {}))

    async def delete(self, path: str) -> None:
        """Delete the record at a path below the base."""
        await self._ask("DELETE", path)

    async def post_definition(self, content: bytes, **query: Any) -> Any:
        """Create or update an application from a definition, which is kept as it is."""
        asked = {**query, "definition": "true"}
        return await self._ask("POST", "/app/", content=content, params=asked)

    async def _ask(self, method: str, path: str, **options: Any) -> Any:
        return (await self._answer(method, path, **options)).json()

    async def _answer(self, method: str, path: str, **options: Any) -> httpx.Response:
        try:
            answer = await self._http.request(method, BASE + path, **options)
        except httpx.TransportError as error:
            raise FacadeUnavailable(
                f"the facade at {self._http.base_url} does not answer "
                f"({type(error).__name__}); is it running, is the address right?"
            ) from None
        if not answer.is_success:
            raise _error_of(answer)
        return answer

    async def wait_for_prefect(self, progress: Callable[[int], None] = lambda _left: None) -> int:
        """Wait until Prefect knows what it is to know; how many changes it does not know yet.

        That is not 0 where Prefect is away: what is left is carried out when it is back.
        """
        fewest, since = None, time.monotonic()
        while True:
            left: int = (await self.get("/status"))["waiting_for_prefect"]
            progress(left)
            if fewest is None or left < fewest:
                fewest, since = left, time.monotonic()
            if left == 0 or time.monotonic() - since > PATIENCE_SECONDS:
                return left
            await asyncio.sleep(POLL_SECONDS)


def _error_of(answer: httpx.Response) -> JobautoError:
    try:
        body = answer.json()
        message, details = str(body["message"]), body.get("details") or []
    except (ValueError, KeyError, TypeError):
        address = f"{answer.request.method} {answer.request.url}"
        return JobautoError(f"{address} answered {answer.status_code}; is that a jobauto facade?")
    if details:
        names = Fault.__dataclass_fields__
        faults = [Fault(**{k: v for k, v in each.items() if k in names}) for each in details]
        return InvalidInput(faults, message)
    return ERRORS.get(answer.status_code, JobautoError)(message)


def speak(
    url: str | None,
    work: Callable[[Client], Coroutine[Any, Any, Answer]],
    writes: bool = False,
    *,
    takes_long: bool = False,
) -> Answer:
    """Do some work with a client; `url` None: this machine's own ledger.

    `writes`: the work changes something that Prefect is to know. `takes_long`: the database may
    take as long as for a migration, where the ledger is this machine's own.
    """

    async def session() -> Answer:
        async with remote(url) if url else local(writes, takes_long=takes_long) as client:
            return await work(client)

    return asyncio.run(session())


@contextlib.asynccontextmanager
async def remote(url: str) -> AsyncIterator[Client]:
    """A client of a facade somewhere else.

    Raises:
        Unauthorized: there is no token, or it would be sent in clear to another machine.
    """
    token = os.environ.get("JOBAUTO_TOKEN", "")
    if not token:
        raise Unauthorized(
            "JOBAUTO_TOKEN is not set; make a token where the service runs: "
            "jobauto token issue --user LOGIN"
        )
    parts = urlsplit(url)
    if parts.scheme != "https" and not _is_this_machine(parts.hostname or ""):
        raise Unauthorized(f"{url} is not https: the token would travel in clear; use https")
    headers = {"Authorization": f"Bearer {token}"}
    async with httpx.AsyncClient(
        base_url=url.rstrip("/").removesuffix(BASE),
        headers=headers,
        timeout=TIMEOUT_SECONDS,
        verify=certificates.are_needed(url),
    ) as http:
        yield Client(http)


def _is_this_machine(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


@contextlib.asynccontextmanager
async def local(writes: bool, *, takes_long: bool = False) -> AsyncIterator[Client]:
    """A client of a facade in this process, over this machine's ledger, as the local operator.

    Only one that `writes` carries changes to Prefect: what it takes up it has to bring to an end.
    For `takes_long` see `speak`.

    Raises:
        NotReady: the installation lacks its key or its tables; the message says what helps.
    """
    from jobauto_prefect.cli.running import addresses_in
    from jobauto_prefect.facade.app import create_app
    from jobauto_prefect.ledger.audit import Actor
    from jobauto_prefect.ledger.store import long_limits, open_ledger
    from jobauto_prefect.settings import load_settings, local_operator

    # What the facade would log, the command says itself.
    logging.getLogger("jobauto_prefect").addHandler(logging.NullHandler())
    # What a service that runs here was told on its command line counts for its neighbours too.
    settings = load_settings(**addresses_in(load_settings().home))
    limits = long_limits(settings) if takes_long else None
    ledger = await asyncio.to_thread(open_ledger, settings, limits=limits)
    app = create_app(settings, ledger, Actor(name=local_operator(), door="cli"))
    transport = httpx.ASGITransport(app=app)
    carrying = app.router.lifespan_context(app) if writes else contextlib.nullcontext()
    try:
        async with (
            carrying,
            httpx.AsyncClient(transport=transport, base_url="http://localhost") as http,
        ):
            yield Client(http)
    finally:
        await app.state.service.carrier.near.prefect.aclose()
        ledger.close()
