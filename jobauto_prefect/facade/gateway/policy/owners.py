"""Which of Prefect's objects belong to an access scope: to companies, or to a worker's pools.

A parameter schema belongs to the deployments that have it: Prefect's newer pages send it unchanged,
the older ones leave out what they do not know, and check single values against the property alone,
under another name.
"""

import asyncio
import hashlib
import itertools
import json
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Concatenate, ParamSpec, TypeVar
from urllib.parse import quote
from uuid import UUID

from slugify import slugify

from jobauto_prefect.compiler.plan import template_in
from jobauto_prefect.definitions import Definition
from jobauto_prefect.engine.api import PrefectApi
from jobauto_prefect.errors import NotFound, Unavailable
from jobauto_prefect.facade.gateway.route_lookup import is_uuid
from jobauto_prefect.ledger.access import access_scope
from jobauto_prefect.ledger.access.access_scope import AccessScope
from jobauto_prefect.ledger.jobs.flow_runs import is_being_registered
from jobauto_prefect.ledger.records import RunTemplate
from jobauto_prefect.ledger.store import Ledger, ReadingSession

P = ParamSpec("P")
T = TypeVar("T")

MAX_CACHED = 20_000
"""Maximum flow runs, and task runs, whose deployment is cached: it never changes."""

CACHE_TIME = timedelta(seconds=1)
"""How long a scope's deployments are cached: one Prefect page requests them some thirty times. Who
may see a scope is read again for each request."""

PAGE = 200  # deployments, or workers, in one response from Prefect

LOOKS, LOOK_SECONDS = 10, 0.5
"""Attempts, and seconds between them, to find a worker that Prefect does not list: its first event
may come before its first heartbeat."""


@dataclass(frozen=True, slots=True)
class Owner:
    """The run template and the company of a deployment."""

    template_id: int
    company_id: int


