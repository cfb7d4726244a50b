"""The executors Docker and Podman, and one job as a container."""

import asyncio
import contextlib
import os
import sys
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from docker.types import LogConfig, Mount, Ulimit  # type: ignore[import-untyped]
from pydantic import ValidationError

from jobauto_prefect.errors import StartFailed, WorkerUnable
from jobauto_prefect.runtime.executor import ExecutorContext, Sink
from jobauto_prefect.runtime.executors.containers.engine import (
    Address,
    Engine,
    EngineUnavailable,
    NoSuchContainer,
    end_container,
)
from jobauto_prefect.runtime.executors.settings import ContainerSettings, settings_for
from jobauto_prefect.runtime.exit_codes import NOT_EXECUTABLE, NOT_FOUND
from jobauto_prefect.runtime.launch.input_files import Owner
from jobauto_prefect.runtime.output.artifacts import Collector
from jobauto_prefect.runtime.output.lines import Stream
from jobauto_prefect.runtime.protocol import Launch, OutputLines, Report
from jobauto_prefect.runtime.watchdog.client import Watchdog
from jobauto_prefect.runtime.watchdog.job_handles import Ended, ExternalJob, Group
from jobauto_prefect.runtime.workspace import JobRecord, JobWorkspace
from jobauto_prefect.text_patterns import error_message

AGAIN_SECONDS = 0.5
"""Seconds between attempts while the engine does not answer."""

LAST_OUTPUT_SECONDS = 30.0
"""Timeout for the remaining output once the container has ended."""
NOT_FOUND_PHRASES = ("executable file", "no such file or directory")
"""How the engines report it."""


class ContainerExecutor:
    """Runs jobs as containers of one engine."""

    def __init__(self, context: ExecutorContext, address: Address) -> None:
        self.clock = context.clock
        self.workspace = context.workspace
        self.watchdogs = context.watchdogs
        self.users = context.users
        self.worker = context.plan.worker
        self.stop_seconds = context.plan.stop_seconds
        self.engine = Engine(address)

    def execution(self, launch: Launch) -> "ContainerExecution":
        """Create an execution, not yet started."""
        return ContainerExecution(self, launch)

    async def terminate_leftovers(self, records: Sequence[JobRecord], stop_seconds: float) -> None:  # noqa: ARG002
        """Stop and remove every container of this workspace: all of them are a predecessor's."""
        filters = workspace_filter(str(self.workspace.path))
        try:
            containers = await self.engine.call("containers", all=True, filters=filters)
            ends = [
                partial(end_container, container=container["Id"], seconds=stop_seconds)
                for container in containers
            ]
            await asyncio.gather(*map(self.engine.run, ends))
        except (EngineUnavailable, NoSuchContainer) as error:
            raise StartFailed(str(error)) from None

    async def check(self) -> None:
        """Check that the engine answers."""
        await self.engine.check()

    async def close(self) -> None:
        """Close the engine's connections."""
        self.engine.close()


def docker_executor(context: ExecutorContext) -> ContainerExecutor:
    """Return the executor for Docker, at the setting's address or its client's default."""
    url = context.plan.docker_url or os.environ.get("DOCKER_HOST")
    url = url or "unix:///var/run/docker.sock"
    return ContainerExecutor(context, Address("Docker", url, "JOBAUTO_DOCKER_URL"))


def podman_executor(context: ExecutorContext) -> ContainerExecutor:
    """Return the executor for Podman, at the setting's address or its client's default."""
    url = context.plan.podman_url or os.environ.get("CONTAINER_HOST")
    folder = "/run" if os.geteuid() == 0 else os.environ.get("XDG_RUNTIME_DIR", "/run")
    url = url or f"unix://{folder}/podman/podman.sock"
    return ContainerExecutor(context, Address("Podman", url, "JOBAUTO_PODMAN_URL"))


