"""The parts of an installation report themselves, and are compared with each other."""

import asyncio
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from datetime import timedelta
from pathlib import Path
from types import MappingProxyType
from typing import Any
from uuid import UUID, uuid4

import pytest

from jobauto_prefect.engine.parts import PartReport, read_living, reported, require_only_server
from jobauto_prefect.engine.topology import topology_findings
from jobauto_prefect.errors import NotReady
from jobauto_prefect.ledger import parts
from jobauto_prefect.ledger.audit.trail import SERVICE
from jobauto_prefect.ledger.jobs import workers
from jobauto_prefect.ledger.records import EventSource, PartRecord
from jobauto_prefect.ledger.service_status import record_heartbeat
from jobauto_prefect.ledger.store import Ledger
from jobauto_prefect.monitoring.finding import Finding
from jobauto_prefect.monitoring.ports import Part
from jobauto_prefect.settings import Settings
from tests.support.databases import both_databases
from tests.support.waits import eventually

ALIKE: dict[str, Any] = {
    "pid": 1,
    "pids": "elsewhere",
    "key": "a",
    "prefect": "3.8.8",
    "connections": 2,
    "settings": {"JOBAUTO_TIMEZONE": "a", "JOBAUTO_SMTP_HOST": "a"},
    "files": {},
    "role": "",
    "database": "",
}
SERVER: dict[str, Any] = {**ALIKE, "role": "all", "database": "a"}


def _store(ledger: Ledger, kind: str, host: str, facts: dict[str, Any], **columns: Any) -> UUID:
    now, instance = ledger.clock(), uuid4()
    part = PartRecord(instance=instance, kind=kind, host=host, started_at=now, facts=facts)
    for name, value in {"version": "0.1.0", "clock_ahead": 0.0, **columns}.items():
        setattr(part, name, value)
    with ledger.writing(SERVICE) as session:
        parts.report(session, part)
    return instance


def _store_one_of_each(ledger: Ledger, host: str = "first", **facts: Any) -> None:
    with ledger.writing(SERVICE) as session:
        record_heartbeat(session)
    reading = {**ALIKE, "sources": {}}
    for kind, own in (("facade", ALIKE), ("services", reading), ("prefect", SERVER)):
        _store(ledger, kind, host, {**own, **facts})


def _add_source(ledger: Ledger, path: Path) -> None:
    source = EventSource(name=path.name, db_connection="sqlite", db_database=str(path))
    with ledger.writing(SERVICE) as session:
        session.add(source)


def _store_worker(
    ledger: Ledger,
    host: str,
    pool: str = "jobauto",
    run_as: Mapping[str, str] = MappingProxyType({}),
    **facts: Any,
) -> None:
    alike = {"version": "0.1.0", "prefect": "3.8.8", "pid": 7, "charts": {}, "settings": {}}
    start = workers.Registration(
        f"on-{host}", pool, host, uuid4(), run_as=run_as, facts={**alike, **facts}
    )
    with ledger.writing(SERVICE) as session:
        workers.register(session, start, {pool}, 90)


def _problems(ledger: Ledger) -> list[Finding]:
    return [each for each in topology_findings(Settings(), ledger) if each.status != "ok"]


def test_a_part_reports_itself_until_it_ends(ledger: Ledger, ledger_settings: Settings) -> None:
    async def live() -> None:
        async with reported(ledger, ledger_settings, Part.SERVICES):
            (part,) = await asyncio.to_thread(eventually, lambda: read_living(ledger))
            assert (part.kind, part.facts["pid"]) == ("services", os.getpid())
            assert part.facts["settings"].keys() >= {"JOBAUTO_TIMEZONE", "JOBAUTO_WEBHOOK_SECRET"}

    asyncio.run(live())
    assert read_living(ledger) == []


def test_a_part_reports_which_programs_that_check_availability_are_there(
    ledger: Ledger, ledger_settings: Settings
) -> None:
    commands = (sys.executable, "/nowhere/probe")
    settings = ledger_settings.model_copy(update={"availability_commands": commands})
    PartReport(ledger, settings, Part.FACADE).store()
    (part,) = read_living(ledger)
    files = part.facts["files"]
    assert (files[sys.executable] is None, files["/nowhere/probe"]) == (False, None)


def test_services_report_which_files_of_event_sources_are_there(
    ledger: Ledger, ledger_settings: Settings, tmp_path: Path
) -> None:
    there, gone = tmp_path / "there.db", tmp_path / "gone.db"
    there.touch()
    _add_source(ledger, there)
    _add_source(ledger, gone)
    PartReport(ledger, ledger_settings, Part.SERVICES).store()
    (part,) = read_living(ledger)
    assert part.facts["sources"] == {str(gone): None, str(there): True}


@both_databases
def test_a_silent_part_is_not_listed_and_is_forgotten_after_a_day(ledger: Ledger) -> None:
    now = ledger.clock()
    _store(ledger, "facade", "first", ALIKE)
    with ledger.writing(SERVICE) as session:
        assert len(parts.living_parts(session, now)) == 1
        assert parts.living_parts(session, now + timedelta(minutes=1)) == []
        session.clock = lambda: now + timedelta(days=2)
        other = PartRecord(instance=uuid4(), kind="facade", host="second", started_at=now, facts={})
        other.version, other.clock_ahead = "0.1.0", 0.0
        parts.report(session, other)
        parts.forget_silent(session)
    with ledger.reading() as session:
        assert [part.host for part in session.query(PartRecord)] == ["second"]


def test_parts_that_are_alike_are_fine(ledger: Ledger) -> None:
    _store_one_of_each(ledger)
    _store(ledger, "facade", "second", ALIKE)
    (finding,) = topology_findings(Settings(), ledger)
    assert finding.status == "ok"
    assert "2 facade, 1 prefect, 1 services" in finding.message


