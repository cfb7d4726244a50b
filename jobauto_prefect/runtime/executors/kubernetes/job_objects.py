"""The objects of a job in the cluster: created suspended; deleted even if their worker is gone.

    python -m jobauto_prefect.runtime.executors.kubernetes.job_objects NAMESPACE JOB CLAIM [CONTEXT]

Exit code 0: nothing of it is running any more.
"""

import asyncio
import sys
from collections.abc import Collection
from functools import partial
from uuid import UUID

from jobauto_prefect.runtime.executors.kubernetes.cluster import (
    JOBS,
    PODS,
    SECRETS,
    Cluster,
    retry_while_transient,
)
from jobauto_prefect.runtime.executors.kubernetes.manifest import (
    Manifest,
    files_manifest,
    job_labels,
    job_name,
    secret_manifest,
)
from jobauto_prefect.runtime.protocol import Launch

PATIENCE_SECONDS = 60.0  # if the cluster does not answer


async def create_job(
    cluster: Cluster, namespace: str, launch: Launch, job: Manifest, files: Collection[bytes]
) -> None:
    """Create the suspended Job and the Secrets it owns; `files` in order of the Job's mounts.

    Raises:
        ApiError: the cluster refuses, or does not answer for a minute. Anything created before is
            not running.
        StartFailed: Kubernetes can't take the environment.
    """
    made = await retry_while_transient(
        partial(cluster.create, JOBS, namespace, job), PATIENCE_SECONDS
    )
    owner = made["metadata"]["uid"]
    secrets = [secret_manifest(launch, owner)]
    if files:
        secrets.append(files_manifest(launch, owner, files))
    for secret in secrets:
        await retry_while_transient(
            partial(cluster.create, SECRETS, namespace, secret), PATIENCE_SECONDS
        )


LOOK_SECONDS = 0.3
ANSWER_SECONDS = 60.0


def job_selector(job_id: int, claim_id: UUID) -> str:
    """Return the label selector for all objects of an attempt."""
    return ",".join(f"{name}={value}" for name, value in job_labels(job_id, claim_id).items())


async def delete_job(
    cluster: Cluster, namespace: str, job_id: int, claim_id: UUID, patience_seconds: float | None
) -> None:
    """Delete a Job: first its pods, then the Job, then what it owns."""
    name = job_name(job_id, claim_id)
    await retry_while_transient(
        lambda: cluster.delete(JOBS, namespace, name, propagationPolicy="Foreground"),
        patience_seconds,
    )


async def remove_job(
    cluster: Cluster, namespace: str, job_id: int, claim_id: UUID, patience_seconds: float | None
) -> None:
    """Delete a Job and wait until it and its pods are gone.

    `patience_seconds` limits the wait for a cluster that does not answer; None: no limit.

    Raises:
        ApiError: it does not answer, or refuses.
    """
    await delete_job(cluster, namespace, job_id, claim_id, patience_seconds)
    selector = job_selector(job_id, claim_id)
    while await _has_remaining(cluster, namespace, selector, patience_seconds):  # noqa: ASYNC110
        await asyncio.sleep(LOOK_SECONDS)


async def _has_remaining(
    cluster: Cluster, namespace: str, selector: str, patience_seconds: float | None
) -> bool:
    for kind in (JOBS, PODS):
        answer = await retry_while_transient(
            partial(cluster.list_objects, kind, namespace, selector), patience_seconds
        )
        if answer["items"]:
            return True
    return False


def undo_command(namespace: str, launch: Launch, context: str | None) -> list[str]:
    """Return the command with which a watchdog deletes a job whose worker is gone."""
    command = [sys.executable, "-m", "jobauto_prefect.runtime.executors.kubernetes.job_objects"]
    command += [namespace, str(launch.job_id), str(launch.claim_id)]
    return [*command, context] if context else command


async def _remove(namespace: str, job: str, claim: str, context: str | None = None) -> None:
    cluster = Cluster(context, namespace)
    try:
        await remove_job(cluster, namespace, int(job), UUID(claim), ANSWER_SECONDS)
    finally:
        await cluster.close()


if __name__ == "__main__":
    asyncio.run(_remove(*sys.argv[1:]))
