"""A facade, a Prefect and what is needed to run real jobs with real workers."""

import shutil
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from subprocess import Popen
from typing import Any
from uuid import uuid4

import httpx

from jobauto_prefect.ledger.opening import open_ledger
from jobauto_prefect.ledger.secrets import create_key
from jobauto_prefect.ledger.store import Ledger
from jobauto_prefect.settings import Settings
from tests.support.documents import smallest
from tests.support.ports import free_port
from tests.support.processes import clean_environment, is_alive, running
from tests.support.records import own_name
from tests.support.secrets import SECRET
from tests.support.servers import Serving, client, prefect_client, user_token, worker_token
from tests.support.waits import eventually

PROBE = """#!/bin/sh
# Says that it runs, and what it is told; a second instance of one job would be seen.
mkdir "$MARKS/live-$JOBAUTO_JOB_ID" || echo overlap >> "$MARKS/overlaps"
echo $$ >> "$MARKS/pids"
echo "start $(date +%s.%N) $JOBAUTO_JOB_ID" >> "$MARKS/starts"
trap 'rmdir "$MARKS/live-$JOBAUTO_JOB_ID"; exit 143' TERM
[ -n "$QUIET" ] || { echo "hello from $COMPANY"; echo "careful" >&2; }
sleep "$SECONDS_TO_SLEEP" & wait $!
until [ -z "$ENDS_WITH" ] || [ -e "$ENDS_WITH" ]; do sleep 0.1; done
rmdir "$MARKS/live-$JOBAUTO_JOB_ID"
exit "$EXIT_WITH"
"""


