"""Everything a worker needs to run jobs, put together."""

import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass
from uuid import uuid4

from jobauto_prefect.runtime.client import FacadeClient, insist
from jobauto_prefect.runtime.executor import Equipment
from jobauto_prefect.runtime.executors import open_executors
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
        hello = WorkerHello(
            worker=plan.worker,
            pool=plan.pool,
            host=plan.host,
            instance=uuid4(),
            same_place=True,
            run_as=by_company(plan.run_as),
        )
        welcome = await insist(client.hello, hello)

        async def start_watchdog() -> Watchdog:
            return await Watchdog.start(
                url=client.url,
                token=plan.token,
                worker=plan.worker,
                lease_seconds=welcome.lease_seconds,
                stop_seconds=plan.stop_seconds,
            )

        watchdogs = WatchdogKeeper(start_watchdog)
        executors = open_executors(Equipment(plan, workplace, watchdogs, users))
        await recover(
            client,
            workplace,
            executors,
            plan.worker,
            welcome.left_over,
            stop_seconds=plan.stop_seconds,
        )
        stack.push_async_callback(watchdogs.close)
        runner = Runner(
            client,
            executors,
            worker=plan.worker,
            lease_seconds=welcome.lease_seconds,
            stop_seconds=plan.stop_seconds,
        )
        await stack.enter_async_context(runner)
        yield OpenWorker(client, runner, str(workplace.path), welcome.lease_seconds)
