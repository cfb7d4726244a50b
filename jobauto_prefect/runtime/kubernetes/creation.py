"""Putting a job into the cluster, where it does not begin yet."""

from collections.abc import Collection
from functools import partial

from jobauto_prefect.runtime.kubernetes.answers import insist
from jobauto_prefect.runtime.kubernetes.cluster import JOBS, SECRETS, Cluster
from jobauto_prefect.runtime.kubernetes.secrets import Manifest, files_manifest, secret_manifest
from jobauto_prefect.runtime.protocol import Launch

PATIENCE_SECONDS = 60.0  # with a cluster that does not answer


async def create(
    cluster: Cluster, namespace: str, launch: Launch, job: Manifest, files: Collection[bytes]
) -> None:
    """The suspended Job and the Secrets it owns; `files` in the order of the Job's mounts.

    Raises:
        ApiError: the cluster refuses, or does not answer for a minute. What is there by then does
            not run.
        StartFailed: it can't have the environment.
    """
    made = await insist(partial(cluster.create, JOBS, namespace, job), PATIENCE_SECONDS)
    owner = made["metadata"]["uid"]
    secrets = [secret_manifest(launch, owner)]
    if files:
        secrets.append(files_manifest(launch, owner, files))
    for secret in secrets:
        await insist(partial(cluster.create, SECRETS, namespace, secret), PATIENCE_SECONDS)
