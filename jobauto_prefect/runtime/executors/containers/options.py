"""From a launch and its settings to what the engine is asked for; pure."""

from collections.abc import Mapping
from typing import Any

from docker.types import LogConfig, Mount, Ulimit  # type: ignore[import-untyped]

from jobauto_prefect.runtime.executors.settings import ContainerSettings
from jobauto_prefect.runtime.protocol import Launch

LABEL = "jobauto"


def container_name(launch: Launch) -> str:
    """Return the name of the container of a claim; each claim has its own."""
    return f"jobauto-{launch.job_id}-{launch.claim_id.hex}"


def host_options(launch: Launch, settings: ContainerSettings) -> dict[str, Any]:
    """Build the host options: limits, mounts, network.

    The job's directory has the same path inside, so that each path in its environment holds. The
    engine keeps no output: it is streamed, and may hold secrets.
    """
    directory: Mapping[str, Any] = {
        "mounts": [Mount(launch.directory, launch.directory, type="bind")],
    }
    if launch.executor == "Podman":  # Docker takes no such options
        directory = {"binds": [f"{launch.directory}:{launch.directory}:rw,nosuid,nodev"]}
    options: dict[str, Any] = {
        **directory,
        "log_config": LogConfig(type="none"),
        "security_opt": ["no-new-privileges"],
        "cap_drop": ["MKNOD"],  # others could open a device that is left in the directory
        "read_only": settings.read_only,
        "init": settings.init,
        "ulimits": [_ulimit(name, value) for name, value in settings.ulimits.items()],
        "network_mode": settings.network,
        "mem_limit": settings.memory,
        "nano_cpus": settings.cpu and round(settings.cpu * 1e9),
        "runtime": settings.runtime,
    }
    return {name: value for name, value in options.items() if value not in (None, False, [])}


def container_options(launch: Launch, *, user: str, worker: str, workspace: str) -> dict[str, Any]:
    """Build the container's options: image, command, environment, user, labels.

    The whole command is the entry point: the image's own has no say.
    """
    return {
        "image": launch.image,
        "name": container_name(launch),
        "entrypoint": launch.argv,
        "command": [],
        "environment": launch.environment,
        "working_dir": launch.directory,
        "user": user,
        "labels": {
            f"{LABEL}.job": str(launch.job_id),
            f"{LABEL}.claim": str(launch.claim_id),
            f"{LABEL}.company": launch.company,
            f"{LABEL}.worker": worker,
            f"{LABEL}.workplace": workspace,
        },
        "use_config_proxy": False,
    }


def workspace_filter(workspace: str) -> dict[str, str]:
    """Return the filter for all containers of a workspace."""
    return {"label": f"{LABEL}.workplace={workspace}"}


def _ulimit(name: str, value: str) -> Ulimit:
    soft, _, hard = value.partition(":")
    return Ulimit(name=name, soft=int(soft), hard=int(hard or soft))
