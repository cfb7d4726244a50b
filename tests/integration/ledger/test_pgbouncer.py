"""A ledger behind PgBouncer in transaction mode: each transaction has another session."""

import asyncio
import contextlib
import os
import shutil
import subprocess
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import psycopg
import pytest
from sqlalchemy import make_url

from jobauto_prefect.facade.app import create_app
from jobauto_prefect.jobs.timetable import announcements_of
from jobauto_prefect.ledger.database.announcements import Announcement
from jobauto_prefect.ledger.opening import open_ledger
from jobauto_prefect.ledger.secrets import create_key
from jobauto_prefect.settings import Settings
from tests.support.container_engines import require
from tests.support.databases import database
from tests.support.ports import free_port
from tests.support.servers import user_token
from tests.support.waits import eventually, until

PROGRAM = shutil.which("pgbouncer", path=f"{os.environ['PATH']}:/usr/sbin")
CONFIGURATION = """
[databases]
* = host={host} port={port} user={user}

[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {own_port}
unix_socket_dir =
auth_type = any
pool_mode = transaction
default_pool_size = 3
max_client_conn = 200
"""
AT_ONCE = 24


@pytest.fixture
def settings(migrate_once: Callable[[str], str], tmp_path: Path) -> Iterator[Settings]:
    """Those of a facade whose ledger is reached through a pool of three sessions."""
    require(PROGRAM, "pgbouncer")
    with (
        database("postgresql", tmp_path, migrate_once("postgresql")) as direct,
        _pooled(direct, tmp_path) as pooled,
    ):
        settings = Settings(home=tmp_path, database_url=pooled, database_listen_url=direct)
        create_key(settings.key_path)
        yield settings


@contextlib.contextmanager
def _pooled(direct: str, folder: Path) -> Iterator[str]:
    url, port = make_url(direct), free_port()
    file = folder / "pgbouncer.ini"
    file.write_text(
        CONFIGURATION.format(host=url.host, port=url.port or 5432, user=url.username, own_port=port)
    )
    argv = [str(PROGRAM), "/dev/stdin"]
    user = "nobody" if os.geteuid() == 0 else None
    pooled = url.set(host="127.0.0.1", port=port).render_as_string(hide_password=False)
    with (
        file.open() as configuration,
        subprocess.Popen(
            argv, stdin=configuration, stderr=subprocess.DEVNULL, user=user, cwd="/"
        ) as process,
    ):
        eventually(lambda: _answers(pooled))
        yield pooled
        process.terminate()


def _answers(url: str) -> bool:
    try:
        psycopg.connect(url).close()
    except psycopg.OperationalError:
        return False
    return True


@contextlib.asynccontextmanager
async def _facade(settings: Settings) -> AsyncIterator[httpx.AsyncClient]:
    with contextlib.closing(open_ledger(settings)) as ledger:
        transport = httpx.ASGITransport(create_app(settings, ledger))
        signed_in = {"Authorization": f"Bearer {user_token(ledger)}"}
        async with httpx.AsyncClient(
            base_url="http://127.0.0.1/api/v1", headers=signed_in, transport=transport
        ) as client:
            yield client


async def _failures(rest: httpx.AsyncClient) -> list[tuple[int, str]]:
    async def write_and_list(number: int) -> list[httpx.Response]:
        body: dict[str, Any] = {"slug": f"acme-{number}", "name": "Acme"}
        answers = [await rest.post("/company/", json=body)]
        for _ in range(8):  # a statement is prepared once it has been used five times
            answers.append(await rest.get("/companies.json?limit=5"))
            answers.append(await rest.get("/auditlog.json?limit=5"))
        return answers

    answered = await asyncio.gather(*map(write_and_list, range(AT_ONCE)))
    return [(each.status_code, each.text) for some in answered for each in some if each.is_error]


@pytest.mark.parametrize("knows_server", [True, False])
async def test_many_requests_at_once_are_answered(settings: Settings, knows_server: bool) -> None:
    if not knows_server:
        settings = settings.model_copy(update={"database_listen_url": ""})
    async with _facade(settings) as rest:
        assert await _failures(rest) == []
        assert len((await rest.get("/companies.json?limit=100")).json()) == AT_ONCE


async def test_nobody_listens_through_the_pool(
    settings: Settings, caplog: pytest.LogCaptureFixture
) -> None:
    announcements = announcements_of(settings.model_copy(update={"database_listen_url": ""}))
    await announcements.run()
    assert not announcements.is_live
    assert "set JOBAUTO_DATABASE_LISTEN_URL" in caplog.text


async def test_what_is_new_is_heard_from_the_server_itself(settings: Settings) -> None:
    announcements, heard = announcements_of(settings), list[None]()
    announcements.when(Announcement.RIGHTS, lambda: heard.append(None))
    listening = asyncio.create_task(announcements.run())
    await until(lambda: announcements.is_live)
    heard.clear()
    async with _facade(settings) as rest:
        await rest.post("/user/", json={"login": "eva"})
    await until(lambda: heard)
    listening.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await listening
