"""A thin client of Prefect's REST API: one connection pool, plain JSON, our errors.

Prefect's own client waits 2 s and more when SQLite answers that its database is locked, and
importing it takes a second; what is needed here is a dozen calls.
"""

import asyncio
import base64
import contextlib
import functools
import itertools
import logging
import os
import random
import ssl
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self
from uuid import uuid4

import httpx

from jobauto_prefect import certificates
from jobauto_prefect.errors import (
    Conflict,
    Forbidden,
    JobautoError,
    NotFound,
    NotReady,
    PrefectFailed,
    PrefectRefuses,
    PrefectUnavailable,
    Unauthorized,
)

if TYPE_CHECKING:  # keeps the ledger out of a worker's memory
    from jobauto_prefect.ledger.secrets import SecretBox

logger = logging.getLogger(__name__)

SERVICE = "jobauto service"
"""Name of our own processes at the gateway; their secret is derived for it."""

BUSY = frozenset({408, 429, 502, 503, 504})
"""Statuses that ask for a retry. SQLite's "database is locked" arrives as 503."""

READY = "/ready"
"""Prefect checks its database before it answers here."""

CREATED = 201

PAGE_SIZE = 200
"""The largest page Prefect returns; it refuses a larger `limit`."""

LONGEST_RETRY_WAIT = 0.05  # seconds

ANSWER_SECONDS = 30.0
"""Timeout of one request to Prefect."""

BUSY_SECONDS = 10.0
"""How long a call is retried while Prefect is busy."""

BROKEN = (httpx.ReadError, httpx.WriteError, httpx.RemoteProtocolError)
"""The connection broke; the call may have arrived. All calls made here may be repeated."""

LIMITS = httpx.Limits(max_connections=100, max_keepalive_connections=20, keepalive_expiry=2)
"""Idle connections close before Prefect's server closes them (after 5 s)."""

TOGETHER_SECONDS = 1.0
"""How long `get_shared` caches an answer."""

MOST_UNREADABLE = 20
"""How many unreadable objects one query skips; with more, the whole query fails."""

SHOWN_DETAIL = 500  # characters of Prefect's explanation in our messages


def authorization(login: str | None, key: str | None = None) -> str | None:
    """Return the Authorization header for `user:password`, or for an API key; None for neither."""
    if login:
        return "Basic " + base64.b64encode(login.encode()).decode()
    return f"Bearer {key}" if key else None


def environment_authorization(environment: Mapping[str, str] = os.environ) -> str | None:
    """Return the Authorization header for `PREFECT_API_AUTH_STRING` or `PREFECT_API_KEY`.

    None if neither is set.
    """
    return authorization(
        environment.get("PREFECT_API_AUTH_STRING"), environment.get("PREFECT_API_KEY")
    )


def service_authorization(box: "SecretBox") -> str:
    """Return the header that authenticates this installation's own processes at the gateway."""
    return "Basic " + base64.b64encode(f"{SERVICE}:{box.derived(SERVICE)}".encode()).decode()


def own_authorization(box: "SecretBox") -> str:
    """Return the header that the environment asks for, or this installation's own."""
    return environment_authorization() or service_authorization(box)


