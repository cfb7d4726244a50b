"""Copies files from a pod: a tar archive, written by the container that waits beside the job's."""

import asyncio
import io
import logging
import tarfile
import tempfile
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import BinaryIO

from jobauto_prefect.runtime.executors.kubernetes.cluster import (
    ApiError,
    Cluster,
    retry_while_transient,
)
from jobauto_prefect.runtime.executors.kubernetes.manifest import COPIES, OutputMount
from jobauto_prefect.runtime.executors.kubernetes.pod_watch import PodWatch
from jobauto_prefect.runtime.executors.kubernetes.pods import Object, container_state

logger = logging.getLogger(__name__)

PATIENCE_SECONDS = 60.0
ROOM = 10  # times the limit of the job's artifacts is searched


@dataclass(frozen=True, slots=True)
class CopyContainer:
    """The address of a pod and the folder to copy."""

    cluster: Cluster
    namespace: str
    watch: PodWatch

    def run(self, command: Sequence[str]) -> AsyncIterator[bytes]:
        """Run a command in the container beside the job's; return its output."""
        name = (self.watch.pod or {})["metadata"]["name"]
        return self.cluster.run(self.namespace, name, COPIES, command)

    @property
    def read_state(self) -> Object:
        return container_state(self.watch.pod or {}, COPIES)


async def copy_files(
    pod: CopyContainer, place: OutputMount, directory: str, limit_bytes: int
) -> list[str]:
    """Copy the pod's files into a directory; return those left out, with reasons.

    A file that alone exceeds `limit_bytes` is left out.
    """
    try:
        async with asyncio.timeout(PATIENCE_SECONDS):
            await pod.watch.wait_until(lambda: pod.watch.gone or "running" in pod.read_state)
            if pod.watch.gone:
                return ["no files were copied: its pod is gone"]
            return await retry_while_transient(
                lambda: _copy(pod, place, Path(directory), limit_bytes), PATIENCE_SECONDS
            )
    except TimeoutError:
        why = (
            pod.read_state.get("waiting", {}).get("reason")
            or "the container for copying does not answer"
        )
        return [f"no files were copied: {why}"]
    except ApiError as error:
        return [f"not everything was copied: {error}"]


async def end_copies(pod: CopyContainer) -> None:
    """End the container that waits for copies."""
    try:
        async for _ in pod.run(["sh", "-c", "kill 1"]):
            pass
    except ApiError as error:  # it ended before the command could report so
        logger.debug("the container for copies: %s", error)


async def _copy(
    pod: CopyContainer, place: OutputMount, directory: Path, limit_bytes: int
) -> list[str]:
    """Copy what a pod left. Raises an ApiError only if another try may copy more."""
    notices: list[str] = []
    with tempfile.TemporaryFile() as archive:
        try:
            async for piece in pod.run(["tar", "-C", place.folder, "-cf", "-", f"./{place.path}"]):
                archive.write(piece)
                if archive.tell() > ROOM * limit_bytes:
                    notices.append(
                        f"not everything was copied: {place.path} has more than"
                        f" {archive.tell()} bytes"
                    )
                    break
        except ApiError as error:
            if error.is_transient:
                raise
            notices.append(f"not everything was copied: {error}")
        archive.seek(0)
        return notices + await asyncio.to_thread(_unpack, archive, directory, limit_bytes)


def _unpack(archive: BinaryIO, directory: Path, limit_bytes: int) -> list[str]:
    """Unpack only regular files, and only below the directory, which belongs to this process.

    Return the files left out, with reasons.
    """
    notices: list[str] = []
    try:
        with tarfile.open(fileobj=archive, mode="r:") as members:
            for member in members:
                path = PurePosixPath(member.name)
                if not member.isreg() or path.is_absolute() or ".." in path.parts:
                    continue
                if member.size > limit_bytes:
                    notices.append(f"not kept: {path} is too large")
                elif (content := members.extractfile(member)) is not None:
                    target = directory / path
                    target.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
                    target.write_bytes(content.read())
    except (tarfile.TarError, OSError, io.UnsupportedOperation) as error:
        notices.append(f"not everything was copied: {error}")
    return notices
