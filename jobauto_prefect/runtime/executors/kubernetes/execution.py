"""One job as a Kubernetes Job with one pod."""

import asyncio
import contextlib
import logging
import math
from typing import Any

from jobauto_prefect.errors import NotReady, StartFailed, WorkerUnable
from jobauto_prefect.runtime.executor import ExecutorContext, Sink
from jobauto_prefect.runtime.executors.kubernetes import manifest
from jobauto_prefect.runtime.executors.kubernetes.cluster import (
    PODS,
    ApiError,
    Cluster,
    retry_while_transient,
)
from jobauto_prefect.runtime.executors.kubernetes.helm import Releases
from jobauto_prefect.runtime.executors.kubernetes.job_objects import (
    create_job,
    delete_job,
    job_selector,
    remove_job,
    undo_command,
)
from jobauto_prefect.runtime.executors.kubernetes.logs import follow_log
from jobauto_prefect.runtime.executors.kubernetes.manifest import job_name
from jobauto_prefect.runtime.executors.kubernetes.pod_files import (
    CopyContainer,
    copy_files,
    end_copies,
)
from jobauto_prefect.runtime.executors.kubernetes.pod_watch import PodWatch, explain_pending
from jobauto_prefect.runtime.executors.kubernetes.pods import Finished, Pending
from jobauto_prefect.runtime.exit_codes import NOT_EXECUTABLE
from jobauto_prefect.runtime.output.artifacts import Collector
from jobauto_prefect.runtime.protocol import KubernetesTerms, Launch, OutputLines, Report
from jobauto_prefect.runtime.watchdog.client import Watchdog
from jobauto_prefect.runtime.watchdog.job_handles import Ended, ExternalJob, Group
from jobauto_prefect.runtime.workspace import JobWorkspace

logger = logging.getLogger(__name__)

DISCARD_SECONDS = 30.0  # for accepting a request to delete
LAST_LOG_SECONDS = 30.0  # for reading the rest of the log
LAST_STATE_SECONDS = 1.0  # for the final state of a deleted pod


