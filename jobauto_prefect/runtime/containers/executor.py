"""The executors Docker and Podman."""

import asyncio
import os
from collections.abc import Sequence

from jobauto_prefect.errors import StartFailed
from jobauto_prefect.runtime.containers.engine import Address, Engine, EngineAway, Gone, end
from jobauto_prefect.runtime.containers.execution import ContainerExecution
from jobauto_prefect.runtime.containers.options import of_workplace
from jobauto_prefect.runtime.executor import Equipment
from jobauto_prefect.runtime.protocol import Launch
from jobauto_prefect.runtime.workplace import JobRecord


class ContainerExecutor:
    """Runs jobs as containers of one engine."""

    def __init__(self, equipment: Equipment, address: Address) -> None:
        self.clock = equipment.clock
        self.workplace = equipment.workplace
        self.watchdogs = equipment.watchdogs
        self.users = equipment.users
        self.worker = equipment.plan.worker
        self.stop_seconds = equipment.plan.stop_seconds
        self.engine = Engine(address)

    def execution(self, launch: Launch) -> ContainerExecution:
        """An execution that has not begun."""
        return ContainerExecution(self, launch)

    async def end_left(self, records: Sequence[JobRecord], stop_seconds: float) -> None:  # noqa: ARG002
        """End and remove every container of this workplace: none is this worker's own yet."""
        found = of_workplace(str(self.workplace.path))
        try:
            containers = await self.engine.call("containers", all=True, filters=found)
            await asyncio.gather(*(self._end(one["Id"], stop_seconds) for one in containers))
        except (EngineAway, Gone) as error:
            raise StartFailed(str(error)) from None

    async def _end(self, container: str, stop_seconds: float) -> None:
        await self.engine.run(lambda client: end(client, container, stop_seconds))

    async def check(self) -> None:
        """Whether the engine answers."""
        await self.engine.check()

    async def close(self) -> None:
        """Let the engine's connections go."""
        self.engine.close()


def docker_executor(equipment: Equipment) -> ContainerExecutor:
    """Docker, at its setting, else where its own client would look."""
    url = equipment.plan.docker_url or os.environ.get("DOCKER_HOST")
    url = url or "unix:///var/run/docker.sock"
    return ContainerExecutor(equipment, Address("Docker", url, "JOBAUTO_DOCKER_URL"))


def podman_executor(equipment: Equipment) -> ContainerExecutor:
    """Podman, at its setting, else where its own client would look."""
    url = equipment.plan.podman_url or os.environ.get("CONTAINER_HOST")
    folder = "/run" if os.geteuid() == 0 else os.environ.get("XDG_RUNTIME_DIR", "/run")
    url = url or f"unix://{folder}/podman/podman.sock"
    return ContainerExecutor(equipment, Address("Podman", url, "JOBAUTO_PODMAN_URL"))
