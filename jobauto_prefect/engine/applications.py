"""The flows of all applications: `app_<id>` is created on access.

Deployments name their flow by this module's path, so that any Prefect worker with this package
installed can load it, in a process of its own. The flow claims its run as its first act, runs the
job through the same runtime as the jobauto worker, and ends in the state the ledger decides.
"""

import asyncio
import contextlib
import inspect
import os
import re
import signal
from collections.abc import AsyncIterator, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from uuid import UUID, uuid4

from prefect import Flow, State
from prefect.client.schemas.objects import FlowRun, StateType
from prefect.context import FlowRunContext
from prefect.exceptions import Abort
from prefect.utilities.callables import ParameterSchema as PrefectSchema

from jobauto_prefect.compiler.deployments import flow_plan
from jobauto_prefect.compiler.parameters import REFERENCES, ParameterSchema, parameters
from jobauto_prefect.compiler.plan import template_in
from jobauto_prefect.definitions import parse
from jobauto_prefect.engine.api import PrefectApi, connect
from jobauto_prefect.engine.flow_runs import (
    CANCELLED_IN_PREFECT,
    ENDING,
    read_states,
    set_state,
)
from jobauto_prefect.engine.worker.log_shipper import LogShipper
from jobauto_prefect.engine.worker.state_reporter import (
    RunMetadata,
    StateReporter,
    appearance_at_start,
)
from jobauto_prefect.errors import Conflict, JobautoError, NotReady
from jobauto_prefect.jobs.appearance import RunAppearance
from jobauto_prefect.monitoring.tracing import begin_tracing
from jobauto_prefect.retries import retry_until_available
from jobauto_prefect.runtime.facade_client import FacadeClient
from jobauto_prefect.runtime.launch.claim import LaunchClaim
from jobauto_prefect.runtime.protocol import (
    ApplicationDocument,
    Claim,
    ClaimAnswer,
    PrefectState,
    RunStatus,
)
from jobauto_prefect.runtime.worker_config import load_worker_config, require_worker_token
from jobauto_prefect.runtime.worker_context import WorkerContext, open_worker
from jobauto_prefect.settings import Settings, host_name, load_settings

PATIENCE_SECONDS = 60.0
"""How long to wait for an unavailable facade."""


def __getattr__(name: str) -> Flow[Any, Any]:
    matched = re.fullmatch("app_([1-9][0-9]*)", name)
    if matched is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    # The caller, such as Prefect loading a flow by name, may have a running event loop.
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(asyncio.run, _load(int(matched[1]))).result()


async def _load(app_id: int) -> Flow[Any, Any]:
    """Load a flow; on failure within a flow run's process, fail the run with the reason."""
    try:
        return await load(app_id, load_settings(), PATIENCE_SECONDS)
    except JobautoError as error:
        if flow_run_id := os.environ.get("PREFECT__FLOW_RUN_ID"):
            message = f"the application {app_id} can't be loaded: {error}"
            status = RunStatus(state=PrefectState.FAILED, message=message)
            async with connect() as api:
                await set_state(api, UUID(flow_run_id), status)
        raise


MOST_AT_ONCE = 1000  # flow runs of one pool on one machine


async def load(app_id: int, settings: Settings, patience_seconds: float) -> Flow[Any, Any]:
    """Return the flow of an application as the facade describes it.

    Raises:
        FacadeUnavailable: it did not answer within `patience_seconds`.
        NotReady, Unauthorized, NotFound: the flow can't be loaded; the message says why.
    """
    async with FacadeClient(
        settings.facade, require_worker_token(settings, settings.pool)
    ) as client:
        try:
            async with asyncio.timeout(patience_seconds):
                return compile_flow(
                    await retry_until_available(client.application, app_id), settings
                )
        except TimeoutError:
            return compile_flow(await client.application(app_id), settings)


def compile_flow(application: ApplicationDocument, settings: Settings) -> Flow[Any, Any]:
    """Return the flow of an application, with a parameter for each of its parameters."""
    definition = parse(application.document)
    plan = flow_plan(application.id, definition, settings.language)
    compiled = parameters(definition, settings.language)

    async def run(**values: Any) -> State[Any]:  # noqa: ARG001 - the claim takes the flow run's
        return await run_application(settings)

    run.__signature__ = inspect.Signature(list(_parameters(compiled)))  # type: ignore[attr-defined]
    flow: Flow[Any, Any] = Flow(
        fn=run,
        name=plan.name,
        version=plan.version,
        description=plan.description,
        # The claim validates the values and reports all their errors at once.
        validate_parameters=False,
    )
    flow.parameters = PrefectSchema.model_validate(compiled.schema)
    return flow


def _parameters(compiled: ParameterSchema) -> Iterator[inspect.Parameter]:
    kind = inspect.Parameter.KEYWORD_ONLY
    for name in compiled.parameter_keys:
        required = name in compiled.schema["required"]
        missing = inspect.Parameter.empty if required else None
        default = compiled.defaults.get(name, missing)
        yield inspect.Parameter(name, kind, default=default)
    yield inspect.Parameter(REFERENCES, kind, default=None)


