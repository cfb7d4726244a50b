"""Jobs in a cluster, from the run template to Prefect's story, by a worker process."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.documents import smallest
from tests.support.helm import Helm
from tests.support.kubernetes.api import SimulatedCluster
from tests.support.secrets import SECRET
from tests.support.waits import eventually
from tests.support.workers import Plant

SCRIPT = 'echo "hello: $PASSWORD"; echo {} > report.json; [ "$HOLD" = no ] || sleep 60; exit 7'


@pytest.fixture
def cluster() -> Iterator[SimulatedCluster]:
    with SimulatedCluster(("erp",)) as running:
        yield running
        assert running.is_empty()


@pytest.fixture
def helm(tmp_path: Path) -> Helm:
    return Helm(tmp_path / "helm")


@pytest.fixture
def clustered(plant: Plant) -> Plant:
    """A plant whose template runs a script in the cluster, after a release."""
    definition = smallest(
        name="clustered",
        executable="sh",
        cmdparamsTemplate="-c ${SCRIPT}",
        ociimage="docker.io/example/app:1",
        environment={
            "SCRIPT": {"type": "string", "defval": SCRIPT},
            "HOLD": {"type": "string", "defval": "no"},
            "PASSWORD": {"type": "password"},
        },
        artifacts=[{"name": "Report", "path": "report.json", "type": "json"}],
        kubernetes={
            "helm": {
                "enabled": True,
                "releaseName": "app",
                "namespace": "erp",
                "chart": "stable/app",
                "set": {"replicas": 2},
            },
            "artifacts": {"enabled": True, "outputPath": "report.json"},
        },
    )
    return plant.with_application(
        definition,
        executor="Kubernetes",
        executor_settings={"memory": "64m", "labels": {"team": "erp"}},
        max_attempts=1,
        env={"PASSWORD": SECRET},
    )


def held(plant: Plant, cluster: SimulatedCluster) -> int:
    """A job whose pod runs."""
    job = plant.post_job(HOLD="yes")
    eventually(
        lambda: [one for one in cluster.objects("pods") if one["status"]["phase"] == "Running"]
    )
    return job


def test_a_job_in_the_cluster_from_run_template_to_prefect(
    clustered: Plant, cluster: SimulatedCluster, helm: Helm, tmp_path: Path
) -> None:
    plant = clustered
    plant.deployment_id()
    kubeconfig = str(cluster.kubeconfig(tmp_path / "kubeconfig"))
    with plant.worker(KUBECONFIG=kubeconfig, PATH=helm.path) as worker:
        job = plant.ended(plant.post_job())
        assert (job["exitcode"], job["severity"], job["executor"]) == (7, "error", "Kubernetes")
        assert job["stdout"].splitlines()[-1] == "hello: ********"
        assert "Happy Helming" in job["stdout"]
        assert "exit code 7" in plant.run_in(plant.run_of(job["id"]), "FAILED")["state"]["message"]
        assert [one["path"] for one in job["artifacts"]] == ["report.json"]
        (call,) = helm.calls
        assert call["argv"][-5:] == ["erp", "--create-namespace", "--set", "replicas=2", "--wait"]

        helm.answer(code=1, stderr="Error: UPGRADE FAILED: timed out waiting for the condition")
        failed = plant.ended(plant.post_job())
        assert "helm failed: Error: UPGRADE FAILED: timed out" in failed["message"]
        assert len(cluster.ran) == 1

        cancelled = held(plant, cluster)
        plant.set_state(plant.run_of(cancelled), "CANCELLING")
        assert plant.ended(cancelled)["state"] == "cancelled"
        assert cluster.objects("pods") == []

        lost = held(plant, cluster)
        os.kill(worker.pid, signal.SIGKILL)
        assert plant.ended(lost)["message"] == "lost: the worker died"
        assert cluster.objects("pods") == []
