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
    helm, artifacts = raw.get("helm", {}), raw.get("artifacts", {})
    return Kubernetes(
        Helm(
            enabled=helm.get("enabled", False),
            release_name=helm.get("releaseName", ""),
            namespace=helm.get("namespace", ""),
            chart=helm.get("chart", ""),
            values_files=tuple(helm.get("valuesFiles", ())),
            set=helm.get("set", {}),
            upgrade_install=helm.get("upgradeInstall", True),
            timeout_seconds=helm.get("timeoutSeconds"),
            atomic=helm.get("atomic", False),
            wait=helm.get("wait", True),
        ),
        PodArtifacts(
            enabled=artifacts.get("enabled", False),
            output_path=artifacts.get("outputPath", ""),
            keep_pod_on_failure=artifacts.get("keepPodOnFailure", False),
        ),
    )
