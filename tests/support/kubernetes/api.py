"""A simulated Kubernetes API server, over real HTTP on the loopback interface.

It speaks the wire protocol of the calls that are used: create, get, list, merge patch and delete
(with propagation policy and grace period) of Jobs, Pods and Secrets, lists of Events, watches as
lines of JSON with resource versions, logs that are followed, exec over a websocket
(`v4.channel.k8s.io`). A controller makes the pod of a Job that is not suspended, a node runs it,
owned objects go with their owner.

Its limits: one node, one namespace controller, no admission, no validation but of what is used
here. The containers of a pod are processes of this machine without a file system of their own:
paths below a mount are replaced where they appear in command and environment, everything else is
the machine's. Resources, users and labels of nodes are not enforced. A pod that has ended stays
until its Job is deleted. Times to live are not.

Faults can be planned: see `Fault`.
"""

import asyncio
import contextlib
import itertools
import json
import re
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from aiohttp import web

from tests.support.kubernetes.pods import Container, Pod, nanoseconds

TOKEN = "the-clusters-token"
FAULT = web.RequestKey("fault", object)
SECRET_KEY = re.compile(r"[-._a-zA-Z0-9]+")


@dataclass
class Fault:
    """What goes wrong with the next `times` requests of a method to paths that match.

    With a `status` that is the answer; else the connection is cut: before the request is carried
    out, `after` it, or, of a stream, after so many `lines`.
    """

    method: str
    path: str
    status: int = 0
    times: int = 1
    reason: str = ""
    after: bool = False
    lines: int | None = None
    retry_after: int | None = None

    def meets(self, request: web.Request) -> bool:
        return self.method == request.method and re.search(self.path, request.path_qs) is not None


@dataclass
class Node:
    """What the cluster does with pods."""

    schedulable: bool = True
    quota: int | None = None  # pods
    images: set[str] | None = None  # that can be pulled; None: all


@dataclass
class Store:
    """All objects, and what happened to them."""

    objects: dict[tuple[str, str, str], dict[str, Any]] = field(default_factory=dict)
    history: list[tuple[int, str, str, dict[str, Any]]] = field(default_factory=list)
    version: Iterator[int] = field(default_factory=lambda: itertools.count(1))
    last: int = 0
    oldest: int = 0  # watches from before get 410


class Refused(Exception):
    def __init__(self, code: int, reason: str, message: str) -> None:
        super().__init__(message)
        self.code, self.reason = code, reason

    def status(self) -> dict[str, Any]:
        return {
            "kind": "Status",
            "status": "Failure",
            "message": str(self),
            "reason": self.reason,
            "code": self.code,
        }


