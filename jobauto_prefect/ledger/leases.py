"""Signs of life, output and artifacts: rows that are no entities and have no audit entries."""

from collections.abc import Collection, Mapping, Sequence
from datetime import timedelta
from typing import Any
from uuid import UUID

from sqlalchemy import select, tuple_, update
from sqlalchemy.dialects import postgresql, sqlite

from jobauto_prefect.errors import Conflict
from jobauto_prefect.ledger.audit import WritingSession
from jobauto_prefect.ledger.records import Artifact, Lease, OutputLine, WorkerRecord


def register_worker(
    session: WritingSession,
    name: str,
    pool: str,
    host: str,
    instance: UUID,
    *,
    run_as: Mapping[str, str],
    same_place: bool,
    lease_seconds: float,
) -> bool:
    """Give a worker its name; returns whether who had it before was on the same host.

    Raises:
        Conflict: another live worker has it.
    """
    known = session.get(WorkerRecord, name)
    now = session.clock()
    if known is None:
        known = WorkerRecord(name=name, pool=pool, host=host, instance=instance, seen_at=now)
        session.add(known)
    fresh = known.seen_at > now - timedelta(seconds=lease_seconds)
    same_host = known.host == host
    if fresh and known.instance != instance and not (same_place and same_host):
        raise Conflict(
            f"a worker named {name} is alive on {known.host}; stop it, or choose another --name"
        )
    known.pool, known.host, known.instance, known.seen_at = pool, host, instance, now
    known.run_as = dict(run_as)
    return same_host


def see_worker(session: WritingSession, name: str) -> None:
    """A worker has given a sign of life."""
    session.execute(
        update(WorkerRecord).where(WorkerRecord.name == name).values(seen_at=session.clock())
    )


def renew(session: WritingSession, jobs: Mapping[int, UUID]) -> Collection[int]:
    """Renew the leases of these claims; the jobs whose lease there still is."""
    held = tuple_(Lease.job_id, Lease.claim_id).in_(list(jobs.items()))
    session.execute(
        update(Lease)
        .where(held)
        .values(renewed_at=session.clock())
        .execution_options(synchronize_session=False)
    )
    return set(session.scalars(select(Lease.job_id).where(held)))


def add_lines(session: WritingSession, job_id: int, lines: Sequence[Mapping[str, Any]]) -> None:
    """Keep lines of output, in one statement; a number that is there already is left alone."""
    if lines:
        rows = [{"job_id": job_id, **line} for line in lines]
        session.execute(_insert(session, OutputLine).values(rows).on_conflict_do_nothing())


def put_artifact(session: WritingSession, job_id: int, *, path: str, **values: Any) -> None:
    """Keep a file of a job; the same path again replaces it."""
    content: bytes = values["content"]
    values |= {"size": len(content), "created_at": session.clock()}
    statement = _insert(session, Artifact).values(job_id=job_id, path=path, **values)
    session.execute(statement.on_conflict_do_update(index_elements=["job_id", "path"], set_=values))


def _insert(session: WritingSession, kind: type[Any]) -> Any:
    name = session.get_bind().dialect.name
    return (postgresql if name == "postgresql" else sqlite).insert(kind)
