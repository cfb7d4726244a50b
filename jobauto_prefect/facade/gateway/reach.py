"""What of Prefect belongs to somebody's companies, or to a worker's pools."""

import asyncio
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, TypeVar
from urllib.parse import quote
from uuid import UUID

from jobauto_prefect.definitions import Definition, parse
from jobauto_prefect.engine.api import PrefectApi
from jobauto_prefect.errors import NotFound
from jobauto_prefect.facade.gateway.matching import is_uuid
from jobauto_prefect.facade.gateway.schemas import digest_of, digests_of
from jobauto_prefect.ledger import domains
from jobauto_prefect.ledger.domains import Domain
from jobauto_prefect.ledger.records import RunTemplate
from jobauto_prefect.ledger.store import Ledger, ReadingSession

T = TypeVar("T")

MOST_KNOWN = 20_000
"""Flow runs, and as many task runs, whose deployment this process remembers: it never changes."""

KEPT = timedelta(seconds=1)
"""How long this process relies on which deployments there are in a domain. Who may see a domain is
read anew for each request; a page of Prefect's asks some thirty times."""


PAGE = 200  # deployments that Prefect tells of at once


@dataclass(frozen=True, slots=True)
class Owner:
    """Whose a deployment is."""

    template_id: int
    company_id: int


class Holdings:
    """Answers whose something is, from the ledger and from Prefect."""

    def __init__(self, ledger: Ledger, prefect: PrefectApi, default_pool: str) -> None:
        self._ledger = ledger
        self._prefect = prefect
        self._default_pool = default_pool
        self._held: dict[Domain, tuple[datetime, set[str]]] = {}
        self._deployments = _Remembered()
        self._flow_runs = _Remembered()
        self._schemas: dict[str, frozenset[bytes]] = {}

    def domain(self, companies: frozenset[int] | None, pools: frozenset[str] | None) -> Domain:
        """What belongs to all of these companies and to all of these pools; None: any."""
        return Domain(companies, pools, self._default_pool)

    async def deployments(self, domain: Domain) -> set[str]:
        """The ids of the deployments in a domain, as they were a second ago at most."""
        now = self._ledger.clock()
        self._held = {one: kept for one, kept in self._held.items() if now - KEPT < kept[0] <= now}
        if domain not in self._held:
            held = await self._read(lambda session: domains.deployments(session, domain))
            self._held[domain] = now, held
        return self._held[domain][1]

    async def deployments_by_flow(self, domain: Domain) -> dict[str, int]:
        """Flow id -> how many deployments of it are in a domain."""
        return await self._read(lambda session: domains.deployments_by_flow(session, domain))

    async def pools(self, domain: Domain) -> set[str]:
        """The names of the work pools in a domain."""
        return await self._read(lambda session: domains.pools(session, domain))

    async def pool_ids(self, domain: Domain) -> set[str]:
        """Prefect's ids of the work pools of a domain that names its pools."""
        found = [await self._look(f"/work_pools/{one}") for one in domain.pools or ()]
        return {one["id"] for one in found if one}

    async def pool_of_queue(self, queue_id: str) -> str | None:
        """The name of the work pool of a work queue."""
        return (await self._look(f"/work_queues/{queue_id}")).get("work_pool_name")

    async def flows(self, domain: Domain) -> set[str]:
        """The ids of the flows of applications that may be seen in a domain."""
        return await self._read(lambda session: domains.flows(session, domain))

    async def has_flow(self, domain: Domain, flow_id: str) -> bool:
        """Whether a flow is one of an application that may be seen in a domain."""
        return await self._read(lambda session: domains.has_flow(session, domain, UUID(flow_id)))

    async def has_schema(self, domain: Domain, schema: Any) -> bool:
        """Whether a deployment in a domain has this schema of parameters."""
        wanted = digest_of(schema)
        allowed = sorted(await self.deployments(domain))
        if any(wanted in self._schemas.get(deployment, ()) for deployment in allowed):
            return True
        for start in range(0, len(allowed), PAGE):
            ids = allowed[start : start + PAGE]
            body = {"deployments": {"id": {"any_": ids}}, "limit": PAGE}
            page = await asyncio.create_task(self._prefect.post("/deployments/filter", body))
            known = {
                deployment["id"]: digests_of(deployment["parameter_openapi_schema"])
                for deployment in page
            }
            self._schemas |= known
            if any(wanted in digests for digests in known.values()):
                return True
        return False

    async def owner(self, deployment_id: str | None, domain: Domain) -> Owner | None:
        """Whose a deployment is; None: it is not in the domain."""
        if deployment_id is None or not is_uuid(deployment_id):
            return None
        found = await self._read(
            lambda session: domains.template_of(session, domain, UUID(deployment_id))
        )
        return Owner(*found) if found else None

    async def definition(self, template_id: int) -> Definition:
        """The definition of a run template's application."""
        return await self._read(
            lambda session: parse(session.get_one(RunTemplate, template_id).app.document)
        )

    async def deployment_of(self, flow_run_id: str | None) -> str | None:
        """The deployment of a flow run; None: it has none, or there is no such run."""
        path = "/flow_runs/{}"
        return await self._deployments.of(flow_run_id, self._look, path, "deployment_id")

    async def flow_run_of_task_run(self, task_run_id: str | None) -> str | None:
        """The flow run of a task run."""
        return await self._flow_runs.of(task_run_id, self._look, "/task_runs/{}", "flow_run_id")

    async def flow_run_of(self, path: str) -> str | None:
        """The flow run of the object at a path that does not change its run."""
        found = await self._look(path)
        return found.get("flow_run_id") or (found.get("state_details") or {}).get("flow_run_id")

    async def task_run_of(self, path: str) -> str | None:
        """The task run of the state at a path."""
        return ((await self._look(path)).get("state_details") or {}).get("task_run_id")

    async def deployment_named(self, path: str) -> str | None:
        """The id of the deployment at a path of names."""
        return (await self._look(path)).get("id")

    def learn(self, scheduled: Any) -> None:
        """Remember the deployments of the flow runs that a worker has just been told of."""
        for one in scheduled if isinstance(scheduled, list) else ():
            run = one.get("flow_run") or {}
            if run.get("deployment_id"):
                self._deployments.remember(run["id"], run["deployment_id"])

    async def current(self, path: str) -> dict[str, Any]:
        """The object at a path; empty where there is none."""
        return await self._look(path)

    async def _look(self, path: str) -> dict[str, Any]:
        try:
            # A task of its own: on SQLite Prefect counts its requests by their tasks, and that of
            # a socket is counted already.
            found = await asyncio.create_task(self._prefect.get(quote(path)))
        except NotFound:
            return {}
        return found if isinstance(found, dict) else {}

    async def _read(self, question: Callable[[ReadingSession], T]) -> T:
        def read() -> T:
            with self._ledger.reading() as session:
                return question(session)

        return await asyncio.to_thread(read)


class _Remembered:
    """A member of objects that never changes, by their id."""

    def __init__(self) -> None:
        self._known: OrderedDict[str, str] = OrderedDict()

    async def of(
        self, object_id: str | None, look: Callable[[str], Any], path: str, member: str
    ) -> str | None:
        if object_id is None or not is_uuid(object_id):
            return None
        known = self._known.get(object_id)
        if known is not None:
            self._known.move_to_end(object_id)
            return known
        value: str | None = (await look(path.format(object_id))).get(member)
        if value is not None:
            self.remember(object_id, value)
        return value

    def remember(self, object_id: str, value: str) -> None:
        self._known[object_id] = value
        if len(self._known) > MOST_KNOWN:
            self._known.popitem(last=False)
