"""The Job of one attempt, and its Secrets. Pure.

The Job is created suspended, so that its Secret can name it as owner before a pod starts.
"""

import base64
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any
from uuid import UUID

from pydantic import ValidationError

from jobauto_prefect.errors import StartFailed
from jobauto_prefect.runtime.executors.settings import KubernetesSettings, settings_for
from jobauto_prefect.runtime.exit_codes import NOT_EXECUTABLE
from jobauto_prefect.runtime.protocol import TEMPORARY, KubernetesTerms, Launch
from jobauto_prefect.text_patterns import error_message

SECRET_KEY = re.compile(r"[-._a-zA-Z0-9]{1,253}")
Manifest = dict[str, Any]


def job_name(job_id: int, claim_id: UUID) -> str:
    """Return the name of the Job and of its Secret, different for each attempt."""
    return f"jobauto-{job_id}-{claim_id.hex[:8]}"


def job_labels(job_id: int, claim_id: UUID) -> dict[str, str]:
    """Return the labels that identify a job's objects."""
    return {
        "app.kubernetes.io/managed-by": "jobauto",
        "jobauto/job": str(job_id),
        "jobauto/claim": str(claim_id),
    }


def files_name(launch: Launch) -> str:
    """Return the name of the Secret with the job's input files."""
    return f"{job_name(launch.job_id, launch.claim_id)}-files"


def files_manifest(launch: Launch, owner: str, contents: Iterable[bytes]) -> Manifest:
    """Return a Secret with these files, in order of their paths, owned by the Job with this uid."""
    data = {file_key(number): content for number, content in enumerate(contents)}
    return _secret(launch, files_name(launch), owner, data)


def secret_manifest(launch: Launch, owner: str) -> Manifest:
    """Return a Secret with the environment, owned by the Job with this uid.

    Raises:
        StartFailed: Kubernetes does not allow a variable's name.
    """
    values = launch.environment | secret_arguments(launch)
    wrong = sorted(name for name in values if not SECRET_KEY.fullmatch(name))
    if wrong:
        raise StartFailed(
            f"Kubernetes can't have variables named {', '.join(wrong)}", NOT_EXECUTABLE
        )
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
    """Return the name of the variable that stands for an argument."""
    return f"JOBAUTO_ARGUMENT_{number}"


def file_key(number: int) -> str:
    """Return the Secret key of an input file."""
    return f"file-{number}"


JOB, COPIES = "job", "artifacts"
"""Names of a pod's containers: the application's, and the one files are copied from."""

BEYOND_SECONDS = 30  # after its timeout, the cluster ends a job that its worker could not end
FORGET_SECONDS = 3600  # after its end, if no worker deletes it
KEPT_SECONDS = 7 * 24 * 3600  # for a failed pod that is kept for troubleshooting
LABEL = re.compile(r"[A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?")
WAITING = "trap 'exit 0' TERM; while :; do sleep 3600 & wait $!; done"
PULL = {"always": "Always", "missing": "IfNotPresent", "never": "Never"}


@dataclass(frozen=True, slots=True)
class OutputMount:
    """What is copied from a pod: `path` inside `folder`, which is a volume."""

    folder: str
    path: str


def output_mount(terms: KubernetesTerms, directory: str) -> OutputMount:
    """Return the place of `outputPath`.

    A relative path is in the job's own directory; without one, the whole directory is copied. An
    absolute path is a folder, or a file if its last part contains a dot; its folder is empty when
    the job starts.

    Raises:
        StartFailed: it is the root of the file system, or outside the job's directory.
    """
    path = PurePosixPath(terms.output_path or ".")
    if ".." in path.parts:
        raise StartFailed(
            f"kubernetes.artifacts.outputPath {path} must not have .. in it", NOT_EXECUTABLE
        )
    if not path.is_absolute():
        return OutputMount(directory, str(path))
    is_file = "." in path.name.lstrip(".")
    folder = path.parent if is_file else path
    if folder == PurePosixPath("/"):
        message = f"kubernetes.artifacts.outputPath {path} must be in a folder of its own"
        raise StartFailed(message, NOT_EXECUTABLE)
    if folder.is_relative_to(directory):
        return OutputMount(directory, str(path.relative_to(directory)))
    return OutputMount(str(folder), path.name if is_file else ".")


def required_settings(launch: Launch) -> KubernetesSettings:
    """Parse the executor settings of a job.

    Raises:
        StartFailed: they are invalid, or the application has no image.
    """
    if not launch.image:
        message = "Kubernetes needs an image: add ociimage to the application's definition"
        raise StartFailed(message, NOT_EXECUTABLE)
    try:
        return settings_for(KubernetesSettings, launch.executor_settings)
    except ValidationError as error:
        message = f"the executor settings are wrong: {error_message(error.errors()[0])}"
        raise StartFailed(message, NOT_EXECUTABLE) from None


