"""A facade without anything beside it, over a PostgreSQL that counts what it is asked."""

import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
from fastapi import FastAPI

from jobauto_prefect.facade.app import create_app
from jobauto_prefect.ledger.opening import open_ledger
from jobauto_prefect.ledger.outbox import waiting_messages
from jobauto_prefect.ledger.secrets import create_key
from jobauto_prefect.ledger.store import Ledger
from jobauto_prefect.settings import Settings
from tests.support.claims import claim_of, report_of, start_workers
from tests.support.databases import database
from tests.support.documents import smallest
from tests.support.records import ok
from tests.support.servers import user_token, worker_token
from tests.support.statements import Statements, counted_database

QUIET = smallest(name="True", executable="/bin/true")


@dataclass(frozen=True, slots=True)
class CountedFacade:
    """A facade in this process and what its database was asked; nothing carries its messages."""

    settings: Settings
    ledger: Ledger
    asked: Statements
    rest: httpx.AsyncClient
    claims: httpx.AsyncClient

    def ledger_messages(self) -> int:
        """How many messages for Prefect wait."""
        with self.ledger.reading() as session:
            return waiting_messages(session, self.ledger.clock())

    async def template(self, **members: Any) -> int:
        """A run template of a program that says nothing; its id."""
        await self.made("/app/", QUIET)
        await self.made("/company/", {"slug": "acme", "name": "Acme"})
        body = {"app_id": 1, "company": "acme", "name": "quiet", **members}
        return int((await self.made("/runtemplate/", body))["id"])

    async def made(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        """What a record looks like that is written."""
        return ok(await self.rest.post(path, json=body), 201)

    async def claimed(self, **members: Any) -> dict[str, Any]:
        """The launch of a run that is claimed."""
        answer = await self.claims.post("/claims", json=claim_of(**members))
        launch: dict[str, Any] = answer.json()["launch"]
        assert launch is not None, answer.text
        return launch

    async def reported(self, launch: dict[str, Any], **members: Any) -> dict[str, Any]:
        """The answer to the report of a job's end."""
        path = f"/jobs/{launch['job_id']}/report"
        return ok(await self.claims.post(path, json=report_of(launch, **members)))


@contextlib.asynccontextmanager
async def counted_facade(
    migrated: str, home: Path, prefect: str = "http://127.0.0.1:9/api"
) -> AsyncIterator[tuple[CountedFacade, FastAPI]]:
    """A facade in this process over a copy of a ledger."""
    with (
        database("postgresql", home, migrated) as url,
        counted_database(url) as (reached, asked),
    ):
        settings = Settings(home=home, database_url=reached, prefect_api_url=prefect)
        create_key(settings.key_path)
        ledger = open_ledger(settings)
        start_workers(ledger)
        app = create_app(settings, ledger)
        transport = httpx.ASGITransport(app)

        def client(path: str, token: str) -> httpx.AsyncClient:
            signed_in = {"Authorization": f"Bearer {token}"}
            url = f"http://127.0.0.1{path}"
            return httpx.AsyncClient(base_url=url, headers=signed_in, transport=transport)

        async with (
            client("/api/v1", user_token(ledger)) as rest,
            client("/internal/v1", worker_token(ledger, "jobauto")) as claims,
        ):
            yield CountedFacade(settings, ledger, asked, rest, claims), app
        ledger.close()
