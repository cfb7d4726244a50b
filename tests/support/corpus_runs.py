"""Real definitions on a plant: imported, registered, and run by stand-ins for their programs."""

import functools
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from tests.support import workers as plants
from tests.support.corpus import usable_documents
from tests.support.records import ok
from tests.support.waits import eventually
from tests.support.workers import Plant

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


SECRET = "a secret: {NOT_A_KEY} 'ü'"


@functools.cache
def documents() -> dict[str, dict[str, Any]]:
    """The definitions that are run, by file name."""
    return {
        # Stand-ins are found by the name alone; several definitions of the corpus share a UUID.
        name: document | {"executable": Path(document["executable"]).name, "uuid": str(uuid4())}
        for name, document in usable_documents().items()
    }


def document_of(name: str) -> dict[str, Any]:
    """One of them; a test of one that can't be used is skipped."""
    return documents().get(name) or pytest.skip("it is not valid, and an upgrade is no help")


def todays() -> list[str]:
    """Some of the definitions, other ones each day."""
    names, first = list(documents()), datetime.now(UTC).toordinal() * SAMPLE
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
            self._apps[name] = self._import(documents()[name])
        return self._apps[name]

    def _import(self, document: Mapping[str, Any]) -> dict[str, Any]:
        program = self.plant.home / "bin" / document["executable"]
        program.write_text(STAND_IN.replace("{folder}", str(self.plant.marks)))
        program.chmod(0o755)
        return ok(self.plant.rest.post("/app/", json=document), 201)

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
        return [
            self._start(name, template) for name, template in zip(names, templates, strict=True)
        ]

    def _waiting(self) -> int:
        waiting: int = self.plant.rest.get("/status").json()["waiting_for_prefect"]
        return waiting

    def _template(self, name: str, pool: str) -> dict[str, Any]:
        body = {
            "app_id": self.app(name)["id"],
            "company": self.plant.pool,
            "name": f"{name[:100]} in {pool}",
            "pool": pool,
            "env": dict.fromkeys(secrets_of(documents()[name]), SECRET),
        }
        return ok(self.plant.rest.post("/runtemplate/", json=body), 201)

    def _start(self, name: str, template: Mapping[str, Any]) -> Run:
        """What the Run button does: all values of the deployment, and what is required."""
        record = self.plant.rest.get(f"/runtemplate/{template['id']}.json").json()
        deployment_id = record["prefect_url"].rpartition("/")[2]
        deployment = self.plant.prefect.get(f"/deployments/{deployment_id}").json()
        schema = deployment["parameter_openapi_schema"]
        keys = {
            parameter: schema["properties"][parameter]["title"] for parameter in schema["required"]
        }
        environment = documents()[name]["environment"]
        required = {parameter: made_up(environment[key]) for parameter, key in keys.items()}
        parameters = deployment["parameters"] | required
        answer = self.plant.prefect.post(
            f"/deployments/{deployment_id}/create_flow_run", json={"parameters": parameters}
        )
        assert answer.status_code == 201, (name, answer.text)
        given = {keys[parameter]: value for parameter, value in required.items()}
        run_id = answer.json()["id"]
        return Run(self.plant, self.app(name), template, given, run_id, parameters)


@contextmanager
def open_works(prefect_api: str, migrated: str, home: Path) -> Iterator[Works]:
    """A plant with stand-ins for all programs, and a worker that runs them."""
    with plants.plant(prefect_api, migrated, home, LEASE_SECONDS) as plant:
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
    """Whether a required key has no default."""
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