class Ownership:
    """Looks up what belongs to a scope, in the ledger and in Prefect."""

    def __init__(self, ledger: Ledger, prefect: PrefectApi, default_pool: str) -> None:
        self._ledger = ledger
        self._prefect = prefect
        self._default_pool = default_pool
        self._scopes: dict[AccessScope, tuple[datetime, set[str]]] = {}
        self._deployments = _IdCache()
        self._flow_runs = _IdCache()
        self._schemas: dict[str, frozenset[bytes]] = {}

    def scope(self, companies: frozenset[int] | None, pools: frozenset[str] | None) -> AccessScope:
        """Make the scope of these companies and these pools; None means any."""
        return AccessScope(companies, pools, self._default_pool)

    async def deployments(self, scope: AccessScope) -> set[str]:
        """List the ids of the deployments in a scope, cached for a second."""
        now = self._ledger.clock()
        self._scopes = {
            cached: (read_at, ids)
            for cached, (read_at, ids) in self._scopes.items()
            if now - CACHE_TIME < read_at <= now
        }
        if scope not in self._scopes:
            ids = await self._read(access_scope.deployments, scope)
            self._scopes[scope] = now, ids
        return self._scopes[scope][1]

    async def deployments_by_flow(self, scope: AccessScope) -> dict[str, int]:
        """Count the deployments of each flow in a scope, by the flow's id."""
        return await self._read(access_scope.deployments_by_flow, scope)

    async def pools(self, scope: AccessScope) -> set[str]:
        """List the names of the work pools in a scope."""
        return await self._read(access_scope.pools, scope)

    async def pool_ids(self, scope: AccessScope) -> set[str]:
        """List Prefect's ids of the work pools of a scope that names its pools."""
        pools = [await self.fetch(f"/work_pools/{name}") for name in scope.pools or ()]
        return {pool["id"] for pool in pools if pool}

    async def pool_of_queue(self, queue_id: str) -> str | None:
        """Find the name of a work queue's pool; None if there is no such queue."""
        return (await self.fetch(f"/work_queues/{queue_id}")).get("work_pool_name")

    async def has_worker(self, scope: AccessScope, resource_id: str) -> bool:
        """Whether this resource of an event is a worker of the scope's pools."""
        slug = resource_id.rpartition(".")[2]
        for _ in range(LOOKS):
            names = await self._read(access_scope.worker_names, scope)
            if slug in map(slugify, names) or slug in await self._listed_workers(scope):
                return True
            await asyncio.sleep(LOOK_SECONDS)
        return False

    async def _listed_workers(self, scope: AccessScope) -> set[str]:
        """List the workers of a scope's pools that Prefect knows, by the names in their events."""
        slugs: set[str] = set()
        for pool in scope.pools or ():
            path = f"/work_pools/{quote(pool, safe='')}/workers/filter"
            for offset in itertools.count(0, PAGE):
                body = {"limit": PAGE, "offset": offset}
                try:
                    workers = await asyncio.create_task(self._prefect.post(path, body))
                except NotFound:
                    break
                slugs |= {slugify(worker["name"]) for worker in workers}
                if len(workers) < PAGE:
                    break
        return slugs

    async def flows(self, scope: AccessScope) -> set[str]:
        """List the ids of the flows of applications that may be seen in a scope."""
        return await self._read(access_scope.flows, scope)

    async def has_flow(self, scope: AccessScope, flow_id: str) -> bool:
        """Whether a flow is one of an application that may be seen in a scope."""
        return await self._read(access_scope.has_flow, scope, UUID(flow_id))

    async def has_schema(self, scope: AccessScope, schema: Any) -> bool:
        """Whether a deployment in a scope has this schema of parameters."""
        digest = digest_of(schema)
        allowed = sorted(await self.deployments(scope))
        if any(digest in self._schemas.get(deployment, ()) for deployment in allowed):
            return True
        for start in range(0, len(allowed), PAGE):
            ids = allowed[start : start + PAGE]
            body = {"deployments": {"id": {"any_": ids}}, "limit": PAGE}
            page = await asyncio.create_task(self._prefect.post("/deployments/filter", body))
            page_digests = {
                deployment["id"]: digests_of(deployment["parameter_openapi_schema"])
                for deployment in page
            }
            self._schemas |= page_digests
            if any(digest in digests for digests in page_digests.values()):
                return True
        return False

    async def owner(self, deployment_id: str | None, scope: AccessScope) -> Owner | None:
        """Find the owner of a deployment; None if it is not in the scope."""
        if deployment_id is None or not is_uuid(deployment_id):
            return None
        ids = await self._read(access_scope.template_of, scope, UUID(deployment_id))
        return Owner(*ids) if ids else None

    async def definition(self, template_id: int) -> Definition:
        """Read the definition of a run template's application."""
        return await self._read(
            lambda session: session.get_one(RunTemplate, template_id).app.definition
        )

    async def deployment_of(self, flow_run_id: str | None) -> str | None:
        """Find the deployment of a flow run; None where there is no run, or it has none."""
        path = "/flow_runs/{}"
        return await self._deployments.find(flow_run_id, self.fetch, path, "deployment_id")

    async def stray_run(self, flow_run_id: str, pools: Collection[str]) -> str | None:
        """Find what a flow run in one of these work pools is of that is no run template's.

        Returns:
            Its deployment's id, or the name of its work pool; None where it is a run template's,
            or in no such pool.

        Raises:
            Unavailable: it may be a run template's, which the ledger is still to note.
        """
        run = await self.fetch(f"/flow_runs/{flow_run_id}")
        pool, deployment_id = run.get("work_pool_name"), run.get("deployment_id")
        template_id = template_in(run.get("labels") or {})
        if pool not in pools:
            return None
        if template_id is not None and await self._read(is_being_registered, template_id):
            message = f"run template {template_id} is being registered; ask again in a moment"
            raise Unavailable(message)
        if await self.owner(deployment_id, self.scope(None, None)):
            return None
        return deployment_id or f"work pool {pool}"

    async def flow_run_of_task_run(self, task_run_id: str | None) -> str | None:
        """Find the flow run of a task run; None if the task run is unknown or has none."""
        return await self._flow_runs.find(task_run_id, self.fetch, "/task_runs/{}", "flow_run_id")

    async def flow_run_of(self, path: str) -> str | None:
        """Find the flow run of the object at a path, or None; it never changes."""
        value = await self.fetch(path)
        return value.get("flow_run_id") or (value.get("state_details") or {}).get("flow_run_id")

    async def task_run_of(self, path: str) -> str | None:
        """Find the task run of the state at a path; None if it has none."""
        return ((await self.fetch(path)).get("state_details") or {}).get("task_run_id")

    async def find_deployment(self, path: str) -> str | None:
        """Find the id of the deployment at a path of names; None if there is no such deployment."""
        return (await self.fetch(path)).get("id")

    def remember_scheduled(self, scheduled: Any) -> None:
        """Cache the deployments of the flow runs in a response to a worker's poll."""
        for item in scheduled if isinstance(scheduled, list) else ():
            run = item.get("flow_run") or {}
            if run.get("deployment_id"):
                self._deployments.remember(run["id"], run["deployment_id"])

    def remember_created(self, created: Any, deployment_id: str | None = None) -> None:
        """Cache the deployments of the flow runs that a request created.

        The response to a bulk request names no deployment: `deployment_id` is that of all its runs.
        If one of them was not created, Prefect may have none of them.
        """
        if not isinstance(created, dict):
            return
        if created.get("id") and created.get("deployment_id"):
            self._deployments.remember(created["id"], created["deployment_id"])
        results = created.get("results") or []
        if deployment_id and all(result["status"] == "CREATED" for result in results):
            for result in results:
                self._deployments.remember(result["flow_run_id"], deployment_id)

    async def fetch(self, path: str) -> dict[str, Any]:
        """Fetch the object at a path; empty if there is no such object."""
        try:
            # In a separate task: on SQLite Prefect counts its requests by task, and a socket's task
            # is counted already.
            value = await asyncio.create_task(self._prefect.get(quote(path)))
        except NotFound:
            return {}
        return value if isinstance(value, dict) else {}

    async def _read(
        self, query: Callable[Concatenate[ReadingSession, P], T], *args: P.args, **named: P.kwargs
    ) -> T:
        def read() -> T:
            with self._ledger.reading() as session:
                return query(session, *args, **named)

        return await asyncio.to_thread(read)


