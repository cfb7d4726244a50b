"""The jobauto worker at work: a real facade, a real Prefect, real worker processes."""

import os
import signal
import subprocess
import sys
import time
from datetime import UTC, datetime, timedelta

import pytest

from tests.support.waits import eventually
from tests.support.workers import Plant


@pytest.mark.spec("1.1")
def test_a_job_runs_and_prefect_tells_the_story(manned: Plant) -> None:
    job_id = manned.post_job(EXIT_WITH=7)
    job = manned.ended(job_id)
    assert (job["exitcode"], job["severity"]) == (7, "error")
    run = manned.run_in(manned.run_of(job_id), "FAILED")
    assert "7" in run["state"]["message"]
    assert "The bank is closed" in run["state"]["message"]
    assert run["run_count"] == 1
    assert manned.marked("overlaps") == []

    logs = eventually(lambda: len(found := manned.logs_of(run["id"])) >= 2 and found)
    lines = {line["message"]: line["level"] for line in logs}
    assert lines["hello from Ácme"] == 20
    assert lines["careful"] == 30

    def labels() -> dict[str, object] | None:
        found = manned.flow_run(run["id"])["labels"]
        return found if "jobauto.exit_code" in found else None

    assert eventually(labels)["jobauto.severity"] == "error"

    (artifact,) = eventually(lambda: manned.artifacts_of(run["id"]))
    assert "The bank is closed" in artifact["data"]
    assert artifact["key"] == f"{manned.pool}-daily-{manned.template['id']}"


def test_a_plain_success_bears_the_labels_it_was_made_with_and_has_no_page(
    manned: Plant,
) -> None:
    job_id = manned.post_job()
    run = manned.run_in(manned.run_of(job_id), "COMPLETED")
    assert run["name"] == f"{manned.pool} / daily #{job_id}"
    assert "0" in run["state"]["message"]
    ours = {name: value for name, value in run["labels"].items() if name.startswith("jobauto.")}
    assert ours.items() >= {"jobauto.job": job_id, "jobauto.attempt": 1}.items()
    assert manned.artifacts_of(run["id"]) == []


def test_a_success_and_the_run_button_with_its_fields(manned: Plant) -> None:
    job_id = manned.post_job(EXIT_WITH=4)
    clicked = manned.click_run(COMPANY="Bé & Co")
    assert manned.ended(job_id)["severity"] == "info"
    manned.run_in(manned.run_of(job_id), "COMPLETED")
    run = manned.run_in(clicked, "COMPLETED")
    (job,) = manned.jobs_of(clicked)
    assert (job["exitcode"], job["env"]["COMPANY"]) == (0, "Bé & Co")
    assert "s3cret" not in str(job)

    def named() -> bool:
        run = manned.flow_run(clicked)
        renamed = str(run["name"]).endswith(f"/ daily #{job['id']}")
        return renamed and bool(run["labels"].get("jobauto.job") == job["id"])

    eventually(named)
    assert "s3cret" not in str(run)


def test_a_refused_run_shows_why_and_starts_nothing(manned: Plant) -> None:
    other = manned.with_template("refused", manned.pool)
    other.deployment_id()
    off = {"id": other.template["id"], "active": 0}
    other.rest.post("/runtemplate/", json=off).raise_for_status()
    run = other.run_in(other.click_run(), "FAILED")
    assert "not active" in run["state"]["message"]
    assert other.marked("starts") == []


def test_a_run_for_later_starts_when_it_is_due(manned: Plant) -> None:
    due = datetime.now(UTC) + timedelta(seconds=4)
    job_id = manned.post_job(scheduled=due.isoformat())
    manned.ended(job_id)
    started = float(manned.marked("starts")[0].split()[1])
    assert started >= due.timestamp()


