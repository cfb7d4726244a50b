"""Workers: their names, the current start of each, and the jobs they hold.

The row of a worker is locked before any job or lease of it.
"""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

from sqlalchemy import Select, delete, select
from sqlalchemy.orm import Session

from jobauto_prefect.errors import Conflict, Forbidden, NotFound
from jobauto_prefect.ledger.audit.trail import WritingSession
from jobauto_prefect.ledger.jobs.attempts import require_worker_pool
from jobauto_prefect.ledger.records import Job, Lease, WorkerRecord

FORGOTTEN_AFTER = timedelta(days=7)
"""How long a silent worker without jobs stays listed."""


@dataclass(frozen=True, slots=True)
class Registration:
    """A start of a worker, as it registers; see `WorkerHello`."""

    name: str
    pool: str
    host: str
    instance: UUID
    same_place: bool = False
    run_as: Mapping[str, str] = field(default_factory=dict)
    limit: int | None = None
    facts: Mapping[str, Any] = field(default_factory=dict)


def register(
    session: WritingSession, start: Registration, pools: Collection[str], lease_seconds: float
) -> bool:
    """Register a worker's start; return whether its predecessor was on the same host.

    `pools` are those the worker's token names.

    Raises:
        Conflict: another live worker has the name.
        Forbidden: a worker of another pool has it, and is alive or holds jobs.
    """
    now = session.clock()
    worker = session.get(WorkerRecord, start.name, with_for_update=True, populate_existing=True)
    if worker is None:
        worker = WorkerRecord(name=start.name, host=start.host, renewal=0)
        session.add(worker)
    else:
        lives = is_living(worker, now, lease_seconds)
        if worker.pool not in pools and (
            lives or session.scalar(_possibly_living(worker.name).limit(1)) is not None
        ):
            raise Forbidden(
                f"the name {start.name} belongs to a worker of work pool {worker.pool}, and this"
                " token is not for that pool; choose another --name"
            )
        replaces = start.same_place and worker.host == start.host
        if lives and worker.instance != start.instance and not replaces:
            raise Conflict(
                f"a worker named {start.name} is alive on {worker.host}; stop it, or choose"
                " another --name"
            )
        if worker.instance != start.instance:  # a repeated hello counts once
            worker.renewal = 0
    same_host = worker.host == start.host
    worker.pool, worker.host, worker.instance = start.pool, start.host, start.instance
    worker.run_as, worker.limit = dict(start.run_as), start.limit
    worker.facts, worker.hindrances, worker.clock_ahead = dict(start.facts), {}, 0.0
    worker.seen_at, worker.lost_at = now, None
    return same_host


def is_living(worker: WorkerRecord, now: datetime, lease_seconds: float) -> bool:
    """Whether it gave a sign of life within the last lease."""
    return worker.lost_at is None and worker.seen_at > now - timedelta(seconds=lease_seconds)


def lock_for_renewal(
    session: WritingSession, name: str, pools: Collection[str]
) -> WorkerRecord | None:
    """Lock the worker of a name: its other renewals wait until this transaction ends.

    None: no worker has this name.

    Raises:
        Forbidden: it is of a pool the token does not name.
    """
    query = select(WorkerRecord).where(WorkerRecord.name == name)
    worker = session.scalar(
        query.with_for_update(key_share=True).execution_options(populate_existing=True)
    )
    require_worker_pool(worker, pools)
    return worker


def leases_of(session: Session, worker: WorkerRecord) -> Sequence[Lease]:
    """Return the leases of a worker's current start whose processes may be alive."""
    mine = _possibly_living(worker.name).where(Lease.instance == worker.instance)
    return session.scalars(mine.order_by(Lease.job_id)).all()


def _possibly_living(name: str) -> Select[tuple[Lease]]:
    return select(Lease).where(Lease.worker == name, Lease.ends_by.is_not(None))


def declare_lost(session: WritingSession, name: str, lease_seconds: float) -> Sequence[Lease]:
    """Declare a worker lost; return the leases of its jobs.

    Raises:
        NotFound: there is no such worker.
        Conflict: it gave a sign of life within the last lease.
    """
    worker = session.get(WorkerRecord, name, with_for_update=True, populate_existing=True)
    if worker is None:
        raise NotFound(f"there is no worker {name}; see: jobauto worker list")
    now = session.clock()
    if is_living(worker, now, lease_seconds):
        raise Conflict(
            f"worker {name} gave a sign of life at {worker.seen_at.isoformat()}; stop it, or wait"
            f" for {lease_seconds:g} s of silence"
        )
    worker.instance, worker.lost_at, worker.hindrances = uuid4(), worker.lost_at or now, {}
    return session.scalars(_possibly_living(name).order_by(Lease.job_id)).all()


@dataclass(frozen=True, slots=True)
class ListedWorker:
    """A worker and what it holds. `running` counts all its jobs, `jobs` names the visible ones."""

    record: WorkerRecord
    jobs: Sequence[int]
    running: int

    @property
    def free(self) -> int | None:
        """Number of further jobs it takes; None: unknown."""
        return free_slots(self.record.limit, self.running)


def free_slots(limit: int | None, running: int) -> int | None:
    """Return how many of `limit` jobs a worker can still take; None: unknown."""
    return None if limit is None else max(0, limit - running)


def list_workers(
    session: Session, pools: Collection[str] | None, companies: Collection[int] | None
) -> list[ListedWorker]:
    """Return workers in the order of their names, each with the jobs it holds.

    `pools` and `companies` limit the visible workers and jobs; None: all.
    """
    workers = select(WorkerRecord).order_by(WorkerRecord.name)
    if pools is not None:
        workers = workers.where(WorkerRecord.pool.in_(pools))
    held = (
        select(Lease.worker, Lease.job_id, Job.company_id)
        .join(Job, Job.id == Lease.job_id)
        .where(Lease.ends_by.is_not(None))
        .order_by(Lease.job_id)
    )
    seen: dict[str, list[int]] = {}
    running: Counter[str] = Counter()
    for name, job_id, company_id in session.execute(held):
        running[name] += 1
        if companies is None or company_id in companies:
            seen.setdefault(name, []).append(job_id)
    return [
        ListedWorker(worker, seen.get(worker.name, []), running[worker.name])
        for worker in session.scalars(workers)
    ]


def forget_silent(session: WritingSession) -> None:
    """Delete workers that were silent for a week and hold no job."""
    session.execute(
        delete(WorkerRecord).where(
            WorkerRecord.seen_at < session.clock() - FORGOTTEN_AFTER,
            WorkerRecord.name.not_in(select(Lease.worker)),
        )
    )
