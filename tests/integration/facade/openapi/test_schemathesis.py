"""Thousands of requests made from the OpenAPI document: all answers are as it says.

As a super_admin at least `REACHED` operations are done; as a viewer and as a manager of another
company nothing is changed or shown that is not theirs. `make test` makes a few requests of each
operation, the same ones each time; `make soak` thirty and more, others each time.
"""

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx
import pytest

from jobauto_prefect.facade.auth.permissions import Membership, Role
from jobauto_prefect.facade.kinds.registry import RESOURCES
from jobauto_prefect.facade.openapi.schemas import BODIES, load_examples
from jobauto_prefect.ledger.audit.trail import SERVICE
from jobauto_prefect.ledger.jobs import leases
from jobauto_prefect.ledger.records import (
    Artifact,
    CompanyUser,
    Event,
    Job,
    Task,
    User,
    WorkerRecord,
)
from jobauto_prefect.ledger.store import Ledger
from jobauto_prefect.settings import Settings
from tests.support.databases import on_sqlite
from tests.support.paths import ROOT
from tests.support.servers import client, facade, user_token

PUBLISHED = ROOT / "api" / "openapi.json"

REACHED = 80
"""Operations that a super_admin does at least once."""

SEEDED = 8
SPARE = 6
LEAVER = {"login": "leaver", "password": "dlouhé heslo 7"}
"""Somebody who signs in and out."""

FOREIGN = "Planted"
"""In the names of what is the first eight companies'."""


@dataclass(frozen=True)
class World:
    """A facade with records; `tokens` are of root, a viewer and a manager of another company.

    `disposable` are the ids of records of each kind that nothing depends on.
    """

    url: str
    tokens: dict[str, str]
    users: dict[str, int]
    disposable: dict[str, list[int]]

    def client(self, who: str) -> httpx.Client:
        return client(f"{self.url}/api/v1", self.tokens[who])

    def records(self) -> dict[str, dict[str, Any]]:
        """All that a list shows of what is there, by kind and id, as root sees it."""
        with self.client("root") as rest:
            found = {}
            for resource in RESOURCES:
                if resource.kind.item in ("auditlog", "user"):
                    continue
                answer = rest.get(f"/{resource.kind.collection}.json?limit=1000").raise_for_status()
                shown = answer.json()
                for record in shown.values():
                    record.pop("waits_for", None)  # as time goes by
                found[resource.kind.item] = shown
            members = rest.get("/company/1/users.json").raise_for_status()
            return {**found, "member": members.json(), "user": self._users(rest)}

    def _users(self, rest: httpx.Client) -> dict[str, Any]:
        shown: dict[str, Any] = rest.get("/users.json?limit=1000").raise_for_status().json()
        own = {str(user_id) for user_id in self.users.values()}
        return {user_id: user for user_id, user in shown.items() if user_id not in own}


@pytest.fixture
def facade_settings(facade_settings: Settings) -> Settings:
    """Wrong passwords are part of the requests: nobody is kept out for them."""
    patient = dict.fromkeys(
        (
            "sign_in_failures_per_network",
            "sign_in_failures_per_account",
            "sign_in_failures_of_network",
        ),
        10**6,
    )
    return facade_settings.model_copy(update=patient)


@pytest.fixture
def world(facade_settings: Settings, ledger: Ledger) -> Iterator[World]:
    """A facade with some records of each kind."""
    tokens, users = {"root": user_token(ledger)}, {"root": 1}
    with facade(facade_settings, ledger) as url, client(f"{url}/api/v1", tokens["root"]) as rest:
        for number in range(1, SEEDED + 1):
            for item, body in bodies(number):
                made(rest, item, body)
            work(ledger, number)
            rest.post(f"/company/{number}/user/", json={"user_id": number + 1}).raise_for_status()
        disposable = {item: list(spare(rest, ledger, item)) for item in BODIES}
        issued = [rest.post("/user/3/tokens/", json={}).json()["id"] for _ in range(SPARE)]
        disposable["token"] = issued
        users["leaver"] = made(rest, "user", {**LEAVER, "roles": ["viewer"]})
        for who, company, membership in (
            ("viewer", 1, Membership.VIEWER),
            ("foreign manager", made(rest, "company", {"slug": "own", "name": "Own"}),
             Membership.MANAGER),
        ):  # fmt: skip
            tokens[who] = user_token(ledger, who.replace(" ", "-"), [Role.VIEWER])
            with ledger.writing(SERVICE) as session:
                user = session.query(User).filter_by(login=who.replace(" ", "-")).one()
                users[who] = user.id
                session.add(CompanyUser(company_id=company, user_id=user.id, role=membership))
        yield World(url, tokens, users, disposable)


