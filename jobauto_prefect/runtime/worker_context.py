"""Sets up everything a worker needs to run jobs."""

import asyncio
import contextlib
import hashlib
import importlib.metadata
import os
from collections.abc import AsyncIterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from uuid import uuid4

from jobauto_prefect import __version__, certificates
from jobauto_prefect.retries import retry_until_available
from jobauto_prefect.runtime.executor import ExecutorContext
from jobauto_prefect.runtime.executors.registry import open_executors
from jobauto_prefect.runtime.executors.users import parse_user_names, parse_users
from jobauto_prefect.runtime.facade_client import FacadeClient
from jobauto_prefect.runtime.fitness import (
    DISK,
    PROCESSES,
    Fitness,
    check_processes,
    disk_check,
)
from jobauto_prefect.runtime.protocol import WorkerFacts, WorkerHello
from jobauto_prefect.runtime.recovery import recover
from jobauto_prefect.runtime.runner import HeldJobs, Runner
from jobauto_prefect.runtime.watchdog import process_table
from jobauto_prefect.runtime.watchdog.client import Watchdog, WatchdogSupervisor
from jobauto_prefect.runtime.worker_config import WorkerConfig
from jobauto_prefect.runtime.workspace import WorkerWorkspace

MOST_CHARTS = 1000  # files of the Helm directory that are compared


@dataclass(frozen=True, slots=True)
class WorkerContext:
    """What a worker has while it runs. `work_directory` is sent with its claims."""

    client: FacadeClient
    runner: Runner
    held: HeldJobs
    fitness: Fitness
    work_directory: str
    lease_seconds: float


@contextlib.asynccontextmanager
async def open_worker(plan: WorkerConfig) -> AsyncIterator[WorkerContext]:
    """Register at the facade, settle what a predecessor left, and get ready to run jobs.

    Waits for an unavailable facade. Leaving the context ends running jobs: drain the runner first.

    Raises:
        Conflict: a living worker has this name.
        Unauthorized, Forbidden: the token is invalid, or not for this pool.
        InvalidInput, NotReady: jobs can't run as `run_as`.
    """
    protect_process()
    async with contextlib.AsyncExitStack() as stack:
        workspace = WorkerWorkspace.open(plan.directory, plan.worker, shared=bool(plan.run_as))
        stack.callback(workspace.close)
        users = parse_users(plan.run_as, workspace.path)
        await asyncio.to_thread(certificates.verification, plan.url)  # loads it for the client
        client = await stack.enter_async_context(FacadeClient(plan.url, plan.token))
        held = HeldJobs(plan.worker, uuid4())
        hello = WorkerHello(
            worker=plan.worker,
            pool=plan.pool,
            host=plan.host,
            instance=held.instance,
            same_place=True,
            run_as=parse_user_names(plan.run_as),
            limit=plan.limit,
            facts=await asyncio.to_thread(_facts, plan),
        )
        welcome = await retry_until_available(client.hello, hello)

        async def start_watchdog() -> Watchdog:
            return await Watchdog.start(
                url=client.url,
                token=plan.token,
                worker=plan.worker,
                lease_seconds=welcome.lease_seconds,
                stop_seconds=plan.stop_seconds,
                clock=client.clock,
            )

        watchdogs = WatchdogSupervisor(start_watchdog)
        executors = open_executors(ExecutorContext(client.clock, plan, workspace, watchdogs, users))
        await recover(
            client,
            workspace,
            executors,
            plan.worker,
            welcome.left_over,
            stop_seconds=plan.stop_seconds,
        )
        stack.push_async_callback(watchdogs.close)
        # Start it now, not with the first job, because an upgrade may replace its files meanwhile.
        # If it can't start, the first job reports that.
        with contextlib.suppress(OSError):
            await watchdogs.get()
        fitness = Fitness(
            {
                DISK: disk_check(workspace.path),
                PROCESSES: check_processes,
                **{name: executor.check for name, executor in executors.items()},
            }
        )
        runner = Runner(
            client,
            executors,
            held=held,
            fitness=fitness,
            lease_seconds=welcome.lease_seconds,
            stop_seconds=plan.stop_seconds,
        )
        await stack.enter_async_context(runner)
        directory = str(workspace.path)
        yield WorkerContext(client, runner, held, fitness, directory, welcome.lease_seconds)


def _facts(plan: WorkerConfig) -> WorkerFacts:
    settings = {
        "JOBAUTO_KUBERNETES_NAMESPACE": plan.cluster.namespace,
        "JOBAUTO_KUBERNETES_CONTEXT": plan.cluster.context,
    }
    return WorkerFacts(
        version=__version__,
        prefect=importlib.metadata.version("prefect"),
        pid=os.getpid(),
        charts=_chart_digests(plan.cluster.helm_directory),
        settings={name: value for name, value in settings.items() if value},
    )


def _chart_digests(folder: Path | None) -> dict[str, str]:
    """Return digests of the files in the Helm directory, by path; of one that can't be read, ""."""
    if folder is None:
        return {}
    files = (each for each in sorted(folder.rglob("*")) if each.is_file())
    found = {}
    for file in islice(files, MOST_CHARTS):
        digest = ""
        with contextlib.suppress(OSError), file.open("rb") as opened:
            digest = hashlib.file_digest(opened, "sha256").hexdigest()[:16]
        found[os.fsencode(file.relative_to(folder)).decode(errors="replace")] = digest
    return found


def protect_process() -> None:
    """Drop the token; hide this process's memory and initial environment from its user's others.

    Call it as soon as the settings are read, before any job starts. Orphaned descendants become
    this process's children, so that it can end them when its watchdog dies.
    """
    os.environ.pop("JOBAUTO_WORKER_TOKEN", None)
    process_table.hide_memory()
    process_table.adopt_orphans()
