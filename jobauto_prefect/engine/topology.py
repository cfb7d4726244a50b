"""Checks of the installation's parts against each other: what N of a kind must have alike."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import timedelta
from itertools import groupby
from typing import Any

from jobauto_prefect.clock import TOLERATED, offset_text
from jobauto_prefect.engine.parts import read_living
from jobauto_prefect.ledger.database.engine import allowed_connections
from jobauto_prefect.ledger.jobs.workers import ListedWorker, is_living, list_workers
from jobauto_prefect.ledger.parts import SILENT_AFTER
from jobauto_prefect.ledger.records import PartRecord, WorkerRecord
from jobauto_prefect.ledger.service_status import are_running
from jobauto_prefect.ledger.store import Ledger
from jobauto_prefect.monitoring.finding import SET_CLOCKS, Finding
from jobauto_prefect.settings import Settings
from jobauto_prefect.wording import pluralize

PARTS = "parts"

IN_ALL = (
    "JOBAUTO_TIMEZONE", "JOBAUTO_LANGUAGE", "JOBAUTO_POOL", "JOBAUTO_EXTRA_ENV",
    "JOBAUTO_LEASE_SECONDS",
)  # fmt: skip
"""Settings that facades and services must have alike, too."""

WORKER_PATIENCE = timedelta(minutes=2)
"""How long without a sign of life until a worker counts as gone."""

HELP: Mapping[str, str] = {
    "disk": "make room in its work directory, or set JOBAUTO_WORKER_DIRECTORY to another one",
    "processes": "give its machine more memory, or allow its service more processes and open files",
    "name": "restart it, with another --name if this one is in use",
}
"""What to do if a worker lacks this."""


def describe_parts(ledger: Ledger) -> list[dict[str, Any]]:
    """Return the parts that live, and then the workers: when they started is not known."""
    with ledger.reading() as session:
        workers = [each.record for each in list_workers(session, None, None)]
    return [
        {
            "part": f"{part.kind} ({part.facts['role']})" if part.facts["role"] else part.kind,
            "host": part.host,
            "pid": part.facts["pid"],
            "version": part.version,
            "prefect": part.facts["prefect"],
            "started_at": part.started_at.isoformat(),
            "seen_at": part.seen_at.isoformat(),
            "clock_ahead": part.clock_ahead,
        }
        for part in read_living(ledger)
    ] + [
        {
            "part": f"worker ({worker.pool})",
            "host": worker.host,
            **{name: worker.facts.get(name) or None for name in ("pid", "version", "prefect")},
            "started_at": None,
            "seen_at": worker.seen_at.isoformat(),
            "clock_ahead": worker.clock_ahead,
        }
        for worker in workers
        if worker.lost_at is None
    ]


def topology_findings(settings: Settings, ledger: Ledger) -> list[Finding]:
    """Compare parts and workers, report those that can't work, add up the connections."""
    with ledger.reading() as session:
        listed = list_workers(session, None, None)
    now, lease = ledger.clock(), settings.lease_seconds
    workers = [
        each.record
        for each in listed
        if each.record.lost_at is None and each.record.seen_at > now - WORKER_PATIENCE
    ]
    silent = [each for each in listed if not is_living(each.record, now, lease)]
    living = [worker for worker in workers if is_living(worker, now, lease)]
    return [
        *_part_findings(ledger, workers),
        *(finding for worker in workers for finding in _hindrances(worker)),
        *(_silence(each) for each in silent if each.jobs),
        *(finding for worker in living for finding in _worker_clock(worker)),
    ]


def _part_findings(ledger: Ledger, workers: Sequence[WorkerRecord]) -> list[Finding]:
    living = read_living(ledger)
    if not living:
        message = f"none has reported in the last {SILENT_AFTER.total_seconds():.0f} s"
        return [Finding(PARTS, "unknown", message, "start everything: jobauto up")]
    known = [worker for worker in workers if worker.facts.get("version")]  # of this release on
    findings = [
        *_services(ledger),
        *_keys(living),
        *_versions(living, known),
        *_clocks(living),
        *_servers([part for part in living if part.kind == "prefect"]),
        *_settings(living),
        *_files(living),
        *_pools(known),
        *_connections(living, allowed_connections(ledger.engine)),
    ]
    counted = ", ".join(f"{len([*group])} {kind}" for kind, group in groupby(living, _kind))
    return findings or [Finding(PARTS, "ok", f"{counted}: they agree where they must")]


