"""The parts of the whole service on one machine."""

from collections.abc import Sequence

from jobauto_prefect.cli.installation import Prepared
from jobauto_prefect.cli.program import WITHHELD, command, facade_address, told_of
from jobauto_prefect.cli.supervision import PartPlan
from jobauto_prefect.settings import Settings

MARGIN_SECONDS = 15.0
"""What a worker may take to end beyond the grace of its jobs."""

LEDGER_ONLY = ("DB_", "JOBAUTO_DATABASE_URL", "JOBAUTO_KEY_FILE")
"""How the variables begin that a worker, and so its jobs, must not see."""


def stages(settings: Settings, prepared: Prepared) -> Sequence[Sequence[PartPlan]]:
    """All parts, in the order of starting. Facade and services share a process, and its memory."""
    told = told_of(settings)
    worker = command("worker", "start", "--pool", settings.pool)
    worker += ["--token-file", str(prepared.token_file)]
    return [
        [
            PartPlan(
                "prefect",
                command("prefect", "start"),
                told,
                WITHHELD,
                ready_url=f"{settings.prefect_api_url}/health",
            ),
            PartPlan(
                "facade",
                command("api", "start", "--services"),
                told,
                WITHHELD,
                ready_url=f"{facade_address(settings)}/api/v1/ping.json",
            ),
        ],
        [
            PartPlan(
                "worker",
                worker,
                told,
                (*WITHHELD, *LEDGER_ONLY),
                stop_seconds=settings.grace_seconds + MARGIN_SECONDS,
                says_ready=True,
            )
        ],
    ]
