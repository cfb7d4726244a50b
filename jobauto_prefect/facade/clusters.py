"""What a launch says to the Kubernetes executor."""

from collections.abc import Mapping
from typing import Any

from jobauto_prefect.compiler.helm import HELMS_OWN_SECONDS, helm_argv
from jobauto_prefect.definitions import Helm, parse_kubernetes
from jobauto_prefect.runtime.protocol import HelmRun, KubernetesTerms

KUBERNETES = "Kubernetes"
HELM_AT_MOST = 2  # times its own timeout: for others that install the release, and for itself
HELM_MARGIN_SECONDS = 120.0  # for fetching the chart, rolling back, and creating the Job


def kubernetes_terms(document: Mapping[str, Any], executor: str) -> KubernetesTerms | None:
    """From the `kubernetes` section of a definition; None for a job of another executor."""
    if executor != KUBERNETES:
        return None
    section = parse_kubernetes(document.get("kubernetes", {}))
    helm, artifacts = section.helm, section.artifacts
    return KubernetesTerms(
        namespace=helm.namespace or None,
        helm=_helm_run(helm) if helm.enabled else None,
        copies=artifacts.enabled,
        output_path=artifacts.output_path,
        keep_pod_on_failure=artifacts.keep_pod_on_failure,
    )


def _helm_run(helm: Helm) -> HelmRun:
    return HelmRun(
        release=f"{helm.namespace}/{helm.release_name}",
        argv=helm_argv(helm),
        timeout_seconds=helm.timeout_seconds or HELMS_OWN_SECONDS,
    )


def preparing_seconds(document: Mapping[str, Any], executor: str) -> float:
    """How long after its claim a job's own time may begin, at most."""
    terms = kubernetes_terms(document, executor)
    if terms is None or terms.helm is None:
        return 0.0
    return HELM_AT_MOST * terms.helm.timeout_seconds + HELM_MARGIN_SECONDS