def _kind(part: PartRecord) -> str:
    return part.kind


def _services(ledger: Ledger) -> Iterator[Finding]:
    # By their own sign, which those of a former release give, too.
    with ledger.reading() as session:
        if not are_running(session, ledger.clock()):
            help_ = "jobauto services start, or everything: jobauto up"
            yield Finding(PARTS, "wrong", "the services don't run", help_)


def _keys(living: Sequence[PartRecord]) -> Iterator[Finding]:
    if differing := _apart({_name(part): part.facts["key"] for part in living}):
        message = f"parts have different keys of the secret values: {differing}"
        help_ = "copy the newest file secret.key to each machine (docs/security.md#the-key)"
        yield Finding(PARTS, "wrong", message, help_)


def _versions(living: Sequence[PartRecord], workers: Sequence[WorkerRecord]) -> Iterator[Finding]:
    of_workers = {_worker(worker): worker.facts for worker in workers}
    of_parts = {_name(part): {**part.facts, "version": part.version} for part in living}
    for what, fact in (("jobauto", "version"), ("Prefect", "prefect")):
        versions = {name: facts[fact] for name, facts in (of_parts | of_workers).items()}
        if differing := _apart(versions):
            message = f"parts run different versions of {what}: {differing}"
            yield Finding(PARTS, "warning", message, "upgrade the rest: docs/how-to/upgrade.md")


def _clocks(living: Sequence[PartRecord]) -> Iterator[Finding]:
    for host, ahead in {part.host: part.clock_ahead for part in living}.items():
        if abs(ahead) > TOLERATED.total_seconds():
            message = f"the clock of {host} is {offset_text(timedelta(seconds=ahead))} the ledger's"
            yield Finding(PARTS, "wrong", message, SET_CLOCKS)


def _servers(servers: Sequence[PartRecord]) -> Iterator[Finding]:
    roles = {server.facts["role"] for server in servers}
    if roles == {"api"}:
        message = "no Prefect server runs Prefect's background services: nothing is scheduled"
        help_ = "start one: jobauto prefect start --role services"
        yield Finding(PARTS, "wrong", message, help_)
    if roles == {"services"}:
        message = "no Prefect server answers requests"
        yield Finding(PARTS, "wrong", message, "start one: jobauto prefect start --role api")
    if differing := _apart({_name(server): server.facts["database"] for server in servers}):
        message = f"Prefect servers have different databases: {differing}"
        help_ = "set PREFECT_SERVER_DATABASE_CONNECTION_URL alike for all of them"
        yield Finding(PARTS, "wrong", message, help_)


def _settings(living: Sequence[PartRecord]) -> Iterator[Finding]:
    if len({part.facts["key"] for part in living}) > 1:
        return  # the digests are made with the key
    # Parts of another version may know other settings.
    differing = {
        variable: apart
        for _, group in groupby(living, _kind)
        for variable, apart in _unequal(_of_each("settings", group), known_to_all=True)
    }
    ours = _of_each("settings", (part for part in living if part.kind != "prefect"))
    unequal = _unequal(ours, known_to_all=True)
    differing |= {name: apart for name, apart in unequal if name in IN_ALL}
    for variable, apart in differing.items():
        message = f"{variable} differs: {apart}"
        yield Finding(PARTS, "wrong", message, "set it alike and restart them")


def _files(living: Sequence[PartRecord]) -> Iterator[Finding]:
    facades = (part for part in living if part.kind == "facade")
    for path, apart in _unequal(_of_each("files", facades)):
        message = f"{path} is missing on some machines or differs: {apart}"
        yield Finding(PARTS, "wrong", message, "copy it to each machine with a facade")
    services = (part for part in living if part.kind == "services" and "sources" in part.facts)
    for path, apart in _unequal(_of_each("sources", services)):
        message = f"the event source {path} is missing on some machines: {apart}"
        help_ = "run services only on machines that have it, or use another kind of database"
        yield Finding(PARTS, "wrong", message, help_)


