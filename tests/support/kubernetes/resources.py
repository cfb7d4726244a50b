"""An API server for resources: create, get, list, watch, patch and delete, over HTTP."""

import asyncio
import itertools
import json
import re
import threading
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Self

from aiohttp import web

from tests.support.kubernetes.faults import FAULT, Fault, Refused, cut, lines_until_cut
from tests.support.kubernetes.pods import nanoseconds

TOKEN = "the-clusters-token"
SECRET_KEY = re.compile(r"[-._a-zA-Z0-9]+")


@dataclass
class Store:
    """All objects, and what happened to them."""

    objects: dict[tuple[str, str, str], dict[str, Any]] = field(default_factory=dict)
    history: list[tuple[int, str, str, dict[str, Any]]] = field(default_factory=list)
    version: Iterator[int] = field(default_factory=lambda: itertools.count(1))
    last: int = 0
    oldest: int = 0  # watches from before get 410


class ResourceServer:
    """Keeps resources; start it with `with`. `requests` are (method, path with query)."""

    def __init__(self, namespaces: tuple[str, ...] = ("default",)) -> None:
        self.namespaces = set(namespaces)
        self.store = Store()
        self.faults: list[Fault] = []
        self.requests: list[tuple[str, str]] = []
        self.events: list[dict[str, Any]] = []
        self.made: list[dict[str, Any]] = []  # everything that was to be created, as it came
        self.port = 0
        self._tasks: set[asyncio.Task[Any]] = set()
        self._ready = threading.Event()

    # the server's life

    def __enter__(self) -> Self:
        self._thread = threading.Thread(target=lambda: asyncio.run(self._serve()), daemon=True)
        self._thread.start()
        self._ready.wait(30)
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._closing.set)
        self._thread.join(30)

    async def _serve(self) -> None:
        self._loop, self._closing = asyncio.get_running_loop(), asyncio.Event()
        self._changed = asyncio.Condition()
        app = web.Application(middlewares=[self._troubled], client_max_size=8 << 20)
        jobs = "/apis/batch/v1/namespaces/{ns}/{kind:jobs}"
        core = "/api/v1/namespaces/{ns}/{kind:pods|secrets|events}"
        for path in (jobs, core):
            app.router.add_get(path, self._list)
            app.router.add_post(path, self._create)
            app.router.add_get(path + "/{name}", self._get)
            app.router.add_patch(path + "/{name}", self._patch)
            app.router.add_delete(path + "/{name}", self._delete)
        app.router.add_routes(self._further_routes())
        runner = web.AppRunner(app, shutdown_timeout=0.1)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", self.port)
        await site.start()
        self.port = site._server.sockets[0].getsockname()[1]  # type: ignore[union-attr]
        self._ready.set()
        await self._closing.wait()
        await self._close()
        await runner.cleanup()

    # faults

    @web.middleware
    async def _troubled(self, request: web.Request, handler: Any) -> web.StreamResponse:
        self.requests.append((request.method, request.path_qs))
        fault = self._fault(request)
        request[FAULT] = fault
        if fault is not None and fault.status:
            headers = {} if fault.retry_after is None else {"Retry-After": str(fault.retry_after)}
            body = Refused(fault.status, fault.reason or "Trouble", "planned trouble").status()
            return web.json_response(body, status=fault.status, headers=headers)
        if fault is not None and fault.lines is None and not fault.after:
            return cut(request)
        if request.headers.get("Authorization") != f"Bearer {TOKEN}":
            body = Refused(401, "Unauthorized", "Unauthorized").status()
            return web.json_response(body, status=401)
        try:
            response: web.StreamResponse = await handler(request)
        except Refused as refused:
            return web.json_response(refused.status(), status=refused.code)
        except ConnectionResetError:  # whoever asked has gone
            return web.Response()
        return cut(request) if fault is not None and fault.after else response

    def _fault(self, request: web.Request) -> Fault | None:
        for fault in self.faults:
            if fault.times > 0 and fault.meets(request):
                fault.times -= 1
                return fault
        return None

    # resources

    def objects(self, kind: str) -> list[dict[str, Any]]:
        """What there is of a kind."""
        return [resource for (of, _, _), resource in self.store.objects.items() if of == kind]

    def _key(self, request: web.Request) -> tuple[str, str, str]:
        namespace = request.match_info["ns"]
        if namespace not in self.namespaces:
            raise Refused(404, "NotFound", f'namespaces "{namespace}" not found')
        return request.match_info["kind"], namespace, request.match_info.get("name", "")

    def _found(self, key: tuple[str, str, str]) -> dict[str, Any]:
        if key not in self.store.objects:
            raise Refused(404, "NotFound", f'{key[0]} "{key[2]}" not found')
        return self.store.objects[key]

    def _put(self, kind: str, what: str, resource: dict[str, Any]) -> None:
        self.store.last = next(self.store.version)
        resource["metadata"]["resourceVersion"] = str(self.store.last)
        key = kind, resource["metadata"]["namespace"], resource["metadata"]["name"]
        if what == "DELETED":
            self.store.objects.pop(key, None)
        else:
            self.store.objects[key] = resource
        snapshot = json.loads(json.dumps(resource))
        self.store.history.append((self.store.last, what, kind, snapshot))
        self._spawn(self._notify())

    async def _notify(self) -> None:
        async with self._changed:
            self._changed.notify_all()

    def _spawn(self, work: Any) -> None:
        task = self._loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _create(self, request: web.Request) -> web.Response:
        kind, namespace, _ = self._key(request)
        resource = await request.json()
        self.made.append(json.loads(json.dumps(resource)))
        name = resource["metadata"]["name"]
        if (kind, namespace, name) in self.store.objects:
            raise Refused(409, "AlreadyExists", f'{kind} "{name}" already exists')
        for key in resource.get("data", {}):
            if not SECRET_KEY.fullmatch(key):
                raise Refused(422, "Invalid", f"a valid config key must not be {key!r}")
        resource["metadata"] |= {
            "namespace": namespace,
            "uid": str(uuid.uuid4()),
            "creationTimestamp": nanoseconds(),
        }
        self._put(kind, "ADDED", resource)
        if kind == "jobs" and not resource["spec"].get("suspend"):
            self._control(resource)
        return web.json_response(resource, status=201)

    async def _get(self, request: web.Request) -> web.Response:
        return web.json_response(self._found(self._key(request)))

    async def _patch(self, request: web.Request) -> web.Response:
        if request.content_type != "application/merge-patch+json":
            raise Refused(415, "UnsupportedMediaType", request.content_type)
        kind, *_ = key = self._key(request)
        resource = self._found(key)
        was_suspended = resource["spec"].get("suspend")
        resource["spec"] |= (await request.json())["spec"]
        self._put(kind, "MODIFIED", resource)
        if kind == "jobs" and was_suspended and not resource["spec"]["suspend"]:
            self._control(resource)
        return web.json_response(resource)

    async def _delete(self, request: web.Request) -> web.Response:
        kind, *_ = key = self._key(request)
        resource = self._found(key)
        options = await request.json() if request.can_read_body else {}
        if kind == "jobs":
            if options.get("propagationPolicy") != "Foreground":
                raise Refused(400, "BadRequest", "this simulation deletes in the foreground only")
            if "deletionTimestamp" not in resource["metadata"]:
                resource["metadata"]["deletionTimestamp"] = nanoseconds()
                self._put(kind, "MODIFIED", resource)
                self._spawn(self._delete_job(resource))
        elif kind == "pods":
            self._spawn(self._end_pod(resource, options.get("gracePeriodSeconds")))
        return web.json_response(resource)

    # the list and the watch

    async def _list(self, request: web.Request) -> web.StreamResponse:
        kind, namespace, _ = self._key(request)
        chosen = _selector(request)
        if request.query.get("watch") == "true":
            return await self._watch(request, kind, namespace, chosen)
        if kind == "events":
            items = [resource for resource in self.events if chosen(resource)]
        else:
            items = [
                resource
                for (of, where, _), resource in self.store.objects.items()
                if (of, where) == (kind, namespace) and chosen(resource)
            ]
        body = {"items": items, "metadata": {"resourceVersion": str(self.store.last)}}
        return web.json_response(body)

    async def _watch(
        self, request: web.Request, kind: str, namespace: str, chosen: Callable[[Any], bool]
    ) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        await response.prepare(request)
        version = int(request.query["resourceVersion"])
        if version < self.store.oldest:
            gone = Refused(410, "Expired", "too old resource version").status()
            await _write(response, {"type": "ERROR", "object": gone})
            return response
        left = lines_until_cut(request)
        while True:
            for at, what, of, resource in list(self.store.history):
                mine = (
                    of == kind
                    and resource["metadata"]["namespace"] == namespace
                    and chosen(resource)
                )
                if at <= version:
                    continue
                version = at
                if not mine:
                    continue
                if left == 0:
                    half = json.dumps({"type": what, "object": resource})[:50]
                    await response.write(half.encode())
                    return cut(request)
                left = None if left is None else left - 1
                await _write(response, {"type": what, "object": resource})
            async with self._changed:
                if self.store.last <= version:
                    await self._changed.wait()

    # what a cluster does with them

    def _further_routes(self) -> list[web.RouteDef]:
        """Those of the logs and programs of pods."""
        raise NotImplementedError

    async def _close(self) -> None:
        """End what runs."""
        raise NotImplementedError

    def _control(self, job: dict[str, Any]) -> None:
        """What the Job controller does."""
        raise NotImplementedError

    async def _delete_job(self, job: dict[str, Any]) -> None:
        """A Job goes, after all that it owns."""
        raise NotImplementedError

    async def _end_pod(self, manifest: dict[str, Any], grace_seconds: float | None) -> None:
        """A pod ends and goes."""
        raise NotImplementedError


async def _write(response: web.StreamResponse, event: dict[str, Any]) -> None:
    await response.write(json.dumps(event).encode() + b"\n")


def _selector(request: web.Request) -> Callable[[dict[str, Any]], bool]:
    labels = [
        pair.split("=", 1) for pair in request.query.get("labelSelector", "").split(",") if pair
    ]
    about = request.query.get("fieldSelector", "").removeprefix("involvedObject.name=")

    def chosen(resource: dict[str, Any]) -> bool:
        has = resource["metadata"].get("labels", {})
        if about and resource.get("involvedObject", {}).get("name") != about:
            return False
        return all(has.get(name) == value for name, value in labels)

    return chosen