@dataclass(frozen=True, slots=True)
class Plant:
    """An installation with one application, company and template; workers are the test's."""

    settings: Settings
    ledger: Ledger
    rest: httpx.Client
    prefect: httpx.Client
    home: Path
    pool: str
    template: dict[str, Any]
    token: str
    marks: Path
    serving: Serving

    def with_template(self, name: str, pool: str) -> "Plant":
        """The same, with another template of the same application."""
        env = self.template["env"] | {"PASSWORD": SECRET}
        return self._with(name, app_id=self.template["app_id"], pool=pool, env=env)

    def with_application(self, definition: dict[str, Any], **members: Any) -> "Plant":
        """The same, with a template of another application."""
        body = definition | {"uuid": str(uuid4()), "name": f"{definition['name']} {self.pool}"}
        app = self.rest.post("/app/", json=body).raise_for_status().json()
        return self._with(definition["name"], app_id=app["id"], **members)

    def _with(self, name: str, **members: Any) -> "Plant":
        body = {"company": self.pool, "name": name, **members}
        template = self.rest.post("/runtemplate/", json=body).raise_for_status().json()
        return replace(self, template=template)

    def other_template(self, name: str) -> "Plant":
        """The same, with the template of that name."""
        templates = self.rest.get("/runtemplates.json").raise_for_status().json().values()
        return replace(self, template=next(each for each in templates if each["name"] == name))

    def marked(self, name: str) -> list[str]:
        """The lines of one kind of mark."""
        path = self.marks / name
        return path.read_text().splitlines() if path.exists() else []

    def job(self, job_id: int) -> dict[str, Any]:
        """The record of a job."""
        record: dict[str, Any] = self.rest.get(f"/job/{job_id}.json").raise_for_status().json()
        return record

    def post_job(self, scheduled: str | None = None, **env: str | int) -> int:
        """A new job of the template, now or at a time; its marks are in this test's folder."""
        declared = self.rest.get(f"/app/{self.template['app_id']}.json").json()["environment"]
        given = env if "MARKS" not in declared else {"MARKS": str(self.marks), **env}
        body = {"runtemplate_id": self.template["id"], "env": given, "scheduled": scheduled}
        created: int = self.rest.post("/job/", json=body).raise_for_status().json()["id"]
        return created

    def ended(self, job_id: int) -> dict[str, Any]:
        """A job, once it is over."""

        def over() -> dict[str, Any] | None:
            job = self.job(job_id)
            return job if job["end"] else None

        return eventually(over)

    def deployment_id(self) -> str:
        """The template's deployment, once it is applied."""

        def applied() -> str | None:
            names = [f"{self.pool} - {self.template['name']}"]
            query = {"deployments": {"name": {"any_": names}}}
            deployments = self.prefect.post("/deployments/filter", json=query).json()
            return deployments[0]["id"] if deployments else None

        return eventually(applied)

    def click_run(self, **parameters: Any) -> str:
        """What the Run button of Prefect's UI does: every field is submitted."""
        deployment = self.prefect.get(f"/deployments/{self.deployment_id()}").json()
        given = deployment["parameters"] | {"MARKS": str(self.marks)} | parameters
        path = f"/deployments/{deployment['id']}/create_flow_run"
        answer = self.prefect.post(path, json={"parameters": given})
        run: str = answer.raise_for_status().json()["id"]
        return run

    def flow_run(self, flow_run_id: str) -> dict[str, Any]:
        """A flow run of Prefect."""
        run: dict[str, Any] = self.prefect.get(f"/flow_runs/{flow_run_id}").json()
        return run

    def run_in(self, flow_run_id: str, *states: str) -> dict[str, Any]:
        """A flow run, once it is in one of these types of state."""

        def there() -> dict[str, Any] | None:
            run = self.flow_run(flow_run_id)
            return run if run["state_type"] in states else None

        return eventually(there)

    def run_named(self, flow_run_id: str, ending: str) -> dict[str, Any]:
        """The flow run, once its name ends so."""

        def named() -> dict[str, Any] | None:
            run = self.flow_run(flow_run_id)
            return run if run["name"].endswith(ending) else None

        return eventually(named)

    def run_of(self, job_id: int) -> str:
        """The flow run of a job, once it is known."""
        label = {"flow_runs": {"name": {"like_": f"#{job_id}"}}}
        flow_run_id: str = eventually(
            lambda: next(
                (
                    run["id"]
                    for run in self.prefect.post("/flow_runs/filter", json=label).json()
                    if run["labels"].get("jobauto.job") == job_id and self.pool in run["name"]
                ),
                None,
            )
        )
        return flow_run_id

    def set_state(self, flow_run_id: str, state: str) -> None:
        """What Prefect's UI does for a state."""
        body = {"state": {"type": state}, "force": False}
        self.prefect.post(f"/flow_runs/{flow_run_id}/set_state", json=body).raise_for_status()

    def jobs_of(self, flow_run_id: str) -> list[dict[str, Any]]:
        """The jobs of a flow run."""
        answer = self.rest.get("/jobs.json", params={"limit": 1000}).raise_for_status()
        jobs = answer.json().values()
        return [job for job in jobs if job["flow_run_id"] == flow_run_id]

    def until_jobs_of(self, flow_run_id: str) -> list[dict[str, Any]]:
        """The jobs of a flow run, once there are any."""
        return eventually(lambda: self.jobs_of(flow_run_id))

    def logs_of(self, flow_run_id: str) -> list[dict[str, Any]]:
        """The output of a flow run's job as Prefect's log has it."""
        query = {"logs": {"flow_run_id": {"any_": [flow_run_id]}}}
        lines = self.prefect.post("/logs/filter", json=query).raise_for_status().json()
        return [line for line in lines if line["name"] == "jobauto"]

    def artifacts_of(self, flow_run_id: str) -> list[dict[str, Any]]:
        """The artifacts of a flow run in Prefect."""
        query = {"artifacts": {"flow_run_id": {"any_": [flow_run_id]}}}
        artifacts: list[dict[str, Any]] = self.prefect.post("/artifacts/filter", json=query).json()
        return artifacts

    def until_gone(self) -> None:
        """Return when no process of a probe lives."""
        pids = self.marked("pids")
        eventually(lambda: not any(is_alive(int(pid)) for pid in pids))

    def environment(self, **more: str) -> dict[str, str]:
        """What a worker is told, and nothing of the ledger."""
        return clean_environment() | {
            "PREFECT_API_URL": self.settings.prefect_api_url,
            "PREFECT_HOME": str(self.home / "prefect"),
            "PREFECT_LOGGING_LEVEL": "WARNING",
            "JOBAUTO_URL": self.settings.url,
            "JOBAUTO_WORKER_TOKEN": self.token,
            "JOBAUTO_HOME": str(self.home / "worker"),
            "JOBAUTO_CONFIG_DIR": str(self.home / "worker"),
            **more,
        }

    @contextmanager
    def worker(self, name: str = "w1", *options: str, **environment: str) -> Iterator[Popen[bytes]]:
        """A worker process started as Prefect's users start one, once Prefect has heard of it."""
        with self.starting_worker(name, *options, **environment) as process:
            self.until_online(name)
            yield process

    @contextmanager
    def starting_worker(self, name: str, *options: str, **values: str) -> Iterator[Popen[bytes]]:
        """The same, whether or not Prefect has heard of it; `values` are of its environment."""
        argv = [sys.executable, "-m", "prefect", "worker", "start", "--type", "jobauto"]
        argv += ["--pool", self.pool, "--name", name, *options]
        log = self.home / f"worker-{name}.log"
        with running(argv, self.environment(**values), log) as process:
            yield process

    def until_online(self, name: str, pool: str | None = None) -> None:
        """Return when Prefect has heard of a worker."""
        path = f"/work_pools/{pool or self.pool}/workers/filter"

        def online() -> bool:
            answer = self.prefect.post(path, json={})
            return answer.is_success and any(
                worker["name"] == name and worker["status"] == "ONLINE" for worker in answer.json()
            )

        eventually(online, 60)

    def log_of(self, name: str = "w1") -> str:
        """What a worker wrote."""
        return (self.home / f"worker-{name}.log").read_text()