class ContainerExecution:
    """One job as a container, created and attached in `prepare`, so that no output is lost."""

    def __init__(self, executor: ContainerExecutor, launch: Launch) -> None:
        self._executor = executor
        self._engine = executor.engine
        self._launch = launch
        self._name = container_name(launch)
        self._workspace = JobWorkspace(executor.workspace, launch)
        self._making: asyncio.Task[None] | None = None
        self._output: Any = None
        self._watchdog: Watchdog | None = None
        self._group: Group | None = None
        self._exited = asyncio.Event()
        self._streamed = asyncio.Event()
        self.is_reachable = True

    async def prepare(self, sink: Sink) -> None:  # noqa: ARG002 - the engine says nothing
        """Pull the image, and create the directory and the container."""
        launch, settings = self._launch, self._settings()
        if not launch.image:
            raise StartFailed(
                f"executor {launch.executor} needs an image: "
                "add ociimage to the application's definition",
                NOT_EXECUTABLE,
            )
        user, owner = await self._user(settings)
        self._workspace.make(owner)
        if settings.pull == "always" or (
            settings.pull == "missing" and not await self._has_image(launch.image)
        ):
            await self._engine.pull(launch.image)
        # If this is cancelled, the caller must know about a container to remove.
        self._making = asyncio.create_task(self._create_container(user, settings))
        await asyncio.shield(self._making)

    def _settings(self) -> ContainerSettings:
        try:
            return settings_for(ContainerSettings, self._launch.executor_settings)
        except ValidationError as error:
            first = error.errors()[0]
            place = ".".join(map(str, first["loc"]))
            message = f"executor setting {place}: {error_message(first)}"
            raise StartFailed(message, NOT_EXECUTABLE) from None

    async def _user(self, settings: ContainerSettings) -> tuple[str, Owner | None]:
        """Return the user of the container and the owner of its directory; None: the worker's own.

        Root in a rootless engine is the worker's own user outside.
        """
        if await self._engine.is_rootless():
            if settings.user:
                message = "the engine is rootless: jobs can't have a user of their own there"
                raise StartFailed(f"executor setting user: {message}", NOT_EXECUTABLE)
            return "0:0", None
        company = self._executor.users.user_of(self._launch)
        own = (company.uid, company.gid) if company else (os.geteuid(), os.getegid())
        uid, gid = own
        if settings.user:
            first, _, second = settings.user.partition(":")
            uid, gid = int(first), int(second or first)
        if uid != os.geteuid() and os.geteuid() != 0:
            message = "only a worker started as root can run jobs as another user"
            raise StartFailed(f"executor setting user: {message}", NOT_EXECUTABLE)
        return f"{uid}:{gid}", (uid, gid) if os.geteuid() == 0 else None

    async def _has_image(self, image: str) -> bool:
        try:
            await self._engine.call("inspect_image", image)
        except NoSuchContainer:
            return False
        except EngineUnavailable as error:
            raise self._engine.unable(error) from None
        return True

    async def _create_container(self, user: str, settings: ContainerSettings) -> None:
        launch, engine = self._launch, self._engine
        options = container_options(
            launch,
            user=user,
            worker=self._executor.worker,
            workspace=str(self._executor.workspace.path),
        )
        try:
            client = await engine.client()
            host = client.create_host_config(**host_options(launch, settings))
            await engine.call("create_container", **options, host_config=host)
            self._output = await engine.call(
                "attach", self._name, stdout=True, stderr=True, stream=True, demux=True
            )
        except EngineUnavailable as error:
            raise self._engine.unable(error) from None
        except WorkerUnable:
            raise
        except (NoSuchContainer, StartFailed) as error:
            raise _not_started(error) from None

    async def put(self, path: str, content: bytes) -> None:
        """Write the file to the mounted directory."""
        await self._workspace.put(path, content)

    async def start(self) -> None:
        """Register the container with the watchdog, and start it."""
        self._watchdog = await self._executor.watchdogs.get()
        launch = self._launch
        undo = (sys.executable, "-I", "-m", "jobauto_prefect.runtime.executors.containers.undo")
        url, seconds = self._engine.address.url, str(self._executor.stop_seconds)
        self._group = await self._watchdog.hold(
            ExternalJob(
                job=launch.job_id,
                claim=launch.claim_id,
                directory=launch.directory,
                record=self._workspace.record_path,
                undo=(*undo, url, self._name, seconds),
            )
        )
        try:
            await self._engine.call("start", self._name)
        except EngineUnavailable as error:  # it may have been started
            await self._remove_container()
            raise StartFailed(f"can't tell whether the container was started: {error}") from None
        except (NoSuchContainer, StartFailed) as error:
            await self._remove_container()
            raise _not_started(error) from None
        self._workspace.note_start(self._executor.clock())

    @property
    def pid(self) -> int | None:
        """Always None: pids in a container differ from those of the machine."""
        return None

    async def stream(self, sink: Sink) -> None:
        """Pass all output to `sink`; return when the connection ends."""
        loop = asyncio.get_running_loop()

        async def give(stream: Stream, data: bytes | None) -> None:
            if data:
                await sink(stream, data)

        def read(_: Any) -> None:
            for stdout, stderr in self._output:
                asyncio.run_coroutine_threadsafe(give("stdout", stdout), loop).result()
                asyncio.run_coroutine_threadsafe(give("stderr", stderr), loop).result()

        try:
            await self._engine.run(read)
        finally:
            self._streamed.set()
            await sink("stdout", b"")
            await sink("stderr", b"")

    async def wait(self) -> Ended:
        """Wait until the container has ended and has been removed."""
        if self._group is None:
            raise StartFailed("the job has not been started")
        watching = asyncio.create_task(self._exit())
        await asyncio.wait({watching, self._group.ended}, return_when=asyncio.FIRST_COMPLETED)
        self._exited.set()
        ended = watching.result() if watching.done() else self._group.ended.result()
        watching.cancel()
        if ended.lost is None:  # removing it would cut off pending output
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(LAST_OUTPUT_SECONDS):
                    await self._streamed.wait()
        await self._remove_container()
        return ended

    async def _exit(self) -> Ended:
        while True:
            try:
                await self._engine.call("inspect_container", self._name)
                self.is_reachable = True
                await self._engine.call("wait", self._name, timeout=None)
                # Podman answers 0 if the container is removed while waiting.
                description = await self._engine.call("inspect_container", self._name)
                return Ended(int(description["State"]["ExitCode"]))
            except (NoSuchContainer, StartFailed) as error:
                return Ended(None, f"the container is gone: {error}")
            except EngineUnavailable:
                await self._wait_for_engine()

    async def _wait_for_engine(self) -> None:
        self.is_reachable = False
        await asyncio.sleep(AGAIN_SECONDS)

    async def stop(self, seconds: float) -> None:
        """Send TERM to its first process, and KILL to all after `seconds`."""
        if seconds > 0:
            await self._signal("TERM")
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await self._exited.wait()
        await self._signal("KILL")

    async def _signal(self, name: str) -> None:
        """Send a signal until the engine accepts it or the container is gone."""
        while not self._exited.is_set():
            try:
                await self._engine.call("kill", self._name, signal=name)
            except EngineUnavailable:
                await self._wait_for_engine()
            except (NoSuchContainer, StartFailed):  # it does not exist, or is not running
                return
            else:
                return

    async def _remove_container(self) -> None:
        """Remove the container, then release it from the watchdog, which could remove it, too."""
        while True:
            try:
                await self._engine.run(lambda client: end_container(client, self._name, 0))
                break
            except (NoSuchContainer, StartFailed):
                break
            except EngineUnavailable:
                await self._wait_for_engine()
        self.is_reachable = True
        if self._watchdog is not None:
            await self._watchdog.release(self._launch.job_id)

    async def collector(self) -> Collector:
        """Return the collector of the artifacts in the mounted directory."""
        return self._workspace.collector()

    def keep(self, report: Report, unsent: list[OutputLines]) -> None:
        """Write the outcome to the job's record."""
        self._workspace.keep(report, unsent)

    async def discard(self) -> None:
        """Remove the container if it still exists, the directory and the record."""
        if self._making is not None:
            await asyncio.wait({self._making})
            if self._group is None:
                await self._remove_container()
        await self._workspace.discard()


