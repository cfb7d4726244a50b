"""Watches the state of one job's pod across lost connections."""

import asyncio
import logging
from collections.abc import Callable

from jobauto_prefect.retries import FIRST_PAUSE_SECONDS, growing_pauses
from jobauto_prefect.runtime.executors.kubernetes.cluster import EVENTS, PODS, ApiError, Cluster
from jobauto_prefect.runtime.executors.kubernetes.pods import (
    Finished,
    Object,
    Pending,
    PodState,
    latest_warning,
    read_state,
)

logger = logging.getLogger(__name__)


class PodWatch:
    """Keeps `pod` and `state` up to date with the cluster, across lost connections.

    `pod` is None while no pod exists; `gone` says that one existed. `trouble` is why the cluster
    can't be reached, empty while it can.
    """

    def __init__(self, cluster: Cluster, namespace: str, selector: str) -> None:
        self._cluster = cluster
        self._namespace = namespace
        self._selector = selector
        self._changed = asyncio.Condition()
        self.pod: Object | None = None
        self.state: PodState = Pending()
        self.gone = False
        self.trouble = ""

    async def run(self) -> None:
        """Watch until cancelled."""
        pauses = growing_pauses()
        while True:
            try:
                await self._watch_once()
                pauses = growing_pauses()
            except ApiError as error:
                if error.status == 410:  # the resource version is too old: list again
                    continue
                self.trouble = str(error)
                logger.info("looking for the pod of %s again: %s", self._selector, error)
                await asyncio.sleep(error.retry_after or next(pauses))

    async def wait_until(self, condition: Callable[[], bool]) -> None:
        """Wait until the condition is true."""
        async with self._changed:
            await self._changed.wait_for(condition)

    async def close(self) -> None:
        """Note that the pod was removed; nothing more will happen."""
        async with self._changed:
            self.gone = True
            self._changed.notify_all()

    async def _watch_once(self) -> None:
        answer = await self._cluster.list_objects(PODS, self._namespace, self._selector)
        self.trouble = ""
        pods = answer["items"]
        await self._update(pods[-1] if pods else None)
        version = answer["metadata"]["resourceVersion"]
        watch = self._cluster.watch(PODS, self._namespace, self._selector, version)
        async for kind, pod in watch:
            if kind != "BOOKMARK":
                await self._update(pod, deleted=kind == "DELETED")
        await asyncio.sleep(FIRST_PAUSE_SECONDS)

    async def _update(self, pod: Object | None, *, deleted: bool = False) -> None:
        async with self._changed:
            if pod is not None:
                self.pod = pod
                self.state = _later(self.state, read_state(pod))
            if deleted or (pod is None and self.pod is not None):
                self.gone = True
                self.state = _later(self.state, Finished(lost="its pod was deleted"))
            self._changed.notify_all()


def _later(before: PodState, now: PodState) -> PodState:
    """Return the later state, but keep a finished one as it was seen first."""
    return before if isinstance(before, Finished) else now


async def explain_pending(
    cluster: Cluster, namespace: str, watch: PodWatch, job: str, waited_seconds: float
) -> str:
    """Explain why a job is not running; `job` is the name of its Job."""
    seconds = f"{waited_seconds:g} s"
    if isinstance(watch.state, Pending) and watch.state.why:
        return watch.state.why + ("" if watch.state.hopeless else f" (for {seconds})")
    if watch.trouble:
        return f"the cluster has not answered for {seconds}: {watch.trouble}"
    about = watch.pod["metadata"]["name"] if watch.pod is not None else job
    try:
        events = await cluster.list_objects(EVENTS, namespace, field=f"involvedObject.name={about}")
    except ApiError as error:
        return f"it has not started for {seconds}: {error}"
    reason = latest_warning(events["items"]) or "the cluster does not say why"
    return f"it has not started for {seconds}: {reason}"