@contextmanager
def plant(prefect_api: str, migrated: str, home: Path, lease_seconds: float) -> Iterator[Plant]:
    """A running facade over a copy of the migrated ledger; one template is applied to Prefect."""
    for folder in ("bin", "marks", "prefect", "worker"):
        (home / folder).mkdir()
    settings = Settings(
        home=home,
        database_url=f"sqlite:///{shutil.copy(migrated, home / 'ledger.db')}",
        url=f"http://127.0.0.1:{free_port()}",
        prefect_api_url=prefect_api,
        pool=own_name("pool"),
        lease_seconds=lease_seconds,
    )
    create_key(settings.key_path)
    with ExitStack() as stack:
        ledger = open_ledger(settings)
        stack.callback(ledger.close)
        serving = stack.enter_context(Serving(settings, ledger))
        rest = stack.enter_context(client(f"{settings.url}/api/v1", user_token(ledger)))
        prefect = stack.enter_context(prefect_client(prefect_api))
        yield _build(settings, serving, rest, prefect)


def _build(
    settings: Settings, serving: Serving, rest: httpx.Client, prefect: httpx.Client
) -> Plant:
    home, pool = settings.home, settings.pool
    probe = home / "bin" / f"probe-{pool}"
    probe.write_text(PROBE)
    probe.chmod(0o755)
    app = rest.post("/app/", json=_definition(probe)).raise_for_status().json()
    rest.post("/company/", json={"slug": pool, "name": pool}).raise_for_status()
    env = {"MARKS": str(home / "marks"), "COMPANY": "Ácme", "PASSWORD": SECRET}
    body = {"app_id": app["id"], "company": pool, "name": "daily", "env": env}
    template = rest.post("/runtemplate/", json=body).raise_for_status().json()
    made = Plant(
        settings=settings,
        ledger=serving.ledger,
        rest=rest,
        prefect=prefect,
        home=home,
        pool=pool,
        template=template,
        token=worker_token(serving.ledger, pool, f"{pool}-stock"),
        marks=home / "marks",
        serving=serving,
    )
    made.deployment_id()
    return made


def _definition(executable: Path) -> dict[str, Any]:
    return smallest(
        name=f"Probe {executable.name}",
        executable=str(executable),
        uuid=str(uuid4()),
        environment={
            "MARKS": {"type": "string", "required": True},
            "COMPANY": {"type": "string"},
            "PASSWORD": {"type": "password"},
            "QUIET": {"type": "string"},
            "SECONDS_TO_SLEEP": {"type": "float", "defval": 0},
            "EXIT_WITH": {"type": "integer", "defval": 0},
            "ENDS_WITH": {"type": "string"},  # a file: not before it is there
        },
        exitCodes={
            "0": {"description": "All is well", "severity": "success"},
            "3": {"description": "Half of it", "severity": "warning"},
            "4": {"description": "Nothing to do", "severity": "info"},
            "7": {"description": "The bank is closed", "severity": "error"},
        },
    )
