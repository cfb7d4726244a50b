"""A flow that runs a job of a run template, for deployments that people make with `prefect deploy`.

Like any other API client, it creates the job as the user whose token its process has.
"""

import asyncio
import os
from functools import partial
from typing import Any

from prefect import State, flow
from prefect.client.schemas.objects import StateType
from prefect.logging import get_run_logger
from prefect.runtime import flow_run

from jobauto_prefect.errors import JobautoError, Unauthorized, Unavailable
from jobauto_prefect.ledger.states import JobState
from jobauto_prefect.retries import retry, retry_until_available
from jobauto_prefect.runtime.facade_client import FacadeClient
from jobauto_prefect.settings import load_settings

PATIENCE_SECONDS = 60.0
"""How long to retry creating the job while the facade is away; waiting for its end has no limit."""

POLL_SECONDS = 1.0
LIVE = (JobState.SCHEDULED, JobState.RUNNING)
GOOD = (JobState.SUCCEEDED, JobState.WARNING)


@flow(name="jobauto run", log_prints=False)
async def run_job(template: str, env: dict[str, Any] | None = None) -> State[Any]:
    """Run a job of a run template and end as it ends.

    Args:
        template: company and name of the run template, such as acme/backup.
        env: values for this job. Prefect shows them: secrets belong in credentials.
    """
    try:
        job = await _run(template, env or {})
    except JobautoError as error:
        return State(type=StateType.FAILED, message=str(error))
    outcome = f"job {job['id']} {job['state']}: {job['message'] or 'no message'}"
    get_run_logger().info(outcome)
    kind = StateType.COMPLETED if job["state"] in GOOD else StateType.FAILED
    return State(type=kind, message=outcome)


async def _run(template: str, env: dict[str, Any]) -> dict[str, Any]:
    token = os.environ.get("JOBAUTO_TOKEN", "").strip()
    if not token:
        raise Unauthorized(
            "JOBAUTO_TOKEN is not set; start the worker with a token of"
            " jobauto token issue --user LOGIN"
        )
    # A repeated request makes no second job; a retry of the run does.
    key = f"{flow_run.get_id()}-{flow_run.get_run_count()}"
    fields = {"runtemplate_id": template, "env": env}
    async with FacadeClient(load_settings().url, token) as client:
        job = await retry(
            partial(client.start_job, fields, key),
            lambda error, usual: usual if isinstance(error, Unavailable) else None,
            PATIENCE_SECONDS,
        )
        get_run_logger().info("created job %s of %s", job["id"], template)
        while job["state"] in LIVE:
            await asyncio.sleep(POLL_SECONDS)
            job = await retry_until_available(client.job, job["id"])
    return job
