"""The probe of the collection, run as the definition says, has the same result everywhere."""

import json
from pathlib import Path
from typing import Any

import pytest

from jobauto_prefect.definitions import parse
from jobauto_prefect.jobs.claims.launch import kubernetes_terms
from jobauto_prefect.runtime.launch.environment import Layer
from jobauto_prefect.runtime.launch.preparation import prepare
from jobauto_prefect.runtime.protocol import Launch
from jobauto_prefect.runtime.worker_config import KubernetesConfig
from jobauto_prefect.runtime.worker_context import WorkerContext
from tests.support.container_engines import EXECUTOR_SETTINGS
from tests.support.container_engines import PROBE as PROGRAM
from tests.support.corpus import needs_corpus, source
from tests.support.helm import Helm
from tests.support.kubernetes.api import SimulatedCluster
from tests.support.launches import Opened, launch
from tests.support.recorder import Recorder

NAME = "VitexSoftware__multiflexi-probe__probe.multiflexi.app.json"


def probe_launch(worker: WorkerContext, executor: str, **overrides: str) -> Launch:
    """A launch made from the definition, as the facade makes it."""
    document: dict[str, Any] = json.loads(source(NAME))
    request = launch(worker, [])
    prepared = prepare(
        parse(document),
        directory=request.directory,
        company=Layer(),
        template=Layer(secrets={"PASSWORD": "hunter22"}),
        overrides=Layer(overrides),
        values={"JOB_ID": "1"},
    )
    return request.model_copy(
        update={
            "argv": prepared.argv,
            "environment": prepared.environment,
            "secrets": prepared.secrets,
            "result_file": prepared.result_file,
            "artifacts": prepared.artifacts,
            "image": document["ociimage"],
            "executor": executor,
            "executor_settings": EXECUTOR_SETTINGS,
            "kubernetes": kubernetes_terms(document, executor),
        }
    )


@pytest.fixture
def helm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Helm:
    """A `helm` and a `multiflexi-probe` on the PATH."""
    helm = Helm(tmp_path / "bin")
    probe = helm.place / "multiflexi-probe"
    probe.write_text(PROGRAM)
    probe.chmod(0o755)
    monkeypatch.setenv("PATH", helm.path)
    return helm


def _engines(request: pytest.FixtureRequest, executor: str) -> dict[str, str]:
    """The engine is started only where a container is."""
    if executor not in ("Docker", "Podman"):
        return {}
    url = request.getfixturevalue("engine").url
    return {"docker_url": url, "podman_url": url}


@needs_corpus
@pytest.mark.parametrize("code", [0, 7])
@pytest.mark.parametrize("executor", ["Native", "Docker", "Podman", "Kubernetes"])
async def test_the_probe_has_the_same_result_by_every_executor(
    request: pytest.FixtureRequest,
    opened: Opened,
    facade: Recorder,
    helm: Helm,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    executor: str,
    code: int,
) -> None:
    with SimulatedCluster(("default", "multiflexi")) as cluster:
        monkeypatch.setenv("KUBECONFIG", str(cluster.kubeconfig(tmp_path / "kubeconfig")))
        worker = await opened(cluster=KubernetesConfig(), **_engines(request, executor))
        job = probe_launch(worker, executor, FORCE_EXITCODE=str(code))
        outcome = await worker.runner.run(job)
        roots = [str(root) for root in cluster.roots]
        assert cluster.is_empty()
    assert outcome.report.exit_code == code
    assert outcome.report.notices == []
    lines = [text for _, _, text in facade.lines(1)]
    assert set(lines) >= {"arguments: /etc/fstab", "to stderr"}
    (report,) = (one for one in facade.requests if one.method == "PUT")
    assert report.query["path"] == "env_report.json"
    text = report.body.decode()
    for root in roots:  # what stands for the volumes of the simulated pod
        text = text.replace(f"{root}/work", job.directory)
        text = text.replace(f"{root}/tmp", f"{job.directory}/tmp")
    got = dict(line.split("=", 1) for line in text.splitlines())
    assert {name: got[name] for name in job.environment} == job.environment
    assert [call["argv"][:4] for call in helm.calls] == (
        [["helm", "upgrade", "--install", "multiflexi-probe"]] if executor == "Kubernetes" else []
    )
