"""Following the log of a job's container to its end, across connections."""

import asyncio
import logging

from jobauto_prefect.runtime.executor import Sink
from jobauto_prefect.runtime.kubernetes.answers import ApiError
from jobauto_prefect.runtime.kubernetes.cluster import Cluster
from jobauto_prefect.runtime.kubernetes.logs import LogReader
from jobauto_prefect.runtime.kubernetes.manifest import JOB
from jobauto_prefect.runtime.kubernetes.pods import Over, Pending
from jobauto_prefect.runtime.kubernetes.watching import PodWatch

logger = logging.getLogger(__name__)

PAUSE_SECONDS = 0.3


async def follow(cluster: Cluster, namespace: str, watch: PodWatch, sink: Sink) -> None:
    """Hand all lines on, and at the end what there is to say about it."""
    await watch.until(lambda: watch.gone or not isinstance(watch.state, Pending))
    reader = LogReader()
    while True:
        is_over = isinstance(watch.state, Over)
        is_all = await _read(cluster, namespace, watch, reader, sink)
        if watch.gone or (is_over and is_all):
            break
        # A connection that ended is mostly the end of the job: its state comes soon.
        await asyncio.sleep(PAUSE_SECONDS)
    await sink("stdout", reader.finish())
    if isinstance(watch.state, Over) and watch.state.note:
        await sink("stderr", f"{watch.state.note}\n".encode())
    await sink("stdout", b"")
    await sink("stderr", b"")


async def _read(
    cluster: Cluster, namespace: str, watch: PodWatch, reader: LogReader, sink: Sink
) -> bool:
    """One connection; True: all was read that was there, or there is nothing to be read."""
    if watch.pod is None:
        return True
    name = watch.pod["metadata"]["name"]
    reader.connected()
    pieces = cluster.log(
        namespace, name, JOB, since=reader.since, follow=not isinstance(watch.state, Over)
    )
    try:
        async for piece in pieces:
            if data := reader.feed(piece):
                await sink("stdout", data)
    except ApiError as error:
        logger.debug("the log of pod %s is read again: %s", name, error)
        return not error.passes
    return True
