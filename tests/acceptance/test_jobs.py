"""From files to finished jobs, with the command line and over REST."""

import json
import os
import signal
import time

import httpx
import pytest

from tests.support.corpus import CORPUS, needs_corpus
from tests.support.documents import smallest
from tests.support.processes import commands
from tests.support.records import ok
from tests.support.secrets import secret
from tests.support.service import EXAMPLES, Service
from tests.support.waits import eventually

PASSWORD = secret("correct horse battery")
CORPUS_PROBE = (
    CORPUS / "applications" / "VitexSoftware__multiflexi-probe__probe.multiflexi.app.json"
)


def test_applying_the_same_files_again_changes_nothing(service: Service) -> None:
    plan = service.json("apply", str(EXAMPLES), "--yes")

    assert {change["action"] for change in plan["changes"]} == {"unchanged"}


@pytest.mark.spec("1.1")
def test_run_with_wait_prints_the_output_and_ends_with_the_jobs_result(service: Service) -> None:
    good = service.jobauto("run", "acme/Root file system", "--wait")
    bad = service.jobauto("run", "acme/Probe that fails", "--wait")

    assert good.returncode == 0, good.stderr
    assert "GiB free" in good.stdout
    assert bad.returncode == 1
    assert "exit code 42 (error): The answer is wrong" in bad.stdout


def test_a_warning_is_a_good_result(service: Service) -> None:
    values = ["--env", "PROBE_EXIT_CODE=3", "--env", "PROBE_SLEEP=0"]

    job = service.json("run", "acme/Probe", *values, "--wait")

    assert (job["state"], job["severity"], job["exitcode"]) == ("warning", "warning", 3)


@pytest.mark.parametrize("text", ["; touch /tmp/x", "-n", "$(id)", "a b 'c' \"d\"", "{é}\n${X}"])
def test_a_value_of_any_kind_stays_one_argument(service: Service, text: str) -> None:
    values = ["--env", f"PROBE_GREETING={text}", "--env", "PROBE_SLEEP=0"]

    job = service.json("run", "acme/Probe", *values, "--wait")

    assert job["stdout"].startswith(f"arguments: --greeting {text}\n")


def test_output_is_had_byte_by_byte_as_it_was_written(service: Service) -> None:
    """With a pause inside a line, a line of its own that ends in CR, codes of a terminal."""
    script = (
        r"printf 'http://exa'; sleep 0.6; printf 'mple.org\r\n\033[1m 12\r%20000s' x; "
        "echo; echo ' 42 '"
    )
    uuid = "5f2f6a86-0d3a-4a8e-9a53-1f0d8a9f7c11"
    call = {"executable": "sh", "cmdparamsTemplate": f'-c "{script}"'}
    definition = smallest(name="Printer", uuid=uuid, **call)
    rest = service.rest()
    app = rest.post("/api/v1/app/", json=definition).raise_for_status().json()["id"]
    body = {"app_id": app, "company": "acme", "name": "Printer"}
    rest.post("/api/v1/runtemplate/", json=body).raise_for_status()

    job = service.json("run", "acme/Printer", "--wait")

    printed = rest.get(f"/api/v1/job/{job['id']}/output.txt").content
    expected = b"http://example.org\r\n\x1b[1m 12\r" + b"x".rjust(20_000) + b"\n 42 \n"
    assert printed == expected


def test_a_password_is_given_to_the_job_and_masked_everywhere_else(service: Service) -> None:
    values = ["--env", f"PROBE_PASSWORD={PASSWORD}", "--env", "PROBE_SLEEP=0"]

    job = service.json("run", "acme/Probe", *values, "--wait")

    assert "PROBE_PASSWORD=****" in job["stdout"]
    assert PASSWORD not in json.dumps(job)
    assert job["env"]["PROBE_PASSWORD"] == "********"


def test_cancelling_ends_the_processes_of_a_job(service: Service) -> None:
    job = service.json("run", "acme/Probe", "--env", "PROBE_SLEEP=4711")
    service.job_in(job["id"], "running")
    eventually(lambda: "waiting 4711 s" in service.job(job["id"])["stderr"], 20)
    sleeping = [pid for pid, command in commands().items() if command == "sleep 4711"]
    assert sleeping

    cancelled = service.jobauto("job", "cancel", str(job["id"]), "--reason", "no longer needed")

    assert cancelled.returncode == 0, cancelled.stderr
    ended = service.job_in(job["id"], "cancelled")
    assert "no longer needed" in ended["message"]
    eventually(lambda: not set(sleeping) & set(commands()), 20)


def test_logs_are_followed_until_the_job_is_over(service: Service) -> None:
    job = service.json("run", "acme/Probe", "--env", "PROBE_SLEEP=1")

    followed = service.jobauto("job", "logs", str(job["id"]), "--follow")

    assert "waiting 1 s" in followed.stdout
    assert service.job(job["id"])["state"] == "succeeded"


