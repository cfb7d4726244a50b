"""Changes while everything between them and their jobs is killed: each matching one runs, once."""

import contextlib
import itertools
import json
import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from sqlalchemy import func, insert, select
from sqlalchemy.exc import DBAPIError, IntegrityError

from jobauto_prefect.ledger.records import AuditEntry, Delivery, Event, Job
from tests.support.adapters import AdapterDatabase, adapter_database
from tests.support.databases import database
from tests.support.installation import PATIENCE, Installation, run_installation
from tests.support.ledger_rows import fetch_all
from tests.support.own_servers import OwnServer, own_adapter
from tests.support.waits import eventually
from tests.support.workers import Plant

KINDS = ("sqlite", "pgsql", "mysql")
CHANGES = 10_000
EACH = 50  # of so many changes one matches the rule
KILLS = 20
LEASE_SECONDS = 30.0  # no worker dies here, and a busy machine must not make one look dead
LONG = 1200  # seconds

MARKER = """#!/bin/sh
echo "$EVENT_INVERSION $JOBAUTO_JOB_ID" >> "$MARKS/changes"
"""


def forge(plant: Plant, source: int, payload: dict[str, Any]) -> None:
    """An event that anybody who reaches Prefect's API can post."""
    resource = {"prefect.resource.id": f"jobauto.source.{source}.invoice.1",
                "jobauto.event": str(payload["event"]), "jobauto.evidence": "invoice"}  # fmt: skip
    event = {"id": str(uuid4()), "occurred": datetime.now(UTC).isoformat(), "payload": payload,
             "event": f"jobauto.source.{source}.change", "resource": resource}  # fmt: skip
    plant.prefect.post("/events", json=[event]).raise_for_status()


def test_a_forged_event_in_prefect_starts_no_process_and_leaves_one_entry(manned: Plant) -> None:
    name = f"forged {uuid4()}"
    made = manned.rest.post("/eventsource/", json={"name": name, "db_database": "x"}).json()
    body = {"event_source_id": made["id"], "runtemplate_id": manned.template["id"]}
    rule = manned.rest.post("/eventrule/", json=body).raise_for_status().json()["id"]
    query = {"automations": {"name": {"like_": name}}}
    eventually(lambda: manned.prefect.post("/automations/filter", json=query).json())
    numbers = itertools.count(987_000)

    def run_of_forged() -> dict[str, Any] | None:
        """Prefect loads automations a moment after it has them, so more than one may be needed."""
        forge(manned, made["id"], {"event": next(numbers)})
        time.sleep(0.5)
        of = {"deployments": {"id": {"any_": [manned.deployment_id()]}}, "sort": "ID_DESC"}
        runs = manned.prefect.post("/flow_runs/filter", json=of).raise_for_status().json()
        named = (one["parameters"].get("jobauto") or {} for one in runs)
        return next(
            (run for run, one in zip(runs, named, strict=True) if one.get("rule") == rule), None
        )

    run = manned.run_in(eventually(run_of_forged)["id"], "FAILED")
    assert "holds no event that starts this run template" in run["state"]["message"]
    forged = run["parameters"]["jobauto"]
    found = fetch_all(manned.ledger, select(AuditEntry).where(AuditEntry.action == "refuse"))
    reasons = [entry.changes["reason"][1] for entry in found]
    assert len([text for text in reasons if json.dumps(forged, sort_keys=True) in text]) == 1
    assert manned.jobs_of(run["id"]) == []
    assert manned.marked("starts") == []


@pytest.fixture
def eventful(migrate_once: Callable[[str], str], tmp_path: Path) -> Iterator[Installation]:
    """An installation on PostgreSQL, with an application that marks changes."""
    with (
        database("postgresql", tmp_path, migrate_once("postgresql")) as ledger_url,
        run_installation(ledger_url, tmp_path, LEASE_SECONDS) as made,
    ):
        yield made


@contextlib.contextmanager
def adapter_of(kind: str, folder: Path) -> Iterator[tuple[AdapterDatabase, OwnServer | None]]:
    """An adapter; where there is a server, it is the test's own."""
    if kind == "sqlite":
        with adapter_database(kind, folder) as made:
            yield made, None
    else:
        with own_adapter(kind, folder) as own:
            yield own


def watch(made: Installation, adapter: AdapterDatabase) -> int:
    """A source that reads the adapter, and a rule for its invoices; the source's id."""
    made.add_application("Changes", MARKER, {"MARKS": {"type": "string", "required": True}})
    env = {"MARKS": str(made.marks)}
    body = {"app": "Changes", "company": "town", "name": "changes", "env": env}
    template = made.rest.post("/runtemplate/", json=body).raise_for_status().json()["id"]
    source = made.rest.post("/eventsource/", json=adapter.as_source("erp", poll_interval=1))
    number: int = source.raise_for_status().json()["id"]
    rule = {"event_source_id": number, "runtemplate_id": template, "evidence": "invoice"}
    made.rest.post("/eventrule/", json=rule).raise_for_status()
    eventually(lambda: made.prefect.post("/automations/filter", json={}).json(), PATIENCE)
    return number


