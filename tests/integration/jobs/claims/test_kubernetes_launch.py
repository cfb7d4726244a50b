"""What a definition's kubernetes section becomes at the claim."""

from datetime import timedelta
from typing import Any

import httpx
import pytest

from jobauto_prefect.ledger.records import Lease
from jobauto_prefect.ledger.store import Ledger
from tests.support.claims import claim_of, deploy_template, granted
from tests.support.definitions import PROBE
from tests.support.documents import RICHEST
from tests.support.ledger_rows import fetch_all


def launched(
    rest: httpx.Client,
    claims: httpx.Client,
    ledger: Ledger,
    document: dict[str, Any],
    executor: str,
) -> Any:
    made = deploy_template(rest, ledger, executor=executor)
    rest.post("/app/", json=document)
    assert made["executor"] == executor
    return granted(claims, claim_of())["kubernetes"]


@pytest.mark.spec("2.1.53")
def test_a_launch_for_the_cluster_has_namespace_helm_and_files(
    rest: httpx.Client, claims: httpx.Client, ledger: Ledger
) -> None:
    section = RICHEST["kubernetes"]
    document = PROBE | {"ociimage": "docker.io/acme/probe:1", "kubernetes": section}
    assert launched(rest, claims, ledger, document, "Kubernetes") == {
        "namespace": "default",
        "helm": {
            "release": "default/rich-1",
            "argv": [
                *("helm", "install", "rich-1", "oci://registry.example.org/charts/rich:1.0"),
                *("--namespace", "default", "--create-namespace", "--values", "values.yaml"),
                *("--set", "replicas=1", "--set-string", "name=x"),
                *("--set", "on=true", "--set-json", "share=0.5"),
                *("--timeout", "3600s", "--atomic"),
            ],
            "timeout_seconds": 3600,
        },
        "copies": True,
        "output_path": "/out",
        "keep_pod_on_failure": True,
    }


def test_the_ledger_gives_helm_its_time_before_the_jobs_own_begins(
    rest: httpx.Client, claims: httpx.Client, ledger: Ledger
) -> None:
    section = RICHEST["kubernetes"]
    document = PROBE | {"ociimage": "docker.io/acme/probe:1", "kubernetes": section}
    launched(rest, claims, ledger, document, "Kubernetes")
    (lease,) = fetch_all(ledger, Lease)
    given = lease.ends_by - lease.renewed_at
    assert given >= timedelta(seconds=32767 + 2 * 3600)


@pytest.mark.spec("2.1.51")
def test_helm_that_is_not_enabled_gives_the_namespace_only(
    rest: httpx.Client, claims: httpx.Client, ledger: Ledger
) -> None:
    section = {"helm": {"namespace": "erp", "chart": "a/b", "releaseName": "x"}}
    document = PROBE | {"ociimage": "docker.io/acme/probe:1", "kubernetes": section}
    assert launched(rest, claims, ledger, document, "Kubernetes") == {
        "namespace": "erp",
        "helm": None,
        "copies": False,
        "output_path": "",
        "keep_pod_on_failure": False,
    }


@pytest.mark.parametrize("executor", ["Native", "Docker"])
def test_other_executors_have_nothing_to_do_with_it(
    rest: httpx.Client, claims: httpx.Client, ledger: Ledger, executor: str
) -> None:
    section = RICHEST["kubernetes"]
    document = PROBE | {"ociimage": "docker.io/acme/probe:1", "kubernetes": section}
    assert launched(rest, claims, ledger, document, executor) is None
