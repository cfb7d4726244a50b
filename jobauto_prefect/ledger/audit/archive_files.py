"""Archiving: whole months leave the audit trail as files, with their seals.

A file has one line of JSON that describes it, and for each seal a line with its number and HMAC,
followed by the lines that this HMAC covers (seals.py). A crash after any step is harmless: entries
that an archive has are deleted from the trail the next time.
"""

import gzip
import hashlib
import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from itertools import groupby
from pathlib import Path
from typing import IO, Any, NamedTuple

from sqlalchemy import Row, delete, func, select

from jobauto_prefect.errors import AuditDamaged, Conflict
from jobauto_prefect.home import sync_folder
from jobauto_prefect.ledger.audit.archives import FORM, digest_of, hmac_of
from jobauto_prefect.ledger.audit.seal_verification import intact_seals
from jobauto_prefect.ledger.audit.seals import SEALED, Block, canonical_line, head_of
from jobauto_prefect.ledger.audit.trail import Actor, write_entry
from jobauto_prefect.ledger.records import AuditArchive, AuditEntry, AuditSeal
from jobauto_prefect.ledger.store import Ledger, audit_key

AT_ONCE = 5000
"""Entries that one transaction deletes."""


class Month(NamedTuple):
    """The seals of one month, `2026-05`: a seal belongs to the month of its last entry."""

    name: str
    seals: Sequence[int]


def whole_months_before(now: datetime, months: int) -> datetime:
    """Return the start of the month this many months before that of `now`, in UTC."""
    year, month = divmod(now.year * 12 + now.month - 1 - months, 12)
    return datetime(year, month + 1, 1, tzinfo=UTC)


def file_name(month: str) -> str:
    return f"audit-{month}.jsonl.gz"


def archive(
    ledger: Ledger, actor: Actor, before: datetime, directory: Path
) -> Iterator[AuditArchive]:
    """Archive the months that ended `before`, a file for each; yield the archives made.

    The newest seal stays.

    Raises:
        AuditDamaged: entries to be archived differ from what was sealed.
        Conflict: another file has that name.
    """
    delete_archived(ledger, actor)  # entries that an earlier archive has
    with ledger.snapshot() as session:
        key = audit_key(ledger, session)
        newest = session.scalar(select(func.max(AuditSeal.id))) or 0
        last_entry = AuditEntry.id == AuditSeal.last_id
        rows = session.execute(
            select(AuditSeal.id, AuditEntry.created_at)
            .join(AuditEntry, last_entry)
            .where(AuditSeal.id < newest)
            .order_by(AuditSeal.id)
        )
        old = []
        for seal, at in rows:
            if at >= before:
                break
            old.append((seal, f"{at:%Y-%m}"))
        months = [
            Month(name, [seal for seal, _ in seals])
            for name, seals in groupby(old, key=lambda row: row[1])
        ]
    for month in months:
        path = directory / file_name(month.name)
        with ledger.snapshot() as session, _whole_file(path) as file:
            made = _write(file, month, intact_seals(session, key, month.seals[-1]))
        yield _keep(ledger, actor, key or "", made)
        delete_archived(ledger, actor)


class _WrittenArchive(NamedTuple):
    """Digest and contents of a written file."""

    month: str
    first: Block
    last: Block
    seal: str
    entries: int
    digest: str


def _write(
    file: "_Digesting", month: Month, sealed: Iterable[tuple[AuditSeal, Sequence[Row[Any]]]]
) -> _WrittenArchive:
    columns = [column.key for column in SEALED]
    file.write(canonical_line([{"form": FORM, "month": month.name, "columns": columns}]))
    first = last = None
    seal, entries = "", 0
    for record, rows in sealed:
        block = Block(
            record.id, record.first_id, record.last_id, record.gaps, record.previous,
            record.sealed_at,
        )  # fmt: skip
        file.write(canonical_line([{"seal": record.id, "hmac": record.hmac, "entries": len(rows)}]))
        file.write(canonical_line(head_of(block)))
        for row in rows:
            file.write(canonical_line(list(row)))
        first, last, seal = first or block, block, record.hmac
        entries += len(rows)
    if first is None or last is None:
        raise AuditDamaged(f"the seals of {month.name} are missing")
    return _WrittenArchive(month.name, first, last, seal, entries, file.digest)


class _Digesting:
    """A file whose content is digested as it is written."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self._sum = hashlib.sha256()

    def write(self, content: bytes) -> None:
        self._sum.update(content)
        self._file.write(content)

    @property
    def digest(self) -> str:
        """The SHA-256 of what was written so far."""
        return self._sum.hexdigest()


@contextmanager
def _whole_file(path: Path) -> Iterator[_Digesting]:
    """Open a compressed file that gets its name once it is complete and on the disk.

    Raises:
        Conflict: another file has that name.
    """
    part = path.with_name(path.name + ".part")
    part.unlink(missing_ok=True)
    part.touch(mode=0o600)
    with part.open("wb") as raw:
        with gzip.GzipFile(filename="", mode="wb", fileobj=raw, mtime=0) as packed:
            file = _Digesting(packed)  # type: ignore[arg-type]
            yield file
        raw.flush()
        os.fsync(raw.fileno())
    if path.exists() and digest_of(path) != file.digest:
        part.unlink()
        raise Conflict(f"another file {path} exists already; name another directory")
    part.rename(path)
    sync_folder(path.parent)


def _keep(ledger: Ledger, actor: Actor, key: str, made: _WrittenArchive) -> AuditArchive:
    with ledger.writing(actor) as session:
        number = (session.scalar(select(func.max(AuditArchive.id))) or 0) + 1
        archive = AuditArchive(
            id=number, month=made.month,
            first_seal=made.first.number, last_seal=made.last.number,
            first_id=made.first.first_id, last_id=made.last.last_id,
            entries=made.entries, digest=made.digest, seal=made.seal, archived_at=session.clock(),
        )  # fmt: skip
        archive.hmac = hmac_of(key, archive)
        session.add(archive)
        changes = {"month": made.month, "entries": made.entries, "digest": made.digest}
        shown = {name: [None, value] for name, value in changes.items()}
        write_entry(session, "AuditTrail", "archive", shown)
    return archive


def delete_archived(ledger: Ledger, actor: Actor) -> None:
    """Delete the entries that archives have, a batch at a time."""
    with ledger.reading() as session:
        last_id, last_seal = session.execute(
            select(func.max(AuditArchive.last_id), func.max(AuditArchive.last_seal))
        ).one()
    if last_id is None:
        return
    for kind, last in ((AuditEntry, last_id), (AuditSeal, last_seal)):
        oldest = select(kind.id).where(kind.id <= last).order_by(kind.id).limit(AT_ONCE)
        while True:
            with ledger.writing(actor) as session:
                numbers = session.scalars(oldest).all()
                if not numbers:
                    break
                within = kind.id.between(numbers[0], numbers[-1])
                session.connection().execute(delete(kind).where(within))
