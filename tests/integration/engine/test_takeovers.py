"""What is deleted while it is applied, or made again at once.

A real ledger, and a real Prefect that is slow.
"""

import asyncio
import time
from collections.abc import Callable, Iterator
from typing import Any
from uuid import uuid4

import httpx
import pytest

from jobauto_prefect.engine.api import PrefectApi
from jobauto_prefect.engine.context import EngineContext
from jobauto_prefect.engine.outbox_worker import OutboxWorker
from jobauto_prefect.ledger.audit.trail import SERVICE
from jobauto_prefect.ledger.records import App, EventRule, OutboxMessage, RunTemplate
from jobauto_prefect.ledger.store import Ledger
from jobauto_prefect.settings import Settings
from tests.support.definitions import PROBE
from tests.support.held_transport import HeldTransport
from tests.support.ledger_rows import fetch
from tests.support.records import ok, post
from tests.support.servers import client, facade, user_token
from tests.support.waits import until

BESIDE = 1.0
"""Seconds in which what is made again would take over what is being deleted."""


class Records:
    """An application with or without a run template; the facade that writes them has no Prefect."""

    def __init__(self, rest: httpx.Client) -> None:
        self._rest = rest
        self._name = uuid4().hex  # Prefect is shared with other tests
        post(rest, "/company/", slug=self._name, name=self._name)

    def app(self) -> int:
        document = PROBE | {"name": f"Again {self._name}", "uuid": str(uuid4())}
        return int(post(self._rest, "/app/", **document)["id"])

    def template(self, app_id: int) -> int:
        body: dict[str, Any] = {"app_id": app_id, "company": self._name, "name": "daily"}
        return int(post(self._rest, "/runtemplate/", **body)["id"])

    def rule(self, template_id: int) -> int:
        source = post(self._rest, "/eventsource/", name="changes", db_database="adapter")
        body = {"event_source_id": source["id"], "runtemplate_id": template_id}
        return int(post(self._rest, "/eventrule/", **body)["id"])

    def delete(self, kind: str, record_id: int) -> None:
        ok(self._rest.delete(f"/{kind}/{record_id}.json"))


@pytest.fixture
def records(facade_settings: Settings, ledger: Ledger) -> Iterator[Records]:
    with (
        facade(facade_settings, ledger) as url,
        client(f"{url}/api/v1", user_token(ledger)) as rest,
    ):
        yield Records(rest)


class Prefect:
    """Tells a real Prefect what waits in the outbox."""

    def __init__(self, ledger: Ledger, settings: Settings, url: str) -> None:
        self._ledger, self._settings, self._url = ledger, settings, url

    async def hear(self, transport: httpx.AsyncBaseTransport | None = None) -> None:
        """Be told everything."""
        async with PrefectApi(self._url, transport=transport) as api:
            while await asyncio.to_thread(self._bring_forward):
                await OutboxWorker(EngineContext(self._ledger, api, self._settings)).handle_all()

    def _bring_forward(self) -> bool:
        """Let what the facade put off be due; whether there is anything."""
        with self._ledger.writing(SERVICE) as session:
            waiting = session.query(OutboxMessage).all()
            for message in waiting:
                message.not_before, message.taken_until = message.created_at, None
        return bool(waiting)

    async def hear_while_it_is_slow_to_delete(self, path: str) -> None:
        """Be told everything; what is deleted below a path goes last."""
        await self._hear_beside("DELETE", path, lambda: time.sleep(BESIDE))

    async def hear_while_it_is_deleted(self, path: str, delete: Callable[[], None]) -> None:
        """Be told everything; what is made at a path is deleted meanwhile."""
        await self._hear_beside("POST", path, delete)

    async def _hear_beside(self, method: str, path: str, work: Callable[[], None]) -> None:
        """Be told everything; a request is held while something else is done."""
        transport = HeldTransport(method, path)
        telling = asyncio.create_task(self.hear(transport))
        await until(lambda: transport.held)
        await asyncio.to_thread(work)
        transport.go_on.set()
        await telling

    async def has(self, path: str, object_id: object) -> bool:
        async with PrefectApi(self._url) as api:
            return await api.get_or_none(f"/{path}/{object_id}") is not None


@pytest.fixture
def prefect_beside(ledger: Ledger, facade_settings: Settings, prefect_server: str) -> Prefect:
    return Prefect(ledger, facade_settings, prefect_server)


async def test_an_application_that_is_made_again_at_once_has_a_flow(
    records: Records, prefect_beside: Prefect, ledger: Ledger
) -> None:
    first = await asyncio.to_thread(records.app)
    await prefect_beside.hear()
    await asyncio.to_thread(records.delete, "app", first)
    second = await asyncio.to_thread(records.app)
    await prefect_beside.hear_while_it_is_slow_to_delete("/api/flows/.*")
    flow_id = fetch(ledger, App, second).flow_id
    assert await prefect_beside.has("flows", flow_id)


async def test_a_run_template_that_is_made_again_at_once_has_a_deployment(
    records: Records, prefect_beside: Prefect, ledger: Ledger
) -> None:
    app = await asyncio.to_thread(records.app)
    first = await asyncio.to_thread(records.template, app)
    await prefect_beside.hear()
    await asyncio.to_thread(records.delete, "runtemplate", first)
    second = await asyncio.to_thread(records.template, app)
    await prefect_beside.hear_while_it_is_slow_to_delete("/api/deployments/.*")
    deployment_id = fetch(ledger, RunTemplate, second).deployment_id
    assert await prefect_beside.has("deployments", deployment_id)


async def test_a_run_template_that_is_deleted_while_it_is_applied_leaves_no_deployment(
    records: Records, prefect_beside: Prefect, ledger: Ledger
) -> None:
    template = await asyncio.to_thread(records.template, await asyncio.to_thread(records.app))
    await prefect_beside.hear_while_it_is_deleted(
        "/api/deployments/", lambda: records.delete("runtemplate", template)
    )
    deployment_id = fetch(ledger, RunTemplate, template).deployment_id
    assert deployment_id is not None
    assert not await prefect_beside.has("deployments", deployment_id)


async def test_a_rule_that_is_deleted_while_it_is_applied_leaves_no_automation(
    records: Records, prefect_beside: Prefect, ledger: Ledger
) -> None:
    template = await asyncio.to_thread(records.template, await asyncio.to_thread(records.app))
    await prefect_beside.hear()
    rule = await asyncio.to_thread(records.rule, template)
    await prefect_beside.hear_while_it_is_deleted(
        "/api/automations/", lambda: records.delete("eventrule", rule)
    )
    automation_id = fetch(ledger, EventRule, rule).automation_id
    assert automation_id is not None
    assert not await prefect_beside.has("automations", automation_id)
