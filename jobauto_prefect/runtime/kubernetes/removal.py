"""Deleting a job from the cluster, also for a worker that is gone.

    python -m jobauto_prefect.runtime.kubernetes.removal NAMESPACE JOB CLAIM [CONTEXT]

Exit code 0: nothing of it runs any more.
"""

import asyncio
import sys
from functools import partial
from uuid import UUID

from jobauto_prefect.runtime.kubernetes.answers import insist
from jobauto_prefect.runtime.kubernetes.cluster import JOBS, PODS, Cluster
from jobauto_prefect.runtime.kubernetes.secrets import labels_of, name_of

LOOK_SECONDS = 0.3
ANSWER_SECONDS = 60.0


def selector_of(job_id: int, claim_id: UUID) -> str:
    """What all objects of an attempt have in common."""
    return ",".join(f"{name}={value}" for name, value in labels_of(job_id, claim_id).items())


async def delete_job(
    cluster: Cluster, namespace: str, job_id: int, claim_id: UUID, patience_seconds: float | None
) -> None:
    """Have it deleted: first its pods, then the Job, then what the Job owns."""
    name = name_of(job_id, claim_id)
    await insist(
        lambda: cluster.delete(JOBS, namespace, name, propagationPolicy="Foreground"),
        patience_seconds,
    )


async def remove_job(
    cluster: Cluster, namespace: str, job_id: int, claim_id: UUID, patience_seconds: float | None
) -> None:
    """Delete it, and return when it and its pods are gone.

    `patience_seconds` is for a cluster that does not answer, None: for ever.

    Raises:
        ApiError: it does not answer, or refuses.
    """
    await delete_job(cluster, namespace, job_id, claim_id, patience_seconds)
    selector = selector_of(job_id, claim_id)
    while await _some_left(cluster, namespace, selector, patience_seconds):  # noqa: ASYNC110
        await asyncio.sleep(LOOK_SECONDS)


async def _some_left(
    cluster: Cluster, namespace: str, selector: str, patience_seconds: float | None
) -> bool:
    for kind in (JOBS, PODS):
        found = await insist(partial(cluster.all, kind, namespace, selector), patience_seconds)
        if found["items"]:
            return True
    return False


async def _remove(namespace: str, job: str, claim: str, context: str | None = None) -> None:
    cluster = Cluster(context, namespace)
    try:
        await remove_job(cluster, namespace, int(job), UUID(claim), ANSWER_SECONDS)
    finally:
        await cluster.close()


if __name__ == "__main__":
    asyncio.run(_remove(*sys.argv[1:]))
