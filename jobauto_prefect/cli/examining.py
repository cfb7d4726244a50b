"""What `jobauto doctor` looks at; each check says what it found and what helps."""

import asyncio
import shlex
import stat
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime

import httpx

from jobauto_prefect.cli.environment_findings import environment_findings
from jobauto_prefect.cli.findings import Finding
from jobauto_prefect.cli.notice_findings import notice_findings
from jobauto_prefect.cli.running import addresses_in
from jobauto_prefect.cli.sharing import WORKER_PATIENCE, sharing, users_of_workers
from jobauto_prefect.clock import TOLERATED, ahead_of
from jobauto_prefect.engine.api import PrefectApi, own_authorization
from jobauto_prefect.engine.drift import drift
from jobauto_prefect.engine.neighbours import Neighbours
from jobauto_prefect.engine.workers import Pool, pools
from jobauto_prefect.errors import AuditDamaged, JobautoError, KeyMissing, PrefectUnavailable
from jobauto_prefect.home import open_paths
from jobauto_prefect.jobs.closed_time import story_of
from jobauto_prefect.ledger import migrate, queries, workers
from jobauto_prefect.ledger.freezes import present_freeze
from jobauto_prefect.ledger.records import WorkerRecord
from jobauto_prefect.ledger.seal_verification import verify_newest
from jobauto_prefect.ledger.secrets import load_key
from jobauto_prefect.ledger.store import (
    Ledger,
    open_ledger,
    version_of,
)
from jobauto_prefect.ledger.workers import ListedWorker
from jobauto_prefect.settings import RUN_AS_DIRECTORY, Settings
from jobauto_prefect.wording import counted

CLOCK_TOLERANCE = timedelta(seconds=5)
"""By how much the clocks of two machines may differ; headers tell whole seconds."""

OUTBOX_PATIENCE = timedelta(minutes=2)
SEAL_PATIENCE = timedelta(minutes=10)
"""How long an audit entry may be without its seal."""

TIMEOUT_SECONDS = 5

START = "make one: jobauto up"

HELP: Mapping[str, str] = {
    "disk": "make room in its work directory, or set JOBAUTO_WORKER_DIRECTORY to another one",
    "processes": "give its machine memory, or its service more processes and open files",
    "name": "start it again, under another --name if somebody else has this one",
}
"""What helps a worker that lacks this."""


async def examine(settings: Settings) -> list[Finding]:
    """All checks, in the order in which things depend on each other."""
    settings = settings.model_copy(update=addresses_in(settings.home))
    found = [*_database(settings), *_key(settings), *_home(settings)]
    ledger = None if any(one.status == "wrong" for one in found) else _ledger(settings, found)
    try:
        found += [one async for one in _services(settings)]
        if ledger is None:
            message = "can't be looked at without the ledger"
            found += [Finding(name, "unknown", message) for name in ("work pools", "outbox")]
        else:
            found += [one async for one in _work(settings, ledger)]
    finally:
        if ledger is not None:
            ledger.close()
    return found


def _database(settings: Settings) -> Iterator[Finding]:
    try:
        version = version_of(settings)
    except JobautoError as error:
        help_ = "start the database, or correct database.env (docs/settings.md)"
        yield Finding("database", "wrong", str(error), help_)
        return
    if version is None and not settings.key_path.exists():
        message = f"there is no installation in {settings.home}"
        yield Finding("database", "wrong", message, f"{START}; or say where it is: JOBAUTO_HOME")
        return
    kind = settings.ledger_url.partition(":")[0]
    yield Finding("database", "ok", f"answers ({kind})")
    if version == migrate.newest():
        yield Finding("migrations", "ok", f"the tables are at version {version}")
    else:
        message = f"the tables are at version {version or 'none'}, not {migrate.newest()}"
        yield Finding("migrations", "wrong", message, "jobauto db upgrade")


def _key(settings: Settings) -> Iterator[Finding]:
    path = settings.key_path
    try:
        load_key(path)
    except KeyMissing as error:
        help_ = "bring back your copy of it" if _may_have_ledger(settings) else START
        yield Finding("key", "wrong", str(error), help_)
        return
    if stat.S_IMODE(path.stat().st_mode) & 0o077:
        yield Finding("key", "warning", f"others may read {path}", f"chmod 600 {path}")
    else:
        yield Finding("key", "ok", f"is in {path}")


def _may_have_ledger(settings: Settings) -> bool:
    try:
        return version_of(settings) is not None
    except JobautoError:
        return True