async def run_application(settings: Settings) -> State[Any]:
    """Claim this flow run and run its job: the body of every flow."""
    context = FlowRunContext.get()
    run = context.flow_run if context else None
    if not isinstance(run, FlowRun) or run.deployment_id is None:
        raise NotReady("this flow runs as a deployment; start a run of its run template")
    deployment_id = run.deployment_id
    async with contextlib.AsyncExitStack() as stack:
        api = await stack.enter_async_context(connect())
        try:
            opened, worker = await _open(stack, settings, run.work_pool_name or settings.pool)
            claim = LaunchClaim(
                opened.client,
                Claim(
                    claim_id=uuid4(),
                    flow_run_id=run.id,
                    run_number=max(1, run.run_count),
                    deployment_id=deployment_id,
                    template_id=template_in(run.labels),
                    parameters=run.parameters,
                    auto_scheduled=bool(run.auto_scheduled),
                    scheduled_for=run.expected_start_time,
                    idempotency_key=run.idempotency_key,
                    worker=worker,
                    instance=opened.held.instance,
                    work_directory=opened.work_directory,
                ),
            )
            with opened.held.claiming(claim.claim_id):
                answer = await claim.ask()
                if answer.launch is not None:
                    opened.held.hold(answer.launch)
        except Conflict as error:
            raise Abort(f"another worker has this run: {error}") from None
        except JobautoError as error:
            return State(type=StateType.FAILED, message=str(error))
        return await _carry_out(api, opened, run, claim, answer)


async def _open(
    stack: contextlib.AsyncExitStack, settings: Settings, pool: str
) -> tuple[WorkerContext, str]:
    """Register a separate worker for each flow run that runs concurrently on this machine."""
    begin_tracing("flow")
    for number in range(1, MOST_AT_ONCE):
        worker = f"{host_name()} {pool} flow {number}"
        plan = load_worker_config(settings, worker=worker, pool=pool)
        with contextlib.suppress(Conflict):
            return await stack.enter_async_context(open_worker(plan)), worker
    raise NotReady(f"more than {MOST_AT_ONCE} flow runs on this machine at once")


async def _carry_out(
    api: PrefectApi, opened: WorkerContext, run: FlowRun, claim: LaunchClaim, answer: ClaimAnswer
) -> State[Any]:
    reporter, metadata = StateReporter(api), RunMetadata(run.labels)
    if answer.refusal is not None:
        run_status: RunStatus | None = answer.refusal.run_status
    elif answer.launch is not None:
        looks = RunAppearance(run.name, tuple(run.tags))
        begun = appearance_at_start(looks, run.labels, answer.launch)
        reporter.show_start(run.id, looks, begun)
        metadata = RunMetadata(run.labels, begun)
        logs = LogShipper(api)
        async with logs.sending(), _ending_on_sigterm(api, opened, run.id, answer.launch.job_id):
            run_log = logs.run_log(run.id, answer.launch.job_id)
            outcome = await opened.runner.run(answer.launch, run_log, claim.confirm)
        run_status = outcome.answer.run_status if outcome.answer else None
    else:
        raise Abort("the facade's answer is empty")
    if run_status is None:
        raise Abort("the ledger rejected the outcome")
    try:
        return await _tell_end(api, run, run_status)
    finally:
        reporter.attach_metadata(run.id, run_status, metadata)
        await reporter.wait_until_idle()


@contextlib.asynccontextmanager
async def _ending_on_sigterm(
    api: PrefectApi, opened: WorkerContext, flow_run_id: UUID, job_id: int
) -> AsyncIterator[None]:
    """End the job on SIGTERM, which Prefect's worker, for example, sends to a cancelled run."""
    loop = asyncio.get_running_loop()
    ending: list[asyncio.Task[None]] = []

    async def end() -> None:
        states: Mapping[UUID, str | None] = {}
        with contextlib.suppress(JobautoError):
            states = await read_states(api, [flow_run_id])
        if states.get(flow_run_id) in ENDING:
            opened.runner.stop(job_id, CANCELLED_IN_PREFECT)
        else:
            await opened.runner.drain(0)

    former = signal.getsignal(signal.SIGTERM)
    try:
        loop.add_signal_handler(signal.SIGTERM, lambda: ending.append(asyncio.create_task(end())))
    except (NotImplementedError, RuntimeError, ValueError):  # not running in the main thread
        yield
        return
    try:
        yield
    finally:
        loop.remove_signal_handler(signal.SIGTERM)
        signal.signal(signal.SIGTERM, former)


async def _tell_end(api: PrefectApi, run: FlowRun, run_status: RunStatus) -> State[Any]:
    try:
        # Prefect's engine would report an end with an id of its own. The services report the same
        # end, so it would count twice.
        await set_state(api, run.id, run_status)
    except JobautoError:
        if run_status.state is PrefectState.SCHEDULED:
            raise
        # The engine needs a state to be set.
        return State(type=StateType(run_status.state), message=run_status.message)
    # The engine logs the state it knows, as an error unless that is Completed.
    run.state = State(type=StateType(run_status.state), message=run_status.message)
    raise Abort(run_status.message)
