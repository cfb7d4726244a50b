"""What becomes of one job's pod, as the cluster tells it."""

import asyncio
import logging
from collections.abc import Callable

from jobauto_prefect.runtime.kubernetes.answers import (
    FIRST_PAUSE_SECONDS,
    LONGEST_PAUSE_SECONDS,
    ApiError,
)
from jobauto_prefect.runtime.kubernetes.cluster import EVENTS, PODS, Cluster
from jobauto_prefect.runtime.kubernetes.pods import (
    Object,
    Over,
    Pending,
    Seen,
    latest_warning,
    seen,
)

logger = logging.getLogger(__name__)


class PodWatch:
    """Keeps `pod` and `state` as they are in the cluster, across lost connections.

    `pod` is None as long as there is none; `gone` says that there was one. `trouble` is why the
    cluster can't be asked, empty while it can.
    """

    def __init__(self, cluster: Cluster, namespace: str, selector: str) -> None:
        self._cluster = cluster
        self._namespace = namespace
        self._selector = selector
        self._changed = asyncio.Condition()
        self.pod: Object | None = None
        self.state: Seen = Pending()
        self.gone = False
        self.trouble = ""

    async def run(self) -> None:
        """Watch until cancelled."""
        pause = FIRST_PAUSE_SECONDS
        while True:
            try:
                await self._look()
                pause = FIRST_PAUSE_SECONDS
            except ApiError as error:
                if error.status == 410:  # what was seen is too old to go on from: look anew
                    continue
                self.trouble = str(error)
                logger.info("the pod of %s is looked for again: %s", self._selector, error)
                await asyncio.sleep(error.retry_after or pause)
                pause = min(2 * pause, LONGEST_PAUSE_SECONDS)

    async def until(self, condition: Callable[[], bool]) -> None:
        """Return when this is so."""
        async with self._changed:
            await self._changed.wait_for(condition)

    async def close(self) -> None:
        """Nothing more will come: it has been removed."""
        async with self._changed:
            self.gone = True
            self._changed.notify_all()

    async def _look(self) -> None:
        found = await self._cluster.all(PODS, self._namespace, self._selector)
        self.trouble = ""
        pods = found["items"]
        await self._take(pods[-1] if pods else None)
        version = found["metadata"]["resourceVersion"]
        watch = self._cluster.watch(PODS, self._namespace, self._selector, version)
        async for kind, pod in watch:
            if kind != "BOOKMARK":
                await self._take(pod, deleted=kind == "DELETED")
        await asyncio.sleep(FIRST_PAUSE_SECONDS)

    async def _take(self, pod: Object | None, *, deleted: bool = False) -> None:
        async with self._changed:
            if pod is not None:
                self.pod = pod
                self.state = _later(self.state, seen(pod))
            if deleted or (pod is None and self.pod is not None):
                self.gone = True
                self.state = _later(self.state, Over(lost="its pod was deleted"))
            self._changed.notify_all()


def _later(known: Seen, now: Seen) -> Seen:
    """What is over stays as it was seen first."""
    return known if isinstance(known, Over) else now


async def why_pending(
    cluster: Cluster, namespace: str, watch: PodWatch, job: str, waited_seconds: float
) -> str:
    """Why a job does not run, as something people can act on; `job` is the name of its Job."""
    seconds = f"{waited_seconds:g} s"
    if isinstance(watch.state, Pending) and watch.state.why:
        return watch.state.why + ("" if watch.state.hopeless else f" (for {seconds})")
    if watch.trouble:
        return f"the cluster has not said for {seconds} whether it runs: {watch.trouble}"
    about = watch.pod["metadata"]["name"] if watch.pod is not None else job
    try:
        found = await cluster.all(EVENTS, namespace, field=f"involvedObject.name={about}")
    except ApiError as error:
        return f"it has not started for {seconds}: {error}"
    said = latest_warning(found["items"]) or "the cluster does not say why"
    return f"it has not started for {seconds}: {said}"
