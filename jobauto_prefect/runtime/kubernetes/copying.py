"""Files out of a pod: a tar archive, written by the container that waits beside the job's."""

import asyncio
import io
import logging
import tarfile
import tempfile
from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import BinaryIO

from jobauto_prefect.runtime.kubernetes.answers import ApiError, insist
from jobauto_prefect.runtime.kubernetes.cluster import Cluster
from jobauto_prefect.runtime.kubernetes.manifest import COPIES, Mounted
from jobauto_prefect.runtime.kubernetes.pods import Object, container_state
from jobauto_prefect.runtime.kubernetes.watching import PodWatch

logger = logging.getLogger(__name__)

PATIENCE_SECONDS = 60.0
ROOM = 10  # so many times what a job may keep is looked through


class TooMuch(Exception):
    """The archive is longer than anybody wants to read."""


@dataclass(frozen=True, slots=True)
class Pod:
    """Where a pod is, and how it is there."""

    cluster: Cluster
    namespace: str
    watch: PodWatch

    def run(self, command: Sequence[str]) -> AsyncIterator[bytes]:
        """What a command writes in the container beside the job's."""
        name = (self.watch.pod or {})["metadata"]["name"]
        return self.cluster.run(self.namespace, name, COPIES, command)

    @property
    def waits(self) -> Object:
        """The state of that container."""
        return container_state(self.watch.pod or {}, COPIES)


async def copy_files(pod: Pod, place: Mounted, directory: str, limit_bytes: int) -> list[str]:
    """Copy what is there into a directory; returns what was left out and why.

    A file is left out that alone has more than `limit_bytes`.
    """
    try:
        async with asyncio.timeout(PATIENCE_SECONDS):
            await pod.watch.until(lambda: pod.watch.gone or "running" in pod.waits)
            if pod.watch.gone:
                return ["no files were copied: its pod is gone"]
            return await insist(
                lambda: _copy(pod, place, Path(directory), limit_bytes), PATIENCE_SECONDS
            )
    except TimeoutError:
        why = pod.waits.get("waiting", {}).get("reason") or "the container for it does not answer"
        return [f"no files were copied: {why}"]
    except ApiError as error:
        return [f"not all is copied: {error}"]


async def end_copies(pod: Pod) -> None:
    """Nothing is to be copied from it any more."""
    try:
        async for _ in pod.run(["sh", "-c", "kill 1"]):
            pass
    except ApiError as error:  # it ended before the command could say so
        logger.debug("the container for copies: %s", error)


async def _copy(pod: Pod, place: Mounted, directory: Path, limit_bytes: int) -> list[str]:
    """Raises an ApiError only where another try may bring more."""
    notices: list[str] = []
    with tempfile.TemporaryFile() as archive:
        try:
            await _fetch(pod, place, archive, ROOM * limit_bytes)
        except TooMuch:
            notices.append(f"not all is copied: {place.path} has more than {archive.tell()} bytes")
        except ApiError as error:
            if error.passes:
                raise
            notices.append(f"not all is copied: {error}")
        archive.seek(0)
        return notices + await asyncio.to_thread(_unpack, archive, directory, limit_bytes)


async def _fetch(pod: Pod, place: Mounted, archive: BinaryIO, most_bytes: int) -> None:
    command = ["tar", "-C", place.folder, "-cf", "-", f"./{place.path}"]
    async for piece in pod.run(command):
        archive.write(piece)
        if archive.tell() > most_bytes:
            raise TooMuch


def _unpack(archive: BinaryIO, directory: Path, limit_bytes: int) -> list[str]:
    """Regular files only, and only below the directory, which is this process's own."""
    return list(_unpacking(archive, directory, limit_bytes))


def _unpacking(archive: BinaryIO, directory: Path, limit_bytes: int) -> Iterator[str]:
    try:
        with tarfile.open(fileobj=archive, mode="r:") as members:
            for member in members:
                path = PurePosixPath(member.name)
                if not member.isreg() or path.is_absolute() or ".." in path.parts:
                    continue
                if member.size > limit_bytes:
                    yield f"not kept: {path} is too large"
                elif (content := members.extractfile(member)) is not None:
                    _write(directory / path, content.read())
    except (tarfile.TarError, OSError, io.UnsupportedOperation) as error:
        yield f"not all is copied: {error}"


def _write(path: Path, content: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    path.write_bytes(content)
