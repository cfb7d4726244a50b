"""Checks of work pools and workers: who serves them, what hinders them, whom jobs run as."""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta

from jobauto_prefect.cli.checks.finding import Finding
from jobauto_prefect.clock import TOLERATED, offset_text
from jobauto_prefect.engine.work_pools import Pool
from jobauto_prefect.ledger.jobs import workers
from jobauto_prefect.ledger.jobs.workers import ListedWorker
from jobauto_prefect.ledger.queries.lookup import newest_records
from jobauto_prefect.ledger.records import WorkerRecord
from jobauto_prefect.ledger.store import Ledger, ReadingSession
from jobauto_prefect.settings import Settings

WORKER_PATIENCE = timedelta(minutes=2)
"""How long without a sign of life until a worker is gone."""


MOST_WORKERS = 1000


Users = Mapping[str, str]
"""Whom the jobs of one worker run as, by the id of the company; `""` is for the others."""


HELP: Mapping[str, str] = {
    "disk": "make room in its work directory, or set JOBAUTO_WORKER_DIRECTORY to another one",
    "processes": "give its machine memory, or its service more processes and open files",
    "name": "start it again, under another --name if somebody else has this one",
}
"""What helps a worker that lacks this."""


def worker_findings(settings: Settings, ledger: Ledger) -> list[Finding]:
    """Report workers that can't work, silent ones whose jobs wait for them, and wrong clocks."""
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
        help_ = HELP.get(part, f"see to {part} on {worker.host}, or stop this worker")
        yield Finding("workers", "wrong", message, help_)


def _silence_finding(listed: ListedWorker) -> Finding:
    worker, jobs = listed.record, ", ".join(map(str, listed.jobs))
    return Finding(
        "workers",
        "warning",
        f"worker {worker.name} on {worker.host} is silent since {worker.seen_at.isoformat()}, and"
        f" its jobs {jobs} wait for its word",
        f"start it again; or, if that machine is gone for good: jobauto worker lost"
        f" '{worker.name}'",
    )


def _clock_finding(worker: WorkerRecord) -> Finding:
    difference = offset_text(timedelta(seconds=worker.clock_ahead))
    message = f"the clock of worker {worker.name} on {worker.host} is {difference} the ledger's"
    return Finding("clock", "warning", message, "let chrony or ntpd set the clocks of all machines")


def pool_findings(pool: Pool) -> Iterable[Finding]:
    """Check that a work pool is there, is not paused, and has a worker."""
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


def trust_findings(shared: dict[str, int]) -> Iterable[Finding]:
    """Warn of work pools in which so many companies share a user."""
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
    """Return for each pool whom the jobs of its living workers run as."""
    users: dict[str, list[Users]] = {}
    for worker in newest_records(session, WorkerRecord, limit=MOST_WORKERS):
        if worker.seen_at > now - WORKER_PATIENCE:
            users.setdefault(worker.pool, []).append(worker.run_as)
    return users


def count_sharing(companies: Collection[str], workers: Sequence[Users]) -> int:
    """Count the companies that share one user on the worst of these workers.

    Without workers it is as on one where no user is set.
    """
    return max((_count_on_worker(companies, users) for users in workers or [{}]), default=0)


def _count_on_worker(companies: Collection[str], users: Users) -> int:
    counts = Counter(users.get(company, users.get("", "")) for company in companies)
    return max(counts.values(), default=0)
