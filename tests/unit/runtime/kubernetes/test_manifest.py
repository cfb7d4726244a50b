"""What is created in the cluster for a job."""

import base64
import json
from typing import Any
from uuid import UUID

import pytest

from jobauto_prefect.errors import StartFailed
from jobauto_prefect.runtime.executors.kubernetes.manifest import (
    OutputMount,
    files_manifest,
    job_manifest,
    output_mount,
    secret_manifest,
)
from jobauto_prefect.runtime.executors.settings import KubernetesSettings
from jobauto_prefect.runtime.protocol import KubernetesTerms, Launch

CLAIM = UUID("0c7a1f5e-6d1b-4f0e-9a54-2f3f6a0f1d02")
DIRECTORY = "/var/lib/jobauto/work/w/job-7"


def launch(**members: Any) -> Launch:
    values: dict[str, Any] = {
        "job_id": 7,
        "claim_id": CLAIM,
        "title": "acme / nightly #7",
        "company": "acme",
        "argv": ["run", "--fast"],
        "command_shown": "run --fast",
        "environment": {"A": "1"},
        "executor": "Kubernetes",
        "image": "docker.io/acme/run:1",
        "directory": DIRECTORY,
        "timeout_seconds": 59.5,
        "lease_seconds": 30,
        "output_limit_bytes": 1,
        "artifact_limit_bytes": 1,
    }
    return Launch(**(values | members))


def job(
    terms: KubernetesTerms | None = None,
    settings: dict[str, Any] | None = None,
    files: tuple[str, ...] = (),
    **members: Any,
) -> dict[str, Any]:
    return job_manifest(
        launch(**members),
        terms or KubernetesTerms(),
        KubernetesSettings.model_validate(settings or {}),
        copy_image="busybox",
        stop_seconds=4.2,
        files=files,
    )


def pod(*arguments: Any, **members: Any) -> dict[str, Any]:
    found: dict[str, Any] = job(*arguments, **members)["spec"]["template"]["spec"]
    return found


def decoded(secret: dict[str, Any]) -> dict[str, bytes]:
    return {name: base64.b64decode(text) for name, text in secret["data"].items()}


def test_a_job_begins_suspended_and_runs_once() -> None:
    made = job()
    assert made["metadata"]["name"] == "jobauto-7-0c7a1f5e"
    assert made["metadata"]["labels"] == made["spec"]["template"]["metadata"]["labels"]
    assert made["metadata"]["labels"]["jobauto/claim"] == str(CLAIM)
    assert made["metadata"]["labels"]["jobauto/company"] == "acme"
    assert made["spec"]["suspend"] is True
    assert made["spec"]["backoffLimit"] == 0
    assert made["spec"]["activeDeadlineSeconds"] == 60 + 30
    assert pod()["restartPolicy"] == "Never"
    assert pod()["terminationGracePeriodSeconds"] == 5


def test_the_job_works_in_a_directory_of_the_path_its_environment_names() -> None:
    container = pod()["containers"][0]
    assert container["workingDir"] == DIRECTORY
    assert container["volumeMounts"] == [
        {"name": "work", "mountPath": DIRECTORY},
        {"name": "tmp", "mountPath": f"{DIRECTORY}/tmp"},
    ]
    assert [volume["name"] for volume in pod()["volumes"]] == ["work", "tmp"]


def test_no_value_of_the_environment_and_no_secret_is_outside_of_the_secret() -> None:
    secrets: dict[str, Any] = {
        "argv": ["run", "--password=hunter22", "a$(A)b$$", "${A}"],
        "environment": {"A": "geheim", "PASSWORD": "hunter22"},
        "secrets": ["hunter22"],
    }
    made = job(**secrets)
    assert "hunter22" not in json.dumps(made)
    assert "geheim" not in json.dumps(made)
    assert made["spec"]["template"]["spec"]["containers"][0]["command"] == [
        "run",
        "$(JOBAUTO_ARGUMENT_1)",
        "a$$(A)b$$$$",
        "$${A}",
    ]
    secret = secret_manifest(launch(**secrets), "the-uid")
    assert decoded(secret) == {
        "A": b"geheim",
        "PASSWORD": b"hunter22",
        "JOBAUTO_ARGUMENT_1": b"--password=hunter22",
    }
    assert secret["metadata"]["ownerReferences"] == [
        {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "name": made["metadata"]["name"],
            "uid": "the-uid",
        }
    ]