class _IdCache:
    """LRU cache, by object id, of a field that never changes."""

    def __init__(self) -> None:
        self._values: OrderedDict[str, str] = OrderedDict()

    async def find(
        self, object_id: str | None, fetch: Callable[[str], Any], path: str, field: str
    ) -> str | None:
        if object_id is None or not is_uuid(object_id):
            return None
        cached = self._values.get(object_id)
        if cached is not None:
            self._values.move_to_end(object_id)
            return cached
        value: str | None = (await fetch(path.format(object_id))).get(field)
        if value is not None:
            self.remember(object_id, value)
        return value

    def remember(self, object_id: str, value: str) -> None:
        self._values[object_id] = value
        if len(self._values) > MAX_CACHED:
            self._values.popitem(last=False)


REPEATED = frozenset(
    {
        "definitions", "position", "block_type_slug", "$ref", "anyOf", "allOf", "example",
        "default", "const", "description", "enum", "format", "items", "prefixItems",
        "properties", "required", "title", "type", "maxItems", "minItems",
    }
)  # fmt: skip
"""Schema keywords that the older pages send back."""

PROPERTY_KEYS = frozenset({"definitions", "properties"})
"""Keywords of the schema with which they check a single property."""


def digests_of(schema: Any) -> frozenset[bytes]:
    """Digest all forms in which pages send a deployment's schema."""
    return frozenset(map(_digest, _forms(schema)))


def digest_of(schema: Any) -> bytes:
    """Digest the form in which a page sent a schema."""
    properties = schema.get("properties") if isinstance(schema, dict) else None
    if not isinstance(properties, dict) or len(properties) != 1 or set(schema) - PROPERTY_KEYS:
        return _digest(schema)
    return _digest(schema | {"properties": {"": next(iter(properties.values()))}})


def _forms(schema: Any) -> Iterator[Any]:
    yield schema
    if not isinstance(schema, dict):
        return
    repeated = _repeated(schema)
    yield repeated
    definitions = {"definitions": repeated["definitions"]} if "definitions" in repeated else {}
    for value in repeated.get("properties", {}).values():
        yield definitions | {"properties": {"": value}}


def _repeated(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Reduce a schema to the part that the older pages send back."""
    kept = {name: value for name, value in schema.items() if name in REPEATED}
    for name in PROPERTY_KEYS & kept.keys():
        if isinstance(kept[name], dict):
            kept[name] = {
                key: _repeated(inner) if isinstance(inner, dict) else inner
                for key, inner in kept[name].items()
            }
    return kept


def _digest(value: Any) -> bytes:
    """Hash a value; the order of its keys does not matter."""
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).digest()