def _not_started(error: Exception) -> StartFailed:
    message = f"the container can't be started: {error}"
    missing = any(phrase in message for phrase in NOT_FOUND_PHRASES)
    return StartFailed(message, NOT_FOUND if missing else NOT_EXECUTABLE)


LABEL = "jobauto"


def container_name(launch: Launch) -> str:
    """Return the name of the container of a claim; each claim has its own."""
    return f"jobauto-{launch.job_id}-{launch.claim_id.hex}"


def host_options(launch: Launch, settings: ContainerSettings) -> dict[str, Any]:
    """Build the host options: limits, mounts, network.

    The job's directory has the same path inside, so that the paths in its environment are valid.
    The engine stores no output: it is streamed, and may contain secrets.
    """
    directory: Mapping[str, Any] = {
        "mounts": [Mount(launch.directory, launch.directory, type="bind")],
    }
    if launch.executor == "Podman":  # Docker has no such options
        directory = {"binds": [f"{launch.directory}:{launch.directory}:rw,nosuid,nodev"]}
    options: dict[str, Any] = {
        **directory,
        "log_config": LogConfig(type="none"),
        "security_opt": ["no-new-privileges"],
        "cap_drop": ["MKNOD"],  # others could open a device left in the directory
        "read_only": settings.read_only,
        "init": settings.init,
        "ulimits": [_ulimit(name, value) for name, value in settings.ulimits.items()],
        "network_mode": settings.network,
        "mem_limit": settings.memory,
        "nano_cpus": settings.cpu and round(settings.cpu * 1e9),
        "runtime": settings.runtime,
    }
    return {name: value for name, value in options.items() if value not in (None, False, [])}


def container_options(launch: Launch, *, user: str, worker: str, workspace: str) -> dict[str, Any]:
    """Build the container's options: image, command, environment, user, labels.

    The whole command is the entry point, replacing the image's own.
    """
    return {
        "image": launch.image,
        "name": container_name(launch),
        "entrypoint": launch.argv,
        "command": [],
        "environment": launch.environment,
        "working_dir": launch.directory,
        "user": user,
        "labels": {
            f"{LABEL}.job": str(launch.job_id),
            f"{LABEL}.claim": str(launch.claim_id),
            f"{LABEL}.company": launch.company,
            f"{LABEL}.worker": worker,
            f"{LABEL}.workplace": workspace,
        },
        "use_config_proxy": False,
    }


def workspace_filter(workspace: str) -> dict[str, str]:
    """Return the filter for all containers of a workspace."""
    return {"label": f"{LABEL}.workplace={workspace}"}


def _ulimit(name: str, value: str) -> Ulimit:
    soft, _, hard = value.partition(":")
    return Ulimit(name=name, soft=int(soft), hard=int(hard or soft))
