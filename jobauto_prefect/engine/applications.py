"""The flows of all applications: `app_<id>` is made when it is asked for.

Deployments name their flow by this module's path, so that any Prefect worker with this package
installed can load it.
"""

import asyncio
import os
import re
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from uuid import UUID

from prefect import Flow

from jobauto_prefect.engine.connection import connect
from jobauto_prefect.engine.flow_runs.operations import set_state
from jobauto_prefect.engine.flows import load
from jobauto_prefect.errors import JobautoError
from jobauto_prefect.runtime.protocol import PrefectState, RunStatus
from jobauto_prefect.settings import load_settings

PATIENCE_SECONDS = 60.0
"""How long to wait for a facade that is away."""


def __getattr__(name: str) -> Flow[Any, Any]:
    matched = re.fullmatch("app_([1-9][0-9]*)", name)
    if matched is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    # Whoever asks may have a running event loop.
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(asyncio.run, _load(int(matched[1]))).result()


async def _load(app_id: int) -> Flow[Any, Any]:
    try:
        return await load(app_id, load_settings(), PATIENCE_SECONDS)
    except JobautoError as error:
        await _show(f"the application {app_id} can't be loaded: {error}")
        raise


async def _show(message: str) -> None:
    """Fail the run with the reason, where this is a flow run's process."""
    flow_run_id = os.environ.get("PREFECT__FLOW_RUN_ID")
    if flow_run_id:
        async with connect() as api:
            await set_state(
                api, UUID(flow_run_id), RunStatus(state=PrefectState.FAILED, message=message)
            )
