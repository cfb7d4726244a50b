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

Faults can be planned: see `faults.Fault`.
"""

import asyncio
import json
import re
import threading
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from aiohttp import web

from tests.support.kubernetes.faults import Refused, cut, lines_until_cut
from tests.support.kubernetes.pods import Container, Pod, nanoseconds
from tests.support.kubernetes.resources import TOKEN, ResourceServer


@dataclass
class Node:
    """What the cluster does with pods."""

    schedulable: bool = True
    quota: int | None = None  # pods
    images: set[str] | None = None  # that can be pulled; None: all


class SimulatedCluster(ResourceServer):
    """An API server with a Job controller and a node."""

    def __init__(self, namespaces: tuple[str, ...] = ("default",)) -> None:
        super().__init__(namespaces)
        self.node = Node()
        self.pods: dict[str, Pod] = {}
        self.ran: list[str] = []  # every pod that ever was
        self.roots: list[Path] = []  # their volumes

    def _further_routes(self) -> list[web.RouteDef]:
        return [
            web.get("/api/v1/namespaces/{ns}/pods/{name}/log", self._log),
            web.get("/api/v1/namespaces/{ns}/pods/{name}/exec", self._exec),
        ]

    async def _close(self) -> None:
        for pod in list(self.pods.values()):
            await pod.end(0)
            pod.forget()

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

    def is_empty(self) -> bool:
        """Whether all that was to be deleted is gone, which takes a moment."""
        end = time.monotonic() + 10
        while self.store.objects and time.monotonic() < end:
            time.sleep(0.05)
        return not self.store.objects

    def posts(self) -> list[tuple[str, str]]:
        """Kind and namespace of all that was to be created."""
        created = [
            re.findall(r"namespaces/([^/]+)/(\w+)", path)
            for how, path in self.requests
            if how == "POST"
        ]
        return [(kind, namespace) for ((namespace, kind),) in created]

    @property
    def pod(self) -> Pod:
        """The only one."""
        (pod,) = self.pods.values()
        return pod

    # the controller and the node

    def _control(self, job: dict[str, Any]) -> None:
        """What the Job controller does."""
        metadata = job["metadata"]
        if self.node.quota is not None and len(self.pods) >= self.node.quota:
            message = f'pods "{metadata["name"]}-x" is forbidden: exceeded quota: pods'
            self._tell(metadata["name"], "FailedCreate", message)
            return
        name = f"{metadata['name']}-{uuid.uuid4().hex[:5]}"
        manifest = {
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
        pod = self.pods[name] = Pod(manifest, lambda: self._show(manifest, pod))
        self.roots.append(pod.root)
        self._place(manifest, pod)

    def _place(self, manifest: dict[str, Any], pod: Pod) -> None:
        """What the scheduler and the node do."""
        image = manifest["spec"]["containers"][0]["image"]
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
            message = f'Back-off pulling image "{image}"'
            state = {"waiting": {"reason": "ImagePullBackOff", "message": message}}
            pod.containers[0].state = state
        else:
            namespace = manifest["metadata"]["namespace"]
            pod.begin(
                {
                    secret["metadata"]["name"]: secret["data"]
                    for secret in self.objects("secrets")
                    if secret["metadata"]["namespace"] == namespace
                }
            )
        self._show(manifest, pod, "ADDED")

    def _show(self, manifest: dict[str, Any], pod: Pod, what: str = "MODIFIED") -> None:
        if pod.status != manifest["status"] or what == "ADDED":
            manifest["status"] = json.loads(json.dumps(pod.status))
            if what == "ADDED" or manifest["metadata"]["name"] in self.pods:
                self._put("pods", what, manifest)
        else:
            self._spawn(self._notify())  # its log has grown

    async def _end_pod(self, manifest: dict[str, Any], grace_seconds: float | None) -> None:
        name = manifest["metadata"]["name"]
        pod = self.pods.get(name)
        if pod is None:
            return
        manifest["metadata"]["deletionTimestamp"] = nanoseconds()
        if grace_seconds is None:
            grace_seconds = manifest["spec"]["terminationGracePeriodSeconds"]
        await pod.end(grace_seconds)
        if self.pods.pop(name, None) is not None:
            self._put("pods", "DELETED", manifest)
            pod.forget()

    async def _delete_job(self, job: dict[str, Any]) -> None:
        for pod in [pod for pod in self.objects("pods") if _is_owned(pod, job)]:
            await self._end_pod(pod, None)
        for secret in [secret for secret in self.objects("secrets") if _is_owned(secret, job)]:
            self._put("secrets", "DELETED", secret)
        self._put("jobs", "DELETED", job)

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

    # logs and programs

    def _pod_of(self, request: web.Request) -> tuple[Pod, Container]:
        name, container = request.match_info["name"], request.query["container"]
        if request.match_info["ns"] not in self.namespaces or name not in self.pods:
            raise Refused(404, "NotFound", f'pods "{name}" not found')
        running = self.pods[name].container(container)
        if running is None:
            raise Refused(400, "BadRequest", f"container {container} is not valid for pod {name}")
        return self.pods[name], running

    async def _log(self, request: web.Request) -> web.StreamResponse:
        pod, container = self._pod_of(request)
        if "waiting" in container.state:
            message = f'container "{container.name}" is waiting to start: ContainerCreating'
            raise Refused(400, "BadRequest", message)
        if pod.phase == "Failed" and pod.extra.get("reason") == "Evicted":
            raise Refused(404, "NotFound", "the log is gone with its node")
        response = web.StreamResponse(headers={"Content-Type": "text/plain"})
        await response.prepare(request)
        since = request.query.get("sinceTime", "")[:19].encode()
        assert request.query["timestamps"] == "true"
        left = lines_until_cut(request)
        sent = 0
        while True:
            for line in container.log[sent:]:
                sent += 1
                if line[:19] < since:
                    continue
                if left == 0:
                    await response.write(line[: len(line) // 2])
                    return cut(request)
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
            return cut(request)
        process = await asyncio.create_subprocess_exec(
            *(pod.place(word, container) for word in words),
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        out, errors = await process.communicate()
        left = lines_until_cut(request)
        for start in range(0, len(out), 1000):
            if left is not None and start >= 1000 * left:
                return cut(request)
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


def _is_owned(resource: dict[str, Any], by: dict[str, Any]) -> bool:
    owners = resource["metadata"].get("ownerReferences", ())
    return any(owner["uid"] == by["metadata"]["uid"] for owner in owners)
