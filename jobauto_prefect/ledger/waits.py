"""What the ledger knows of those whom waiting jobs wait for: always for many jobs at once."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from datetime import datetime

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from jobauto_prefect.ledger.freezes import PRESENT
from jobauto_prefect.ledger.records import Freeze, Lease, RunTemplate, Wish, WorkerRecord
from jobauto_prefect.ledger.wishes import WishKind
from jobauto_prefect.ledger.workers import free_slots


@dataclass(frozen=True, slots=True)
class LivingWorker:
    """A worker that gave a sign of life lately. For `limit` and `hindrances` see `WorkerRecord`."""

    name: str
    running: int = 0
    limit: int | None = None
    hindrances: Mapping[str, str] = field(default_factory=dict)

    @property
    def is_full(self) -> bool:
        """Whether it takes no more jobs."""
        return free_slots(self.limit, self.running) == 0


def pools_of(
    session: Session, template_ids: Collection[int], now: datetime
) -> tuple[dict[int, str | None], Freeze | None]:
    """Run template -> its work pool, None: the one of the settings; and the freeze that lasts."""
    found = (
        select(RunTemplate.id, RunTemplate.pool, Freeze)
        .outerjoin(Freeze, PRESENT)
        .where(RunTemplate.id.in_(template_ids))
    )
    rows = session.execute(found, {"now": now}).all()
    return {row[0]: row[1] for row in rows}, next((row[2] for row in rows), None)


def run_errors(session: Session, job_ids: Collection[int]) -> dict[int, str | None]:
    """Job whose flow run is to be made -> why that was not possible the last time."""
    found = select(Wish.subject_id, Wish.error).where(
        Wish.kind == WishKind.CREATE_RUN, Wish.subject_id.in_(job_ids)
    )
    return {row[0]: row[1] for row in session.execute(found).all()}


def living_workers(
    session: Session, pools: Collection[str], since: datetime
) -> dict[str, list[LivingWorker]]:
    """Work pool -> its workers that gave a sign of life since an instant, by name."""
    held = (
        select(Lease.worker, func.count(Lease.job_id).label("running"))
        .where(Lease.ends_by.is_not(None))
        .group_by(Lease.worker)
        .subquery()
    )
    found = (
        select(WorkerRecord, func.coalesce(held.c.running, 0))
        .outerjoin(held, held.c.worker == WorkerRecord.name)
        .where(
            WorkerRecord.pool.in_(pools),
            WorkerRecord.seen_at > since,
            WorkerRecord.lost_at.is_(None),
        )
        .order_by(WorkerRecord.name)
    )
    workers: dict[str, list[LivingWorker]] = {}
    for record, running in session.execute(found):
        living = LivingWorker(record.name, running, record.limit, record.hindrances)
        workers.setdefault(record.pool, []).append(living)
    return workers