def _home(settings: Settings) -> Iterator[Finding]:
    """Whether other users of this machine, such as those of native jobs, reach the files."""
    paths = [str(path) for path in open_paths(settings)]
    if paths:
        message = f"others can reach {', '.join(paths)}"
        yield Finding("home", "warning", message, f"chmod go= {shlex.join(paths)}")
    elif settings.home.is_dir():
        yield Finding("home", "ok", f"{settings.home} and its files are closed to others")
    if settings.run_as and settings.work_directory.is_relative_to(settings.home):
        message = f"directories of jobs that run as others are in the home: {settings.home}"
        help_ = f"set JOBAUTO_WORKER_DIRECTORY to a place outside, such as {RUN_AS_DIRECTORY}"
        yield Finding("home", "warning", message, help_)


def _ledger(settings: Settings, found: list[Finding]) -> Ledger | None:
    """The ledger, open; where it can't be opened with this key the finding says so."""
    try:
        return open_ledger(settings)
    except JobautoError as error:
        help_ = "bring back the key this ledger was made with, as secret.key"
        found.append(Finding("key", "wrong", str(error), help_))
        return None


async def _services(settings: Settings) -> AsyncIterator[Finding]:
    async with httpx.AsyncClient(timeout=TIMEOUT_SECONDS) as http:
        for name, url, command in (
            ("facade", f"{settings.url}/api/v1/ping.json", "jobauto api start"),
            ("Prefect", f"{settings.prefect_api_url.rstrip('/')}/health", "jobauto prefect start"),
        ):
            try:
                answer = await http.get(url)
                answer.raise_for_status()
            except httpx.HTTPError as error:
                reason = str(error) or type(error).__name__
                help_ = f"{command}, or all of it: jobauto up"
                yield Finding(name, "wrong", f"{url} does not answer ({reason})", help_)
                continue
            yield Finding(name, "ok", f"answers at {url}")
            yield _clock(name, answer.headers.get("date"))


def _clock(name: str, told: str | None) -> Finding:
    if told is None:
        return Finding("clock", "unknown", f"{name} does not tell its time")
    difference = abs(datetime.now(UTC) - parsedate_to_datetime(told))
    if difference <= CLOCK_TOLERANCE:
        return Finding("clock", "ok", f"the clocks here and of {name} agree")
    message = f"the clocks here and of {name} differ by {difference.total_seconds():.0f} s"
    return Finding("clock", "wrong", message, "let chrony or ntpd set the clocks of all machines")


async def _work(settings: Settings, ledger: Ledger) -> AsyncIterator[Finding]:
    names, shared, waiting = await asyncio.to_thread(_read, settings, ledger)
    for finding in await asyncio.to_thread(_workers, settings, ledger):
        yield finding
    for finding in await asyncio.to_thread(environment_findings, settings, ledger):
        yield finding
    for finding in await asyncio.to_thread(notice_findings, settings, ledger):
        yield finding
    yield await asyncio.to_thread(_audit, ledger)
    yield await asyncio.to_thread(_maintenance, ledger)
    authorization = own_authorization(ledger.box)
    async with PrefectApi(settings.prefect_api_url, authorization=authorization) as prefect:
        try:
            for pool in await pools(prefect, sorted(names)):
                for finding in _pool(pool):
                    yield finding
            differing = await drift(Neighbours(ledger, prefect, settings), None)
        except PrefectUnavailable:
            yield Finding("work pools", "unknown", "can't be looked at without Prefect")
        else:
            yield _drift(len(differing))
    yield _outbox(waiting)
    for finding in _trust(shared):
        yield finding


def _read(settings: Settings, ledger: Ledger) -> tuple[set[str], dict[str, int], int]:
    """The work pools in use, of each how many companies share a user there, what is overdue."""
    with ledger.reading() as session:
        templates = [one for one in queries.templates_with_context(session, None) if one.active]
        companies: dict[str, set[str]] = {settings.pool: set()}
        for one in templates:
            companies.setdefault(one.pool or settings.pool, set())
            if one.executor == "Native":
                companies[one.pool or settings.pool].add(one.company.slug)
        users = users_of_workers(session, ledger.clock())
        overdue = queries.wishes_older_than(session, ledger.clock() - OUTBOX_PATIENCE)
    shared = {name: sharing(those, users.get(name, [])) for name, those in companies.items()}
    return set(companies), shared, overdue


def _maintenance(ledger: Ledger) -> Finding:
    with ledger.reading() as session:
        freeze = present_freeze(session, ledger.clock())
    if freeze is None:
        return Finding("maintenance", "ok", "nothing is frozen")
    message = f"{story_of(freeze)} (since {freeze.since.isoformat()}, by {freeze.begun_by})"
    return Finding("maintenance", "warning", message, "when it is over: jobauto resume")