def made(rest: httpx.Client, item: str, body: dict[str, Any]) -> int:
    """The id of a record that is made."""
    answer = rest.post(f"/{item}/", json=body)
    assert answer.status_code == 201, (item, answer.text)
    record_id: int = answer.json()["id"]
    return record_id


def bodies(number: int) -> Iterator[tuple[str, dict[str, Any]]]:
    """One record of each kind, depending on each other."""
    shown = load_examples()
    company, named = f"company-{number}", f"{FOREIGN} {number}"
    own: dict[str, dict[str, Any]] = {
        "app": {"name": f"App-{number}", "uuid": f"0c7a1f5e-6d1b-4f0e-9a54-{number:012}"},
        "company": {"slug": company, "name": named},
        "runtemplate": {"app_id": number, "company": company, "name": named},
        "job": {"runtemplate_id": number, "note": named},
        "user": {"login": f"user-{number}"},
        "credential_type": {"code": f"type-{number}"},
        "credential": {"company": company, "credential_type": f"type-{number}", "name": named},
        "topic": {"name": f"topic-{number}"},
        "calendar": {"name": f"calendar-{number}"},
        "eventsource": {"name": f"{FOREIGN} source {number}", "company": company},
        "eventrule": {"event_source_id": number, "runtemplate_id": number},
    }
    for item, different in own.items():
        yield item, {**shown[BODIES[item]], **different}


def spare(rest: httpx.Client, ledger: Ledger, item: str) -> Iterator[int]:
    """Records that nothing depends on."""
    for number in range(1, SPARE + 1):
        body = dict(bodies(number))[item]
        key = {"user": "login", "company": "slug", "credential_type": "code"}.get(item, "name")
        if item in ("job", "eventrule"):
            key = "note"
        shared = item in ("app", "credential_type", "topic", "calendar", "user")
        other = {**body, key: f"spare-{number}" if shared else f"{FOREIGN}-spare-{number}"}
        if item == "eventrule":
            del other["note"]
            other["evidence"] = f"spare-{number}"
        if item == "app":
            other["uuid"] = str(uuid4())
        record_id = made(rest, item, other)
        if item == "job":
            with ledger.writing(SERVICE) as session:
                session.get_one(Job, record_id).state = "failed"
        yield record_id


def work(ledger: Ledger, number: int) -> None:
    """A task, what a job leaves behind, a change, and a worker that is silent."""
    now = ledger.clock()
    with ledger.writing(SERVICE) as session:
        state = "missed" if number % 2 == 0 else "open"
        task = Task(
            runtemplate_id=number, window_start=now, window_end=now, deadline=now, state=state
        )
        artifact = Artifact(
            job_id=number, path="a.txt", name="a", type="file", content_type="text/plain",
            size=1, content=b"a", created_at=now,
        )  # fmt: skip
        event = Event(
            kind="change", company_id=number, event_source_id=number, operation="create", data={},
            evidence=f"{FOREIGN} {number}", created_at=now, inversion=number, digest=str(number),
        )  # fmt: skip
        worker = WorkerRecord(
            name=f"w{number}", pool="jobauto", host="h", instance=uuid4(),
            seen_at=now.replace(year=now.year - 1),
        )  # fmt: skip
        session.add_all([task, artifact, event, worker])
        output = {"seq": 1, "stream": "stdout", "at": now, "texts": [FOREIGN]}
        leases.add_output(session, number, [output])


@dataclass(frozen=True)
class Answer:
    """What an operation answered; `text` of those that were done."""

    operation: str
    status: int
    text: str


