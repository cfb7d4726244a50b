"""A facade on a real port, for tests."""

import contextlib
import select
import socket
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from typing import Any, Self
from urllib.parse import urlsplit

import httpx

from jobauto_prefect import certificates
from jobauto_prefect.facade.app import create_app
from jobauto_prefect.facade.auth.identity import Identity
from jobauto_prefect.facade.auth.permissions import EVERYTHING
from jobauto_prefect.facade.writes.memberships import set_roles
from jobauto_prefect.ledger.access.tokens import issue_user_token, issue_worker_token
from jobauto_prefect.ledger.audit.trail import SERVICE
from jobauto_prefect.ledger.records import Company, CompanyUser, User
from jobauto_prefect.ledger.store import Ledger
from jobauto_prefect.settings import Settings
from tests.support.asgi_server import serving
from tests.support.records import own_name
from tests.support.secrets import SAYS_NO_SECRET

BUSY = b'{"exception_message":"Service Unavailable"}'
BUSY_FOR = 90  # seconds at most
LIMITS = httpx.Limits(keepalive_expiry=2)
"""Connections are not used again once they were idle for almost as long as servers keep them."""

OPERATOR = Identity(SERVICE, EVERYTHING)


@contextlib.contextmanager
def facade(settings: Settings, ledger: Ledger) -> Iterator[str]:
    """The address of a running facade."""
    with serving(create_app(settings, ledger), settings, port=urlsplit(settings.url).port) as port:
        yield f"http://127.0.0.1:{port}"


def reach_prefect(settings: Settings, prefect_api: str) -> Settings:
    """The same for a facade that knows the real Prefect; the pool is this test's own."""
    return settings.model_copy(update={"prefect_api_url": prefect_api, "pool": own_name("pool")})


def user_token(ledger: Ledger, login: str = "root", roles: Sequence[str] = ("super_admin",)) -> str:
    """A bearer token of a new user with these roles."""
    with ledger.writing(SERVICE) as session:
        user = User(login=login)
        set_roles(session, OPERATOR, user, roles, replace=True)
        session.add(user)
        return issue_user_token(session, user, None)[0]


def member_token(rest: httpx.Client, ledger: Ledger, login: str, role: str, membership: str) -> str:
    """A bearer token of a new member of the only company."""
    company = next(iter(rest.get("/companies.json").json()))
    user = rest.post("/user/", json={"login": login, "roles": [role]}).json()
    body = {"user_id": user["id"], "role": membership}
    rest.post(f"/company/{company}/user/", json=body).raise_for_status()
    with ledger.writing(SERVICE) as session:
        return issue_user_token(session, session.get_one(User, user["id"]), None)[0]


def manager_token(ledger: Ledger, login: str, slug: str) -> str:
    """A bearer token of a new user who manages a new company, and nothing else."""
    token = user_token(ledger, login, ())
    with ledger.writing(SERVICE) as session:
        user = session.query(User).filter_by(login=login).one()
        company = Company(slug=slug, name=slug)
        session.add(company)
        session.flush()
        session.add(CompanyUser(company_id=company.id, user_id=user.id, role="manager"))
    return token


def worker_token(ledger: Ledger, *pools: str) -> str:
    """A bearer token of a worker."""
    with ledger.writing(SERVICE) as session:
        return issue_worker_token(session, pools, None)[0]


def client(url: str, token: str) -> httpx.Client:
    """A client that signs in with a bearer token."""
    headers = {"Authorization": f"Bearer {token}"}
    verify = certificates.needs_certificates(url)
    return httpx.Client(
        base_url=url,
        headers=headers,
        timeout=60,
        limits=LIMITS,
        event_hooks=SAYS_NO_SECRET,
        verify=verify,
    )


class _Patient(httpx.HTTPTransport):
    """Asks again while Prefect's SQLite is busy, as every client of Prefect does."""

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        until = time.monotonic() + BUSY_FOR
        while True:
            response = super().handle_request(request)
            busy = response.status_code == 503 and response.read() == BUSY
            if not busy or time.monotonic() > until:
                return response
            response.close()
            time.sleep(0.05)


def prefect_client(url: str, **options: Any) -> httpx.Client:
    """A client of Prefect's API, ours before it or not."""
    options = {"timeout": 30, "event_hooks": SAYS_NO_SECRET} | options
    limits = options.pop("limits", LIMITS)
    transport = _Patient(limits=limits, verify=certificates.needs_certificates(url))
    return httpx.Client(base_url=url, transport=transport, **options)


CHUNK = b"10000\r\n" + b" " * 0x10000 + b"\r\n"
SENT_TOO_MUCH = 24 * 2**20
"""Bytes beyond the bound that buffers on the way may hold."""


def status_of_endless(url: str, method: str, path: str, headers: dict[str, str], most: int) -> int:
    """The status of a request whose body says no length and never ends."""
    parts, sent = urlsplit(url), 0
    lines = [f"{method} {path} HTTP/1.1", f"Host: {parts.netloc}", "Transfer-Encoding: chunked"]
    head = "\r\n".join([*lines, *(f"{name}: {text}" for name, text in headers.items()), "", ""])
    with socket.create_connection((str(parts.hostname), parts.port or 80), timeout=30) as peer:
        peer.sendall(head.encode())
        with contextlib.suppress(ConnectionError):
            while not select.select([peer], [], [], 0)[0]:
                assert sent < most + SENT_TOO_MUCH, f"{method} {path} takes more than {most} bytes"
                peer.sendall(CHUNK)
                sent += 0x10000
        return int(peer.recv(4096).split()[1])


class Serving:
    """A facade that can go away and come back."""

    def __init__(self, settings: Settings, ledger: Ledger) -> None:
        self.settings, self.ledger = settings, ledger
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start(self) -> None:
        """Answer from now on."""
        self._stack.enter_context(facade(self.settings, self.ledger))

    def stop(self) -> None:
        """Answer no more."""
        self._stack.close()