@pytest.fixture(scope="module")
def corpus_template(service: Service) -> int:
    """A run template of the published probe, whose application came in over REST."""
    rest = service.rest()
    fields = {
        "app_id": ok(rest.post("/api/v1/app/", content=CORPUS_PROBE.read_bytes()), 201)["id"],
        "company": "acme",
        "name": "Published probe",
        "env": {"FILE_UPLOAD": "/etc/hosts", "PASSWORD": "a secret value", "FORCE_EXITCODE": 0},
    }
    number: int = ok(rest.post("/api/v1/runtemplate/", json=fields), 201)["id"]
    return number


@needs_corpus
def test_the_published_probe_applied_from_its_file_is_the_one_that_came_over_rest(
    service: Service, corpus_template: int
) -> None:
    plan = service.json("apply", str(CORPUS_PROBE), "--yes")

    assert [change["action"] for change in plan["changes"]] == ["unchanged"]
    assert corpus_template


@pytest.mark.spec("1.1", "1.3", "2.1.21")
@needs_corpus
def test_the_published_probe_runs_over_rest_with_its_environment_and_artifact(
    service: Service, corpus_template: int
) -> None:
    env = {"FORCE_EXITCODE": "7"}
    job = service.job_in(
        ok(
            service.rest().post(
                "/api/v1/job/", json={"runtemplate_id": corpus_template, "env": env}
            ),
            201,
        )["job_id"],
        "failed",
    )
    report = json.loads(job["stdout"])
    assert (job["exitcode"], job["severity"]) == (7, "error")
    assert report["argv"] == ["/etc/hosts"]
    assert report["environment"]["PROBE_SLEEP"] == "0"
    assert report["environment"]["MULTIFLEXI_JOB_ID"] == str(job["id"])
    assert report["environment"]["PASSWORD"] == "********"  # as captured; the file has it in clear
    assert [artifact["path"] for artifact in job["artifacts"]] == ["env_report.json"]


@needs_corpus
def test_the_published_probe_runs_by_prefects_run_button(
    service: Service, corpus_template: int
) -> None:
    template = service.rest().get(f"/api/v1/runtemplate/{corpus_template}.json").json()
    deployment_id = template["prefect_url"].rpartition("/")[2]
    prefect = service.prefect_api()
    deployment = prefect.get(f"/deployments/{deployment_id}").json()
    # The UI sends every field of its form.
    parameters = deployment["parameters"] | {"FORCE_EXITCODE": 0}

    def press() -> dict[str, str] | None:
        # On SQLite Prefect is too busy for it at times; a person presses again.
        answer = prefect.post(
            f"/deployments/{deployment_id}/create_flow_run", json={"parameters": parameters}
        )
        assert answer.is_success or answer.status_code >= 500, answer.text
        return answer.json() if answer.is_success else None

    run = eventually(press, 30)
    state = eventually(lambda: _final_state(prefect, run["id"]), 60)
    assert (state["type"], "exit code 0 (success)" in state["message"]) == ("COMPLETED", True)
    jobs = service.rest().get("/api/v1/jobs.json").json()
    assert [job["state"] for job in jobs.values() if job["flow_run_id"] == run["id"]] == [
        "succeeded"
    ]


def _final_state(prefect: httpx.Client, run_id: str) -> dict[str, str] | None:
    state: dict[str, str] = prefect.get(f"/flow_runs/{run_id}").json()["state"]
    return state if state["type"] in ("COMPLETED", "FAILED", "CRASHED", "CANCELLED") else None


def test_the_topology_has_version_and_process_of_each_part(service: Service) -> None:
    shown = json.loads(service.jobauto("doctor", "--topology", "--json").stdout)
    parts = {part["part"]: part for part in shown["parts"]}
    assert parts.keys() == {"facade", "services", "prefect (all)", "worker (jobauto)"}
    assert len({(part["version"], part["prefect"]) for part in parts.values()}) == 1
    assert parts["worker (jobauto)"]["pid"] in service.processes()


def test_a_worker_that_is_killed_takes_its_job_with_it_and_is_replaced(service: Service) -> None:
    job = service.json("run", "acme/Probe", "--env", "PROBE_SLEEP=301")
    service.job_in(job["id"], "running")
    eventually(lambda: "sleep 301" in commands().values(), 20)
    started = service.said("started", part="worker")
    assert started is not None

    os.kill(started["pid"], signal.SIGKILL)

    since = time.monotonic()
    eventually(lambda: "sleep 301" not in commands().values(), 30)
    assert service.job_in(job["id"], "lost")["exitcode"] is None
    assert time.monotonic() - since < 60
    again = service.json("run", "acme/Root file system", "--wait")
    assert again["state"] == "succeeded"
    assert service.said("ended", part="worker", exit_code=-9)


def test_a_facade_that_is_killed_with_its_services_is_replaced(service: Service) -> None:
    started = service.said("started", part="facade")
    assert started is not None

    os.kill(started["pid"], signal.SIGKILL)

    eventually(lambda: service.said("ended", part="facade", exit_code=-9))
    eventually(lambda: service.said("started", part="facade") != started)
    eventually(lambda: service.jobauto("job", "list").returncode == 0)
    again = service.json("run", "acme/Root file system", "--wait")
    assert again["state"] == "succeeded"