@pytest.mark.parametrize("state", ["CANCELLING", "CANCELLED"])
def test_cancelling_in_prefect_ends_the_process(manned: Plant, state: str) -> None:
    clicked = manned.click_run(SECONDS_TO_SLEEP=60)
    eventually(lambda: manned.marked("pids"))
    manned.run_in(clicked, "RUNNING")
    manned.set_state(clicked, state)
    manned.run_in(clicked, "CANCELLED")
    (job,) = eventually(lambda: manned.jobs_of(clicked))
    assert manned.ended(job["id"])["state"] == "cancelled"
    manned.until_gone()


def test_cancelling_over_rest_ends_the_process(manned: Plant) -> None:
    job_id = manned.post_job(SECONDS_TO_SLEEP=60)
    eventually(lambda: manned.marked("pids"))
    body = {"id": job_id, "state": "cancelled"}
    manned.rest.post("/job/", json=body).raise_for_status()
    assert manned.ended(job_id)["state"] == "cancelled"
    manned.run_in(manned.run_of(job_id), "CANCELLED")
    manned.until_gone()


def test_a_waiting_run_that_was_cancelled_never_starts(plant: Plant) -> None:
    clicked = plant.click_run()
    plant.set_state(clicked, "CANCELLING")
    job_id = plant.post_job()
    with plant.worker():
        plant.ended(job_id)
    assert plant.flow_run(clicked)["state_type"] == "CANCELLED"
    assert len(plant.marked("starts")) == 1


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP], ids=["KILL", "STOP"])
def test_a_worker_that_dies_or_stops_loses_its_job_and_leaves_no_process(
    plant: Plant, number: signal.Signals
) -> None:
    with plant.worker() as worker:
        job_id = plant.post_job(SECONDS_TO_SLEEP=60)
        eventually(lambda: plant.marked("pids"))
        os.kill(worker.pid, number)
        assert plant.ended(job_id)["state"] == "lost"
        run = plant.run_in(plant.run_of(job_id), "CRASHED")
        (page,) = eventually(lambda: plant.artifacts_of(run["id"]))
        assert "lost" in page["data"]
        plant.until_gone()
        os.kill(worker.pid, signal.SIGCONT)
        os.killpg(worker.pid, signal.SIGKILL)
        worker.wait()
    with plant.worker():  # its successor
        again = plant.post_job()
        assert plant.ended(again)["exitcode"] == 0


def test_two_workers_start_one_process_for_a_run(manned: Plant) -> None:
    with manned.worker("w2"):
        jobs = [manned.post_job(SECONDS_TO_SLEEP="0.2") for _ in range(10)]
        for job_id in jobs:
            assert manned.ended(job_id)["exitcode"] == 0
            manned.run_in(manned.run_of(job_id), "COMPLETED")
    assert manned.marked("overlaps") == []
    assert len(manned.marked("starts")) == len(jobs)


