"""The output of a process, as it arrives."""

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator

from jobauto_prefect.runtime.executor import Sink
from jobauto_prefect.runtime.output.lines import Stream

READ_BYTES = 1 << 16


class Pipes:
    """Two pipes for one process."""

    def __init__(self) -> None:
        self._readers: dict[Stream, int] = {}

    @contextlib.asynccontextmanager
    async def writers(self) -> AsyncIterator[tuple[int, int]]:
        """Yield the write ends and close them afterwards; on error, close the read ends, too.

        Raises:
            OSError: no more descriptors are available.
        """
        stdout_reader, stdout = os.pipe()
        stderr_reader, stderr = os.pipe()
        self._readers = {"stdout": stdout_reader, "stderr": stderr_reader}
        try:
            yield stdout, stderr
        except BaseException:
            for reader in self._readers.values():
                os.close(reader)
            raise
        finally:
            os.close(stdout)
            os.close(stderr)

    async def stream(self, sink: Sink) -> None:
        """Pass all output to `sink`; return when no process can write any more."""
        async with asyncio.TaskGroup() as tasks:
            for stream, descriptor in self._readers.items():
                tasks.create_task(_pump(stream, descriptor, sink))


async def _pump(stream: Stream, descriptor: int, sink: Sink) -> None:
    reader = asyncio.StreamReader()
    transport, _ = await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(descriptor, "rb", buffering=0)
    )
    try:
        while data := await reader.read(READ_BYTES):
            await sink(stream, data)
    finally:
        transport.close()
        await sink(stream, b"")