def test_a_variable_that_kubernetes_cannot_name_is_refused_by_name() -> None:
    with pytest.raises(StartFailed, match="variables named a b, ž"):
        secret_manifest(launch(environment={"ž": "1", "a b": "2", "A": "3"}), "uid")


def test_settings_of_the_run_template_go_where_kubernetes_has_them() -> None:
    settings = {
        "user": "1000:100",
        "memory": "512m",
        "cpu": 1.5,
        "memory_request": "64k",
        "cpu_request": 0.01,
        "pull": "always",
        "read_only": True,
        "service_account": "jobs",
        "image_pull_secrets": ["registry"],
        "labels": {"team": "erp", "jobauto/job": "mine"},
        "node_selector": {"disk": "ssd"},
    }
    made = pod(settings=settings)
    container = made["containers"][0]
    assert container["resources"] == {
        "limits": {"cpu": "1500m", "memory": "512Mi"},
        "requests": {"cpu": "10m", "memory": "64Ki"},
    }
    assert container["imagePullPolicy"] == "Always"
    assert container["securityContext"] == {"readOnlyRootFilesystem": True}
    assert made["securityContext"] == {"runAsUser": 1000, "runAsGroup": 100, "fsGroup": 100}
    assert made["serviceAccountName"] == "jobs"
    assert made["automountServiceAccountToken"] is True
    assert made["imagePullSecrets"] == [{"name": "registry"}]
    assert made["nodeSelector"] == {"disk": "ssd"}
    labels = job(settings=settings)["metadata"]["labels"]
    assert (labels["team"], labels["jobauto/job"]) == ("erp", "7")


def test_without_settings_the_cluster_decides_and_the_pod_gets_no_token() -> None:
    made = pod()
    assert made["automountServiceAccountToken"] is False
    assert {"serviceAccountName", "imagePullSecrets", "securityContext"}.isdisjoint(made)
    assert "resources" not in made["containers"][0]


@pytest.mark.parametrize(
    ("path", "place"),
    [
        ("", OutputMount(DIRECTORY, ".")),
        ("env_report.json", OutputMount(DIRECTORY, "env_report.json")),
        ("./out/", OutputMount(DIRECTORY, "out")),
        ("/out", OutputMount("/out", ".")),
        ("/data/.cache", OutputMount("/data/.cache", ".")),
        ("/out/report.json", OutputMount("/out", "report.json")),
        (f"{DIRECTORY}/out", OutputMount(DIRECTORY, "out")),
        (f"{DIRECTORY}/out.json", OutputMount(DIRECTORY, "out.json")),
    ],
)
def test_an_output_path_is_in_the_jobs_directory_or_in_a_folder_of_its_own(
    path: str, place: OutputMount
) -> None:
    terms = KubernetesTerms(copies=True, output_path=path)
    assert output_mount(terms, DIRECTORY) == place
    containers = pod(terms)["containers"]
    mount = containers[1]["volumeMounts"][0]
    assert mount == {"name": mount["name"], "mountPath": place.folder, "readOnly": True}
    assert {"name": mount["name"], "mountPath": place.folder} in containers[0]["volumeMounts"]


@pytest.mark.parametrize("path", ["/", "/report.json", "../x", "/out/../.."])
def test_an_output_path_that_nothing_can_be_mounted_for_is_refused(path: str) -> None:
    with pytest.raises(StartFailed, match="outputPath"):
        job(KubernetesTerms(copies=True, output_path=path))


def test_files_a_job_is_given_are_mounted_and_no_variables() -> None:
    paths = ("in/a.json", "b.txt")
    made = pod(files=paths)
    assert made["volumes"][-1]["secret"]["secretName"] == "jobauto-7-0c7a1f5e-files"
    assert made["containers"][0]["volumeMounts"][2:] == [
        {"name": "files", "mountPath": f"{DIRECTORY}/in/a.json", "subPath": "file-0"},
        {"name": "files", "mountPath": f"{DIRECTORY}/b.txt", "subPath": "file-1"},
    ]
    files = files_manifest(launch(), "uid", [b"{}", b"\xff"])
    assert decoded(files) == {"file-0": b"{}", "file-1": b"\xff"}
    assert len(made["containers"][0]["envFrom"]) == 1