class PrefectApi:
    """Calls to one Prefect server, concurrent ones included; close it with `aclose`.

    `authorization` is the whole header value. Calls raise `PrefectUnavailable` where Prefect does
    not answer or stays busy, `PrefectFailed` where it fails on this call alone, `NotFound`,
    `Unauthorized`, `Forbidden`, and `Conflict` with Prefect's explanation for anything else it
    refuses.
    """

    def __init__(
        self,
        url: str,
        *,
        authorization: str | None = None,
        timeout_seconds: float = ANSWER_SECONDS,
        verify: bool = True,
        certificate_file: str | None = None,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        self.url = url.rstrip("/")
        self._open = functools.partial(
            httpx.AsyncClient,
            base_url=self.url,
            headers={"Authorization": authorization} if authorization else {},
            timeout=timeout_seconds,
            limits=LIMITS,
            transport=transport,
        )
        self._needs_certificates = verify and certificates.needs_certificates(self.url)
        self._load_certificates: Callable[[], ssl.SSLContext] = certificates.load_certificates
        if certificate_file:
            self._load_certificates = functools.cache(
                functools.partial(ssl.create_default_context, cafile=certificate_file)
            )
        self._csrf_client = str(uuid4())
        self._one_by_one = asyncio.Lock()
        self._asked: dict[str, asyncio.Future[Any]] = {}

    @functools.cached_property
    def _client(self) -> httpx.AsyncClient:
        """The client, created on first use.

        Loading its dependencies takes a tenth of a command's time, and most commands never call
        Prefect.
        """
        return self._open(verify=self._needs_certificates and self._load_certificates())

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Close the connections, if any are open."""
        if "_client" in self.__dict__:
            await self._client.aclose()

    async def get(self, path: str) -> Any:
        """Return the JSON at `path`, which begins with a slash."""
        return await self.call("GET", path)

    async def get_or_none(self, path: str) -> Any | None:
        """Get the JSON at `path`; None if Prefect has nothing there."""
        with contextlib.suppress(NotFound):
            return await self.get(path)
        return None

    async def get_shared(self, path: str) -> Any:
        """Return the JSON at `path`; concurrent callers share it, cached for `TOGETHER_SECONDS`.

        For objects that many registrations look up. Do not change the answer. A change or deletion
        by this client invalidates it.
        """
        asked = self._asked.get(path)
        if asked is None:
            asked = self._asked[path] = asyncio.ensure_future(self.get(path))
            asked.add_done_callback(functools.partial(self._answered, path))
        return await asyncio.shield(asked)

    def _answered(self, path: str, asked: asyncio.Future[Any]) -> None:
        if asked.cancelled() or asked.exception() is not None:  # all callers may be cancelled
            self._forget(path, asked)
        else:
            loop = asyncio.get_running_loop()
            loop.call_later(TOGETHER_SECONDS, self._forget, path, asked)

    def _forget(self, path: str, asked: asyncio.Future[Any]) -> None:
        if self._asked.get(path) is asked:
            del self._asked[path]

    async def post(self, path: str, body: Any) -> Any:
        """Post JSON; return the answer's JSON, or None if it has none."""
        return await self.call("POST", path, body)

    async def post_once(self, path: str, body: Any) -> Any:
        """Post JSON like `post`, but don't retry if the connection breaks.

        Raises:
            PrefectUnavailable: the request may still have arrived.
        """
        response = await self._retry_while_busy("POST", path, body, once=True)
        if not response.is_success:
            raise _error(response, "POST", path)
        return _content(response, self.url)

    async def pages(self, path: str, query: Mapping[str, Any]) -> AsyncIterator[list[Any]]:
        """Yield all matches of a filter, a page at a time, except those that Prefect can't read."""
        for offset in itertools.count(0, PAGE_SIZE):
            page = await self._readable(path, query, range(offset, offset + PAGE_SIZE), [])
            yield [found for found in page if found is not None]
            if len(page) < PAGE_SIZE:
                return

    async def _readable(
        self, path: str, query: Mapping[str, Any], places: range, unreadable: list[str]
    ) -> list[Any]:
        """Return the matches at these positions; unreadable ones are isolated by bisection.

        They are None in the answer. If there are too many, the objects are not the cause, and it
        raises.
        """
        try:
            part = {"limit": len(places), "offset": places.start}
            found: list[Any] = await self.post(path, {**query, **part})
        except PrefectFailed as error:
            if len(places) > 1:
                half = len(places) // 2
                first = await self._readable(path, query, places[:half], unreadable)
                return first + await self._readable(path, query, places[half:], unreadable)
            _leave_out(unreadable, f"number {places.start} of {path}", error)
            return [None]
        return found

    async def find(
        self, kind: str, values: Iterable[str], field: str = "id"
    ) -> tuple[list[Any], list[str]]:
        """Read the objects of a kind that have one of these values, a page at a time.

        Returns:
            The objects, and the values of those that Prefect can't read: they may exist.

        Raises:
            PrefectUnavailable: Prefect does not answer.
        """
        wanted, unreadable = sorted(values), list[str]()
        found = [
            each
            for begin in range(0, len(wanted), PAGE_SIZE)
            for each in await self._find(kind, field, wanted[begin : begin + PAGE_SIZE], unreadable)
        ]
        return found, unreadable

    async def _find(
        self, kind: str, field: str, values: Sequence[str], unreadable: list[str]
    ) -> list[Any]:
        body = {kind: {field: {"any_": values}}, "limit": PAGE_SIZE}
        try:
            found: list[Any] = await self.post(f"/{kind}/filter", body)
        except PrefectFailed as error:
            if len(values) > 1:
                half = len(values) // 2
                first = await self._find(kind, field, values[:half], unreadable)
                return first + await self._find(kind, field, values[half:], unreadable)
            _leave_out(unreadable, values[0], error)
            return []
        return found

    async def create(self, path: str, body: Any) -> tuple[Any, bool]:
        """Post JSON; return the answer's JSON, and whether Prefect created an object."""
        response = await self._called("POST", path, body)
        return _content(response, self.url), response.status_code == CREATED

    async def patch(self, path: str, body: Any) -> None:
        """Change the fields that `body` names."""
        try:
            await self.call("PATCH", path, body)
        finally:
            self._asked.pop(path, None)

    async def delete(self, path: str) -> None:
        """Delete what is at `path`, if it exists."""
        try:
            with contextlib.suppress(NotFound):
                await self.call("DELETE", path)
        finally:
            self._asked.pop(path, None)

    async def call(self, method: str, path: str, body: Any = None) -> Any:
        """Make one call, retried while Prefect is busy; return its JSON, None without any."""
        return _content(await self._called(method, path, body), self.url)

    async def _called(self, method: str, path: str, body: Any) -> httpx.Response:
        response = await self._retry_while_busy(method, path, body)
        if response.status_code == 403 and "CSRF" in response.text:
            answer = await self._retry_while_busy(
                "GET", f"/csrf-token?client={self._csrf_client}", None
            )
            if answer.is_success:
                self._client.headers["Prefect-Csrf-Token"] = answer.json()["token"]
                self._client.headers["Prefect-Csrf-Client"] = self._csrf_client
            response = await self._retry_while_busy(method, path, body)
        is_failure = _is_failure(response) or _is_refused_by_database(response)
        # If Prefect and its database respond, the failure concerns this call alone.
        if is_failure and (await self._request("GET", READY, None)).status_code < 500:
            raise PrefectFailed(
                f"Prefect failed on {method} {path} ({response.status_code});"
                " see the log of its server"
            )
        if not response.is_success:
            raise _error(response, method, path)
        return response

    async def _retry_while_busy(
        self, method: str, path: str, body: Any, *, once: bool = False
    ) -> httpx.Response:
        response = await self._request(method, path, body, once=once)
        if not _is_busy(response):
            return response
        # Retrying one by one keeps writers from colliding again.
        async with self._one_by_one:
            loop = asyncio.get_running_loop()
            until = loop.time() + BUSY_SECONDS
            wait = LONGEST_RETRY_WAIT / 4
            while True:
                response = await self._request(method, path, body, once=once)
                if not _is_busy(response) or loop.time() > until:
                    return response
                await asyncio.sleep(random.uniform(wait / 2, wait))  # noqa: S311 - spreads callers
                wait = min(wait * 2, LONGEST_RETRY_WAIT)

    async def _request(
        self, method: str, path: str, body: Any, *, once: bool = False
    ) -> httpx.Response:
        if self._needs_certificates and "_client" not in self.__dict__:
            await asyncio.to_thread(self._load_certificates)  # it would block the event loop
        client = self._client
        try:
            return await client.request(method, path, json=body)
        except BROKEN as error:
            # A busy server may close an idle connection just as it is used again.
            if once:
                raise self._away(error) from None
        except httpx.TransportError as error:
            raise self._away(error) from None
        try:
            return await client.request(method, path, json=body)
        except httpx.TransportError as error:
            raise self._away(error) from None

    def _away(self, error: httpx.TransportError) -> PrefectUnavailable:
        reason = str(error) or type(error).__name__
        return PrefectUnavailable(f"Prefect at {self.url} does not answer ({reason})")


def connect() -> PrefectApi:
    """Return a client of the server that Prefect's settings name (environment or profile).

    Raises:
        NotReady: they name none.
    """
    from prefect.settings import get_current_settings

    settings = get_current_settings().api
    if not settings.url:
        raise NotReady("PREFECT_API_URL is not set; set it to the address of the Prefect API")
    login = settings.auth_string.get_secret_value() if settings.auth_string else None
    key = settings.key.get_secret_value() if settings.key else None
    return PrefectApi(
        settings.url,
        authorization=authorization(login, key),
        timeout_seconds=settings.request_timeout,
        verify=not settings.tls_insecure_skip_verify,
        certificate_file=settings.ssl_cert_file,
    )


@contextlib.contextmanager
def sign_in_as(worker_token: str) -> Iterator[None]:
    """Sign in Prefect's clients within the block as this worker, unless they have a login.

    Not through the environment, which jobs inherit.
    """
    from prefect.settings import PREFECT_API_AUTH_STRING, get_current_settings, temporary_settings

    settings = get_current_settings().api
    if settings.auth_string or settings.key:
        yield
        return
    with temporary_settings({PREFECT_API_AUTH_STRING: f"worker:{worker_token}"}):
        yield


def _leave_out(unreadable: list[str], name: str, error: PrefectFailed) -> None:
    unreadable.append(name)
    if len(unreadable) > MOST_UNREADABLE:
        raise error
    logger.warning("skipped %s: %s", name, error)


def _content(response: httpx.Response, url: str) -> Any:
    try:
        return response.json() if response.content else None
    except ValueError:  # a proxy, for example, answered
        raise PrefectUnavailable(f"{url} did not answer with JSON") from None


def _is_failure(response: httpx.Response) -> bool:
    """Whether Prefect's own code failed: the gateway then answers 502 with a JSON body."""
    if response.status_code == 502:
        with contextlib.suppress(ValueError):
            body = response.json()
            return isinstance(body, dict) and "exception_message" in body
    return response.status_code == 500


def _is_refused_by_database(response: httpx.Response) -> bool:
    """Whether Prefect's database refused this: PostgreSQL for any reason, SQLite when locked.

    This is only checked after retrying for `BUSY_SECONDS`.
    """
    with contextlib.suppress(ValueError):
        said: Any = response.json() if response.status_code == 503 else None
        return bool(said == {"exception_message": "Service Unavailable"})
    return False


def _is_busy(response: httpx.Response) -> bool:
    return response.status_code in BUSY and not _is_failure(response)


def _error(response: httpx.Response, method: str, path: str) -> JobautoError:
    status, what = response.status_code, f"Prefect refused {method} {path}"
    if status in (404, 405):
        return NotFound(f"Prefect has nothing at {path}")
    if status == 401:
        return Unauthorized(f"{what}: set PREFECT_API_AUTH_STRING to a login that is allowed")
    if status == 403:
        return Forbidden(f"{what}: {_detail(response)}")
    if status in BUSY or status >= 500:
        return PrefectUnavailable(f"Prefect answered {method} {path} with {status}")
    kind = PrefectRefuses if status == 422 else Conflict
    return kind(f"{what} ({status}): {_detail(response)}")


def _detail(response: httpx.Response) -> str:
    """Return Prefect's explanation without the request it repeats, which may contain values."""
    try:
        body = response.json()
    except ValueError:
        return response.text[:SHOWN_DETAIL]
    if not isinstance(body, dict):
        return "no explanation"
    faults = body.get("exception_detail")
    if isinstance(faults, list):
        explanation = "; ".join(
            f"{'.'.join(map(str, fault.get('loc', ())))}: {fault.get('msg')}" for fault in faults
        )
    else:
        explanation = str(body.get("detail") or body.get("exception_message"))
    return explanation[:SHOWN_DETAIL]
