"""The parts of the whole service on one machine."""

from collections.abc import Sequence

from jobauto_prefect.cli.service.installation import PreparedHome
from jobauto_prefect.cli.service.process import PartPlan
from jobauto_prefect.cli.service.program import (
    WITHHELD,
    facade_address,
    part_variables,
    program_command,
)
from jobauto_prefect.settings import Settings

MARGIN_SECONDS = 15.0
"""How long a worker may take to end beyond the grace of its jobs."""

LEDGER_ONLY = ("DB_", "JOBAUTO_DATABASE_URL", "JOBAUTO_KEY_FILE", "JOBAUTO_REDIS_URL")
"""Prefixes of variables that a worker, and so its jobs, must not see."""


def plan_stages(settings: Settings, prepared: PreparedHome) -> Sequence[Sequence[PartPlan]]:
    """Plan all parts, the last to end first, as the worker's ending jobs still need to report.

    Facade and services share a process to save memory.
    """
    variables = part_variables(settings)
    worker = program_command("worker", "start", "--pool", settings.pool)
    worker += ["--token-file", str(prepared.token_file)]
    return [
        [
            PartPlan(
                "prefect",
                program_command("prefect", "start"),
                variables,
                WITHHELD,
                ready_url=f"{settings.prefect_api_url}/health",
            ),
            PartPlan(
                "facade",
                program_command("api", "start", "--services"),
                variables,
                WITHHELD,
                ready_url=f"{facade_address(settings)}/api/v1/ping.json",
            ),
        ],
        [
            PartPlan(
                "worker",
                worker,
                variables,
                (*WITHHELD, *LEDGER_ONLY),
                stop_seconds=settings.grace_seconds + MARGIN_SECONDS,
                says_ready=True,
            )
        ],
    ]