class KubernetesExecution:
    """From installing the release it needs to deleting its Job."""

    def __init__(
        self, context: ExecutorContext, cluster: Cluster, releases: Releases, launch: Launch
    ) -> None:
        self._context = context
        self._plan = context.plan.cluster
        self._cluster = cluster
        self._releases = releases
        self._launch = launch
        self._terms = launch.kubernetes or KubernetesTerms()
        self._workspace = JobWorkspace(context.workspace, launch)
        self._name = job_name(launch.job_id, launch.claim_id)
        self._namespace = ""
        self._files: dict[str, bytes] = {}
        self._watch: PodWatch | None = None
        self._watching: asyncio.Task[None] | None = None
        self._watchdog: Watchdog | None = None
        self._hold: Group | None = None
        self._asked = asyncio.Event()  # to end
        self._copies = self._keeps = False
        self._is_read = asyncio.Event()
        self._notices: list[str] = []

    async def prepare(self, sink: Sink) -> None:
        """Install the release."""
        self._settings = manifest.required_settings(self._launch)
        try:
            await self._cluster.open()
        except NotReady as error:
            raise StartFailed(str(error), NOT_EXECUTABLE) from None
        self._namespace = self._terms.namespace or self._cluster.namespace
        self._workspace.make(None, namespace=self._namespace)
        if self._terms.helm is not None:
            await self._releases.install(
                self._launch, self._terms.helm, self._namespace, self._workspace.record_path, sink
            )

    async def put(self, path: str, content: bytes) -> None:
        """Add the file to the Secret of the job."""
        self._files[path] = content

    async def start(self) -> None:
        """Create the objects, and resume the suspended Job."""
        try:
            await self._create()
        except ApiError as error:
            message = f"the cluster rejected the job: {error}"
            if error.is_transient:
                raise WorkerUnable(message, self._launch.executor) from None
            raise StartFailed(message, NOT_EXECUTABLE) from None
        selector = job_selector(self._launch.job_id, self._launch.claim_id)
        self._watch = PodWatch(self._cluster, self._namespace, selector)
        self._watching = asyncio.create_task(self._watch.run())
        self._workspace.note_start(self._context.clock())

    async def _create(self) -> None:
        """Create the Job, suspended until the watchdog knows it: it never runs unwatched."""
        cluster, namespace, launch = self._cluster, self._namespace, self._launch
        job = manifest.job_manifest(
            launch,
            self._terms,
            self._settings,
            copy_image=self._plan.copy_image,
            stop_seconds=self._context.plan.stop_seconds,
            files=list(self._files),
        )
        await create_job(cluster, namespace, launch, job, self._files.values())
        self._watchdog = await self._context.watchdogs.get()
        self._hold = await self._watchdog.hold(
            ExternalJob(
                job=launch.job_id,
                claim=launch.claim_id,
                directory=launch.directory,
                record=self._workspace.record_path,
                undo=undo_command(namespace, launch, self._plan.context),
            )
        )
        try:
            # Without a limit: until there is an answer, the job may be running.
            await retry_while_transient(lambda: cluster.resume(namespace, self._name))
        except ApiError:
            await self._release()
            raise

    # output

    async def stream(self, sink: Sink) -> None:
        """Follow the log to its end. Kubernetes does not tell stdout and stderr apart."""
        await follow_log(self._cluster, self._namespace, self._watched(), sink)
        self._is_read.set()

    # its end

    async def wait(self) -> Ended:
        """Wait until no pod of the job runs.

        Raises:
            StartFailed: no node accepted it, or its container could not be started.
        """
        over = asyncio.create_task(self._wait_until_gone())
        if self._hold is None:
            raise StartFailed("the job has not been started")
        held = asyncio.ensure_future(self._hold.ended)
        try:
            waited: list[asyncio.Future[Any]] = [over, held]
            await asyncio.wait(waited, return_when=asyncio.FIRST_COMPLETED)
            if not over.done():
                await self._remove()
                return held.result()
            await self._release()
            return await self._ended(over.result())
        finally:
            over.cancel()
            if not self._copies:
                self._stop_watching()

    async def _wait_until_gone(self) -> Finished:
        """Wait for the end; for a stopped job until its pod is gone."""
        watch = self._watched()
        seen = asyncio.create_task(self._wait_until_over())
        asked: asyncio.Task[Any] = asyncio.create_task(self._asked.wait())
        try:
            await asyncio.wait([seen, asked], return_when=asyncio.FIRST_COMPLETED)
            if seen.done():
                return seen.result()
            await self._remove()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(LAST_STATE_SECONDS):
                    await watch.wait_until(lambda: isinstance(watch.state, Finished))
            await watch.close()
            return watch.state if isinstance(watch.state, Finished) else Finished()
        finally:
            seen.cancel()
            asked.cancel()

    async def _wait_until_over(self) -> Finished:
        """Wait until the pod has finished, or no node accepted it in time."""
        watch = self._watched()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._plan.pending_seconds):
                await watch.wait_until(
                    lambda: not isinstance(watch.state, Pending) or watch.state.hopeless
                )
        if isinstance(watch.state, Pending):
            pending = watch.state
            why = await explain_pending(
                self._cluster, self._namespace, watch, self._name, self._plan.pending_seconds
            )
            await self._remove()
            return Finished(pending.exit_code, unstartable=why)
        await watch.wait_until(lambda: isinstance(watch.state, Finished))
        return watch.state if isinstance(watch.state, Finished) else Finished()

    async def _ended(self, over: Finished) -> Ended:
        if over.unstartable is not None:
            raise StartFailed(over.unstartable, over.exit_code)
        try:
            async with asyncio.timeout(LAST_LOG_SECONDS):
                await self._is_read.wait()
        except TimeoutError:
            self._notices.append("the end of its log could not be read")
        if self._asked.is_set():
            return Ended(over.exit_code)
        if over.lost is not None:
            await self._remove()  # its node may only be unreachable
        self._copies = self._terms.copies and over.lost is None
        failed = over.lost is None and over.exit_code != 0
        self._keeps = failed and self._terms.keep_pod_on_failure
        return Ended(over.exit_code, over.lost)

    async def stop(self, seconds: float) -> None:
        """Delete the Job with its pod."""
        self._asked.set()
        job_id, claim_id = self._launch.job_id, self._launch.claim_id
        await delete_job(self._cluster, self._namespace, job_id, claim_id, None)
        watch = self._watched()
        if seconds < math.ceil(self._context.plan.stop_seconds) and watch.pod is not None:
            name = watch.pod["metadata"]["name"]
            await retry_while_transient(
                lambda: self._cluster.delete(
                    PODS, self._namespace, name, gracePeriodSeconds=math.ceil(seconds)
                )
            )

    async def _remove(self) -> None:
        job_id, claim_id = self._launch.job_id, self._launch.claim_id
        await remove_job(self._cluster, self._namespace, job_id, claim_id, None)

    async def _release(self) -> None:
        """Release the job from the watchdog: its process is gone."""
        if self._watchdog is not None:
            await self._watchdog.release(self._launch.job_id)

    def _stop_watching(self) -> None:
        if self._watching is not None:
            self._watching.cancel()

    # what it leaves

    @property
    def is_reachable(self) -> bool:
        """Whether the cluster reports the state of the pod."""
        return self._watch is None or not self._watch.trouble

    @property
    def pid(self) -> int | None:
        """Always None: the process is in the cluster."""
        return None

    async def collector(self) -> Collector:
        """Copy the files out of the pod; return their collector."""
        collector = self._workspace.collector()
        if self._copies:
            place = manifest.output_mount(self._terms, self._launch.directory)
            limit = self._launch.artifact_limit_bytes
            try:
                copied = copy_files(self._pod(), place, self._launch.directory, limit)
                self._notices += await copied
            finally:
                self._stop_watching()
            collector.known_as(place.folder)
        collector.notices += self._notices
        return collector

    def keep(self, report: Report, unsent: list[OutputLines]) -> None:
        """Save the outcome in the record of the job."""
        self._workspace.keep(report, unsent)

    async def discard(self) -> None:
        """Delete the Job unless `keepPodOnFailure` applies; if that fails, a successor does."""
        self._stop_watching()
        job_id, claim_id = self._launch.job_id, self._launch.claim_id
        try:
            if self._keeps and self._copies:
                await end_copies(self._pod())
            elif self._namespace and not self._keeps:
                await delete_job(self._cluster, self._namespace, job_id, claim_id, DISCARD_SECONDS)
        except ApiError as error:
            logger.warning("job %s was not removed from the cluster: %s", job_id, error)
            return
        await self._workspace.discard()

    # what exists once it has been started

    def _pod(self) -> CopyContainer:
        return CopyContainer(self._cluster, self._namespace, self._watched())

    def _watched(self) -> PodWatch:
        if self._watch is None:
            raise StartFailed("the job has not been started")
        return self._watch