@pytest.mark.parametrize(
    ("kind", "facts", "columns", "named"),
    [
        ("facade", {"settings": {"JOBAUTO_SMTP_HOST": "b"}}, {}, "JOBAUTO_SMTP_HOST differs"),
        ("services", {"settings": {"JOBAUTO_TIMEZONE": "b"}}, {}, "JOBAUTO_TIMEZONE differs"),
        ("facade", {"files": {"/etc/acme.env": "a"}}, {}, "/etc/acme.env is missing"),
        (
            "services",
            {"sources": {"/srv/shop.db": True}},
            {},
            "event source /srv/shop.db is missing",
        ),
        ("facade", {}, {"version": "0.2.0"}, "different versions of jobauto"),
        ("facade", {"prefect": "3.9.1"}, {}, "different versions of Prefect"),
        ("facade", {}, {"clock_ahead": -7.0}, "the clock of second is 7.0 s behind"),
        ("services", {"key": "b"}, {}, "different keys"),
        ("prefect", {"database": "b"}, {}, "different databases"),
    ],
)
def test_what_differs_is_named_with_its_machines(
    ledger: Ledger, kind: str, facts: dict[str, Any], columns: dict[str, Any], named: str
) -> None:
    _store_one_of_each(ledger)
    own = SERVER if kind == "prefect" else ALIKE
    _store(ledger, kind, "second", {**own, **facts}, **columns)
    (problem,) = _problems(ledger)
    assert named in problem.message
    assert "second" in problem.message
    assert problem.fix


@pytest.mark.parametrize(
    ("facts", "named"),
    [
        ({"charts": {"shop/values.yaml": "b"}}, "shop/values.yaml of the Helm directory"),
        ({}, "shop/values.yaml of the Helm directory"),
        (
            {
                "charts": {"shop/values.yaml": "a"},
                "settings": {"JOBAUTO_KUBERNETES_NAMESPACE": "night"},
            },
            "JOBAUTO_KUBERNETES_NAMESPACE differs between workers of work pool jobauto",
        ),
        (
            {"charts": {"shop/values.yaml": "a"}, "version": "0.2.0"},
            "different versions of jobauto",
        ),
    ],
)
def test_workers_of_a_pool_are_compared(ledger: Ledger, facts: dict[str, Any], named: str) -> None:
    _store_one_of_each(ledger)
    charts = {"shop/values.yaml": "a"}
    _store_worker(ledger, "first", charts=charts)
    _store_worker(ledger, "third", charts=charts)
    assert _problems(ledger) == []
    _store_worker(ledger, "second", **facts)
    (problem,) = _problems(ledger)
    assert named in problem.message
    assert "worker on-second on second" in problem.message


def test_workers_of_a_pool_run_jobs_as_the_same_users(ledger: Ledger) -> None:
    _store_one_of_each(ledger)
    _store_worker(ledger, "first")
    _store_worker(ledger, "second", run_as={"7": "jobs-acme"})
    (problem,) = _problems(ledger)
    assert "JOBAUTO_RUN_AS differs between workers of work pool jobauto" in problem.message


def test_workers_of_different_pools_and_of_a_former_release_are_not_compared(
    ledger: Ledger,
) -> None:
    _store_one_of_each(ledger)
    _store_worker(ledger, "first", charts={"shop/values.yaml": "a"})
    _store_worker(ledger, "second", "cluster")
    _store_worker(ledger, "third", version="", prefect="")
    assert _problems(ledger) == []


def test_a_prefect_of_others_is_no_missing_part(ledger: Ledger) -> None:
    with ledger.writing(SERVICE) as session:
        record_heartbeat(session)
    _store(ledger, "facade", "first", ALIKE)
    assert _problems(ledger) == []


def test_services_that_do_not_run_are_missed(ledger: Ledger) -> None:
    _store(ledger, "facade", "first", ALIKE)
    _store(ledger, "prefect", "first", {**SERVER, "role": "api"})
    messages = [problem.message for problem in _problems(ledger)]
    assert messages[0] == "the services don't run"
    assert "no Prefect server runs Prefect's background services" in messages[1]


@both_databases
def test_connections_are_added_up_by_process(ledger: Ledger) -> None:
    _store_one_of_each(ledger, connections=900)
    found = [problem.message for problem in _problems(ledger)]
    if ledger.engine.dialect.name == "sqlite":
        assert found == []
    else:
        assert len(found) == 1
        assert "1 process may take 900 connections" in found[0]


@pytest.fixture
def process() -> Iterator["subprocess.Popen[bytes]"]:
    """Some process of this machine."""
    running = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    yield running
    running.kill()
    running.wait()


def test_a_second_prefect_server_does_not_start_beside_the_first(
    ledger: Ledger, ledger_settings: Settings, process: "subprocess.Popen[bytes]"
) -> None:
    async def here() -> dict[str, Any]:
        async with reported(ledger, ledger_settings, Part.FACADE):
            (part,) = await asyncio.to_thread(eventually, lambda: read_living(ledger))
            return {"host": part.host, "pids": part.facts["pids"]}

    place = asyncio.run(here())
    facts = {**SERVER, "pid": process.pid, "pids": place["pids"]}
    _store(ledger, "prefect", place["host"], facts)
    with pytest.raises(NotReady, match=f"process {process.pid}.*JOBAUTO_REDIS_URL"):
        require_only_server(ledger, ledger_settings)
    process.kill()
    process.wait()
    require_only_server(ledger, ledger_settings)  # at once, though it was not yet silent
