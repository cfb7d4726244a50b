"""The node of the simulated cluster: its containers are local processes."""

import asyncio
import base64
import contextlib
import os
import re
import shutil
import signal
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

REFERENCE = re.compile(r"\$\$|\$\(([^)]*)\)")


def expanded(word: str, variables: Mapping[str, str]) -> str:
    """As Kubernetes does with `command`: `$(NAME)` of a known name, and `$$` for a dollar."""

    def value_of(match: re.Match[str]) -> str:
        if match[0] == "$$":
            return "$"
        return variables.get(match[1], match[0])

    return REFERENCE.sub(value_of, word)


def nanoseconds() -> str:
    """Now, as the time before a line of a log; zeros at its end are left out, as Go does."""
    now = time.time_ns()
    fraction = f"{now % 10**9:09}".rstrip("0")
    whole = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(now // 10**9))
    return f"{whole}.{fraction}Z" if fraction else f"{whole}Z"


class Container:
    """A container: its state as the API shows it, its log, and its process if it has one."""

    def __init__(self, spec: dict[str, Any]) -> None:
        self.spec = spec
        self.name: str = spec["name"]
        self.state: dict[str, Any] = {"waiting": {"reason": "ContainerCreating"}}
        self.log: list[bytes] = []  # lines with their times
        self.process: asyncio.subprocess.Process | None = None

    @property
    def is_over(self) -> bool:
        """Whether its process has ended."""
        return "terminated" in self.state

    def end(self, code: int, reason: str, message: str = "") -> None:
        """Its process is over."""
        end = {"exitCode": code, "reason": reason, "message": message}
        self.state = {"terminated": {name: value for name, value in end.items() if value != ""}}


class Pod:
    """A pod on the node. Its volumes are folders; paths below a mount are rewritten to them."""

    def __init__(self, manifest: dict[str, Any], changed: Callable[[], None]) -> None:
        self.manifest = manifest
        self.changed = changed
        self.phase = "Pending"
        self.extra: dict[str, Any] = {}
        self.containers = [Container(spec) for spec in manifest["spec"]["containers"]]
        self.root = Path(tempfile.mkdtemp(prefix="pod-"))
        self.running: asyncio.Task[None] | None = None

    def container(self, name: str) -> Container | None:
        """The container of a name."""
        return next((container for container in self.containers if container.name == name), None)

    @property
    def status(self) -> dict[str, Any]:
        """PodStatus."""
        return {
            "phase": self.phase,
            "containerStatuses": [
                {"name": container.name, "state": container.state, "restartCount": 0}
                for container in self.containers
                if "containerStatuses" not in self.extra
            ],
            **self.extra,
        }

    def place(self, path: str, container: Container) -> str:
        """Where a path of a container is on this machine."""
        mounts = {
            mount["mountPath"]: self.root / mount["name"] / mount.get("subPath", "")
            for mount in container.spec["volumeMounts"]
        }
        for folder in sorted(mounts, key=len, reverse=True):
            path = re.sub(
                rf"{re.escape(folder)}(?=/|$|[^\w.-])",
                lambda _, place=mounts[folder]: str(place),  # type: ignore[misc]
                path,
            )
        return path

    # its way

    def begin(self, secrets: Mapping[str, Mapping[str, str]]) -> None:
        """Start the containers; `secrets` are those of the namespace."""
        for volume in self.manifest["spec"]["volumes"]:
            folder = self.root / volume["name"]
            folder.mkdir(exist_ok=True)
            for key, text in secrets.get(volume.get("secret", {}).get("secretName"), {}).items():
                (folder / key).write_bytes(base64.b64decode(text))
        self.phase = "Running"
        for container in self.containers[1:]:
            container.state = {"running": {"startedAt": nanoseconds()}}
        self.running = asyncio.create_task(self._run(self.containers[0], secrets))

    async def _run(self, container: Container, secrets: Mapping[str, Mapping[str, str]]) -> None:
        variables = {}
        for source in container.spec.get("envFrom", ()):
            for key, text in secrets[source["secretRef"]["name"]].items():
                variables[key] = base64.b64decode(text).decode()
        command = [expanded(word, variables) for word in container.spec["command"]]
        local = {name: self.place(text, container) for name, text in variables.items()}
        try:
            container.process = await asyncio.create_subprocess_exec(
                *(self.place(word, container) for word in command),
                env={"PATH": os.environ["PATH"], **local},
                cwd=self.place(container.spec["workingDir"], container),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.STDOUT,
                start_new_session=True,
            )
        except FileNotFoundError:
            message = f'exec: "{command[0]}": executable file not found in $PATH: unknown'
            self._ended(container, 128, "StartError", message)
            return
        container.state = {"running": {"startedAt": nanoseconds()}}
        self.changed()
        assert container.process.stdout is not None
        async for line in container.process.stdout:
            container.log.append(f"{nanoseconds()} ".encode() + line)
            self.changed()
        code = await container.process.wait()
        code = code if code >= 0 else 128 - code
        if not container.is_over:
            self._ended(container, code, "Completed" if code == 0 else "Error")

    def _ended(self, container: Container, code: int, reason: str, message: str = "") -> None:
        container.end(code, reason, message)
        self._settle()

    def _settle(self) -> None:
        if all(container.is_over for container in self.containers) and self.phase != "Failed":
            codes = [container.state["terminated"]["exitCode"] for container in self.containers]
            self.phase = "Failed" if any(codes) else "Succeeded"
        self.changed()

    def end_waiting(self) -> None:
        """The container beside the job's is told to end."""
        for container in self.containers[1:]:
            container.end(0, "Completed")
        self._settle()

    def kill(self, number: signal.Signals) -> None:
        """A signal to the job's process and its descendants."""
        process = self.containers[0].process
        if process is not None and process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, number)

    async def end(self, grace_seconds: float) -> None:
        """TERM, KILL after the grace period, and every container is over."""
        self.kill(signal.SIGTERM)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(grace_seconds):
                if self.running is not None:
                    await asyncio.shield(self.running)
        self.kill(signal.SIGKILL)
        if self.running is not None:
            await self.running
        self.end_waiting()

    def evict(self) -> None:
        """The node gives the pod up: its containers are killed, and their states are lost."""
        self.phase = "Failed"
        message = "The node was low on resource: memory."
        self.extra = {"reason": "Evicted", "message": message, "containerStatuses": []}
        self.kill(signal.SIGKILL)
        self.changed()

    def out_of_memory(self) -> None:
        """The kernel kills the job's process."""
        self.containers[0].end(137, "OOMKilled")
        self.kill(signal.SIGKILL)
        self._settle()

    def forget(self) -> None:
        """Remove its volumes."""
        shutil.rmtree(self.root, ignore_errors=True)
