"""One job as a Kubernetes Job with one pod."""

import asyncio
import contextlib
import logging
import math
import sys
from typing import Any

from pydantic import ValidationError

from jobauto_prefect.errors import NotReady, StartFailed, WorkerUnable
from jobauto_prefect.runtime.artifacts import Collector
from jobauto_prefect.runtime.executor import Equipment, Sink
from jobauto_prefect.runtime.executor_settings import KubernetesSettings, settings_for
from jobauto_prefect.runtime.kubernetes import manifest
from jobauto_prefect.runtime.kubernetes.answers import ApiError, insist
from jobauto_prefect.runtime.kubernetes.cluster import PODS, Cluster
from jobauto_prefect.runtime.kubernetes.copying import Pod, copy_files, end_copies
from jobauto_prefect.runtime.kubernetes.creation import create
from jobauto_prefect.runtime.kubernetes.following import follow
from jobauto_prefect.runtime.kubernetes.helm import Releases
from jobauto_prefect.runtime.kubernetes.pods import Over, Pending
from jobauto_prefect.runtime.kubernetes.removal import delete_job, remove_job, selector_of
from jobauto_prefect.runtime.kubernetes.secrets import name_of
from jobauto_prefect.runtime.kubernetes.watching import PodWatch, why_pending
from jobauto_prefect.runtime.place import JobPlace
from jobauto_prefect.runtime.protocol import KubernetesTerms, Launch, OutputLines, Report
from jobauto_prefect.runtime.watchdog.client import Ended, Group, Held, Watchdog

logger = logging.getLogger(__name__)

NOT_STARTED = 126  # what a shell returns for what can't be executed
DISCARD_SECONDS = 30.0  # for it to take the order to delete one
LAST_LOG_SECONDS = 30.0  # for reading what is left in the log
LAST_STATE_SECONDS = 1.0  # for the last word on a pod that is gone


