"""Helm before a job in the cluster: a recorded stand-in, run by the worker itself."""

import asyncio
import hashlib
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from jobauto_prefect.compiler.helm import helm_argv
from jobauto_prefect.definitions import Helm as HelmSection
from jobauto_prefect.runtime.executors.kubernetes import helm as runtime_helm
from jobauto_prefect.runtime.protocol import Ending, Launch
from jobauto_prefect.runtime.worker_config import KubernetesConfig
from jobauto_prefect.runtime.worker_context import WorkerContext
from tests.support.helm import Helm
from tests.support.kubernetes.api import SimulatedCluster
from tests.support.launches import Opened, in_cluster
from tests.support.recorder import Recorder, texts
from tests.support.secrets import SECRET
from tests.support.waits import until

BUSY = "Error: UPGRADE FAILED: another operation (install/upgrade/rollback) is in progress"


@pytest.fixture
def helm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Helm:
    helm = Helm(tmp_path / "helm")
    monkeypatch.setenv("PATH", helm.path)
    monkeypatch.setattr(runtime_helm, "BUSY_PAUSE_SECONDS", 0.1)
    return helm


@pytest.fixture
async def worker(
    opened: Opened,
    cluster: SimulatedCluster,
    tmp_path: Path,
) -> WorkerContext:
    (tmp_path / "charts" / "shop").mkdir(parents=True)
    return await opened(cluster=KubernetesConfig(helm_directory=tmp_path / "charts"))


def with_release(
    worker: WorkerContext, script: str = "echo job", job: int = 1, **section: Any
) -> Launch:
    """A job whose application wants a release."""
    members = {"enabled": True, "release_name": "shop", "chart": "./shop", **section}
    wanted = HelmSection(**members)
    run = {"release": "/shop", "argv": helm_argv(wanted), "timeout_seconds": 60}
    return in_cluster(worker, script, job, terms={"helm": run})


@pytest.mark.spec("2.1.51")
async def test_helm_runs_before_the_job_with_its_output_in_the_jobs_log(
    worker: WorkerContext, facade: Recorder, helm: Helm, tmp_path: Path
) -> None:
    request = with_release(worker, set={"on": True})
    outcome = await worker.runner.run(request)
    assert outcome.report.exit_code == 0
    assert set(texts(facade)[:2]) == {
        'Release "x" has been upgraded. Happy Helming!',
        "a warning",
    }
    assert texts(facade)[2:] == ["job"]
    (call,) = helm.calls
    assert call["argv"] == [
        *("helm", "upgrade", "--install", "shop", str(tmp_path / "charts" / "shop")),
        "--create-namespace",
        *("--set", "on=true", "--wait"),
    ]
    assert call["cwd"] == str(tmp_path / "charts")


async def test_a_worker_says_which_charts_and_settings_it_has(
    opened: Opened, facade: Recorder, tmp_path: Path
) -> None:
    charts = tmp_path / "charts"
    (charts / "shop").mkdir(parents=True)
    (charts / "shop" / "values.yaml").write_text("replicas: 1")
    (charts / "gone.yaml").symlink_to("nowhere")
    (charts / "link").symlink_to(charts)
    await opened(cluster=KubernetesConfig(namespace="night", helm_directory=charts))
    (hello,) = [each.body for each in facade.requests if "facts" in (each.body or {})]
    assert hello["facts"]["version"]
    assert hello["facts"]["settings"] == {"JOBAUTO_KUBERNETES_NAMESPACE": "night"}
    assert hello["facts"]["charts"].keys() == {"shop/values.yaml"}
    digest = hello["facts"]["charts"]["shop/values.yaml"]
    assert digest == hashlib.sha256(b"replicas: 1").hexdigest()[:16]


@pytest.mark.parametrize("upgrade_install", [True, False])
async def test_charts_and_values_are_taken_from_the_folder_alone(
    worker: WorkerContext, helm: Helm, tmp_path: Path, upgrade_install: bool
) -> None:
    charts = tmp_path / "charts"
    (tmp_path / "other").mkdir()
    for place in (tmp_path / "other.yaml", charts / "own, quoted.yaml"):
        place.write_text("a: 1")
    (charts / "link").symlink_to(tmp_path / "other")
    (charts / "linked").mkdir()
    (charts / "linked" / "chart").symlink_to(tmp_path / "other")
    (charts / "link.yaml").symlink_to(tmp_path / "other.yaml")
    (charts / "gone.yaml").symlink_to(charts / "nothing.yaml")
    refused: list[dict[str, Any]] = [
        *({"chart": chart} for chart in ("../other", "./link", str(tmp_path / "other"), "./none")),
        {"chart": "linked/chart"},
        *(
            {"values_files": ("own, quoted.yaml", path)}
            for path in (
                *("../other.yaml", "link.yaml", "gone.yaml", "/root/.kube/config"),
                *("https://example.org/values.yaml", "s3://bucket/values.yaml"),
            )
        ),
    ]
    for job, section in enumerate(refused, 1):
        request = with_release(worker, job=job, upgrade_install=upgrade_install, **section)
        outcome = await worker.runner.run(request)
        assert outcome.report.ending is Ending.NOT_STARTED, section
        assert "JOBAUTO_HELM_DIRECTORY" in outcome.report.message
    assert helm.calls == []
    values = ("own, quoted.yaml", str(charts / "own, quoted.yaml"))
    wanted = {"chart": str(charts / "shop"), "values_files": values}
    await worker.runner.run(with_release(worker, upgrade_install=upgrade_install, **wanted))
    (call,) = helm.calls
    quoted = f'"{charts}/own, quoted.yaml"'
    assert [word for word in call["argv"] if word.endswith('.yaml"')] == [quoted] * 2


