"""Run templates whose deployments somebody paused or resumed just now.

The drift monitor finds all of them in time; who is about to make a run of one asks here before.
"""

import asyncio
from collections.abc import Collection
from uuid import UUID

from jobauto_prefect.engine.api import PAGE_SIZE
from jobauto_prefect.engine.context import EngineContext
from jobauto_prefect.engine.sync.deployment_comparison import is_pause_changed
from jobauto_prefect.engine.sync.deployment_drift import DeploymentComparison
from jobauto_prefect.engine.sync.drift import read_objects
from jobauto_prefect.ledger.jobs import windows
from jobauto_prefect.ledger.store import Ledger


async def adopt_pauses(context: EngineContext, template_ids: Collection[int]) -> set[int]:
    """Change the records by deployments that were paused or resumed.

    Returns:
        Those of these templates of which that is so.

    Raises:
        PrefectUnavailable: Prefect does not answer.
    """
    applied = await asyncio.to_thread(_applied_pauses, context.ledger, template_ids)
    ids = [str(deployment_id) for deployment_id in applied]
    changed = {
        template_id
        for deployment in await read_objects(context.prefect, "deployments", "id", ids)
        for template_id, paused in [applied[UUID(deployment["id"])]]
        if is_pause_changed(deployment, paused)
    }
    if not changed:
        return set()
    corrections, _ = await DeploymentComparison(context).correct(among=changed)
    return {correction.id for correction in corrections if "paused" in correction.taken_over}


def _applied_pauses(ledger: Ledger, template_ids: Collection[int]) -> dict[UUID, tuple[int, bool]]:
    """Return deployment -> its template, and whether it was last applied as paused."""
    with ledger.reading() as session:
        applied = windows.applied_pauses(session, 0, PAGE_SIZE, template_ids)
    return {deployment: (template_id, paused) for template_id, deployment, paused, *_ in applied}