class SimulatedCluster:
    """Start it with `with`; `requests` are (method, path with query)."""

    def __init__(self, namespaces: tuple[str, ...] = ("default",)) -> None:
        self.namespaces = set(namespaces)
        self.store = Store()
        self.node = Node()
        self.faults: list[Fault] = []
        self.requests: list[tuple[str, str]] = []
        self.pods: dict[str, Pod] = {}
        self.events: list[dict[str, Any]] = []
        self.made: list[dict[str, Any]] = []  # everything that was to be created, as it came
        self.ran: list[str] = []  # every pod that ever was
        self.roots: list[Path] = []  # their volumes
        self.port = 0
        self._tasks: set[asyncio.Task[Any]] = set()
        self._ready = threading.Event()

    # the server's life

    def __enter__(self) -> "SimulatedCluster":
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
        app.router.add_get("/api/v1/namespaces/{ns}/pods/{name}/log", self._log)
        app.router.add_get("/api/v1/namespaces/{ns}/pods/{name}/exec", self._exec)
        runner = web.AppRunner(app, shutdown_timeout=0.1)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", self.port)
        await site.start()
        self.port = site._server.sockets[0].getsockname()[1]  # type: ignore[union-attr]
        self._ready.set()
        await self._closing.wait()
        for pod in list(self.pods.values()):
            await pod.end(0)
            pod.forget()
        await runner.cleanup()

    def kubeconfig(self, path: Path, namespace: str = "default", **other: Any) -> Path:
        """Write the configuration of a client."""
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "here",
            "clusters": [
                {
                    "name": "sim",
                    "cluster": {"server": f"http://127.0.0.1:{other.get('port', self.port)}"},
                }
            ],
            "users": [{"name": "me", "user": {"token": other.get("token", TOKEN)}}],
            "contexts": [
                {
                    "name": "here",
                    "context": {"cluster": "sim", "user": "me", "namespace": namespace},
                }
            ],
        }
        path.write_text(json.dumps(config))
        return path

    def do(self, work: Callable[[], Any]) -> None:
        """Carry something out in the cluster."""
        done = threading.Event()
        self._loop.call_soon_threadsafe(lambda: (work(), done.set()))
        done.wait(10)

    def objects(self, kind: str) -> list[dict[str, Any]]:
        """What there is of a kind."""
        return [one for (found, _, _), one in self.store.objects.items() if found == kind]

    def is_empty(self) -> bool:
        """Whether all that was to be deleted is gone, which takes a moment."""
        end = time.monotonic() + 10
        while self.store.objects and time.monotonic() < end:
            time.sleep(0.05)
        return not self.store.objects

    def posts(self) -> list[tuple[str, str]]:
        """Kind and namespace of all that was to be created."""
        found = [
            re.findall(r"namespaces/([^/]+)/(\w+)", path)
            for how, path in self.requests
            if how == "POST"
        ]
        return [(kind, namespace) for ((namespace, kind),) in found]

    @property
    def pod(self) -> Pod:
        """The only one."""
        (pod,) = self.pods.values()
        return pod

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
            return self._cut(request)
        if request.headers.get("Authorization") != f"Bearer {TOKEN}":
            body = Refused(401, "Unauthorized", "Unauthorized").status()
            return web.json_response(body, status=401)
        try:
            response: web.StreamResponse = await handler(request)
        except Refused as refused:
            return web.json_response(refused.status(), status=refused.code)
        except ConnectionResetError:  # whoever asked has gone
            return web.Response()
        return self._cut(request) if fault is not None and fault.after else response

    def _fault(self, request: web.Request) -> Fault | None:
        for fault in self.faults:
            if fault.times > 0 and fault.meets(request):
                fault.times -= 1
                return fault
        return None

    @staticmethod
    def _cut(request: web.Request) -> web.Response:
        if request.transport is not None:
            request.transport.abort()
        return web.Response()

    # objects

    def _key(self, request: web.Request) -> tuple[str, str, str]:
        namespace = request.match_info["ns"]
        if namespace not in self.namespaces:
            raise Refused(404, "NotFound", f'namespaces "{namespace}" not found')
        return request.match_info["kind"], namespace, request.match_info.get("name", "")

    def _found(self, key: tuple[str, str, str]) -> dict[str, Any]:
        if key not in self.store.objects:
            raise Refused(404, "NotFound", f'{key[0]} "{key[2]}" not found')
        return self.store.objects[key]

    def _put(self, kind: str, what: str, one: dict[str, Any]) -> None:
        self.store.last = next(self.store.version)
        one["metadata"]["resourceVersion"] = str(self.store.last)
        key = kind, one["metadata"]["namespace"], one["metadata"]["name"]
        if what == "DELETED":
            self.store.objects.pop(key, None)
        else:
            self.store.objects[key] = one
        snapshot = json.loads(json.dumps(one))
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
        one = await request.json()
        self.made.append(json.loads(json.dumps(one)))
        name = one["metadata"]["name"]
        if (kind, namespace, name) in self.store.objects:
            raise Refused(409, "AlreadyExists", f'{kind} "{name}" already exists')
        for key in one.get("data", {}):
            if not SECRET_KEY.fullmatch(key):
                raise Refused(422, "Invalid", f"a valid config key must not be {key!r}")
        one["metadata"] |= {
            "namespace": namespace,
            "uid": str(uuid.uuid4()),
            "creationTimestamp": nanoseconds(),
        }
        self._put(kind, "ADDED", one)
        if kind == "jobs" and not one["spec"].get("suspend"):
            self._control(one)
        return web.json_response(one, status=201)

    async def _get(self, request: web.Request) -> web.Response:
        return web.json_response(self._found(self._key(request)))

    async def _patch(self, request: web.Request) -> web.Response:
        if request.content_type != "application/merge-patch+json":
            raise Refused(415, "UnsupportedMediaType", request.content_type)
        kind, *_ = key = self._key(request)
        one = self._found(key)
        was_suspended = one["spec"].get("suspend")
        one["spec"] |= (await request.json())["spec"]
        self._put(kind, "MODIFIED", one)
        if kind == "jobs" and was_suspended and not one["spec"]["suspend"]:
            self._control(one)
        return web.json_response(one)

    async def _delete(self, request: web.Request) -> web.Response:
        kind, *_ = key = self._key(request)
        one = self._found(key)
        options = await request.json() if request.can_read_body else {}
        if kind == "jobs":
            if options.get("propagationPolicy") != "Foreground":
                raise Refused(400, "BadRequest", "this simulation deletes in the foreground only")
            if "deletionTimestamp" not in one["metadata"]:
                one["metadata"]["deletionTimestamp"] = nanoseconds()
                self._put(kind, "MODIFIED", one)
                self._spawn(self._delete_job(one))
        elif kind == "pods":
            self._spawn(self._end_pod(one, options.get("gracePeriodSeconds")))
        return web.json_response(one)

    async def _delete_job(self, job: dict[str, Any]) -> None:
        for pod in [one for one in self.objects("pods") if _is_owned(one, job)]:
            await self._end_pod(pod, None)
        for secret in [one for one in self.objects("secrets") if _is_owned(one, job)]:
            self._put("secrets", "DELETED", secret)
        self._put("jobs", "DELETED", job)

    # the list and the watch

    async def _list(self, request: web.Request) -> web.StreamResponse:
        kind, namespace, _ = self._key(request)
        chosen = _selector(request)
        if request.query.get("watch") == "true":
            return await self._watch(request, kind, namespace, chosen)
        if kind == "events":
            items = [one for one in self.events if chosen(one)]
        else:
            items = [
                one
                for (found, where, _), one in self.store.objects.items()
                if (found, where) == (kind, namespace) and chosen(one)
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
        left = _lines(request)
        while True:
            for at, what, of, one in list(self.store.history):
                mine = of == kind and one["metadata"]["namespace"] == namespace and chosen(one)
                if at <= version:
                    continue
                version = at
                if not mine:
                    continue
                if left == 0:
                    half = json.dumps({"type": what, "object": one})[:50]
                    await response.write(half.encode())
                    return self._cut(request)
                left = None if left is None else left - 1
                await _write(response, {"type": what, "object": one})
            async with self._changed:
                if self.store.last <= version:
                    await self._changed.wait()

    # pods

    def _control(self, job: dict[str, Any]) -> None:
        """What the Job controller does."""
        metadata = job["metadata"]
        if self.node.quota is not None and len(self.pods) >= self.node.quota:
            said = f'pods "{metadata["name"]}-x" is forbidden: exceeded quota: pods'
            self._tell(metadata["name"], "FailedCreate", said)
            return
        name = f"{metadata['name']}-{uuid.uuid4().hex[:5]}"
        one = {
            "kind": "Pod",
            "metadata": {
                "name": name,
                "namespace": metadata["namespace"],
                "labels": job["spec"]["template"]["metadata"]["labels"],
                "uid": str(uuid.uuid4()),
                "ownerReferences": [{"uid": metadata["uid"]}],
            },
            "spec": job["spec"]["template"]["spec"],
            "status": {},
        }
        self.ran.append(name)
        pod = self.pods[name] = Pod(one, lambda: self._show(one, pod))
        self.roots.append(pod.root)
        self._place(one, pod)

    def _place(self, one: dict[str, Any], pod: Pod) -> None:
        """What the scheduler and the node do."""
        image = one["spec"]["containers"][0]["image"]
        if not self.node.schedulable:
            why = "0/1 nodes are available: 1 Insufficient memory."
            pod.extra["conditions"] = [
                {
                    "type": "PodScheduled",
                    "status": "False",
                    "reason": "Unschedulable",
                    "message": why,
                }
            ]
        elif self.node.images is not None and image not in self.node.images:
            said = f'Back-off pulling image "{image}"'
            state = {"waiting": {"reason": "ImagePullBackOff", "message": said}}
            pod.containers[0].state = state
        else:
            namespace = one["metadata"]["namespace"]
            pod.begin(
                {
                    secret["metadata"]["name"]: secret["data"]
                    for secret in self.objects("secrets")
                    if secret["metadata"]["namespace"] == namespace
                }
            )
        self._show(one, pod, "ADDED")

    def _show(self, one: dict[str, Any], pod: Pod, what: str = "MODIFIED") -> None:
        if pod.status != one["status"] or what == "ADDED":
            one["status"] = json.loads(json.dumps(pod.status))
            if what == "ADDED" or one["metadata"]["name"] in self.pods:
                self._put("pods", what, one)
        else:
            self._spawn(self._notify())  # its log has grown

    async def _end_pod(self, one: dict[str, Any], grace_seconds: float | None) -> None:
        name = one["metadata"]["name"]
        pod = self.pods.get(name)
        if pod is None:
            return
        one["metadata"]["deletionTimestamp"] = nanoseconds()
        if grace_seconds is None:
            grace_seconds = one["spec"]["terminationGracePeriodSeconds"]
        await pod.end(grace_seconds)
        if self.pods.pop(name, None) is not None:
            self._put("pods", "DELETED", one)
            pod.forget()

    def _tell(self, about: str, reason: str, message: str) -> None:
        self.events.append(
            {
                "type": "Warning",
                "reason": reason,
                "message": message,
                "involvedObject": {"name": about},
                "lastTimestamp": nanoseconds(),
                "metadata": {},
            }
        )

    def _pod_of(self, request: web.Request) -> tuple[Pod, Container]:
        name, container = request.match_info["name"], request.query["container"]
        if request.match_info["ns"] not in self.namespaces or name not in self.pods:
            raise Refused(404, "NotFound", f'pods "{name}" not found')
        found = self.pods[name].container(container)
        if found is None:
            raise Refused(400, "BadRequest", f"container {container} is not valid for pod {name}")
        return self.pods[name], found

    async def _log(self, request: web.Request) -> web.StreamResponse:
        pod, container = self._pod_of(request)
        if "waiting" in container.state:
            said = f'container "{container.name}" is waiting to start: ContainerCreating'
            raise Refused(400, "BadRequest", said)
        if pod.phase == "Failed" and pod.extra.get("reason") == "Evicted":
            raise Refused(404, "NotFound", "the log is gone with its node")
        response = web.StreamResponse(headers={"Content-Type": "text/plain"})
        await response.prepare(request)
        since = request.query.get("sinceTime", "")[:19].encode()
        assert request.query["timestamps"] == "true"
        left = _lines(request)
        sent = 0
        while True:
            for line in container.log[sent:]:
                sent += 1
                if line[:19] < since:
                    continue
                if left == 0:
                    await response.write(line[: len(line) // 2])
                    return self._cut(request)
                left = None if left is None else left - 1
                await response.write(line)
            if container.is_over or request.query["follow"] != "true":
                return response
            async with self._changed:
                if len(container.log) == sent and not container.is_over:
                    await self._changed.wait()

    async def _exec(self, request: web.Request) -> web.StreamResponse:
        pod, container = self._pod_of(request)
        if "running" not in container.state:
            raise Refused(500, "InternalError", f"container {container.name} is not running")
        socket = web.WebSocketResponse(protocols=("v4.channel.k8s.io",))
        await socket.prepare(request)
        words = request.query.getall("command")
        if words == ["sh", "-c", "kill 1"]:
            pod.end_waiting()
            return self._cut(request)
        process = await asyncio.create_subprocess_exec(
            *(pod.place(word, container) for word in words),
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        out, errors = await process.communicate()
        left = _lines(request)
        for start in range(0, len(out), 1000):
            if left is not None and start >= 1000 * left:
                return self._cut(request)
            await socket.send_bytes(b"\x01" + out[start : start + 1000])
        if errors:
            await socket.send_bytes(b"\x02" + errors)
        status: dict[str, Any] = {"status": "Success"}
        if process.returncode:
            causes = [{"reason": "ExitCode", "message": str(process.returncode)}]
            status = {
                "status": "Failure",
                "reason": "NonZeroExitCode",
                "details": {"causes": causes},
            }
        await socket.send_bytes(b"\x03" + json.dumps(status).encode())
        await socket.close()
        return socket


def _lines(request: web.Request) -> int | None:
    """After how many lines a stream is to be cut."""
    fault = request[FAULT]
    return fault.lines if isinstance(fault, Fault) else None


async def _write(response: web.StreamResponse, event: dict[str, Any]) -> None:
    await response.write(json.dumps(event).encode() + b"\n")


def _is_owned(one: dict[str, Any], by: dict[str, Any]) -> bool:
    owners = one["metadata"].get("ownerReferences", ())
    return any(owner["uid"] == by["metadata"]["uid"] for owner in owners)


def _selector(request: web.Request) -> Callable[[dict[str, Any]], bool]:
    labels = [
        pair.split("=", 1) for pair in request.query.get("labelSelector", "").split(",") if pair
    ]
    about = request.query.get("fieldSelector", "").removeprefix("involvedObject.name=")

    def chosen(one: dict[str, Any]) -> bool:
        has = one["metadata"].get("labels", {})
        if about and one.get("involvedObject", {}).get("name") != about:
            return False
        return all(has.get(name) == value for name, value in labels)

    return chosen


@contextlib.contextmanager
def simulated_cluster(**options: Any) -> Iterator[SimulatedCluster]:
    """One that runs until the context is left."""
    with SimulatedCluster(**options) as cluster:
        yield cluster