def _audit(ledger: Ledger) -> Finding:
    """Whether the end of the audit trail is as it was sealed, and sealing goes on."""
    try:
        found = verify_newest(ledger)
    except AuditDamaged as error:
        return Finding("audit", "wrong", str(error), "see all of it: jobauto audit verify")
    if found.damages:
        message = f"the end of the trail is not as it was sealed: {'; '.join(found.damages)}"
        return Finding("audit", "wrong", message, "see all of it: jobauto audit verify")
    since = found.unsealed_since
    if since is not None and since < ledger.clock() - SEAL_PATIENCE:
        entries = counted(found.unsealed, "entry", "entries")
        message = f"no seal has {entries} since {since.isoformat()}"
        return Finding("audit", "warning", message, "jobauto services start, or all: jobauto up")
    newest = f"seal {found.newest.number}" if found.seals else "no seal yet"
    return Finding("audit", "ok", f"the end of the trail is as it was sealed ({newest})")


def _workers(settings: Settings, ledger: Ledger) -> list[Finding]:
    """Workers that can't work, silent ones whose jobs wait for their word, and wrong clocks."""
    with ledger.reading() as session:
        listed = workers.listed(session, None, None)
        now, lease = ledger.clock(), settings.lease_seconds
    recent = [
        worker.record
        for worker in listed
        if worker.record.lost_at is None and worker.record.seen_at > now - WORKER_PATIENCE
    ]
    silent = [worker for worker in listed if not workers.is_living(worker.record, now, lease)]
    gone = {worker.record.name for worker in silent}
    return [
        *(finding for worker in recent for finding in _hindered(worker)),
        *(_silent(worker) for worker in silent if worker.jobs),
        *(_apart(worker) for worker in recent if worker.name not in gone and _is_apart(worker)),
    ]


def _hindered(worker: WorkerRecord) -> Iterator[Finding]:
    for part, why in worker.hindrances.items():
        message = f"worker {worker.name} on {worker.host} can't work: {why}"
        help_ = HELP.get(part, f"see to {part} on {worker.host}, or stop this worker")
        yield Finding("workers", "wrong", message, help_)


def _silent(listed: ListedWorker) -> Finding:
    worker, jobs = listed.record, ", ".join(map(str, listed.jobs))
    return Finding(
        "workers",
        "warning",
        f"worker {worker.name} on {worker.host} is silent since {worker.seen_at.isoformat()}, and"
        f" its jobs {jobs} wait for its word",
        f"start it again; or, if that machine is gone for good: jobauto worker lost"
        f" '{worker.name}'",
    )


def _is_apart(worker: WorkerRecord) -> bool:
    return abs(worker.clock_ahead) > TOLERATED.total_seconds()


def _apart(worker: WorkerRecord) -> Finding:
    difference = ahead_of(timedelta(seconds=worker.clock_ahead))
    message = f"the clock of worker {worker.name} on {worker.host} is {difference} the ledger's"
    return Finding("clock", "warning", message, "let chrony or ntpd set the clocks of all machines")


def _pool(pool: Pool) -> Iterable[Finding]:
    name = f"work pool {pool.name}"
    if pool.workers is None:
        help_ = f"jobauto worker start --pool {pool.name} makes it and serves it"
        yield Finding("work pools", "wrong", f"{name} is not there", help_)
        return
    if pool.paused:
        help_ = f"prefect work-pool resume '{pool.name}'"
        yield Finding("work pools", "wrong", f"{name} is paused: nothing starts", help_)
    else:
        yield Finding("work pools", "ok", f"{name} is there, of type {pool.type}")
    online = [worker["name"] for worker in pool.workers if worker["status"] == "ONLINE"]
    if online:
        yield Finding("workers", "ok", f"{name} is served by {', '.join(online)}")
    else:
        help_ = f"jobauto worker start --pool {pool.name}"
        yield Finding("workers", "wrong", f"{name} has no worker", help_)


def _drift(differing: int) -> Finding:
    if not differing:
        return Finding("drift", "ok", "Prefect has what the records say")
    message = (
        f"of {counted(differing, 'run template')} Prefect has something else than the records say"
    )
    help_ = "see what: jobauto plan PATH; settle it: jobauto reconcile"
    return Finding("drift", "warning", message, help_)


def _outbox(overdue: int) -> Finding:
    """What Prefect has not been told for a while."""
    if not overdue:
        return Finding("outbox", "ok", "nothing waits to be told to Prefect")
    message = f"Prefect waits to be told of {counted(overdue, 'change')}"
    return Finding("outbox", "wrong", message, "jobauto services start, or all of it: jobauto up")


def _trust(shared: dict[str, int]) -> Iterable[Finding]:
    for name, companies in shared.items():
        if companies > 1:
            yield Finding(
                "trust",
                "warning",
                f"native jobs of {companies} companies run as one user in work pool {name}: they "
                "can read each other's files and environments",
                "jobauto worker start --run-as COMPANY=USER for each company, or a pool for each "
                "(docs/security.md)",
            )
