"""Thousands of requests made from the OpenAPI document: all answers are as it says.

`JOBAUTO_TEST_SCHEMATHESIS_CASES` is how many of them `make test` makes up, about; `make soak`
makes more than 5,000 on each database.
"""

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from jobauto_prefect.facade.openapi import document
from jobauto_prefect.facade.openapi.schemas import BODIES, examples
from jobauto_prefect.ledger import leases
from jobauto_prefect.ledger.audit import SERVICE
from jobauto_prefect.ledger.records import Artifact, Task
from jobauto_prefect.ledger.store import Ledger
from jobauto_prefect.settings import Settings
from tests.servers import client, facade, user_token

ROOT = Path(__file__).parents[2]
PUBLISHED = ROOT / "api" / "openapi.json"
pytestmark = pytest.mark.soak  # what is made up differs each time: not for a verdict on a change

CASES = int(os.environ.get("JOBAUTO_TEST_SCHEMATHESIS_CASES", "700"))
OPERATIONS = sum(len(methods) for methods in document()["paths"].values())
SEEDED = 8
LEAVER = {"login": "leaver", "password": "dlouhé heslo 7"}
"""Somebody who signs in and out."""


@pytest.fixture
def facade_settings(facade_settings: Settings) -> Settings:
    """Wrong passwords are part of the requests: nobody is kept out for them."""
    patient = {"sign_in_failures_per_account": 10**6, "sign_in_failures_per_address": 10**6}
    return facade_settings.model_copy(update=patient)


@pytest.fixture
def seeded(facade_settings: Settings, ledger: Ledger) -> Iterator[tuple[str, str]]:
    """The address of a facade with some records of each kind, and a super_admin's token."""
    token = user_token(ledger)
    with facade(facade_settings, ledger) as url, client(f"{url}/api/v1", token) as rest:
        for number in range(1, SEEDED + 1):
            for item, body in bodies(number):
                answer = rest.post(f"/{item}/", json=body)
                assert answer.status_code == 201, (item, answer.text)
            work(ledger, number)
        assert rest.post("/user/", json={**LEAVER, "roles": ["viewer"]}).status_code == 201
        yield url, token


def bodies(number: int) -> Iterator[tuple[str, dict[str, Any]]]:
    """One record of each kind, depending on each other."""
    shown = examples()
    own: dict[str, dict[str, Any]] = {
        "app": {"name": f"App-{number}", "uuid": f"0c7a1f5e-6d1b-4f0e-9a54-{number:012}"},
        "company": {"slug": f"company-{number}"},
        "runtemplate": {"app_id": number, "company": f"company-{number}"},
        "job": {"runtemplate_id": number},
        "user": {"login": f"user-{number}"},
        "credential_type": {"code": f"type-{number}"},
        "credential": {"company": f"company-{number}", "credential_type": f"type-{number}"},
        "topic": {"name": f"topic-{number}"},
        "eventsource": {"name": f"source-{number}", "company": f"company-{number}"},
        "eventrule": {"event_source_id": number, "runtemplate_id": number},
    }
    for item, different in own.items():
        yield item, {**shown[BODIES[item]], **different}


def work(ledger: Ledger, number: int) -> None:
    """A task, and what a job leaves behind."""
    now = ledger.clock()
    with ledger.writing(SERVICE) as session:
        task = Task(runtemplate_id=number, window_start=now, window_end=now, deadline=now)
        artifact = Artifact(
            job_id=number, path="a.txt", name="a", type="file", content_type="text/plain",
            size=1, content=b"a", created_at=now,
        )  # fmt: skip
        session.add_all([task, artifact])
        leases.add_lines(
            session, number, [{"seq": 1, "stream": "stdout", "text": "hello", "at": now}]
        )


def requests_of(seeded: tuple[str, str], directory: Path, *options: str) -> int:
    """How many requests schemathesis made, after it found nothing."""
    url, token = seeded
    command = [
        str(Path(sys.executable).parent / "schemathesis"), "run", str(PUBLISHED),
        "--url", f"{url}/api/v1", "--continue-on-failure", "--no-color",
        "--generation-database", "none",
        # What only Prefect knows; there is none here, and 503 is right.
        "--exclude-path-regex", "^/(drift|pools|reconcile)\\.", *options,
    ]  # fmt: skip
    environment = {
        **os.environ,
        "SCHEMATHESIS_HOOKS": "tests.integration.schemathesis_hooks",
        "PYTHONPATH": str(ROOT),
        "JOBAUTO_TEST_TOKEN": token,
        "JOBAUTO_TEST_LEAVER": json.dumps(LEAVER),
        "JOBAUTO_TEST_SEEDED": str(SEEDED),
    }
    ran = subprocess.run(
        command, cwd=directory, env=environment, capture_output=True, text=True, check=False
    )
    lines = [line[:400] for line in (ran.stdout + ran.stderr).splitlines()]
    assert ran.returncode == 0, "\n".join(lines[-400:])
    headers = {"Authorization": f"Bearer {token}"}
    assert httpx.get(f"{url}/api/v1/apps.json", headers=headers).status_code == 200
    made = re.search(r"(\d+) generated, (\d+) passed", ran.stdout)
    assert made is not None, ran.stdout
    return int(made[2])


@pytest.mark.parametrize("migrated", ["sqlite"], indirect=True)
def test_no_request_shows_service_and_document_apart(
    seeded: tuple[str, str], tmp_path: Path
) -> None:
    phases = ("--phases", "examples,fuzzing,stateful")
    each = str(max(1, CASES // OPERATIONS))
    assert requests_of(seeded, tmp_path, *phases, "--max-examples", each) >= CASES * 0.8


def test_thousands_of_requests_show_no_difference(seeded: tuple[str, str], tmp_path: Path) -> None:
    assert requests_of(seeded, tmp_path, "--max-examples", "30") >= 5000
