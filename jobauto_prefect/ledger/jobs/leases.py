"""Leases, output and artifacts: rows that are no entities and have no audit entries."""

import json
from base64 import b64encode
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy import delete, func, select, text, tuple_, update
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.orm import Session

from jobauto_prefect.ledger.audit.trail import WritingSession
from jobauto_prefect.ledger.records import Artifact, Job, Lease, OutputLine, WorkerRecord


def renew(session: WritingSession, worker: WorkerRecord, jobs: Mapping[int, UUID]) -> None:
    """Renew those of these claims that have a lease of this start of a worker."""
    held = select(Lease.job_id).where(
        Lease.worker == worker.name,
        Lease.instance == worker.instance,
        tuple_(Lease.job_id, Lease.claim_id).in_(list(jobs.items())),
    )
    locked = session.scalars(held.order_by(Lease.job_id).with_for_update()).all()
    if locked:
        mine = update(Lease).where(Lease.job_id.in_(locked))
        session.execute(mine.values(renewed_at=session.clock()))


def held_among(session: Session, jobs: Mapping[int, UUID]) -> Mapping[int, str | None]:
    """Return those of these jobs with a lease for the claim, and why each is to be cancelled.

    None: nobody has cancelled it.
    """
    query = select(Lease.job_id, Job.cancel_reason).join(Job, Job.id == Lease.job_id)
    held = tuple_(Lease.job_id, Lease.claim_id).in_(list(jobs.items()))
    return {row[0]: row[1] for row in session.execute(query.where(held))}


ADD_OUTPUT = text(
    """
    INSERT INTO job_output_line (job_id, seq, stream, text, at, raw)
    SELECT :job_id, lines.seq + line.place - 1, lines.stream, line.text, lines.at,
        decode(lines.raws ->> (line.place - 1)::text, 'base64')
    FROM json_to_recordset(CAST(:output AS json))
            AS lines(seq int, stream text, at timestamptz, texts json, raws json),
        json_array_elements_text(lines.texts) WITH ORDINALITY AS line(text, place)
    ON CONFLICT DO NOTHING
    """
)
"""For PostgreSQL, where single-row inserts would cost the client ten times as much."""


def add_output(session: WritingSession, job_id: int, output: Sequence[Mapping[str, Any]]) -> None:
    """Store lines of output, each as in `protocol.OutputLines`.

    A line whose number exists is left alone.
    """
    if not output:
        return
    connection = session.connection()
    if connection.dialect.name == "postgresql":
        json_output = json.dumps(output, default=_as_json)
        connection.execute(ADD_OUTPUT, {"job_id": job_id, "output": json_output})
        return
    rows = [
        {
            "job_id": job_id,
            "seq": lines["seq"] + place,
            "stream": lines["stream"],
            "text": line,
            "at": lines["at"],
            "raw": lines.get("raws", {}).get(place),
        }
        for lines in output
        for place, line in enumerate(lines["texts"])
    ]
    table: Any = OutputLine.__table__
    connection.execute(sqlite.insert(table).on_conflict_do_nothing(), rows)


def _as_json(value: datetime | bytes) -> str:
    return value.isoformat() if isinstance(value, datetime) else b64encode(value).decode()


def add_notice(session: WritingSession, job_id: int, content: str) -> None:
    """Append a notice of the service to a job's output."""
    last = select(func.max(OutputLine.seq)).where(OutputLine.job_id == job_id)
    seq = (session.scalar(last) or 0) + 1
    notice = {"seq": seq, "stream": "notice", "at": session.clock(), "texts": [content], "raws": {}}
    add_output(session, job_id, [notice])


def put_artifact(session: WritingSession, job_id: int, *, path: str, **values: Any) -> None:
    """Store a file of a job; it replaces one with the same path."""
    content: bytes = values["content"]
    values |= {"size": len(content), "created_at": session.clock()}
    statement = insert_of(session, Artifact).values(job_id=job_id, path=path, **values)
    session.execute(statement.on_conflict_do_update(index_elements=["job_id", "path"], set_=values))


def insert_of(session: WritingSession, kind: type[Any]) -> Any:
    """Return an INSERT that supports ON CONFLICT."""
    name = session.get_bind().dialect.name
    return (postgresql if name == "postgresql" else sqlite).insert(kind)


def renew_lease(session: WritingSession, job: Job) -> None:
    """Renew the lease of a job whose worker has asked about it."""
    mine = update(Lease).where(Lease.job_id == job.id)
    session.execute(mine.values(renewed_at=session.clock()))


def end_lease(session: WritingSession, lease: Lease, *, may_report: bool) -> None:
    """End the lease of a job. `may_report`: its report counts until its successor is granted."""
    if may_report:
        lease.ends_by = None
    else:
        delete_lease(session, lease.job_id)


def delete_lease(session: WritingSession, job_id: int) -> None:
    """Delete the lease of a job, if it has one: none of its reports count any more."""
    session.execute(delete(Lease).where(Lease.job_id == job_id))


def may_live(session: Session, job: Job) -> bool:
    """Whether the process of a job may be alive: nobody has reported its end."""
    query = select(Lease.job_id).where(Lease.job_id == job.id, Lease.ends_by.is_not(None))
    return session.scalar(query) is not None
