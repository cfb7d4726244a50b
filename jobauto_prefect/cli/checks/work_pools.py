"""Checks of work pools and workers: who serves them, what hinders them, users of native jobs."""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime

from jobauto_prefect.engine.topology import WORKER_PATIENCE
from jobauto_prefect.engine.work_pools import Pool
from jobauto_prefect.ledger.queries.lookup import newest_records
from jobauto_prefect.ledger.records import WorkerRecord
from jobauto_prefect.ledger.store import ReadingSession
from jobauto_prefect.monitoring.finding import Finding

MOST_WORKERS = 1000


Users = Mapping[str, str]
"""The users of one worker's native jobs, by company id; `""` is for the others."""


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
                "jobauto worker start --run-as ID=USER for each company, or give each company a "
                "pool (docs/security.md)",
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
