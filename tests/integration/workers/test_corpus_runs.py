"""Every real definition: imported, registered, run with its own defaults by both workers.

What a process is given is worked out here from the definition and the rules in words, not by the
code that is tested.
"""

import json
import os
import re
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx
import pytest

from jobauto_prefect import __version__
from tests.integration.workers.test_stock import stock_worker, told
from tests.support import workers as plants
from tests.support.corpus import needs_corpus, usable_documents
from tests.support.waits import eventually
from tests.support.workers import Plant

pytestmark = [needs_corpus, pytest.mark.soak]

LEASE_SECONDS = 30.0  # a machine that starts many interpreters at once is slow
PATIENCE = 240  # seconds
SAMPLE = 5

STAND_IN = """#!/bin/sh
# Keeps what it was given, to the byte.
cat /proc/$$/environ > "{folder}/$JOBAUTO_JOB_ID.environ"
cat /proc/$$/cmdline > "{folder}/$JOBAUTO_JOB_ID.cmdline"
echo out
echo err >&2
"""

TRUE = ("true", "yes", "on", "1", "y", "t")
FALSE = ("false", "no", "off", "0", "n", "f")
SECRET = "a secret: {NOT_A_KEY} 'ü'"

DOCUMENTS = {
    # Stand-ins are found by the name alone; several definitions of the corpus share a UUID.
    name: document | {"executable": Path(document["executable"]).name, "uuid": str(uuid4())}
    for name, document in usable_documents().items()
}


def todays() -> list[str]:
    """Some of the definitions, other ones each day."""
    names, first = list(DOCUMENTS), datetime.now(UTC).toordinal() * SAMPLE
    return [names[(first + offset) % len(names)] for offset in range(SAMPLE)] if names else []


@dataclass(frozen=True, slots=True)
class Run:
    """A flow run that was started, and what it was started with."""

    plant: Plant
    app: Mapping[str, Any]
    template: Mapping[str, Any]
    given: Mapping[str, Any]
    flow_run_id: str
    parameters: Mapping[str, Any]
    _jobs: list[dict[str, Any]] = field(default_factory=list)

    @property
    def job(self) -> dict[str, Any]:
        """The job of it, once it is over."""
        if not self._jobs:
            (job,) = self.plant.until_jobs_of(self.flow_run_id)
            self._jobs.append(self.plant.ended(job["id"]))
        return self._jobs[0]

    def kept(self, what: str) -> list[str]:
        """What the stand-in kept of its environment or command line."""
        path = self.plant.marks / f"{self.job['id']}.{what}"
        return path.read_bytes().decode().split("\0")[:-1]


class Works:
    """A plant with stand-ins for the programs of all definitions, and a jobauto worker."""

    def __init__(self, plant: Plant) -> None:
        self.plant = plant
        self._apps: dict[str, dict[str, Any]] = {}
        self._runs: dict[str, Run] = {}

    def app(self, name: str) -> dict[str, Any]:
        """The application of a definition, imported when it is asked for first."""
        if name not in self._apps:
            self._apps[name] = self._import(DOCUMENTS[name])
        return self._apps[name]

    def _import(self, document: Mapping[str, Any]) -> dict[str, Any]:
        program = self.plant.home / "bin" / document["executable"]
        program.write_text(STAND_IN.replace("{folder}", str(self.plant.marks)))
        program.chmod(0o755)
        answer = self.plant.rest.post("/app/", json=document)
        assert answer.status_code == 201, answer.text
        imported: dict[str, Any] = answer.json()
        return imported

    def run(self, name: str) -> Run:
        """The run of a definition by the jobauto worker, once it is over."""
        if name not in self._runs:
            (self._runs[name],) = self.start([name], self.plant.pool)
        assert self._runs[name].job["end"]
        return self._runs[name]

    def start(self, names: list[str], pool: str) -> list[Run]:
        """A run of each definition by the workers of a pool."""
        templates = [self._template(name, pool) for name in names]
        eventually(lambda: self._waiting() == 0, PATIENCE)
        return [self._start(*one) for one in zip(names, templates, strict=True)]

    def _waiting(self) -> int:
        waiting: int = self.plant.rest.get("/status").json()["waiting_for_prefect"]
        return waiting

    def _template(self, name: str, pool: str) -> dict[str, Any]:
        body = {
            "app_id": self.app(name)["id"],
            "company": self.plant.pool,
            "name": f"{name[:100]} in {pool}",
            "pool": pool,
            "env": dict.fromkeys(secrets_of(DOCUMENTS[name]), SECRET),
        }
        answer = self.plant.rest.post("/runtemplate/", json=body)
        assert answer.status_code == 201, answer.text
        template: dict[str, Any] = answer.json()
        return template

    def _start(self, name: str, template: Mapping[str, Any]) -> Run:
        """What the Run button does: all values of the deployment, and what is required."""
        record = self.plant.rest.get(f"/runtemplate/{template['id']}.json").json()
        deployment_id = record["prefect_url"].rpartition("/")[2]
        deployment = self.plant.prefect.get(f"/deployments/{deployment_id}").json()
        schema = deployment["parameter_openapi_schema"]
        keys = {
            parameter: schema["properties"][parameter]["title"] for parameter in schema["required"]
        }
        environment = DOCUMENTS[name]["environment"]
        required = {parameter: made_up(environment[key]) for parameter, key in keys.items()}
        parameters = deployment["parameters"] | required
        answer = self.plant.prefect.post(
            f"/deployments/{deployment_id}/create_flow_run", json={"parameters": parameters}
        )
        assert answer.status_code == 201, (name, answer.text)
        given = {keys[parameter]: value for parameter, value in required.items()}
        run_id = answer.json()["id"]
        return Run(self.plant, self.app(name), template, given, run_id, parameters)


