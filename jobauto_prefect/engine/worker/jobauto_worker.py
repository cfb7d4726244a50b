"""The jobauto worker: a Prefect worker that runs jobs in its own process, without Prefect's engine.

Prefect finds it by the entry point group `prefect.collections`; only public methods of
`BaseWorker` are overridden.
"""

import asyncio
import contextlib
import copy
import logging
import os
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import anyio
import httpx
from prefect.context import refresh_global_settings_context
from prefect.settings import get_current_settings
from prefect.workers.base import (
    BaseJobConfiguration,
    BaseVariables,
    BaseWorker,
    BaseWorkerResult,
)

from jobauto_prefect.engine.work_pools import (
    BASE_JOB_TEMPLATE,
    DESCRIPTION,
    LOGO_URL,
    POOL_TYPE,
    announce_silence,
    ensure_pool,
)
from jobauto_prefect.errors import Conflict, JobautoError
from jobauto_prefect.retries import retry_until_available
from jobauto_prefect.settings import Settings, load_settings, worker_name

if TYPE_CHECKING:
    from anyio.abc import TaskStatus
    from prefect.client.schemas.objects import FlowRun

    from jobauto_prefect.engine.api import PrefectApi
    from jobauto_prefect.engine.worker.session import WorkerSession

logger = logging.getLogger(__name__)

SIGNALS = (signal.SIGTERM, signal.SIGINT)
LOOKAHEAD = 2.5  # polls; a run that becomes due between two polls must be known before
PATIENCE_SECONDS = 5.0  # until the worker prints what it waits for
SILENT_POLLS = 30  # missed polls after which a worker counts as stuck, as for other workers


class JobautoResult(BaseWorkerResult):
    """Required by Prefect's base class; nothing is submitted through Prefect's engine."""


