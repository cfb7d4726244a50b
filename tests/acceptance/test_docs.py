"""The first hour: what the tutorial, README and definition page tell people to do, done."""

import json
import re
import time
from collections.abc import Iterator

import pytest

from tests.support.guides import Command, File, Shell, is_answer, steps
from tests.support.paths import ROOT
from tests.support.service import Service
from tests.support.waits import eventually

DOCUMENTS = ("docs/tutorial.md", "README.md", "docs/definition-format.md")
IN_DOCUMENTS = ("http://127.0.0.1:8000", "http://127.0.0.1:4200")
HOUR, READING = 3600.0, 180.0  # seconds; in the second all documents are followed
NUMBERED = re.compile(r"\b(job |#)\d+")
"""The second document begins with another number than it says."""


@pytest.fixture(scope="module")
def own_service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """A service in which nothing has happened yet."""
    home = tmp_path_factory.mktemp("first") / "home"
    service = Service(home, JOBAUTO_GRACE_SECONDS="2", LANG="C.UTF-8", TZ="UTC")
    service.start()
    try:
        yield service
    finally:
        service.stop()


def environment_of(service: Service) -> dict[str, str]:
    addresses = {"JOBAUTO_URL": service.url, "PREFECT_API_URL": f"{service.prefect}/api"}
    return service.environment | addresses


def await_an_hour_that_lasts() -> None:
    """Wait for the next hour where this one is nearly over.

    What readers make runs hourly: in the midst of the documents that job would be the last one.
    """
    left = HOUR - time.time() % HOUR
    if left < READING:
        time.sleep(left + 1)


def test_the_documents_do_what_they_say(own_service: Service) -> None:
    await_an_hour_that_lasts()
    real = dict(zip(IN_DOCUMENTS, (own_service.url, own_service.prefect), strict=True))
    with Shell(own_service.home.parent, environment_of(own_service)) as shell:
        for name in DOCUMENTS:
            for step in steps((ROOT / name).read_text()):
                follow(name, step, shell, real)


def follow(name: str, step: File | Command, shell: Shell, real: dict[str, str]) -> None:
    if isinstance(step, File):
        shell.write(step)
        return
    words = step.words
    for written, address in real.items():
        words = words.replace(written, address)
    expected, answer = (NUMBERED.sub(r"\1N", text) for text in (step.answer, shell.type(words)))
    assert is_answer(expected, answer), (
        f"{name}: $ {step.words}\n{answer}\n-- instead of\n{expected}"
    )


ENVIRONMENT = """
kind: company
slug: seen
name: Seen
---
kind: runtemplate
company: seen
app: Environment
name: first
success: {ChainRuntemplate: {runtemplate: seen/second}}
---
kind: runtemplate
company: seen
app: Environment
name: second
"""
TRACE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


def test_a_job_has_the_variables_that_the_page_lists(own_service: Service) -> None:
    page = (ROOT / "docs/environment.md").read_text()
    listed = dict(re.findall(r"^\| `([A-Z_]+)` \| ([^|]+) \|", page, re.MULTILINE))
    of_events = {name for name, who in listed.items() if who == "jobs that an event started"}
    twins = {name.replace("JOBAUTO_", "MULTIFLEXI_") for name in listed} - {"MULTIFLEXI_JOB_DIR"}
    expected = listed.keys() | twins | {"MULTIFLEXI_TMP"}

    definition = {"$schema": "https://example.org/application.json", "description": ""}
    definition |= {"name": "Environment", "executable": "env"}
    folder = own_service.home.parent
    (folder / "env.app.json").write_text(json.dumps({**definition, "environment": {}}))
    (folder / "env.yaml").write_text(ENVIRONMENT)
    files = str(folder / "env.app.json"), str(folder / "env.yaml")
    applied = own_service.jobauto("apply", *files, "--yes")
    assert applied.returncode == 0, applied.stderr
    rest = own_service.rest()
    rest.post(
        "/api/v1/job/", json={"runtemplate_id": "seen/first"}, headers={"traceparent": TRACE}
    ).raise_for_status()

    assert seen_by(own_service, "seen/first") == expected - of_events
    assert seen_by(own_service, "seen/second") == expected


def seen_by(service: Service, template: str) -> set[str]:
    """The names of the variables of a run template's only job."""

    def ended() -> str | None:
        jobs = service.rest().get("/api/v1/jobs.json", params={"runtemplate_id": template}).json()
        return next((key for key, job in jobs.items() if job["state"] == "succeeded"), None)

    output = service.rest().get(f"/api/v1/job/{eventually(ended, 60)}/output.txt").text
    return set(re.findall(r"^(\w+)=", output, re.MULTILINE))
