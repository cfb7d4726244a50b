"""Checks of work pools and workers: who serves them, what hinders them, users of native jobs."""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta

from jobauto_prefect.cli.checks.finding import SET_CLOCKS, Finding
from jobauto_prefect.clock import TOLERATED, offset_text
from jobauto_prefect.engine.work_pools import Pool
from jobauto_prefect.ledger.jobs import workers
from jobauto_prefect.ledger.jobs.workers import ListedWorker
from jobauto_prefect.ledger.queries.lookup import newest_records
from jobauto_prefect.ledger.records import WorkerRecord
from jobauto_prefect.ledger.store import Ledger, ReadingSession
from jobauto_prefect.settings import Settings

WORKER_PATIENCE = timedelta(minutes=2)
"""How long without a sign of life until a worker counts as gone."""


MOST_WORKERS = 1000


Users = Mapping[str, str]
"""The users of one worker's native jobs, by company id; `""` is for the others."""


HELP: Mapping[str, str] = {
    "disk": "make room in its work directory, or set JOBAUTO_WORKER_DIRECTORY to another one",
    "processes": "give its machine more memory, or its service more processes and open files",
    "name": "restart it, with another --name if this one is in use",
}
"""What to do if a worker lacks this."""


def worker_findings(settings: Settings, ledger: Ledger) -> list[Finding]:
    """Report workers that can't work, silent workers whose jobs wait for them, and wrong clocks."""
    with ledger.reading() as session:
        listed = workers.list_workers(session, None, None)
        now, lease = ledger.clock(), settings.lease_seconds
    recent = [
        worker.record
        for worker in listed
        if worker.record.lost_at is None and worker.record.seen_at > now - WORKER_PATIENCE
    ]
    silent = [worker for worker in listed if not workers.is_living(worker.record, now, lease)]
    gone = {worker.record.name for worker in silent}
    return [
        *(finding for worker in recent for finding in _hindrance_findings(worker)),
        *(_silence_finding(worker) for worker in silent if worker.jobs),
        *(
            _clock_finding(worker)
            for worker in recent
            if worker.name not in gone and abs(worker.clock_ahead) > TOLERATED.total_seconds()
        ),
    ]


def _hindrance_findings(worker: WorkerRecord) -> Iterator[Finding]:
    for part, why in worker.hindrances.items():
        message = f"worker {worker.name} on {worker.host} can't work: {why}"
        help_ = HELP.get(part, f"check {part} on {worker.host}, or stop this worker")
        yield Finding("workers", "wrong", message, help_)


def _silence_finding(listed: ListedWorker) -> Finding:
    worker, jobs = listed.record, ", ".join(map(str, listed.jobs))
    return Finding(
        "workers",
        "warning",
        f"worker {worker.name} on {worker.host} has been silent since"
        f" {worker.seen_at.isoformat()}, and its jobs {jobs} wait for it",
        f"restart it, or, if its machine is gone for good: jobauto worker lost '{worker.name}'",
    )


def _clock_finding(worker: WorkerRecord) -> Finding:
    difference = offset_text(timedelta(seconds=worker.clock_ahead))
    message = f"the clock of worker {worker.name} on {worker.host} is {difference} the ledger's"
    return Finding("clock", "warning", message, SET_CLOCKS)


def pool_findings(pool: Pool) -> Iterable[Finding]:
    """Check that a work pool exists, is not paused, and has a worker."""
    name = f"work pool {pool.name}"
    if pool.workers is None:
        help_ = f"jobauto worker start --pool {pool.name} creates and serves it"
        yield Finding("work pools", "wrong", f"{name} does not exist", help_)
        return
    if pool.paused:
        help_ = f"prefect work-pool resume '{pool.name}'"
        yield Finding("work pools", "wrong", f"{name} is paused: nothing starts", help_)
    else:
        yield Finding("work pools", "ok", f"{name} exists, of type {pool.type}")
    online = [worker["name"] for worker in pool.workers if worker["status"] == "ONLINE"]
    if online:
        yield Finding("workers", "ok", f"{name} is served by {', '.join(online)}")
    else:
        help_ = f"jobauto worker start --pool {pool.name}"
        yield Finding("workers", "wrong", f"{name} has no worker", help_)


def trust_findings(shared: dict[str, int]) -> Iterable[Finding]:
    """Warn of work pools in which many companies share a user."""
    for name, companies in shared.items():
        if companies > 1:
            yield Finding(
                "trust",
                "warning",
                f"native jobs of {companies} companies run as one user in work pool {name}: they "
                "can read each other's files and environments",
                "jobauto worker start --run-as ID=USER for each company, or a pool for each "
                "(docs/security.md)",
            )


def users_by_pool(session: ReadingSession, now: datetime) -> dict[str, list[Users]]:
    """Return, for each pool, the users of native jobs of its living workers."""
    users: dict[str, list[Users]] = {}
    for worker in newest_records(session, WorkerRecord, limit=MOST_WORKERS):
        if worker.seen_at > now - WORKER_PATIENCE:
            users.setdefault(worker.pool, []).append(worker.run_as)
    return users


def count_sharing(companies: Collection[str], workers: Sequence[Users]) -> int:
    """Return the most companies that share a user on one of these workers.

    Without workers it assumes one that has no users set.
    """
    by_worker = (
        Counter(users.get(company, users.get("", "")) for company in companies)
        for users in workers or [{}]
    )
    return max((number for counts in by_worker for number in counts.values()), default=0)
