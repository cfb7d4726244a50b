"""Homes that former releases left behind, killed in the midst of work, started by this one."""

import hashlib
import json
import subprocess
import tarfile
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.support.former_homes import HOMES, databases, settings_of
from tests.support.service import Service
from tests.support.waits import eventually

FOREVER = {
    f"JOBAUTO_KEEP_{what}_DAYS": "0" for what in ("JOBS", "OUTPUT", "RUNS", "TASKS", "EVENTS")
}
"""What was made long ago is not deleted while the tests look."""


@dataclass(frozen=True, slots=True)
class Former:
    """The service in such a home, and what was in it."""

    service: Service
    left: dict[str, Any]


@pytest.fixture(
    scope="module",
    params=sorted(HOMES.glob("*/*.json")),
    ids=lambda path: f"{path.parent.name}-{path.stem}",
)
def former(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Former]:
    """A home of each release on each database, as this release has started it."""
    described: Path = request.param
    place = tmp_path_factory.mktemp("former")
    with tarfile.open(described.with_suffix(".tar.xz")) as archive:
        archive.extractall(place, filter="data")
    left = json.loads(described.read_text())
    with databases(described.stem, place) as urls:
        for name, url in urls.items():
            fill = ["psql", "--quiet", "-v", "ON_ERROR_STOP=1", "-f", place / name, url]
            subprocess.run(fill, check=True, capture_output=True)
        service = Service(place / "home", **settings_of(urls), **FOREVER)
        service.start()
        try:
            yield Former(service, left)
        finally:
            service.stop()


def test_every_job_and_task_is_as_it_was_and_what_ran_is_lost(former: Former) -> None:
    before = former.left["jobs"]

    def jobs() -> dict[str, str]:
        return states(former.service, "job", before)

    eventually(lambda: "running" not in jobs().values())
    assert jobs() == before | {
        number: "lost" for number, state in before.items() if state == "running"
    }
    assert states(former.service, "task", former.left["tasks"]) == former.left["tasks"]


def states(service: Service, kind: str, wanted: dict[str, str]) -> dict[str, str]:
    records = service.json(kind, "list", "--limit", "1000")
    return {number: records[number]["state"] for number in wanted}


def test_the_audit_trail_matches_its_seals(former: Former) -> None:
    verified = former.service.json("audit", "verify")
    assert verified["intact"]
    assert verified["seals"] >= former.left["seals"]


def test_a_job_gets_the_secret_of_its_company(former: Former) -> None:
    for company, pin in former.left["pins"].items():
        job = former.service.json("run", f"{company}/By hand", "--wait")
        assert job["state"] == "succeeded", job
        user, digest = job["stdout"].splitlines()
        assert (user, digest.split()[0]) == (company, hashlib.sha256(pin.encode()).hexdigest())


@pytest.mark.parametrize("misfire", ["all", "latest"])
def test_a_window_that_was_owed_runs_once(former: Former, misfire: str) -> None:
    def owed() -> list[dict[str, Any]]:
        tasks = former.service.json("task", "list", "--template", f"acme/Owed {misfire}")
        return [task for task in tasks.values() if starts(task) == former.left["owed"]]

    eventually(lambda: [task for task in owed() if task["state"] not in ("open", "running")])
    (task,) = owed()
    jobs = former.service.json("task", "show", str(task["id"]))["jobs"]
    assert (task["state"], [job["state"] for job in jobs]) == ("fulfilled", ["succeeded"])


def starts(task: dict[str, Any]) -> str:
    return datetime.fromisoformat(task["window_start"]).isoformat()


def test_its_people_sign_in_and_see_their_companies(former: Former) -> None:
    for login, person in former.left["people"].items():
        known = (login, person["password"])
        with httpx.Client(base_url=former.service.url, auth=known) as rest:
            seen = rest.get("/api/v1/companies.json").raise_for_status().json()
        assert sorted(company["slug"] for company in seen.values()) == person["companies"]
