"""Jobs in a cluster: a simulated one, whose pods are real processes."""

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from jobauto_prefect.runtime.protocol import (
    ArtifactPattern,
    Ending,
    InputFile,
)
from jobauto_prefect.runtime.worker_config import KubernetesConfig
from jobauto_prefect.runtime.worker_context import WorkerContext
from tests.support.breakable import Relay
from tests.support.kubernetes.api import SimulatedCluster
from tests.support.kubernetes.faults import Fault
from tests.support.launches import POD_IMAGE, Opened, in_cluster, left_in
from tests.support.paths import ROOT
from tests.support.recorder import Recorder, texts
from tests.support.secrets import SECRET
from tests.support.waits import until

JOBS, PODS = r"/apis/batch/v1/namespaces/default/jobs", r"/api/v1/namespaces/default/pods"
WATCH, LOG = r"/pods\?.*watch=true", r"/log\?"


@pytest.fixture
async def worker(opened: Opened, cluster: SimulatedCluster) -> WorkerContext:
    return await opened(cluster=KubernetesConfig(pending_seconds=60))


async def test_it_succeeds_with_its_output_and_leaves_nothing(
    worker: WorkerContext, facade: Recorder, cluster: SimulatedCluster
) -> None:
    outcome = await worker.runner.run(in_cluster(worker, "echo one; echo two >&2; printf three"))
    assert (outcome.report.ending, outcome.report.exit_code) == (Ending.EXITED, 0)
    assert texts(facade) == ["one", "two", "three"]
    assert left_in(worker) == []
    await until(lambda: not cluster.objects("jobs"))


@pytest.mark.parametrize(("script", "code"), [("exit 42", 42), ("kill -9 $$", 137)])
async def test_the_exit_code_is_the_processs(worker: WorkerContext, script: str, code: int) -> None:
    outcome = await worker.runner.run(in_cluster(worker, script))
    assert (outcome.report.ending, outcome.report.exit_code) == (Ending.EXITED, code)


