"""What stays open ends with the right to open it."""

import asyncio
import json
from collections.abc import Callable

import httpx
import pytest
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from starlette.websockets import WebSocket

from jobauto_prefect.facade.auth.passwords import hash_password
from jobauto_prefect.facade.gateway import sockets
from jobauto_prefect.facade.gateway.asgi import create_middleware
from jobauto_prefect.facade.resources import job_output
from jobauto_prefect.ledger.access.tokens import end_tokens
from jobauto_prefect.ledger.audit.trail import SERVICE, WritingSession
from jobauto_prefect.ledger.queries.users import user_named
from jobauto_prefect.ledger.records import User
from jobauto_prefect.ledger.store import Ledger
from jobauto_prefect.settings import Settings
from tests.support.console import PASSWORD, add_user
from tests.support.databases import on_sqlite
from tests.support.gateway import basic
from tests.support.job_records import JobRecords, make_job_template
from tests.support.secrets import secret
from tests.support.servers import user_token

pytestmark = on_sqlite

SOON = 0.1  # seconds

OPEN = set[asyncio.Future[None]]()
"""Sockets that are served: an event loop keeps no task alive."""


@pytest.fixture(autouse=True)
def checked_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (sockets, job_output):
        monkeypatch.setattr(module, "STREAM_CHECK_SECONDS", SOON)


def change_password(_session: WritingSession, user: User) -> None:
    user.password_hash = hash_password(secret("another kůň 2"))


def revoke_tokens(session: WritingSession, user: User) -> None:
    end_tokens(session, user)


def take_roles(_session: WritingSession, user: User) -> None:
    user.role_assignments = []


def disable(_session: WritingSession, user: User) -> None:
    user.enabled = False


Ending = Callable[[WritingSession, User], None]

ENDINGS = pytest.mark.parametrize(
    ("signed_in", "end"),
    [
        ("password", change_password),
        ("password", take_roles),
        ("password", disable),
        ("token", revoke_tokens),
        ("token", take_roles),
    ],
)


def credentials_of_eva(ledger: Ledger, signed_in: str) -> str:
    if signed_in == "token":
        return user_token(ledger, "eva", ["admin"])
    add_user(ledger, "eva", "admin")
    return f"eva:{PASSWORD}"


def change(ledger: Ledger, end: Ending) -> None:
    with ledger.writing(SERVICE) as session:
        user = user_named(session, "eva")
        assert user is not None
        end(session, user)


@ENDINGS
def test_followed_output_ends_with_the_right_to_read_it(
    rest: httpx.Client, facade_url: str, ledger: Ledger, signed_in: str, end: Ending
) -> None:
    credentials = credentials_of_eva(ledger, signed_in)
    is_token = signed_in == "token"
    headers = {"Authorization": f"Bearer {credentials}"} if is_token else basic(credentials)
    job = JobRecords(ledger, *make_job_template(rest)).job(state="running")
    path = f"{facade_url}/api/v1/job/{job}/output.json?follow=true"
    with httpx.stream("GET", path, headers=headers, timeout=20) as followed:
        assert followed.status_code == 200
        change(ledger, end)
        assert json.loads(followed.read())["state"] == "running"


async def quiet(scope: Scope, receive: Receive, send: Send) -> None:
    """Stands where Prefect would: a socket that opens, and stays."""
    socket = WebSocket(scope, receive, send)
    await socket.accept()
    async for _ in socket.iter_text():
        pass


async def opened(gateway: ASGIApp, token: str) -> asyncio.Queue[Message]:
    """What the gateway sends to a socket that it has accepted, and that has said who it is."""
    received, sent = asyncio.Queue[Message](), asyncio.Queue[Message]()
    first = json.dumps({"type": "auth", "token": token})
    received.put_nowait({"type": "websocket.connect"})
    received.put_nowait({"type": "websocket.receive", "text": first})
    scope: Scope = {"type": "websocket", "path": "/api/events/out", "headers": [],
                    "query_string": b"", "subprotocols": ["prefect"], "state": {}}  # fmt: skip
    task = asyncio.ensure_future(gateway(scope, received.get, sent.put))
    task.add_done_callback(OPEN.discard)
    OPEN.add(task)
    assert (await sent.get())["type"] == "websocket.accept"
    return sent


@ENDINGS
async def test_a_socket_ends_with_the_right_to_open_it(
    facade_settings: Settings, ledger: Ledger, signed_in: str, end: Ending
) -> None:
    token = credentials_of_eva(ledger, signed_in)
    gateway = create_middleware(facade_settings, ledger, quiet, "door:secret")
    async with asyncio.timeout(20):
        sent = await opened(gateway, token)
        await asyncio.sleep(5 * SOON)
        assert sent.empty()
        await asyncio.to_thread(change, ledger, end)
        closed = await sent.get()
    assert (closed["type"], closed["code"]) == ("websocket.close", 1008)


async def test_one_user_opens_so_many_sockets_and_others_theirs(
    facade_settings: Settings, ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sockets, "STREAM_CHECK_SECONDS", 60)  # not a thousand checks a second
    gateway = create_middleware(facade_settings, ledger, quiet, "door:secret")
    mine, other = (user_token(ledger, login, ["admin"]) for login in ("eva", "ben"))
    async with asyncio.timeout(60):
        # They are accepted before it is known whose they are: any of them may be the one too many.
        mine_opened = [await opened(gateway, mine) for _ in range(sockets.MAX_SOCKETS + 1)]
        waiting = [asyncio.ensure_future(sent.get()) for sent in mine_opened]
        done, left = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        others = await opened(gateway, other)
        await asyncio.sleep(5 * SOON)
    (closed,) = (task.result() for task in done)
    assert (closed["type"], closed["code"]) == ("websocket.close", 1013)
    assert not any(task.done() for task in left)
    assert others.empty()
    for task in left:
        task.cancel()
