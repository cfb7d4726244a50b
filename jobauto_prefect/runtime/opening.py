"""Everything a worker needs to run jobs, put together."""

import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from uuid import uuid4

from jobauto_prefect.runtime.client import FacadeClient, insist
from jobauto_prefect.runtime.native import NativeExecutor
from jobauto_prefect.runtime.protection import protect_process
from jobauto_prefect.runtime.protocol import WorkerHello
from jobauto_prefect.runtime.recovery import recover
from jobauto_prefect.runtime.runner import Runner
from jobauto_prefect.runtime.users import user_named
from jobauto_prefect.runtime.watchdog.client import Watchdog
from jobauto_prefect.runtime.workplace import Workplace


@dataclass(frozen=True, slots=True)
class WorkerPlan:
    """Who a worker is and where it works.

    `directory` holds the directories of all workers of this machine. `stop_seconds` pass between
    TERM and KILL. `run_as` is a user's name; None means this process's own user.
    """

    url: str
    token: str = field(repr=False)
    worker: str
    pool: str
    host: str
    directory: Path
    stop_seconds: float
    run_as: str | None = None


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
        workplace = Workplace.open(plan.directory, plan.worker, shared=plan.run_as is not None)
        stack.callback(workplace.close)
        user = user_named(plan.run_as, workplace.path) if plan.run_as else None
        client = await stack.enter_async_context(FacadeClient(plan.url, plan.token))
        hello = WorkerHello(
            worker=plan.worker, pool=plan.pool, host=plan.host, instance=uuid4(), same_place=True
        )
        welcome = await insist(client.hello, hello)
        await recover(
            client, workplace, plan.worker, welcome.left_over, stop_seconds=plan.stop_seconds
        )

        async def start_watchdog() -> Watchdog:
            return await Watchdog.start(
                url=client.url,
                token=plan.token,
                worker=plan.worker,
                lease_seconds=welcome.lease_seconds,
                stop_seconds=plan.stop_seconds,
            )

        runner = Runner(
            client,
            {"Native": NativeExecutor(workplace, start_watchdog, user)},
            worker=plan.worker,
            lease_seconds=welcome.lease_seconds,
            stop_seconds=plan.stop_seconds,
        )
        await stack.enter_async_context(runner)
        yield OpenWorker(client, runner, str(workplace.path), welcome.lease_seconds)