def test_a_second_living_worker_of_a_name_is_refused(manned: Plant) -> None:
    argv = [sys.executable, "-m", "prefect", "worker", "start", "--type", "jobauto"]
    argv += ["--pool", manned.pool, "--name", "w1"]
    done = subprocess.run(
        argv, env=manned.environment(), capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 1
    assert "worker named w1 already works in" in done.stdout + done.stderr


def test_the_limit_holds(plant: Plant) -> None:
    with plant.worker("w1", "--limit", "2"):
        first = plant.post_job(SECONDS_TO_SLEEP=60)
        eventually(lambda: plant.marked("starts"))
        others = [plant.post_job(SECONDS_TO_SLEEP="0.5") for _ in range(4)]
        most = 0

        def only_first_runs() -> bool:
            nonlocal most
            live = len(list(plant.marks.glob("live-*")))
            most = max(most, live)
            return live == 1 and len(plant.marked("starts")) == 5

        eventually(only_first_runs)
        for job_id in others:
            assert plant.ended(job_id)["exitcode"] == 0
        plant.rest.post("/job/", json={"id": first, "state": "cancelled"}).raise_for_status()
        plant.ended(first)
    assert most == 2


def test_a_facade_that_is_away_costs_no_outcome(plant: Plant) -> None:
    with plant.worker():
        running = [plant.post_job(SECONDS_TO_SLEEP="1", EXIT_WITH=7) for _ in range(3)]
        eventually(lambda: len(plant.marked("starts")) == len(running))
        plant.serving.stop()
        clicked = plant.click_run()
        time.sleep(6)  # two leases
        plant.serving.start()
        for job_id in running:
            assert plant.ended(job_id)["exitcode"] == 7
            plant.run_in(plant.run_of(job_id), "FAILED")
        plant.run_in(clicked, "COMPLETED")
    assert len(plant.marked("starts")) == len(running) + 1
    assert plant.marked("overlaps") == []


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_lets_the_jobs_finish_and_takes_no_more(
    plant: Plant, number: signal.Signals
) -> None:
    with plant.worker() as worker:
        job_id = plant.post_job(SECONDS_TO_SLEEP=2)
        eventually(lambda: plant.marked("pids"))
        worker.send_signal(number)
        time.sleep(0.3)
        clicked = plant.click_run()
        assert worker.wait(90) == 0
        assert plant.job(job_id)["exitcode"] == 0
        plant.run_in(plant.run_of(job_id), "COMPLETED")
        assert plant.flow_run(clicked)["state_type"] == "SCHEDULED"
    assert len(plant.marked("starts")) == 1


def test_what_does_not_finish_within_the_grace_is_lost_with_its_reason(plant: Plant) -> None:
    with plant.worker(JOBAUTO_GRACE_SECONDS="1") as worker:
        job_id = plant.post_job(SECONDS_TO_SLEEP=60)
        eventually(lambda: plant.marked("pids"))
        worker.send_signal(signal.SIGTERM)
        assert worker.wait(90) == 0
        job = plant.job(job_id)
        assert (job["state"], job["severity"]) == ("lost", "error")
        assert "shutdown" in job["message"]
        plant.run_in(plant.run_of(job_id), "CRASHED")
        plant.until_gone()


def test_a_second_signal_shortens_the_grace(plant: Plant) -> None:
    with plant.worker(JOBAUTO_GRACE_SECONDS="300") as worker:
        job_id = plant.post_job(SECONDS_TO_SLEEP=60)
        eventually(lambda: plant.marked("pids"))
        worker.send_signal(signal.SIGTERM)
        time.sleep(0.5)
        assert worker.poll() is None
        worker.send_signal(signal.SIGTERM)
        assert worker.wait(90) == 0
        assert plant.job(job_id)["state"] == "lost"
        plant.until_gone()


def test_a_bad_token_ends_the_worker_with_a_sentence(manned: Plant) -> None:
    argv = [sys.executable, "-m", "prefect", "worker", "start", "--type", "jobauto"]
    argv += ["--pool", manned.pool, "--name", "other"]
    done = subprocess.run(
        argv,
        env=manned.environment(JOBAUTO_WORKER_TOKEN="wrong"),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 1
    assert "token" in done.stdout + done.stderr


def test_a_retry_clicked_in_prefect_is_another_job_of_the_same_flow_run(manned: Plant) -> None:
    clicked = manned.click_run(EXIT_WITH=7)
    manned.run_in(clicked, "FAILED")
    body = {"state": {"type": "SCHEDULED", "name": "AwaitingRetry"}, "force": True}
    manned.prefect.post(f"/flow_runs/{clicked}/set_state", json=body).raise_for_status()
    eventually(lambda: len(manned.jobs_of(clicked)) == 2)
    manned.run_in(clicked, "FAILED")
    eventually(lambda: manned.flow_run(clicked)["run_count"] == 2)
    assert len(manned.marked("starts")) == 2
    latest = max(job["id"] for job in manned.jobs_of(clicked))
    eventually(lambda: manned.flow_run(clicked)["name"].endswith(f"#{latest}"))
    eventually(lambda: manned.flow_run(clicked)["labels"]["jobauto.job"] == latest)


def test_a_run_that_prefect_would_try_again_ends_as_its_job_does(manned: Plant) -> None:
    path = f"/deployments/{manned.deployment_id()}/create_flow_run"
    given = {"MARKS": str(manned.marks), "EXIT_WITH": 7}
    policy = {"retries": 5, "retry_delay": 3600}
    body = {"parameters": given, "empirical_policy": policy, "enforce_parameter_schema": False}
    run = manned.prefect.post(path, json=body).raise_for_status().json()["id"]
    manned.run_in(run, "FAILED")
    assert len(manned.jobs_of(run)) == 1


def test_a_run_shows_the_values_of_its_job_and_no_secret_and_keeps_them(plant: Plant) -> None:
    given = {"COMPANY": "Bé & Co", "EXIT_WITH": 3, "PASSWORD": "other-s3cret"}
    job_id = plant.post_job(**given)
    made = plant.flow_run(plant.run_of(job_id))
    deployment = plant.prefect.get(f"/deployments/{plant.deployment_id()}").json()["parameters"]
    shown = {"COMPANY": "Bé & Co", "EXIT_WITH": 3, "MARKS": str(plant.marks)}
    assert made["parameters"] == {**deployment, **shown, "jobauto": {"job": job_id}}
    repeated = plant.post_job(COMPANY="see other-s3cret", PASSWORD="other-s3cret")
    leaking = plant.flow_run(plant.run_of(repeated))["parameters"]
    assert leaking["COMPANY"] == deployment["COMPANY"]
    assert "other-s3cret" not in str((made, leaking))
    with plant.worker():
        assert plant.ended(job_id)["exitcode"] == 3
        ended = plant.run_in(made["id"], "COMPLETED")
        assert ended["parameters"] == made["parameters"]
        (page,) = eventually(lambda: plant.artifacts_of(made["id"]))
        assert "- `COMPANY`: `Bé & Co`" in page["data"]
        assert "- `EXIT_WITH`: `3`" in page["data"]
        assert "- `PASSWORD`: `********`" in page["data"]
        assert plant.ended(repeated)["exitcode"] == 0


def test_a_warning_is_a_green_run_with_a_mark_that_goes_with_a_retry_that_succeeds(
    plant: Plant,
) -> None:
    with plant.worker():
        clicked = plant.click_run(EXIT_WITH=3)
        tags = [f"company:{plant.pool}"]
        warned = plant.run_named(clicked, " (warning)")
        assert (warned["state_type"], warned["state_name"]) == ("COMPLETED", "Completed")
        assert sorted(warned["tags"]) == [*tags, "severity:warning"]
        codes = {"3": {"description": "All of it", "severity": "success"}}
        app = {"id": plant.template["app_id"], "exitCodes": codes}
        plant.rest.post("/app/", json=app).raise_for_status()
        body = {"state": {"type": "SCHEDULED", "name": "AwaitingRetry"}, "force": True}
        plant.prefect.post(f"/flow_runs/{clicked}/set_state", json=body).raise_for_status()
        eventually(lambda: len(plant.jobs_of(clicked)) == 2)
        latest = max(job["id"] for job in plant.jobs_of(clicked))
        assert plant.ended(latest)["severity"] == "success"
        plant.run_named(clicked, f"#{latest}")
        eventually(lambda: plant.flow_run(clicked)["tags"] == tags)


EMBEDDED = """
import asyncio, sys
from jobauto_prefect.engine.worker.jobauto_worker import JobautoWorker

async def main():
    working = asyncio.create_task(JobautoWorker(sys.argv[1], name="w1").start())
    await asyncio.to_thread(sys.stdin.readline)
    working.cancel()
    try:
        await working
    except asyncio.CancelledError:
        print("cancelled")

asyncio.run(main())
"""


def test_a_worker_whose_start_is_cancelled_drains(plant: Plant) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", EMBEDDED, plant.pool],
        env=plant.environment(),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as worker:
        plant.until_online("w1")
        job_id = plant.post_job(SECONDS_TO_SLEEP=2)
        eventually(lambda: plant.marked("pids"))
        output, _ = worker.communicate("enough\n", timeout=90)
    assert "cancelled" in output
    assert plant.job(job_id)["exitcode"] == 0
    plant.run_in(plant.run_of(job_id), "COMPLETED")