@pytest.fixture(scope="module")
def works(
    prefect_server: str, migrated_file: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Works]:
    home = tmp_path_factory.mktemp("corpus")
    with plants.plant(prefect_server, migrated_file, home, LEASE_SECONDS) as plant:
        works = Works(plant)
        with plant.worker(PATH=path_of(plant)):
            yield works


def path_of(plant: Plant) -> str:
    """Where workers find the stand-ins first."""
    return f"{plant.home / 'bin'}{os.pathsep}{os.environ['PATH']}"


def secrets_of(document: Mapping[str, Any]) -> list[str]:
    """The required keys that no run parameter can give."""
    return [
        key
        for key, variable in document["environment"].items()
        if variable.get("type") == "password" and needs_a_value(variable)
    ]


def needs_a_value(variable: Mapping[str, Any]) -> bool:
    return bool(variable.get("required")) and variable.get("defval") in (None, "")


def made_up(variable: Mapping[str, Any]) -> Any:
    """A value somebody might type."""
    if variable.get("options"):
        return next(iter(variable["options"]))
    typed = {
        "integer": 7,
        "float": 7.5,
        "bool": True,
        "email": "made@up.example",
        "url": "https://made.up/?a=b&c",
    }
    return typed.get(variable.get("type", "string"), "made up: 'ü' \"$HOME\" {PATH}\n-x")