async def test_a_pod_whose_cluster_is_away_is_unknown_until_it_answers(
    opened: Opened,
    cluster: SimulatedCluster,
    facade: Recorder,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    facade.lease_seconds = 4
    started, go = tmp_path / "started", tmp_path / "go"
    with Relay(cluster.port) as relay:
        led = cluster.kubeconfig(tmp_path / "led", port=relay.port)
        monkeypatch.setenv("KUBECONFIG", str(led))
        worker = await opened(cluster=KubernetesConfig(pending_seconds=60))
        request = in_cluster(
            worker, f"touch {started}; while [ ! -e {go} ]; do sleep 0.1; done; exit 3"
        )
        running = asyncio.create_task(worker.runner.run(request))
        had = {str(request.job_id): str(request.claim_id)}
        await until(started.exists)
        relay.cut()
        await until(lambda: facade.bodies("renewals")[-1]["unknown"] == had)
        assert facade.bodies("renewals")[-1]["jobs"] == {}
        relay.mend()
        await until(lambda: facade.bodies("renewals")[-1]["jobs"] == had)
        go.touch()
        assert (await running).report.exit_code == 3
        await until(lambda: not cluster.objects("jobs"))


HOSTILE = {
    "QUOTES": 'it\'s "quoted" `id` $(PATH) ${HOME} $$ \\ %s',
    "LINES": "one\ntwo\r\nthree\n",
    "EMPTY": "",
    "EQUALS": "a=b=c",
    "CZECH": "žluťoučký kůň 🐎",
}


async def test_hostile_values_arrive_as_they_are_and_are_in_the_secret_alone(
    worker: WorkerContext, facade: Recorder, cluster: SimulatedCluster
) -> None:
    arguments = ["$(PATH)", "$$(A)", "a b", "'\"", "line\nline", "--", "${A}", "🐎", "", SECRET]
    script = (
        'cat /proc/self/environ > environ; for one in "$@"; do printf "%s\\0" "$one"; done > args'
    )
    request = in_cluster(
        worker,
        ["sh", "-c", script, "sh", *arguments],
        environment=HOSTILE | {"PASSWORD": SECRET},
        secrets=[SECRET],
        terms={"copies": True},
        artifacts=[ArtifactPattern(name=n, path=n, type="file") for n in ("environ", "args")],
    )
    await worker.runner.run(request)
    kept = artifacts(facade)
    got = dict(pair.split("=", 1) for pair in kept["environ"].decode().rstrip("\0").split("\0"))
    assert {name: got[name] for name in HOSTILE} == HOSTILE
    assert kept["args"].decode().removesuffix("\0").split("\0") == arguments
    (job,) = (one for one in cluster.made if one["kind"] == "Job")
    assert SECRET not in str(job)
    assert HOSTILE["CZECH"] not in str(job)


def artifacts(facade: Recorder) -> dict[str, bytes]:
    return {one.query["path"]: one.body for one in facade.requests if one.method == "PUT"}


async def test_files_a_job_is_given_are_in_its_directory(
    worker: WorkerContext, facade: Recorder, cluster: SimulatedCluster
) -> None:
    given = InputFile(artifact_id=7, path="tmp/inputs/KEY/stock.json")
    facade.answers["jobs/1/inputs/7"] = lambda _: (200, {"a": 1})
    request = in_cluster(
        worker, f"cat {{directory}}/{given.path}; env | grep file-", inputs=[given]
    )
    request.argv[-1] = request.argv[-1].replace("{directory}", request.directory)
    await worker.runner.run(request)
    assert texts(facade) == ['{"a": 1}']


# logs


async def test_a_log_comes_whole_and_once_however_often_its_connection_breaks(
    worker: WorkerContext, facade: Recorder, cluster: SimulatedCluster
) -> None:
    cluster.faults = [
        Fault("GET", LOG, lines=3),
        Fault("GET", LOG, lines=40),
        Fault("GET", LOG),
        Fault("GET", LOG, status=500),
        Fault("GET", LOG, lines=7),
    ]
    script = "for i in $(seq 300); do echo line $i; done; sleep 1; echo last"
    outcome = await worker.runner.run(in_cluster(worker, script))
    assert outcome.report.exit_code == 0
    assert texts(facade) == [*(f"line {n}" for n in range(1, 301)), "last"]
    assert all(fault.times == 0 for fault in cluster.faults)


async def test_output_is_there_while_the_job_runs(worker: WorkerContext, facade: Recorder) -> None:
    running = asyncio.create_task(worker.runner.run(in_cluster(worker, "echo ready; sleep 60")))
    await until(lambda: texts(facade) == ["ready"])
    worker.runner.stop(1, "enough")
    await running


# the API in trouble


async def test_answers_that_fail_or_get_lost_do_no_harm(
    worker: WorkerContext, facade: Recorder, cluster: SimulatedCluster
) -> None:
    cluster.faults = [
        Fault("POST", JOBS, status=429, retry_after=1),
        Fault("POST", JOBS, after=True),  # it is created, and nobody hears of it
        Fault("POST", "/secrets", status=500),
        Fault("POST", "/secrets", status=401),  # a token that has just expired
        Fault("PATCH", JOBS, status=409, reason="Conflict"),
        Fault("GET", PODS, status=500, times=2),
        Fault("GET", WATCH, lines=0),
        Fault("DELETE", JOBS, status=503),
    ]
    *before, at_the_end = cluster.faults
    request = in_cluster(worker, "echo once; while [ ! -e go ]; do sleep 0.05; done; exit 5")
    running = asyncio.create_task(worker.runner.run(request))
    await until(lambda: not any(fault.times for fault in before))
    (cluster.pod.root / "work" / "go").touch()
    outcome = await asyncio.wait_for(running, 60)
    assert (outcome.report.ending, outcome.report.exit_code) == (Ending.EXITED, 5)
    assert texts(facade) == ["once"]
    assert at_the_end.times == 0
    assert len(cluster.ran) == 1


async def test_a_watch_that_is_too_old_begins_anew(
    worker: WorkerContext, facade: Recorder, cluster: SimulatedCluster
) -> None:
    request = in_cluster(worker, "echo begun; while [ ! -e go ]; do sleep 0.05; done; exit 6")
    cluster.faults = [Fault("GET", WATCH, lines=1)]
    running = asyncio.create_task(worker.runner.run(request))
    await until(lambda: texts(facade) == ["begun"])
    cluster.store.oldest = 10**6  # every version is too old from now on
    cluster.faults = [Fault("GET", WATCH, lines=0, times=1)]
    (cluster.pod.root / "work" / "go").touch()
    outcome = await asyncio.wait_for(running, 60)
    assert outcome.report.exit_code == 6


async def test_a_cluster_that_refuses_the_job_says_why(
    worker: WorkerContext, facade: Recorder, cluster: SimulatedCluster
) -> None:
    cluster.faults = [Fault("POST", JOBS, status=403, reason="Forbidden")]
    outcome = await worker.runner.run(in_cluster(worker, "true"))
    assert (outcome.report.ending, outcome.report.exit_code) == (Ending.NOT_STARTED, 126)
    assert outcome.report.message == "the cluster rejected the job: planned trouble"


async def test_a_namespace_that_is_not_there_is_named(
    worker: WorkerContext, cluster: SimulatedCluster
) -> None:
    outcome = await worker.runner.run(in_cluster(worker, "true", terms={"namespace": "nowhere"}))
    assert outcome.report.ending is Ending.NOT_STARTED
    assert 'namespaces "nowhere" not found' in outcome.report.message


async def test_jobs_run_in_the_namespace_of_their_application(
    worker: WorkerContext, cluster: SimulatedCluster
) -> None:
    outcome = await worker.runner.run(in_cluster(worker, "true", terms={"namespace": "erp"}))
    assert outcome.report.exit_code == 0
    assert {namespace for method, namespace in cluster.posts()} == {"erp"}


async def test_or_in_that_of_the_settings(opened: Opened, cluster: SimulatedCluster) -> None:
    worker = await opened(cluster=KubernetesConfig(namespace="erp", context="here"))
    outcome = await worker.runner.run(in_cluster(worker, "true"))
    assert outcome.report.exit_code == 0
    assert {namespace for method, namespace in cluster.posts()} == {"erp"}


async def test_without_a_cluster_the_outcome_says_what_to_set(
    opened: Opened, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("KUBECONFIG", raising=False)
    worker = await opened()
    outcome = await worker.runner.run(in_cluster(worker, "true"))
    assert outcome.report.ending is Ending.NOT_STARTED
    assert outcome.report.message == "no cluster is configured: set KUBECONFIG, as for kubectl"


# pods that do not run


@pytest.mark.parametrize(
    ("trouble", "ending", "message"),
    [
        (
            {"schedulable": False},
            Ending.LOST,
            "no node takes its pod: Unschedulable: 0/1 nodes are available: 1 Insufficient memory."
            " (for 3 s)",
        ),
        (
            {"images": set()},
            Ending.NOT_STARTED,
            "its container does not start: ImagePullBackOff: Back-off pulling image"
            f' "{POD_IMAGE}" (for 3 s)',
        ),
        (
            {"quota": 0},
            Ending.LOST,
            "it has not started for 3 s: FailedCreate: pods"
            ' "{name}-x" is forbidden: exceeded quota: pods',
        ),
    ],
)
async def test_what_does_not_run_in_time_ends_with_the_clusters_reason(
    opened: Opened,
    cluster: SimulatedCluster,
    trouble: dict[str, Any],
    ending: Ending,
    message: str,
) -> None:
    for name, value in trouble.items():
        setattr(cluster.node, name, value)
    worker = await opened(cluster=KubernetesConfig(pending_seconds=3))
    outcome = await worker.runner.run(in_cluster(worker, "true"))
    name = cluster.made[0]["metadata"]["name"]
    assert outcome.report.message == message.replace("{name}", name)
    assert outcome.report.ending is ending
    assert cluster.objects("jobs") == []  # before anybody is told


async def test_a_command_the_image_lacks_is_told_as_a_shell_would(worker: WorkerContext) -> None:
    outcome = await worker.runner.run(in_cluster(worker, ["no-such-program"]))
    assert (outcome.report.ending, outcome.report.exit_code) == (Ending.NOT_STARTED, 127)
    assert "no-such-program" in outcome.report.message


async def test_an_eviction_is_a_loss_with_its_reason(
    worker: WorkerContext, facade: Recorder, cluster: SimulatedCluster
) -> None:
    running = asyncio.create_task(worker.runner.run(in_cluster(worker, "echo ready; sleep 60")))
    await until(lambda: texts(facade) == ["ready"])
    cluster.do(cluster.pod.evict)
    outcome = await asyncio.wait_for(running, 60)
    assert outcome.report.ending is Ending.LOST
    assert outcome.report.message == (
        "its pod was ended: Evicted: The node was low on resource: memory."
    )
    assert cluster.objects("pods") == []  # before anybody tries again


async def test_a_job_that_needs_too_much_memory_says_so(
    worker: WorkerContext, facade: Recorder, cluster: SimulatedCluster
) -> None:
    running = asyncio.create_task(worker.runner.run(in_cluster(worker, "echo ready; sleep 60")))
    await until(lambda: texts(facade) == ["ready"])
    cluster.do(cluster.pod.out_of_memory)
    outcome = await asyncio.wait_for(running, 60)
    assert (outcome.report.ending, outcome.report.exit_code) == (Ending.EXITED, 137)
    assert texts(facade)[-1] == "it was killed: it exceeded its memory limit"


# ending


async def test_a_timeout_deletes_the_job_in_the_foreground(
    worker: WorkerContext, cluster: SimulatedCluster
) -> None:
    outcome = await worker.runner.run(in_cluster(worker, "sleep 60", timeout_seconds=0.5))
    assert (outcome.report.ending, outcome.report.message) == (
        Ending.TIMEOUT,
        "it ran longer than 0.5 s",
    )
    assert cluster.objects("pods") == []


async def test_a_cancelled_job_gets_its_term_and_then_its_end(
    worker: WorkerContext, facade: Recorder, cluster: SimulatedCluster
) -> None:
    script = "trap 'echo no' TERM; echo ready; while :; do sleep 0.05; done"
    running = asyncio.create_task(worker.runner.run(in_cluster(worker, script)))
    await until(lambda: texts(facade) == ["ready"])
    assert worker.runner.stop(1, "from the UI")
    outcome = await asyncio.wait_for(running, 60)
    assert (outcome.report.ending, outcome.report.message) == (Ending.CANCELLED, "from the UI")
    assert outcome.report.exit_code == 137
    assert "no" in texts(facade)
    assert cluster.objects("jobs") == cluster.objects("pods") == []


async def test_a_job_that_waits_for_a_node_can_be_cancelled(
    opened: Opened, cluster: SimulatedCluster
) -> None:
    worker = await opened(cluster=KubernetesConfig(pending_seconds=600))
    cluster.node.quota = 0
    running = asyncio.create_task(worker.runner.run(in_cluster(worker, "true")))
    await until(lambda: cluster.events)
    worker.runner.stop(1, "never mind")
    outcome = await asyncio.wait_for(running, 60)
    assert outcome.report.ending is Ending.CANCELLED
    assert cluster.objects("jobs") == []


async def test_twenty_at_once(worker: WorkerContext, cluster: SimulatedCluster) -> None:
    running = [
        worker.runner.run(in_cluster(worker, f"sleep 0.2; exit {job}", job)) for job in range(1, 21)
    ]
    outcomes = await asyncio.gather(*running)
    assert [outcome.report.exit_code for outcome in outcomes] == list(range(1, 21))
    await until(lambda: not cluster.objects("jobs"))


# files


COPIED = ArtifactPattern(name="all", path=r".*\.json", pattern=r".*\.json", type="json")


@pytest.mark.spec("2.1.61")
@pytest.mark.parametrize(
    ("output_path", "script", "kept"),
    [
        (
            "",
            "mkdir out; echo 1 > out/a.json; echo 2 > b.json",
            {"out/a.json": b"1\n", "b.json": b"2\n"},
        ),
        ("out", "mkdir out; echo 1 > out/a.json; echo 2 > b.json", {"out/a.json": b"1\n"}),
        ("b.json", "echo 1 > a.json; echo 2 > b.json", {"b.json": b"2\n"}),
        ("/out", "echo 1 > /out/a.json; echo 2 > b.json", {"a.json": b"1\n"}),
        ("/out/a.json", "echo 1 > /out/a.json; echo 2 > /out/b.json", {"a.json": b"1\n"}),
    ],
)
async def test_what_is_at_the_output_path_is_copied(
    worker: WorkerContext, facade: Recorder, output_path: str, script: str, kept: dict[str, bytes]
) -> None:
    terms = {"copies": True, "output_path": output_path}
    request = in_cluster(worker, script, terms=terms, artifacts=[COPIED])
    outcome = await worker.runner.run(request)
    assert outcome.report.exit_code == 0
    assert artifacts(facade) == kept


async def test_a_result_file_in_the_output_folder_is_found_by_its_path_there(
    worker: WorkerContext, facade: Recorder
) -> None:
    terms = {"copies": True, "output_path": "/out"}
    request = in_cluster(worker, "echo '{}' > /out/r.json", terms=terms, result_file="/out/r.json")
    await worker.runner.run(request)
    assert artifacts(facade) == {"r.json": b"{}\n"}


@pytest.mark.spec("2.1.61")
async def test_without_the_definitions_word_nothing_is_copied(
    worker: WorkerContext, facade: Recorder, cluster: SimulatedCluster
) -> None:
    await worker.runner.run(in_cluster(worker, "echo 1 > a.json", artifacts=[COPIED]))
    assert artifacts(facade) == {}
    (job,) = (one for one in cluster.made if one["kind"] == "Job")
    assert len(job["spec"]["template"]["spec"]["containers"]) == 1


async def test_copying_goes_on_after_trouble_and_says_what_is_missing(
    worker: WorkerContext, facade: Recorder, cluster: SimulatedCluster
) -> None:
    cluster.faults = [Fault("GET", "/exec", status=500), Fault("GET", "/exec", lines=2)]
    script = "head -c 20000 /dev/zero > a.json; ln -s /etc/passwd b.json"
    request = in_cluster(worker, script, terms={"copies": True}, artifacts=[COPIED])
    await worker.runner.run(request)
    assert artifacts(facade) == {"a.json": b"\0" * 20000}
    request = in_cluster(
        worker, "true", 2, terms={"copies": True, "output_path": "no/such"}, artifacts=[COPIED]
    )
    outcome = await worker.runner.run(request)
    assert outcome.report.exit_code == 0
    (notice,) = outcome.report.notices
    assert notice.startswith("not everything was copied: tar: ")


async def test_copying_does_not_count_as_the_jobs_time(
    worker: WorkerContext, facade: Recorder, cluster: SimulatedCluster
) -> None:
    cluster.faults = [Fault("GET", "/exec", status=429, retry_after=9)]
    request = in_cluster(
        worker,
        "echo 1 > a.json",
        terms={"copies": True},
        artifacts=[COPIED],
        timeout_seconds=8,
    )
    outcome = await worker.runner.run(request)
    assert (outcome.report.ending, outcome.report.exit_code) == (Ending.EXITED, 0)
    assert artifacts(facade) == {"a.json": b"1\n"}


@pytest.mark.spec("2.1.61")
@pytest.mark.parametrize("copies", [True, False])
async def test_a_failed_pod_is_kept_where_the_definition_says_so(
    worker: WorkerContext, cluster: SimulatedCluster, copies: bool
) -> None:
    terms = {"copies": copies, "keep_pod_on_failure": True}
    await worker.runner.run(in_cluster(worker, "true", 1, terms=terms))
    await until(lambda: not cluster.objects("jobs"))
    await worker.runner.run(in_cluster(worker, "exit 3", 2, terms=terms))
    assert left_in(worker) == []
    (pod,) = cluster.objects("pods")
    await until(lambda: pod["status"]["phase"] == "Failed")
    (job,) = cluster.objects("jobs")
    assert job["spec"]["ttlSecondsAfterFinished"] == 7 * 24 * 3600
    cluster.do(lambda: cluster._spawn(cluster._delete_job(job)))
    await until(lambda: not cluster.objects("jobs"))


# a worker that dies


DRIVER = """
import asyncio, sys
from pathlib import Path
sys.path.insert(0, sys.argv[3])
from jobauto_prefect.runtime.worker_context import open_worker
from jobauto_prefect.runtime.worker_config import WorkerConfig
from tests.support.launches import in_cluster

async def main():
    plan = WorkerConfig(url=sys.argv[1], token="t", worker="w/1", pool="p", host="h",
                      directory=Path(sys.argv[2]), stop_seconds=0.5)
    async with open_worker(plan) as worker:
        watchdog = await worker.runner._executors["Kubernetes"]._context.watchdogs.get()
        print(watchdog.pid, flush=True)
        await worker.runner.run(in_cluster(worker, "trap '' TERM; echo ready; sleep 60", 41))

asyncio.run(main())
"""


@pytest.fixture
def driver(
    facade: Recorder, cluster: SimulatedCluster, tmp_path: Path
) -> Iterator["subprocess.Popen[str]"]:
    """A worker in a process of its own; what it prints is the number of its watchdog."""
    arguments = [facade.url, str(tmp_path / "work"), str(ROOT)]
    with subprocess.Popen(
        [sys.executable, "-c", DRIVER, *arguments], stdout=subprocess.PIPE, text=True
    ) as process:
        yield process
        process.kill()


async def test_the_watchdog_ends_the_job_of_a_worker_that_was_killed_and_says_so(
    driver: "subprocess.Popen[str]", facade: Recorder, cluster: SimulatedCluster
) -> None:
    await until(lambda: texts(facade, 41) == ["ready"])
    driver.kill()
    await until(lambda: facade.reports(41))
    (report,) = facade.reports(41)
    assert (report["ending"], report["message"]) == ("lost", "the worker died")
    assert cluster.objects("jobs") == cluster.objects("pods") == []  # before it is told


async def test_the_successor_ends_what_neither_worker_nor_watchdog_could(
    driver: "subprocess.Popen[str]",
    facade: Recorder,
    opened: Opened,
    cluster: SimulatedCluster,
    tmp_path: Path,
) -> None:
    assert driver.stdout is not None
    watchdog = int(await asyncio.to_thread(driver.stdout.readline))
    await until(lambda: texts(facade, 41) == ["ready"])
    os.kill(watchdog, signal.SIGSTOP)
    driver.kill()
    driver.wait()
    os.kill(watchdog, signal.SIGKILL)
    assert len(cluster.objects("pods")) == 1
    assert facade.reports(41) == []
    await opened()
    (report,) = facade.reports(41)
    assert (report["ending"], report["message"]) == ("lost", "its worker died")
    assert cluster.objects("jobs") == cluster.objects("pods") == []
    assert not (tmp_path / "work" / "w-1-e0dcb624" / "job-41").exists()


async def test_a_job_the_watchdog_gave_up_before_it_began_never_runs(
    worker: WorkerContext, cluster: SimulatedCluster
) -> None:
    """As when the worker was stopped between the creation of the Job and its beginning."""
    cluster.faults = [Fault("PATCH", JOBS, status=404, reason="NotFound")]
    outcome = await worker.runner.run(in_cluster(worker, "true"))
    assert outcome.report.ending is Ending.NOT_STARTED
    assert cluster.ran == []
