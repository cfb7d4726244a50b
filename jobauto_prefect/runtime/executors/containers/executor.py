"""The executors Docker and Podman."""

import asyncio
import os
from collections.abc import Sequence

from jobauto_prefect.errors import StartFailed
from jobauto_prefect.runtime.executor import ExecutorContext
from jobauto_prefect.runtime.executors.containers.engine import (
    Address,
    Engine,
    EngineUnavailable,
    NoSuchContainer,
    end_container,
)
from jobauto_prefect.runtime.executors.containers.execution import ContainerExecution
from jobauto_prefect.runtime.executors.containers.options import workspace_filter
from jobauto_prefect.runtime.protocol import Launch
from jobauto_prefect.runtime.workspace import JobRecord


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

    def execution(self, launch: Launch) -> ContainerExecution:
        """Create an execution that has not started."""
        return ContainerExecution(self, launch)

    async def terminate_leftovers(self, records: Sequence[JobRecord], stop_seconds: float) -> None:  # noqa: ARG002
        """End and remove every container of this workspace: none is this worker's own yet."""
        filters = workspace_filter(str(self.workspace.path))
        try:
            containers = await self.engine.call("containers", all=True, filters=filters)
            await asyncio.gather(
                *(self._end(container["Id"], stop_seconds) for container in containers)
            )
        except (EngineUnavailable, NoSuchContainer) as error:
            raise StartFailed(str(error)) from None

    async def _end(self, container: str, stop_seconds: float) -> None:
        await self.engine.run(lambda client: end_container(client, container, stop_seconds))

    async def check(self) -> None:
        """Check that the engine answers."""
        await self.engine.check()

    async def close(self) -> None:
        """Close the engine's connections."""
        self.engine.close()


def docker_executor(context: ExecutorContext) -> ContainerExecutor:
    """Return the executor for Docker, at its setting, else where its own client would look."""
    url = context.plan.docker_url or os.environ.get("DOCKER_HOST")
    url = url or "unix:///var/run/docker.sock"
    return ContainerExecutor(context, Address("Docker", url, "JOBAUTO_DOCKER_URL"))


def podman_executor(context: ExecutorContext) -> ContainerExecutor:
    """Return the executor for Podman, at its setting, else where its own client would look."""
    url = context.plan.podman_url or os.environ.get("CONTAINER_HOST")
    folder = "/run" if os.geteuid() == 0 else os.environ.get("XDG_RUNTIME_DIR", "/run")
    url = url or f"unix://{folder}/podman/podman.sock"
    return ContainerExecutor(context, Address("Podman", url, "JOBAUTO_PODMAN_URL"))