class JobautoWorker(BaseWorker[BaseJobConfiguration, BaseVariables, JobautoResult]):
    """Claims each run at the facade, runs its job, and reports the result to Prefect."""

    type = POOL_TYPE
    job_configuration = BaseJobConfiguration
    _description = DESCRIPTION
    _display_name = POOL_TYPE
    _logo_url = LOGO_URL

    def __init__(
        self,
        work_pool_name: str,
        work_queues: list[str] | None = None,
        name: str | None = None,
        prefetch_seconds: float | None = None,
        *,
        limit: int | None = None,
        jobauto_settings: Settings | None = None,
        run_as: Sequence[str] = (),
        when_ready: Callable[[], None] | None = None,
        **others: Any,
    ) -> None:
        """Set up a worker; `name` defaults to host and pool, `limit` to the setting.

        `run_as` are the users of native jobs, see `WorkerConfig`. `when_ready` is called once the
        facade knows this worker.
        """
        name = name or worker_name(work_pool_name)
        super().__init__(work_pool_name, work_queues, name, prefetch_seconds, limit=limit, **others)
        self._pool_name = work_pool_name
        self._makes_pool = bool(others.get("create_pool_if_not_found", True))
        self._queue_names = tuple(work_queues or ())
        self._jobs_at_once = limit
        self._jobauto_settings = jobauto_settings
        self._run_as = tuple(run_as)
        self._when_ready = when_ready
        self._alive_at: float | None = None
        self._working: asyncio.Task[None] | None = None
        self._worker_session: WorkerSession | None = None
        self._prefect: PrefectApi | None = None
        self._asked_to_end = asyncio.Event()
        self._superseded = asyncio.Event()
        self._reporting: asyncio.Task[None] | None = None

    @classmethod
    def get_default_base_job_template(cls) -> dict[str, Any]:
        """Return the initial job template of a work pool created by `prefect worker start`."""
        return copy.deepcopy(BASE_JOB_TEMPLATE)

    async def start(
        self,
        run_once: bool = False,
        with_healthcheck: bool = False,
        printer: Callable[..., None] = print,
    ) -> None:
        """Work until SIGTERM, SIGINT or cancellation, then drain; a second one shortens the drain.

        Raises:
            NotReady: there is no token.
            Conflict: a living worker has this name.
            Unauthorized, Forbidden: the facade does not allow this worker in its pool.
        """
        self._working = asyncio.create_task(self._work(run_once, with_healthcheck, printer))
        with self._handle_signals():
            try:
                await asyncio.wait({self._working})
            except asyncio.CancelledError:
                self.end()
                with anyio.CancelScope(shield=True):  # otherwise it would cancel repeatedly
                    await self._outlast(self._working)
                raise
        if not self._working.cancelled():
            self._working.result()

    def end(self) -> None:
        """Stop accepting runs and drain; called again, shorten the grace period."""
        if self._asked_to_end.is_set() and self._worker_session is not None:
            self._worker_session.hurry()
        self._asked_to_end.set()
        if self._worker_session is None and self._working is not None:
            self._working.cancel()

    async def setup(self) -> None:
        """Set up the base worker once Prefect answers, then subscribe to the pool's events.

        The base worker would retry only with its next heartbeat.
        """
        if self._prefect is not None and self._makes_pool:
            await retry_until_available(ensure_pool, self._prefect, self._pool_name)
        await super().setup()
        self._listen()

    async def sync_with_backend(self) -> None:
        """Send a heartbeat, unless no job can be started: the worker is then shown as offline.

        After the first success, an outage of Prefect does not end the worker.
        """
        try:
            if self.is_setup and not self._is_able:
                if self._worker_channel is not None:
                    # An open channel sends heartbeats by itself; the next sync opens another.
                    self._worker_channel.stop()
                    self._worker_channel = None
            else:
                await super().sync_with_backend()
        except httpx.HTTPError as error:
            if not self.is_setup:
                raise
            logger.warning("no heartbeat was sent to Prefect: %s", error)

    async def get_and_submit_flow_runs(self) -> "list[FlowRun]":
        """Poll in addition to the event stream; nothing is submitted through Prefect."""
        self._alive_at = time.monotonic()
        if self._worker_session is not None:
            self._listen()
            await self._worker_session.tick()
        return []

    @property
    def _is_able(self) -> bool:
        return self._worker_session is None or self._worker_session.is_able

    def is_worker_still_polling(self, query_interval_seconds: float) -> bool:
        """Whether this worker's loops are running, or wait for their first poll.

        An outage of Prefect does not count.
        """
        silence = SILENT_POLLS * query_interval_seconds
        return self._alive_at is None or time.monotonic() - self._alive_at <= silence

    async def run(
        self,
        flow_run: "FlowRun",
        configuration: BaseJobConfiguration,  # noqa: ARG002
        task_status: "TaskStatus[int] | None" = None,  # noqa: ARG002
    ) -> JobautoResult:
        """Refuse: runs are claimed, not submitted, so nothing calls this."""
        raise Conflict(
            f"flow run {flow_run.id} can't be submitted: a jobauto worker runs deployments of run"
            " templates; use another work pool"
        )

    # the session

    async def _work(
        self, run_once: bool, with_healthcheck: bool, printer: Callable[..., None]
    ) -> None:
        # Imported here because every process of Prefect imports this module.
        from jobauto_prefect.engine.api import connect, sign_in_as
        from jobauto_prefect.engine.worker.dispatcher import PollTarget
        from jobauto_prefect.engine.worker.session import SessionOptions, WorkerSession
        from jobauto_prefect.engine.worker.worker_monitor import (
            watch_jobs,
            worker_monitor,
        )
        from jobauto_prefect.monitoring.ports import Part, management_port
        from jobauto_prefect.monitoring.tracing import begin_tracing
        from jobauto_prefect.runtime.worker_config import load_worker_config
        from jobauto_prefect.runtime.worker_context import open_worker

        begin_tracing("worker")
        settings = self._jobauto_settings or load_settings()
        of_prefect = get_current_settings().worker
        target = PollTarget(
            self._pool_name,
            self._queue_names,
            self._jobs_at_once or settings.concurrent_jobs,
            max(of_prefect.prefetch_seconds, LOOKAHEAD * of_prefect.query_seconds),
        )
        plan = load_worker_config(
            settings,
            worker=self.name,
            pool=self._pool_name,
            run_as=self._run_as,
            limit=target.limit,
        )
        options = SessionOptions(self.name, target, settings.grace_seconds)
        waiting = asyncio.get_running_loop().call_later(
            PATIENCE_SECONDS, printer, f"Waiting for the facade at {settings.facade} ..."
        )
        monitor = worker_monitor(
            settings,
            lambda: self.is_worker_still_polling(get_current_settings().worker.query_seconds),
        )
        with sign_in_as(plan.token):
            async with (
                management_port(settings, Part.WORKER, monitor),
                connect() as api,
                open_worker(plan) as opened,
                WorkerSession(api, opened, options) as session,
            ):
                watch_jobs(monitor, opened, target.limit)
                waiting.cancel()
                if self._when_ready is not None:
                    self._when_ready()
                self._worker_session = session
                opened.fitness.listener = lambda: self._fitness_changed(api, session)
                self._prefect = api
                await self._until_end(session, super().start(run_once, with_healthcheck, printer))
        self._worker_session = None

    async def _until_end(self, session: "WorkerSession", polling: Any) -> None:
        loops = asyncio.create_task(polling)
        asked = asyncio.create_task(self._asked_to_end.wait())
        superseded = asyncio.create_task(self._superseded.wait())
        try:
            waited = {loops, asked, superseded}
            await asyncio.wait(waited, return_when=asyncio.FIRST_COMPLETED)
            if asked.done():
                await session.end()
            else:  # the jobs may take long to end, and the worker may be asked to end meanwhile
                finishing = asyncio.create_task(session.finish())
                await asyncio.wait({finishing, asked}, return_when=asyncio.FIRST_COMPLETED)
                if not finishing.done():
                    finishing.cancel()
                    await session.end()
        finally:
            asked.cancel()
            superseded.cancel()
            if not loops.done():
                loops.cancel()
            await asyncio.wait({loops})
        if not loops.cancelled():
            loops.result()
        if self._superseded.is_set():
            raise Conflict(
                f"worker {self.name} has ended: another one has its name, or it was declared lost"
            )

    def _fitness_changed(self, api: "PrefectApi", session: "WorkerSession") -> None:
        session.on_fitness_changed()
        if session.is_superseded:
            self._superseded.set()
        self._reporting = asyncio.create_task(self._report_fitness(api))

    async def _report_fitness(self, api: "PrefectApi") -> None:
        """Report to Prefect at once whether this worker is able to work."""
        try:
            await self.sync_with_backend()
            if not self._is_able:
                await announce_silence(api, self._pool_name, self.name)
        except (JobautoError, httpx.HTTPError, RuntimeError) as error:
            logger.warning("the state of this worker was not reported to Prefect: %s", error)

    async def _outlast(self, working: "asyncio.Task[None]") -> None:
        while not working.done():
            try:
                await asyncio.wait({working})
            except asyncio.CancelledError:
                self.end()

    def _listen(self) -> None:
        with contextlib.suppress(RuntimeError):  # the work pool is still unknown
            if self._worker_session is not None:
                self._worker_session.listen_to(self.work_pool.id)

    @contextlib.contextmanager
    def _handle_signals(self) -> Iterator[None]:
        """Replace the signal handlers of `prefect worker start`, which end the process."""
        loop = asyncio.get_running_loop()
        heeded = []
        for number in SIGNALS:
            # Only works in the main thread's loop.
            with contextlib.suppress(NotImplementedError, RuntimeError, ValueError):
                loop.add_signal_handler(number, self.end)
                heeded.append(number)
        try:
            yield
        finally:
            for number in heeded:
                loop.remove_signal_handler(number)


async def run_worker(
    settings: Settings,
    pool: str,
    name: str | None = None,
    limit: int | None = None,
    run_as: Sequence[str] = (),
    when_ready: Callable[[], None] | None = None,
) -> None:
    """Run a jobauto worker until SIGTERM or SIGINT; see `JobautoWorker.start`."""
    if "prefect_api_url" in settings.model_fields_set or not get_current_settings().api.url:
        os.environ["PREFECT_API_URL"] = settings.prefect_api_url
        refresh_global_settings_context()
    worker = JobautoWorker(
        pool,
        name=name,
        limit=limit,
        jobauto_settings=settings,
        run_as=run_as,
        when_ready=when_ready,
    )
    await worker.start(printer=logger.info)