class KubernetesExecution:
    """From the release its application wants to the deletion of its Job."""

    def __init__(
        self, equipment: Equipment, cluster: Cluster, releases: Releases, launch: Launch
    ) -> None:
        self._equipment = equipment
        self._plan = equipment.plan.cluster
        self._cluster = cluster
        self._releases = releases
        self._launch = launch
        self._terms = launch.kubernetes or KubernetesTerms()
        self._place = JobPlace(equipment.workplace, launch)
        self._name = name_of(launch.job_id, launch.claim_id)
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
        self._refuse_what_cannot_be()
        try:
            await self._cluster.open()
        except NotReady as error:
            raise StartFailed(str(error), NOT_STARTED) from None
        self._namespace = self._terms.namespace or self._cluster.namespace
        self._place.make(None, namespace=self._namespace)
        if self._terms.helm is not None:
            await self._releases.install(
                self._launch, self._terms.helm, self._namespace, self._place.record_path, sink
            )

    def _refuse_what_cannot_be(self) -> None:
        if not self._launch.image:
            message = "Kubernetes runs an image, and the application has no ociimage"
            raise StartFailed(message, NOT_STARTED)
        try:
            self._settings = settings_for(KubernetesSettings, self._launch.executor_settings)
        except ValidationError as error:
            message = f"the executor settings are wrong: {error.errors()[0]['msg']}"
            raise StartFailed(message, NOT_STARTED) from None

    async def put(self, path: str, content: bytes) -> None:
        """It goes along in a Secret."""
        self._files[path] = content

    async def start(self) -> None:
        """Create everything, and let the Job begin."""
        try:
            await self._create()
        except ApiError as error:
            message = f"the cluster does not take the job: {error}"
            if error.passes:
                raise WorkerUnable(message, self._launch.executor) from None
            raise StartFailed(message, NOT_STARTED) from None
        selector = selector_of(self._launch.job_id, self._launch.claim_id)
        self._watch = PodWatch(self._cluster, self._namespace, selector)
        self._watching = asyncio.create_task(self._watch.run())
        self._place.note_start(self._equipment.clock())

    async def _create(self) -> None:
        """The Job is suspended until the watchdog knows of it: it never runs unwatched."""
        cluster, namespace, launch = self._cluster, self._namespace, self._launch
        job = manifest.job_manifest(
            launch,
            self._terms,
            self._settings,
            copy_image=self._plan.copy_image,
            stop_seconds=self._equipment.plan.stop_seconds,
            files=list(self._files),
        )
        await create(cluster, namespace, launch, job, self._files.values())
        self._watchdog = await self._equipment.watchdogs.living()
        self._hold = await self._watchdog.hold(self._held())
        try:
            # For ever: while there is no answer it may run.
            await insist(lambda: cluster.resume(namespace, self._name))
        except ApiError:
            await self._release()
            raise

    def _held(self) -> Held:
        launch = self._launch
        undo = [sys.executable, "-m", "jobauto_prefect.runtime.kubernetes.removal"]
        undo += [self._namespace, str(launch.job_id), str(launch.claim_id)]
        return Held(
            job=launch.job_id,
            claim=launch.claim_id,
            directory=launch.directory,
            record=self._place.record_path,
            undo=[*undo, self._plan.context] if self._plan.context else undo,
        )

    # output

    async def stream(self, sink: Sink) -> None:
        """Follow the log to its end. Kubernetes does not tell stdout and stderr apart."""
        await follow(self._cluster, self._namespace, self._watched(), sink)
        self._is_read.set()

    # its end

    async def wait(self) -> Ended:
        """Returns when nothing of it runs any more.

        Raises:
            StartFailed: no node took it, or its container could not be started.
        """
        over = asyncio.create_task(self._until_over())
        held = asyncio.ensure_future(self._held_group().ended)
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

    async def _until_over(self) -> Over:
        """What became of it; where it was asked to end, not before its pod is gone."""
        watch = self._watched()
        seen = asyncio.create_task(self._seen_over())
        asked: asyncio.Task[Any] = asyncio.create_task(self._asked.wait())
        try:
            await asyncio.wait([seen, asked], return_when=asyncio.FIRST_COMPLETED)
            if seen.done():
                return seen.result()
            await self._remove()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(LAST_STATE_SECONDS):
                    await watch.until(lambda: isinstance(watch.state, Over))
            await watch.close()
            return watch.state if isinstance(watch.state, Over) else Over()
        finally:
            seen.cancel()
            asked.cancel()

    async def _seen_over(self) -> Over:
        """What became of it by itself, or because no node took it in time."""
        watch = self._watched()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._plan.pending_seconds):
                await watch.until(
                    lambda: not isinstance(watch.state, Pending) or watch.state.hopeless
                )
        if isinstance(watch.state, Pending):
            pending = watch.state
            why = await why_pending(
                self._cluster, self._namespace, watch, self._name, self._plan.pending_seconds
            )
            await self._remove()
            return Over(pending.exit_code, unstartable=why)
        await watch.until(lambda: isinstance(watch.state, Over))
        return watch.state if isinstance(watch.state, Over) else Over()

    async def _ended(self, over: Over) -> Ended:
        if over.unstartable is not None:
            raise StartFailed(over.unstartable, over.exit_code)
        try:
            await asyncio.wait_for(self._is_read.wait(), LAST_LOG_SECONDS)
        except TimeoutError:
            self._notices.append("the end of its log could not be read")
        if self._asked.is_set():
            return Ended(over.exit_code)
        if over.lost is not None:
            await self._remove()  # its node may only have been silent
        self._copies = self._terms.copies and over.lost is None
        self._keeps = self._copies and self._terms.keep_pod_on_failure and over.exit_code != 0
        return Ended(over.exit_code, over.lost)

    async def stop(self, seconds: float) -> None:
        """Delete the Job, and with it its pod."""
        self._asked.set()
        job_id, claim_id = self._launch.job_id, self._launch.claim_id
        await delete_job(self._cluster, self._namespace, job_id, claim_id, None)
        watch = self._watched()
        if seconds < math.ceil(self._equipment.plan.stop_seconds) and watch.pod is not None:
            name = watch.pod["metadata"]["name"]
            await insist(
                lambda: self._cluster.delete(
                    PODS, self._namespace, name, gracePeriodSeconds=math.ceil(seconds)
                )
            )

    async def _remove(self) -> None:
        job_id, claim_id = self._launch.job_id, self._launch.claim_id
        await remove_job(self._cluster, self._namespace, job_id, claim_id, None)

    async def _release(self) -> None:
        """Its process lives no more: the watchdog need not end it."""
        if self._watchdog is not None:
            await self._watchdog.release(self._launch.job_id)

    def _stop_watching(self) -> None:
        if self._watching is not None:
            self._watching.cancel()

    # what it left

    @property
    def is_reachable(self) -> bool:
        """Whether the cluster says what its pod does."""
        return self._watch is None or not self._watch.trouble

    @property
    def pid(self) -> int | None:
        """It has no process here."""
        return None

    async def collector(self) -> Collector:
        """What takes the artifacts from what is copied now."""
        collector = self._place.collector()
        if self._copies:
            place = manifest.mounted(self._terms, self._launch.directory)
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
        """Write its outcome down."""
        self._place.keep(report, unsent)

    async def discard(self) -> None:
        """Delete the Job, unless it is to be looked at; where that fails a successor does it."""
        self._stop_watching()
        job_id, claim_id = self._launch.job_id, self._launch.claim_id
        try:
            if self._keeps:
                await end_copies(self._pod())
            elif self._namespace:
                await delete_job(self._cluster, self._namespace, job_id, claim_id, DISCARD_SECONDS)
        except ApiError as error:
            logger.warning("job %s was not removed from the cluster: %s", job_id, error)
            return
        await self._place.discard()

    # what is there once it has been started

    def _pod(self) -> Pod:
        return Pod(self._cluster, self._namespace, self._watched())

    def _watched(self) -> PodWatch:
        if self._watch is None:
            raise StartFailed("the job has not been started")
        return self._watch

    def _held_group(self) -> Group:
        if self._hold is None:
            raise StartFailed("the job has not been started")
        return self._hold