def add_all(adapter: AdapterDatabase, first: int, last: int) -> None:
    """Changes, of which one in `EACH` is an invoice; once more where the adapter was away.

    What was committed without a word may be added twice, as an adapter would that can't know.
    """
    numbers = range(first, last + 1)
    rows = [
        {"inversion": one, "recordid": one, "operation": "create",
         "evidence": "address" if one % EACH else "invoice"}
        for one in numbers
    ]  # fmt: skip
    until = time.monotonic() + PATIENCE
    while True:
        try:
            with adapter.engine.begin() as connection:
                connection.execute(insert(adapter.table), rows)
        except IntegrityError:
            return  # they are there
        except DBAPIError:
            assert time.monotonic() < until
            time.sleep(0.1)
        else:
            return


def wanted(last: int) -> list[int]:
    """The changes up to this one that the rule is about."""
    return [number for number in range(1, last + 1) if number % EACH == 0]


def match(made: Installation, source: int, last: int) -> None:
    """Every change is stored in its order; each that matches has one delivery, job and process."""
    with made.ledger.reading() as session:
        stored = session.scalars(
            select(Event.inversion).where(Event.event_source_id == source).order_by(Event.id)
        ).all()
        started = session.execute(
            select(Event.inversion, Delivery.state, Delivery.job_id).join(
                Event, Event.id == Delivery.event_id
            )
        ).all()
        jobs = {one.id: one.state for one in session.scalars(select(Job))}
    assert list(stored) == list(range(1, last + 1))
    assert sorted(one.inversion for one in started) == wanted(last)
    assert {one.state for one in started} == {"started"}
    assert sorted(one.job_id for one in started) == sorted(jobs)
    marks = (made.marks / "changes").read_text().splitlines()
    assert Counter(map(int, (line.split()[0] for line in marks))) == Counter(wanted(last))
    assert Counter(jobs.values()) == {"succeeded": len(jobs)}


def all_over(made: Installation, last: int) -> bool:
    """Whether the jobs of all changes that match are over."""
    with made.ledger.reading() as session:
        over = session.scalar(select(func.count(Job.id)).where(Job.end.is_not(None)))
    return over == len(wanted(last))


@pytest.mark.soak
@pytest.mark.parametrize("kind", KINDS)
def test_ten_thousand_changes_while_services_adapter_and_prefect_are_killed(
    eventful: Installation, kind: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    chance = random.Random(CHANGES)
    share = CHANGES // KILLS
    with adapter_of(kind, tmp_path_factory.mktemp("adapter") / "own") as (adapter, server):
        source = watch(eventful, adapter)
        for turn in range(KILLS):
            adding = threading.Thread(
                target=add_all, args=(adapter, turn * share + 1, (turn + 1) * share), daemon=True
            )
            adding.start()
            time.sleep(chance.uniform(0.1, 2))
            eventful.parts[chance.choice(("services-1", "services-2"))].restart()
            if server is not None and turn % 7 == 3:
                server.restart(chance.uniform(0.1, 2))
            if turn % 9 == 4:
                eventful.parts["prefect"].restart()
            adding.join()
        eventually(lambda: all_over(eventful, CHANGES), LONG)
        match(eventful, source, CHANGES)
        assert adapter.inversions() == []


def flood(made: Installation) -> int:
    """Events of somebody else, until Prefect's broker drops some; how many that took."""
    log = made.settings.home / "prefect.log"
    posted = 0
    while "queue is full, dropping message" not in log.read_text(errors="replace"):
        assert posted < 200_000, "Prefect keeps up with all of them"
        posted += flood_once(made)
    return posted


def flood_once(made: Installation) -> int:
    """Some of them."""
    events = [
        {"id": str(uuid4()), "occurred": datetime.now(UTC).isoformat(), "event": "flood",
         "resource": {"prefect.resource.id": f"flood.{number}"}}
        for number in range(1000)
    ]  # fmt: skip
    made.prefect.post("/events", json=events, timeout=PATIENCE).raise_for_status()
    return len(events)


@pytest.mark.soak
def test_what_prefects_flooded_broker_drops_is_started_all_the_same(
    eventful: Installation, tmp_path_factory: pytest.TempPathFactory
) -> None:
    changes = 20 * EACH
    with adapter_of("sqlite", tmp_path_factory.mktemp("adapter")) as (adapter, _):
        source = watch(eventful, adapter)
        flood(eventful)
        for first in range(1, changes, 2 * EACH):
            add_all(adapter, first, first + 2 * EACH - 1)
            flooding = datetime.now(UTC).timestamp() + 2
            while datetime.now(UTC).timestamp() < flooding:
                flood_once(eventful)
        eventually(lambda: all_over(eventful, changes), LONG)
        match(eventful, source, changes)
