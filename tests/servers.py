"""A facade on a real port, for tests."""

import contextlib
import socket
import threading
import time
from collections.abc import Iterator

import httpx
import uvicorn

from jobauto_prefect.facade.app import create_app
from jobauto_prefect.facade.auth import Identity
from jobauto_prefect.facade.people import set_roles
from jobauto_prefect.facade.permissions import EVERYTHING
from jobauto_prefect.facade.serving import server_options
from jobauto_prefect.ledger.audit import SERVICE
from jobauto_prefect.ledger.records import User
from jobauto_prefect.ledger.store import Ledger
from jobauto_prefect.ledger.tokens import issue_user_token, issue_worker_token
from jobauto_prefect.settings import Settings
from tests.planted import SAYS_NO_SECRET

OPERATOR = Identity(SERVICE, EVERYTHING)


def free_port() -> int:
    """A port nobody listens on just now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@contextlib.contextmanager
def facade(settings: Settings, ledger: Ledger) -> Iterator[str]:
    """The address of a running facade."""
    port = int(settings.url.rpartition(":")[2])
    config = uvicorn.Config(
        create_app(settings, ledger), host="127.0.0.1", port=port, **server_options(settings)
    )
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    until = time.monotonic() + 20
    while not server.started and time.monotonic() < until:
        time.sleep(0.01)
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        server.should_exit = True
        thread.join(20)


def user_token(ledger: Ledger, login: str = "root") -> str:
    """A bearer token of a super_admin."""
    with ledger.writing(SERVICE) as session:
        user = User(login=login)
        set_roles(session, OPERATOR, user, ["super_admin"], replace=True)
        session.add(user)
        return issue_user_token(session, user, None)[0]


def worker_token(ledger: Ledger, *pools: str) -> str:
    """A bearer token of a worker."""
    with ledger.writing(SERVICE) as session:
        return issue_worker_token(session, pools, None)[0]


def client(url: str, token: str) -> httpx.Client:
    """A client that signs in with a bearer token."""
    headers = {"Authorization": f"Bearer {token}"}
    return httpx.Client(base_url=url, headers=headers, timeout=20, event_hooks=SAYS_NO_SECRET)