def answers_of(world: World, who: str, directory: Path, *options: str) -> list[Answer]:
    """What somebody's made-up requests were answered; schemathesis has found nothing wrong."""
    noted = directory / f"{who}.jsonl"
    command = [
        str(Path(sys.executable).parent / "schemathesis"), "run", str(PUBLISHED),
        "--url", f"{world.url}/api/v1", "--continue-on-failure", "--no-color",
        "--request-timeout", "120",
        # What only Prefect knows; there is none here, and 503 is right. And texts of files.
        "--exclude-path-regex", "^/(apply|drift|pools|reconcile)\\.", *options,
    ]  # fmt: skip
    environment = {
        **os.environ,
        "SCHEMATHESIS_HOOKS": "tests.support.schemathesis_hooks",
        "PYTHONPATH": str(ROOT),
        "JOBAUTO_TEST_TOKEN": world.tokens[who],
        "JOBAUTO_TEST_LEAVER": json.dumps(LEAVER),
        "JOBAUTO_TEST_SEEDED": str(SEEDED),
        "JOBAUTO_TEST_DISPOSABLE": json.dumps(world.disposable),
        "JOBAUTO_TEST_SPARED": json.dumps(list(world.users.values())),
        "JOBAUTO_TEST_ANSWERS": str(noted),
    }
    ran = subprocess.run(
        command, cwd=directory, env=environment, capture_output=True, text=True, check=False
    )
    lines = [line[:400] for line in (ran.stdout + ran.stderr).splitlines()]
    assert ran.returncode == 0, "\n".join(lines[-400:])
    assert re.search(r"(\d+) generated, (\d+) passed", ran.stdout) is not None, ran.stdout
    return [Answer(*json.loads(line)) for line in noted.read_text().splitlines()]


def require_reached(world: World, answers: list[Answer]) -> None:
    """At least `REACHED` operations were done, and the tester may still do everything."""
    document = json.loads(PUBLISHED.read_text())
    every = {
        f"{method.upper()} {path}" for path, item in document["paths"].items() for method in item
    }
    done = {answer.operation for answer in answers if 200 <= answer.status < 300}
    statuses = {operation: set[int]() for operation in every - done}
    for answer in answers:
        if answer.operation in statuses:
            statuses[answer.operation].add(answer.status)
    assert len(done & every) >= REACHED, f"{len(done & every)} are done, not: {statuses}"
    with world.client("root") as rest:
        roles = rest.get("/user/1/roles.json").raise_for_status().json().values()
        assert [role["name"] for role in roles] == ["super_admin"]


def require_harmless(
    world: World, who: str, before: dict[str, dict[str, Any]], answers: list[Answer]
) -> None:
    """Nothing was shown that is not theirs, and nothing changed; what they made is new."""
    assert not [answer for answer in answers if answer.status >= 500]
    # The viewer belongs to the first company.
    others = range(2 if who == "viewer" else 1, SEEDED + 1)
    told = re.compile(rf"{FOREIGN}(-spare-| | source )({'|'.join(map(str, others))})\b")
    assert not {answer.operation for answer in answers if told.search(answer.text)}
    after = world.records()
    for kind, records in before.items():
        kept = {record_id: after[kind].get(record_id) for record_id in records}
        assert kept == records, kind


def run_as_others(world: World, directory: Path, *options: str) -> None:
    """The same as a viewer, and as a manager of another company."""
    for who in ("viewer", "foreign manager"):
        before = world.records()
        answers = answers_of(world, who, directory, *options)
        require_harmless(world, who, before, answers)


FIXED = ("--phases", "examples,fuzzing", "--generation-deterministic", "--max-examples")
"""The same requests each time; so many of each operation."""

FEW, FEWEST = (*FIXED, "2"), (*FIXED, "1")

MANY = ("--max-examples", "30", "--generation-database", "none")


@on_sqlite
def test_others_change_and_see_nothing_that_is_not_theirs_and_root_does_nearly_everything(
    world: World, tmp_path: Path
) -> None:
    run_as_others(world, tmp_path, *FEWEST)
    require_reached(world, answers_of(world, "root", tmp_path, *FEW))


@pytest.mark.soak
def test_thousands_of_requests_show_no_difference(world: World, tmp_path: Path) -> None:
    answers = answers_of(world, "root", tmp_path, *MANY)
    assert len(answers) >= 5000
    require_reached(world, answers)


@pytest.mark.soak
def test_thousands_of_others_requests_change_and_show_nothing_that_is_not_theirs(
    world: World, tmp_path: Path
) -> None:
    run_as_others(world, tmp_path, *MANY)