def job_manifest(
    launch: Launch,
    terms: KubernetesTerms,
    settings: KubernetesSettings,
    *,
    copy_image: str,
    stop_seconds: float,
    files: Sequence[str] = (),
) -> Manifest:
    """Return the Job, suspended. `files` are the paths of its input files in its directory.

    Raises:
        StartFailed: the definition asks for something impossible.
    """
    name = job_name(launch.job_id, launch.claim_id)
    labels = settings.labels | job_labels(launch.job_id, launch.claim_id)
    if LABEL.fullmatch(launch.company):
        labels["jobauto/company"] = launch.company
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": name,
            "labels": labels,
            "annotations": {"jobauto/title": launch.title},
        },
        "spec": {
            "suspend": True,
            "backoffLimit": 0,
            "podReplacementPolicy": "Failed",
            "activeDeadlineSeconds": math.ceil(launch.timeout_seconds) + BEYOND_SECONDS,
            "ttlSecondsAfterFinished": KEPT_SECONDS
            if terms.keep_pod_on_failure
            else FORGET_SECONDS,
            "template": {
                "metadata": {"labels": labels},
                "spec": _pod(launch, terms, settings, copy_image, stop_seconds, files),
            },
        },
    }


def _pod(
    launch: Launch,
    terms: KubernetesTerms,
    settings: KubernetesSettings,
    copy_image: str,
    stop_seconds: float,
    files: Sequence[str],
) -> Manifest:
    directory = launch.directory
    mounts = {"work": directory, "tmp": f"{directory}/{TEMPORARY}"}
    containers = [_job_container(launch, settings, mounts)]
    if terms.copies:
        place = output_mount(terms, directory)
        if place.folder != directory:
            mounts["output"] = place.folder
            containers[0]["volumeMounts"] = _mounts(mounts)
        containers.append(_copy_container(copy_image, place, mounts))
    volumes: list[Manifest] = [{"name": name, "emptyDir": {}} for name in mounts]
    if files:
        volumes.append({"name": "files", "secret": {"secretName": files_name(launch)}})
        containers[0]["volumeMounts"] += [
            {"name": "files", "mountPath": f"{directory}/{path}", "subPath": file_key(number)}
            for number, path in enumerate(files)
        ]
    return _without_none(
        {
            "restartPolicy": "Never",
            "enableServiceLinks": False,  # links would add variables that nobody has set
            "serviceAccountName": settings.service_account,
            "automountServiceAccountToken": settings.service_account is not None,
            "imagePullSecrets": [{"name": name} for name in settings.image_pull_secrets] or None,
            "nodeSelector": settings.node_selector or None,
            "securityContext": _user(settings.user),
            "terminationGracePeriodSeconds": math.ceil(stop_seconds),
            "containers": containers,
            "volumes": volumes,
        }
    )


def _job_container(
    launch: Launch, settings: KubernetesSettings, mounts: Mapping[str, str]
) -> Manifest:
    name = job_name(launch.job_id, launch.claim_id)
    limits = _amounts(settings.cpu, settings.memory)
    requests = _amounts(settings.cpu_request, settings.memory_request)
    resources = {name: part for name, part in (("limits", limits), ("requests", requests)) if part}
    return _without_none(
        {
            "name": JOB,
            "image": launch.image,
            "imagePullPolicy": PULL[settings.pull],
            "command": list(_command(launch)),
            "workingDir": launch.directory,
            "envFrom": [{"secretRef": {"name": name}}],
            "resources": resources or None,
            "securityContext": {"readOnlyRootFilesystem": True} if settings.read_only else None,
            "volumeMounts": _mounts(mounts),
        }
    )


def _copy_container(image: str, place: OutputMount, mounts: Mapping[str, str]) -> Manifest:
    volume = next(name for name, folder in mounts.items() if folder == place.folder)
    return {
        "name": COPIES,
        "image": image,
        "command": ["sh", "-c", WAITING],
        "resources": {
            "requests": {"cpu": "10m", "memory": "16Mi"},
            "limits": {"cpu": "1", "memory": "64Mi"},
        },
        "volumeMounts": [{"name": volume, "mountPath": place.folder, "readOnly": True}],
    }


def _mounts(mounts: Mapping[str, str]) -> list[Manifest]:
    return [{"name": name, "mountPath": path} for name, path in mounts.items()]


def _command(launch: Launch) -> Iterable[str]:
    """Yield the argument vector, with references instead of secrets.

    Kubernetes substitutes variables for `$(NAME)`; a literal dollar is doubled.
    """
    secret = secret_arguments(launch)
    for number, word in enumerate(launch.argv):
        name = argument_name(number)
        yield f"$({name})" if name in secret else word.replace("$", "$$")


def _user(user: str | None) -> Manifest | None:
    if user is None:
        return None
    uid, _, gid = user.partition(":")
    context = {"runAsUser": int(uid)}
    return context | ({"runAsGroup": int(gid), "fsGroup": int(gid)} if gid else {})


def _amounts(cpu: float | None, memory: str | None) -> Manifest:
    """Return cores in thousandths, and memory, whose k, m, g are powers of 1024, as Ki, Mi, Gi."""
    amounts = {}
    if cpu is not None:
        amounts["cpu"] = f"{math.ceil(cpu * 1000)}m"
    if memory is not None:
        digits = memory.rstrip("kmg")
        amounts["memory"] = (
            digits + {"": "", "k": "Ki", "m": "Mi", "g": "Gi"}[memory[len(digits) :]]
        )
    return amounts


def _without_none(members: Manifest) -> Manifest:
    return {name: value for name, value in members.items() if value is not None}
