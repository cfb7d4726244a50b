"""What a container may leave in its directory: nothing that gives anybody rights."""

import pytest

from jobauto_prefect.runtime.protocol import Ending
from tests.support.container_engines import Engine
from tests.support.launches import Opened, contained
from tests.support.recorder import Recorder, texts


async def test_podman_mounts_the_directory_without_setuid_files_and_devices(
    opened: Opened, engine: Engine, facade: Recorder
) -> None:
    worker = await opened(podman_url=engine.url)
    request = contained(worker, "cat /proc/self/mountinfo", executor="Podman")
    outcome = await worker.runner.run(request)
    assert outcome.report.ending is Ending.EXITED
    (mount,) = [line.split() for line in texts(facade) if line.split()[4] == request.directory]
    assert {"rw", "nosuid", "nodev"} <= {*mount[5].split(",")}


@pytest.mark.parametrize(
    ("engine", "executor"),
    [("Podman", "Docker"), ("Podman", "Podman"), ("Docker", "Docker")],
    indirect=["engine"],
)
async def test_a_container_makes_no_device(
    opened: Opened, engine: Engine, facade: Recorder, executor: str
) -> None:
    worker = await opened(docker_url=engine.url, podman_url=engine.url)
    settings = {"user": "0:0"}
    request = contained(worker, "mknod disk b 7 0", executor=executor, executor_settings=settings)
    outcome = await worker.runner.run(request)
    assert outcome.report.exit_code not in (0, None)
    assert "not permitted" in " ".join(texts(facade))
