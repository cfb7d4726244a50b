"""Connections to a facade over the network, or to one in this process."""

import asyncio
import contextlib
import gc
import ipaddress
import logging
import os
from collections.abc import AsyncIterator
from urllib.parse import SplitResult, urlsplit

import httpx
import typer

from jobauto_prefect import certificates
from jobauto_prefect.cli.connection.protocol import Request, Response
from jobauto_prefect.errors import FacadeUnavailable, Unauthorized

TIMEOUT_SECONDS = 30.0


class HttpConnection:
    """A connection by httpx."""

    def __init__(self, http: httpx.AsyncClient) -> None:
        self._http = http

    async def ask(self, question: Request) -> Response:
        """Send a request, see `Connection`."""
        try:
            answer = await self._http.request(
                question.method,
                question.path,
                params=dict(question.query),
                content=question.content,
                headers=dict(question.headers),
                timeout=question.seconds or TIMEOUT_SECONDS,
            )
        except httpx.TransportError as error:
            raise FacadeUnavailable(
                f"the facade at {self._http.base_url} does not answer "
                f"({type(error).__name__}); is it running, is the address right?"
            ) from None
        return Response(answer.status_code, dict(answer.headers), answer.content)


@contextlib.asynccontextmanager
async def connect_remote(
    url: str, base: str, signed: tuple[str, str] | None = None
) -> AsyncIterator[HttpConnection]:
    """Connect to a remote facade; its address may end with the base of the contract.

    `signed` are a login and its password; None: use the token in the environment.

    Raises:
        BadParameter: the address is invalid.
        Unauthorized: no token is set, or it would be sent unencrypted to another machine.
    """
    parts = _parse_address(url)
    headers = {} if signed else {"Authorization": f"Bearer {_read_token()}"}
    if parts.scheme != "https" and not _is_this_machine(parts.hostname or ""):
        secret = "password" if signed else "token"
        raise Unauthorized(f"{url} is not https: the {secret} would be sent unencrypted; use https")
    async with httpx.AsyncClient(
        base_url=url.rstrip("/").removesuffix(base),
        headers=headers,
        auth=signed and httpx.BasicAuth(*signed),
        timeout=TIMEOUT_SECONDS,
        verify=certificates.needs_certificates(url),
    ) as http:
        yield HttpConnection(http)


def _read_token() -> str:
    token = os.environ.get("JOBAUTO_TOKEN", "").strip()  # files end with a newline
    if not token:
        raise Unauthorized(
            "JOBAUTO_TOKEN is not set; create a token where the service runs: "
            "jobauto token issue --user LOGIN"
        )
    if not (token.isascii() and token.isprintable()) or " " in token:
        raise Unauthorized("JOBAUTO_TOKEN has characters that no token has; check its value")
    return token


def _parse_address(url: str) -> SplitResult:
    """Parse the address of a facade.

    Raises:
        BadParameter: it is invalid, or contains more than an address; the message says what.
    """
    wrong = "is not an address; write one such as https://jobs.example.org"
    try:
        parts = urlsplit(url)
        if parts.username is not None or parts.password is not None:
            wrong = "has credentials in it; the token belongs in JOBAUTO_TOKEN"
        elif parts.query or parts.fragment or url.endswith(("?", "#")):
            wrong = "has more than an address: leave out what begins with ? or #"
        elif parts.scheme in ("http", "https") and parts.port != 0 and httpx.URL(url).host:
            return parts
    except (ValueError, httpx.InvalidURL):
        pass
    raise typer.BadParameter(wrong, param_hint="--url")


def _is_this_machine(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


@contextlib.asynccontextmanager
async def connect_in_process(
    writes: bool, *, takes_long: bool = False
) -> AsyncIterator[HttpConnection]:
    """Connect to a facade in this process, over this machine's ledger, as the local operator.

    Only if it `writes` does it deliver changes to Prefect, because it must finish what it claims.
    For `takes_long` see `call_facade`.

    Raises:
        NotReady: the installation lacks its key or its tables; the message says what to do.
    """
    gc.disable()  # what is loaded lives as long as the process
    try:
        from jobauto_prefect.facade.app import create_app
    finally:
        gc.freeze()
        gc.enable()
    from jobauto_prefect.cli.service.addresses import read_addresses
    from jobauto_prefect.ledger.audit.trail import Actor
    from jobauto_prefect.ledger.database.engine import long_limits
    from jobauto_prefect.ledger.opening import open_ledger
    from jobauto_prefect.settings import load_settings, local_operator

    # The command itself reports what the facade would log.
    logging.getLogger("jobauto_prefect").addHandler(logging.NullHandler())
    # Options of the running service's command line apply to its neighbours, too.
    settings = load_settings(**read_addresses(load_settings().home))
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
            yield HttpConnection(http)
    finally:
        await app.state.service.outbox_worker.context.prefect.aclose()
        ledger.close()