def _pools(workers: Sequence[WorkerRecord]) -> Iterator[Finding]:
    by_pool: dict[str, list[WorkerRecord]] = defaultdict(list)
    for worker in workers:
        by_pool[worker.pool].append(worker)
    for pool, alike in by_pool.items():
        for path, apart in _unequal({_worker(each): each.facts["charts"] for each in alike}):
            message = (
                f"{path} of the Helm directory is missing for some workers of work pool {pool}"
                f" or differs: {apart}"
            )
            help_ = "make JOBAUTO_HELM_DIRECTORY alike on their machines and restart them"
            yield Finding(PARTS, "warning", message, help_)
        settings = {
            _worker(each): {
                **each.facts["settings"],
                "JOBAUTO_RUN_AS": str(sorted(each.run_as.items())),
            }
            for each in alike
        }
        for variable, apart in _unequal(settings):
            message = f"{variable} differs between workers of work pool {pool}: {apart}"
            help_ = "set it alike and restart them, or give them work pools of their own"
            yield Finding(PARTS, "warning", message, help_)


def _of_each(fact: str, parts: Iterable[PartRecord]) -> dict[str, Mapping[str, object]]:
    return {_name(part): part.facts[fact] for part in parts}


def _unequal(
    of: Mapping[str, Mapping[str, object]], *, known_to_all: bool = False
) -> Iterator[tuple[str, str]]:
    """Yield each name whose values differ, and which parts have the same value.

    A part without a name differs, too; with `known_to_all` such names are left out.
    """
    for name in dict.fromkeys(name for values in of.values() for name in values):
        if known_to_all and not all(name in values for values in of.values()):
            continue
        if differing := _apart({who: values.get(name) for who, values in of.items()}):
            yield name, differing


def _apart(values: Mapping[str, object]) -> str:
    """Describe which parts have the same value; "" if all have."""
    holders: dict[object, list[str]] = defaultdict(list)
    for name, value in values.items():
        holders[value].append(name)
    if len(holders) < 2:
        return ""
    return "; ".join(", ".join(names) for names in holders.values())


def _name(part: PartRecord) -> str:
    return f"{part.kind} on {part.host} (process {part.facts['pid']})"


def _worker(worker: WorkerRecord) -> str:
    return f"worker {worker.name} on {worker.host}"


def _connections(living: Sequence[PartRecord], allowed: int | None) -> Iterator[Finding]:
    of_processes = {(part.host, part.facts["pid"]): part.facts["connections"] for part in living}
    wanted = sum(of_processes.values())
    if allowed is not None and wanted > allowed:
        message = (
            f"{pluralize(len(of_processes), 'process', 'processes')} may take {wanted} connections"
            f" to the ledger's server, which allows {allowed}; if Prefect uses the same server, its"
            " connections come on top"
        )
        help_ = "lower JOBAUTO_DATABASE_CONNECTIONS, raise max_connections, or use PgBouncer"
        yield Finding(PARTS, "warning", message, help_)


def _hindrances(worker: WorkerRecord) -> Iterator[Finding]:
    for part, why in worker.hindrances.items():
        message = f"{_worker(worker)} can't work: {why}"
        help_ = HELP.get(part, f"check {part} on {worker.host}, or stop this worker")
        yield Finding("workers", "wrong", message, help_)


def _silence(listed: ListedWorker) -> Finding:
    worker, jobs = listed.record, ", ".join(map(str, listed.jobs))
    return Finding(
        "workers",
        "warning",
        f"{_worker(worker)} has been silent since"
        f" {worker.seen_at.isoformat()}, and its jobs {jobs} wait for it",
        f"restart it, or, if its machine is gone for good: jobauto worker lost '{worker.name}'",
    )


def _worker_clock(worker: WorkerRecord) -> Iterator[Finding]:
    if abs(worker.clock_ahead) > TOLERATED.total_seconds():
        difference = offset_text(timedelta(seconds=worker.clock_ahead))
        message = f"the clock of {_worker(worker)} is {difference} the ledger's"
        yield Finding("clock", "warning", message, SET_CLOCKS)