async def test_charts_of_registries_and_repositories_are_left_to_helm(
    worker: WorkerContext, helm: Helm
) -> None:
    for job, chart in enumerate(("oci://registry.example.org/shop", "repo/shop"), 1):
        await worker.runner.run(with_release(worker, job=job, chart=chart))
        assert chart in helm.calls[-1]["argv"]


async def test_helm_gets_the_clusters_configuration_and_nothing_of_the_job_or_the_service(
    worker: WorkerContext, helm: Helm, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JOBAUTO_WORKER_TOKEN", "geheim")
    request = with_release(worker)
    request.environment["PASSWORD"] = SECRET
    await worker.runner.run(request)
    environment = helm.calls[0]["environment"]
    assert environment["HELM_NAMESPACE"] == "default"
    assert "KUBECONFIG" in environment
    assert "geheim" not in str(environment)
    assert SECRET not in str(environment)


async def test_a_failed_deployment_means_that_the_job_does_not_run(
    worker: WorkerContext,
    facade: Recorder,
    helm: Helm,
    cluster: SimulatedCluster,
) -> None:
    helm.answer(code=1, stderr="a warning\nError: INSTALLATION FAILED: chart not found")
    outcome = await worker.runner.run(with_release(worker))
    assert (outcome.report.ending, outcome.report.exit_code) == (Ending.NOT_STARTED, 1)
    assert outcome.report.message == "helm failed: Error: INSTALLATION FAILED: chart not found"
    assert "Error: INSTALLATION FAILED: chart not found" in texts(facade)
    assert cluster.ran == cluster.made == []


async def test_without_helm_the_outcome_says_so(
    worker: WorkerContext, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    outcome = await worker.runner.run(with_release(worker))
    assert (outcome.report.ending, outcome.report.exit_code) == (Ending.NOT_STARTED, 127)
    assert outcome.report.message.startswith("helm is not found on PATH")


async def test_jobs_that_want_one_release_install_it_one_after_the_other(
    worker: WorkerContext, helm: Helm
) -> None:
    for _ in range(3):
        helm.answer(seconds=0.3)
    running = [worker.runner.run(with_release(worker, job=job)) for job in (1, 2, 3)]
    outcomes = await asyncio.gather(*running)
    assert {outcome.report.exit_code for outcome in outcomes} == {0}
    spans = sorted((call["begun"], call["ended"]) for call in helm.calls)
    assert len(spans) == 3
    assert all(ended <= begun for (_, ended), (begun, _) in pairwise(spans))


async def test_a_release_that_another_worker_installs_is_waited_for(
    worker: WorkerContext, helm: Helm
) -> None:
    helm.answer(code=1, stderr=BUSY)
    helm.answer(
        code=1, stderr="Error: INSTALLATION FAILED: cannot re-use a name that is still in use"
    )
    outcome = await worker.runner.run(with_release(worker))
    assert outcome.report.exit_code == 0
    assert len(helm.calls) == 3


async def test_a_name_in_use_is_a_failure_where_nothing_is_to_be_upgraded(
    worker: WorkerContext, helm: Helm
) -> None:
    helm.answer(
        code=1, stderr="Error: INSTALLATION FAILED: cannot re-use a name that is still in use"
    )
    outcome = await worker.runner.run(with_release(worker, upgrade_install=False))
    assert outcome.report.ending is Ending.NOT_STARTED
    assert len(helm.calls) == 1


async def test_a_release_that_stays_busy_is_given_up_after_helms_time(
    worker: WorkerContext, helm: Helm
) -> None:
    for _ in range(40):
        helm.answer(code=1, stderr=BUSY)
    request = with_release(worker)
    assert request.kubernetes is not None
    assert request.kubernetes.helm is not None
    request.kubernetes.helm.timeout_seconds = 5  # a busy machine needs one for a call
    outcome = await worker.runner.run(request)
    assert outcome.report.message == f"helm timed out waiting: {BUSY}"
    assert len(helm.calls) > 1


async def test_cancelling_ends_helm_and_nothing_is_created(
    worker: WorkerContext,
    facade: Recorder,
    helm: Helm,
    cluster: SimulatedCluster,
) -> None:
    helm.answer(seconds=60)
    running = asyncio.create_task(worker.runner.run(with_release(worker)))
    await until(lambda: texts(facade))
    worker.runner.stop(1, "from the UI")
    outcome = await asyncio.wait_for(running, 30)
    assert (outcome.report.ending, outcome.report.message) == (Ending.CANCELLED, "from the UI")
    assert helm.calls == cluster.made == []


async def test_a_job_does_not_wait_for_others_releases_for_ever(
    worker: WorkerContext, helm: Helm
) -> None:
    helm.answer(seconds=60)
    first = asyncio.create_task(worker.runner.run(with_release(worker, job=1)))
    await until(lambda: not list((helm.place / "answers").iterdir()))
    request = with_release(worker, job=2)
    assert request.kubernetes is not None
    assert request.kubernetes.helm is not None
    request.kubernetes.helm.timeout_seconds = 1
    outcome = await worker.runner.run(request)
    assert outcome.report.message == "timed out waiting for other jobs that install shop"
    worker.runner.stop(1, "enough")
    assert (await asyncio.wait_for(first, 60)).report.ending is Ending.CANCELLED
