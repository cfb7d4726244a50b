"""The `kubernetes` section of a definition (specification 2.1, kubernetes)."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

Setting = str | int | float | bool
"""Types of a value in `helm.set`."""


@dataclass(frozen=True, slots=True)
class Helm:
    """The release an application needs before it runs.

    `timeout_seconds` is Helm's own limit, None: Helm's default (300 s). An empty `namespace` means
    the one that jobs run in.
    """

    enabled: bool = False
    release_name: str = ""
    namespace: str = ""
    chart: str = ""
    values_files: tuple[str, ...] = ()
    set: Mapping[str, Setting] = field(default_factory=dict)
    upgrade_install: bool = True
    timeout_seconds: int | None = None
    atomic: bool = False
    wait: bool = True


@dataclass(frozen=True, slots=True)
class PodArtifacts:
    """What is copied from a pod. An empty `output_path` means the job's whole directory."""

    enabled: bool = False
    output_path: str = ""
    keep_pod_on_failure: bool = False


@dataclass(frozen=True, slots=True)
class Kubernetes:
    """How an application runs in a cluster."""

    helm: Helm = Helm()
    artifacts: PodArtifacts = PodArtifacts()


def parse_kubernetes(raw: Mapping[str, Any]) -> Kubernetes:
    """Parse the section of a valid document; an empty one means all defaults."""
    return Kubernetes(_helm(raw.get("helm", {})), _artifacts(raw.get("artifacts", {})))


def _helm(raw: Mapping[str, Any]) -> Helm:
    return Helm(
        enabled=raw.get("enabled", False),
        release_name=raw.get("releaseName", ""),
        namespace=raw.get("namespace", ""),
        chart=raw.get("chart", ""),
        values_files=tuple(raw.get("valuesFiles", ())),
        set=raw.get("set", {}),
        upgrade_install=raw.get("upgradeInstall", True),
        timeout_seconds=raw.get("timeoutSeconds"),
        atomic=raw.get("atomic", False),
        wait=raw.get("wait", True),
    )


def _artifacts(raw: Mapping[str, Any]) -> PodArtifacts:
    return PodArtifacts(
        enabled=raw.get("enabled", False),
        output_path=raw.get("outputPath", ""),
        keep_pod_on_failure=raw.get("keepPodOnFailure", False),
    )
