"""Everything a worker needs to run jobs, put together."""

import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass
from uuid import uuid4

from jobauto_prefect.runtime.client import FacadeClient, insist
from jobauto_prefect.runtime.executor import Equipment
from jobauto_prefect.runtime.executors import open_executors
from jobauto_prefect.runtime.fitness import (
    DISK,
    PROCESSES,
    Fitness,
    check_processes,
    disk_check,
)
from jobauto_prefect.runtime.held_jobs import HeldJobs
from jobauto_prefect.runtime.plan import WorkerPlan
from jobauto_prefect.runtime.protection import protect_process
from jobauto_prefect.runtime.protocol import WorkerHello
from jobauto_prefect.runtime.recovery import recover
from jobauto_prefect.runtime.runner import Runner
from jobauto_prefect.runtime.users import by_company, users_named
from jobauto_prefect.runtime.watchdog.client import Watchdog
from jobauto_prefect.runtime.watchdog.keeper import WatchdogKeeper
from jobauto_prefect.runtime.workplace import Workplace


@dataclass(frozen=True, slots=True)
class OpenWorker:
    """What a worker has while it works. `work_directory` goes into its claims."""

    client: FacadeClient
    runner: Runner
    held: HeldJobs
    fitness: Fitness
    work_directory: str
    lease_seconds: float


@contextlib.asynccontextmanager
async def open_worker(plan: WorkerPlan) -> AsyncIterator[OpenWorker]:
    """Greet the facade, settle what a predecessor left, and be ready to run jobs.

    Waits for a facade that is away. Jobs that still run when the context is left are ended:
    drain the runner before.

    Raises:
        Conflict: a living worker has this name.
        Unauthorized, Forbidden: the token is not good, or not for this pool.
        InvalidInput, NotReady: jobs can't run as `run_as`.
    """
    protect_process()
    async with contextlib.AsyncExitStack() as stack:
        workplace = Workplace.open(plan.directory, plan.worker, shared=bool(plan.run_as))
        stack.callback(workplace.close)
        users = users_named(plan.run_as, workplace.path)
        client = await stack.enter_async_context(FacadeClient(plan.url, plan.token))
        held = HeldJobs(plan.worker, uuid4())
        hello = WorkerHello(
            worker=plan.worker,
            pool=plan.pool,
            host=plan.host,
            instance=held.instance,
            same_place=True,
            run_as=by_company(plan.run_as),
            limit=plan.limit,
        )
        welcome = await insist(client.hello, hello)

        async def start_watchdog() -> Watchdog:
            return await Watchdog.start(
                url=client.url,
                token=plan.token,
                worker=plan.worker,
                lease_seconds=welcome.lease_seconds,
                stop_seconds=plan.stop_seconds,
                clock=client.clock,
            )

        watchdogs = WatchdogKeeper(start_watchdog)
        executors = open_executors(Equipment(client.clock, plan, workplace, watchdogs, users))
        await recover(
            client,
            workplace,
            executors,
            plan.worker,
            welcome.left_over,
            stop_seconds=plan.stop_seconds,
        )
        stack.push_async_callback(watchdogs.close)
        fitness = Fitness(
            {
                DISK: disk_check(workplace.path),
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
        directory = str(workplace.path)
        yield OpenWorker(client, runner, held, fitness, directory, welcome.lease_seconds)