def written(value: Any) -> str:
    """A value as the text of an environment."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def default_of(variable: Mapping[str, Any]) -> str:
    text = written(variable["defval"])
    word = text.strip().lower()
    if variable.get("type") == "bool" and word in (*TRUE, *FALSE):
        return "true" if word in TRUE else "false"
    return text


def expected_environment(run: Run, document: Mapping[str, Any]) -> dict[str, str]:
    """Defaults, then what the template says, then the run, then what every job is told.

    Only the first two may refer to other values, which are put in as they are.
    """
    environment = document["environment"]
    defaults = {
        key: default_of(variable)
        for key, variable in environment.items()
        if variable.get("defval") is not None
    }
    ours = defaults | dict.fromkeys(secrets_of(document), SECRET)
    given = {key: written(value) for key, value in run.given.items()}
    told_to_all = injected(run)
    known = dict.fromkeys(environment, "") | ours | given | told_to_all

    def expanded(text: str) -> str:
        return re.sub(r"\$?\{(\w+)\}", lambda match: known.get(match[1], match[0]), text)

    inherited = {name: os.environ[name] for name in ("HOME", "LANG", "TZ") if name in os.environ}
    return {
        **inherited,
        "PATH": path_of(run.plant),
        "TMPDIR": f"{told_to_all['JOBAUTO_JOB_DIR']}/tmp",
        **{key: expanded(text) for key, text in ours.items()},
        **given,
        **told_to_all,
    }


def injected(run: Run) -> dict[str, str]:
    """What every job is told; where its directory is, is taken from the process itself."""
    kept = dict(entry.split("=", 1) for entry in run.kept("environ"))
    name = run.app["name"]
    facts = {
        "JOB_ID": run.job["id"],
        "TASK_ID": "",
        "ATTEMPT": 1,
        "APPLICATION_ID": run.app["id"],
        "APPLICATION_NAME": name if isinstance(name, str) else name["en"],
        "APPLICATION_UUID": run.app["uuid"],
        "COMPANY_ID": run.template["company_id"],
        "COMPANY_CODE": run.plant.pool,
        "COMPANY_NAME": run.plant.pool,
        "RUNTEMPLATE_ID": run.template["id"],
        "RUNTEMPLATE_NAME": run.template["name"],
        "EXECUTOR": "Native",
        "VERSION": __version__,
        "WINDOW_START": "",
    }
    directory = kept["JOBAUTO_JOB_DIR"]
    assert directory.endswith(f"/job-{run.job['id']}")
    both = {f"{prefix}_{key}": str(value) for key, value in facts.items() for prefix in PREFIXES}
    return both | {"JOBAUTO_JOB_DIR": directory, "MULTIFLEXI_TMP": directory}


PREFIXES = ("JOBAUTO", "MULTIFLEXI")


def expected_arguments(run: Run, document: Mapping[str, Any]) -> list[str]:
    environment = expected_environment(run, document)
    known = set(document["environment"]) | {
        name for name in environment if name.startswith(PREFIXES)
    }
    words = shlex.split(document.get("cmdparamsTemplate") or "")

    def filled(word: str) -> str:
        def value(match: re.Match[str]) -> str:
            return environment.get(match[1], "") if match[1] in known else match[0]

        return re.sub(r"\$?\{(\w+)\}", value, word)

    return [filled(word) for word in words]


def check(run: Run, document: Mapping[str, Any]) -> None:
    """Prefect kept the values, the process had them, and its end is told as it is to be."""
    assert run.plant.flow_run(run.flow_run_id)["parameters"] == run.parameters
    check_process(run, document)
    check_outcome(run, document)


def check_process(run: Run, document: Mapping[str, Any]) -> None:
    """The process was given what the definition says, and nothing else."""
    assert run.job["exitcode"] == 0, run.job["message"]
    kept = dict(entry.split("=", 1) for entry in run.kept("environ"))
    assert kept == expected_environment(run, document)
    shell, program, *arguments = run.kept("cmdline")
    assert (shell, Path(program).name) == ("/bin/sh", document["executable"])
    assert arguments == expected_arguments(run, document)


def check_outcome(run: Run, document: Mapping[str, Any]) -> None:
    """What exit code 0 means is the definition's word."""
    codes = {int(code): entry for code, entry in (document.get("exitCodes") or {}).items()}
    severity = codes[0].get("severity", "error") if 0 in codes else "success"
    fulfils = severity in ("success", "info", "warning")
    state = run.plant.run_in(run.flow_run_id, "COMPLETED", "FAILED")["state_type"]
    assert (run.job["severity"], state) == (severity, "COMPLETED" if fulfils else "FAILED")


@pytest.mark.soak
@pytest.mark.parametrize("name", DOCUMENTS)
def test_a_real_definition_runs_with_its_own_defaults(works: Works, name: str) -> None:
    check(works.run(name), DOCUMENTS[name])


def test_both_workers_run_real_definitions_alike(works: Works) -> None:
    _alike(works, todays())


@pytest.mark.soak
def test_both_workers_run_every_real_definition_alike(works: Works) -> None:
    names = list(DOCUMENTS)
    for first in range(0, len(names), SAMPLE):
        _alike(works, names[first : first + SAMPLE])


def _alike(works: Works, names: list[str]) -> None:
    plant, pool = works.plant, f"{works.plant.pool}-stock"
    answer = plant.prefect.post("/work_pools/", json={"name": pool, "type": "process"})
    assert answer.status_code in (httpx.codes.CREATED, httpx.codes.CONFLICT)
    ours = [works.run(name) for name in names]
    theirs = works.start(names, pool)
    with stock_worker(plant, PATH=path_of(plant)):
        for name, one, other in zip(names, ours, theirs, strict=True):
            eventually(lambda run=other: plant.flow_run(run.flow_run_id)["end_time"], PATIENCE)
            check(one, DOCUMENTS[name])
            check(other, DOCUMENTS[name])
            assert told(plant, one.flow_run_id) == told(plant, other.flow_run_id)
