"""What only a Secret holds: the environment, arguments with a secret in them, files; pure."""

import base64
import re
from collections.abc import Iterable, Mapping
from typing import Any
from uuid import UUID

from jobauto_prefect.errors import StartFailed
from jobauto_prefect.runtime.protocol import Launch

SECRET_KEY = re.compile(r"[-._a-zA-Z0-9]{1,253}")

Manifest = dict[str, Any]


def job_name(job_id: int, claim_id: UUID) -> str:
    """Return the name of the Job and of its Secret: another attempt has another."""
    return f"jobauto-{job_id}-{claim_id.hex[:8]}"


def job_labels(job_id: int, claim_id: UUID) -> dict[str, str]:
    """Return the labels by which a job is found again."""
    return {
        "app.kubernetes.io/managed-by": "jobauto",
        "jobauto/job": str(job_id),
        "jobauto/claim": str(claim_id),
    }


def files_name(launch: Launch) -> str:
    """Return the name of the Secret with the files a job is given."""
    return f"{job_name(launch.job_id, launch.claim_id)}-files"


def files_manifest(launch: Launch, owner: str, contents: Iterable[bytes]) -> Manifest:
    """Return a Secret of these files, in order of their paths, owned by the Job with this uid."""
    data = {file_key(number): content for number, content in enumerate(contents)}
    return _secret(launch, files_name(launch), owner, data)


def secret_manifest(launch: Launch, owner: str) -> Manifest:
    """Return a Secret of the environment, owned by the Job with this uid.

    Raises:
        StartFailed: a variable has a name that Kubernetes can't have.
    """
    values = launch.environment | secret_arguments(launch)
    wrong = sorted(name for name in values if not SECRET_KEY.fullmatch(name))
    if wrong:
        raise StartFailed(f"Kubernetes can't have variables named {', '.join(wrong)}", 126)
    data = {key: text.encode() for key, text in values.items()}
    return _secret(launch, job_name(launch.job_id, launch.claim_id), owner, data)


def _secret(launch: Launch, name: str, owner: str, data: Mapping[str, bytes]) -> Manifest:
    job = job_name(launch.job_id, launch.claim_id)
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "type": "Opaque",
        "immutable": True,
        "metadata": {
            "name": name,
            "labels": job_labels(launch.job_id, launch.claim_id),
            "ownerReferences": [
                {"apiVersion": "batch/v1", "kind": "Job", "name": job, "uid": owner}
            ],
        },
        "data": {key: base64.b64encode(value).decode("ascii") for key, value in data.items()},
    }


def secret_arguments(launch: Launch) -> dict[str, str]:
    """Return variables for the arguments that contain a secret."""
    return {
        argument_name(number): word
        for number, word in enumerate(launch.argv)
        if any(secret in word for secret in launch.secrets if secret)
    }


def argument_name(number: int) -> str:
    """Return the variable that stands for an argument."""
    return f"JOBAUTO_ARGUMENT_{number}"


def file_key(number: int) -> str:
    """Return the entry of a file that a job is given."""
    return f"file-{number}"
