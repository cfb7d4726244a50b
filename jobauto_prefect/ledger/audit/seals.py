"""Seals of the audit trail: what an HMAC covers, and which entries may be sealed.

Blocks of entries are sealed after their commit, so writers never wait. Each seal covers its entries
and the previous seal: nobody can change, remove or add an entry unnoticed without the key. A mark
names the newest seal, so that the end can't be cut off either.
"""

import hashlib
import hmac
import json
import logging
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

from sqlalchemy import Row, func, select, text
from sqlalchemy.exc import DataError
from sqlalchemy.orm import Session

from jobauto_prefect.errors import AuditDamaged, Conflict
from jobauto_prefect.ledger.audit.trail import SERVICE, WritingSession
from jobauto_prefect.ledger.records import AuditEntry, AuditSeal, InstallationValue
from jobauto_prefect.ledger.store import Ledger, audit_key, new_audit_key

logger = logging.getLogger(__name__)

FORM = 1
"""Version of the sealed format."""

UNREADABLE = (ValueError, TypeError, DataError)
"""Errors raised on reading a row that somebody has corrupted."""

BLOCK = 1000
"""Maximum number of entries per seal."""

PATIENCE = timedelta(minutes=1)
"""How long a transaction may stay open before a warning is logged."""

MARK_NAME = "audit_newest_seal"
"""Name of the value that names the newest seal."""

SEALED = (
    AuditEntry.id, AuditEntry.created_at, AuditEntry.actor, AuditEntry.user_id, AuditEntry.door,
    AuditEntry.address, AuditEntry.user_agent, AuditEntry.request_id, AuditEntry.entity_type,
    AuditEntry.entity_id, AuditEntry.company_id, AuditEntry.action, AuditEntry.changes,
)  # fmt: skip
"""The sealed columns of an entry: all of them, in this order."""


class Mark(NamedTuple):
    """The newest seal: its number, the id of its last entry, and its HMAC. Zeros: there is none."""

    number: int
    last_id: int
    hmac: str


BEGINNING = Mark(0, 0, "")


@dataclass(frozen=True, slots=True)
class Block:
    """What a seal covers besides its entries; the members are those of `AuditSeal`."""

    number: int
    first_id: int
    last_id: int
    gaps: Sequence[Sequence[int]]
    previous: str
    sealed_at: datetime


def hmac_of(key: str, block: Block, entries: Iterable[Row[Any]]) -> str:
    """Return the HMAC of a seal; `entries` have the columns `SEALED` and are in order of ids."""
    mac = hmac.new(key.encode(), canonical_line(head_of(block)), hashlib.sha256)
    for entry in entries:
        mac.update(canonical_line(list(entry)))
    return mac.hexdigest()


def head_of(block: Block) -> list[Any]:
    """Return the sealed members of a seal itself."""
    return [
        FORM, block.number, block.first_id, block.last_id, block.gaps, block.previous,
        block.sealed_at,
    ]  # fmt: skip


def canonical_line(values: Sequence[Any]) -> bytes:
    """Return one line of JSON, independent of the database the values were read from."""
    plain = [
        value.astimezone(UTC).isoformat(timespec="microseconds")
        if isinstance(value, datetime)
        else value
        for value in values
    ]
    return json.dumps(plain, separators=(",", ":")).encode() + b"\n"


def gaps_in(first_id: int, last_id: int, ids: Iterable[int]) -> list[list[int]]:
    """Return the ranges of ids from first to last that are missing in `ids`, which are in order."""
    gaps, expected = [], first_id
    for number in (*ids, last_id + 1):
        if number > expected:
            gaps.append([expected, number - 1])
        expected = number + 1
    return gaps


def format_mark(mark: Mark, key: str) -> str:
    """Format a mark for the value `MARK_NAME`; changing it takes the key."""
    text = f"{mark.number}:{mark.last_id}:{mark.hmac}"
    return f"{text}:{hmac.new(key.encode(), f'newest:{text}'.encode(), hashlib.sha256).hexdigest()}"


def parse_mark(value: str, key: str) -> Mark | None:
    """Parse a mark; None if it was not made with this key."""
    try:
        number, last_id, seal, _ = value.split(":")
        mark = Mark(int(number), int(last_id), seal)
    except ValueError:
        return None
    return mark if hmac.compare_digest(format_mark(mark, key).encode(), value.encode()) else None


def log_mark(mark: Mark) -> str:
    """Return the log line for the newest seal."""
    return f"audit seal {mark.number}, entries up to {mark.last_id}: {mark.hmac}"


def marks_in(lines: Iterable[str]) -> Iterator[Mark]:
    """Yield the marks in the lines of a log, and ignore other text."""
    for line in lines:
        for number, last_id, seal in _REPORT.findall(line):
            yield Mark(int(number), int(last_id), seal)


_REPORT = re.compile(r"audit seal (\d{1,18}), entries up to (\d{1,18}): ([0-9a-f]{64})", re.ASCII)


class Sealer:
    """Seals the entries of finished transactions; several sealers extend the same chain.

    An entry gets its id before its transaction commits, so a lower id may become visible later. On
    PostgreSQL an insert holds a lock on the table of entries from before it takes an id until its
    transaction ends. Once every transaction that held this lock after an id was seen has ended,
    every id up to it is either committed or never will be. Reading these locks blocks nobody.
    SQLite has one writer at a time and needs none of this.
    """

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._seen = BEGINNING
        self._settled = 0
        self._goal = 0
        self._writers: frozenset[str] = frozenset()
        self._waiting_since: datetime | None = None
        self._complained = False

    def seal(self) -> bool:
        """Seal all settled entries; return whether there is no transaction to wait for.

        Raises:
            AuditDamaged: the mark of the newest seal is missing or forged, and nothing is sealed
                on top of that.
        """
        with self._ledger.reading() as session:
            # The newest entry is in the newest seal, which is unchanged since this process made it.
            # Sealed entries were settled: no entry with a lower id can follow.
            seal = select(AuditSeal.hmac).where(AuditSeal.id == self._seen.number).scalar_subquery()
            query = select(select(func.max(AuditEntry.id)).scalar_subquery(), seal)
            if tuple(session.execute(query).one()) == (self._seen.last_id, self._seen.hmac):
                return True
            self._settle(session)
            self._compare(session)
        self._complain()
        last = None
        while made := self._seal_block():
            last = made
        if last is not None:
            logger.info("%s", log_mark(last))
        return not self._writers

    def _settle(self, session: Session) -> None:
        if session.get_bind().dialect.name != "postgresql":
            self._settled = _newest_id(session)
            return
        if self._writers:
            self._writers &= _writers(session)
        if self._writers:
            return
        self._waiting_since = None
        self._settled = self._goal
        self._goal = _newest_id(session)
        self._writers = _writers(session)  # queried after the id was seen: its writer had its lock
        if not self._writers:
            self._settled = self._goal

    def _complain(self) -> None:
        """Log once that a long transaction keeps entries from being sealed."""
        now = self._ledger.clock()
        if not self._writers:
            return
        if self._waiting_since is None:
            self._waiting_since, self._complained = now, False
        elif not self._complained and now - self._waiting_since > PATIENCE:
            self._complained = True
            logger.warning(
                "audit entries have waited for their seal since %s: a transaction that added some "
                "is open in the database (virtualtransaction %s in pg_locks); end it",
                self._waiting_since.isoformat(),
                ", ".join(sorted(self._writers)),
            )

    def _compare(self, session: Session) -> None:
        """Log if a seal that this process has seen is missing."""
        if self._seen == BEGINNING:
            return
        seal = session.get(AuditSeal, self._seen.number)
        if seal is None or seal.hmac != self._seen.hmac:
            logger.error(
                "%s: it is missing in the ledger, or differs there; run: jobauto audit verify",
                log_mark(self._seen),
            )
            self._seen = BEGINNING

    def _seal_block(self) -> Mark | None:
        """Seal the next entries; None if there are none, or another service was faster."""
        with self._ledger.snapshot() as session:
            kept_key = audit_key(self._ledger, session)
            try:
                before = self._seen = newest_mark(session, kept_key)
            except AuditDamaged as error:
                message = f"{error}; nothing is sealed on top of that; run: jobauto audit verify"
                raise AuditDamaged(message) from None
            entries, last = _entries(session, before.last_id + 1, self._settled)
        if not last:
            return None
        key, new_value = (kept_key, None) if kept_key is not None else new_audit_key(self._ledger)
        ids = [entry.id for entry in entries]
        first = before.last_id + 1
        now = self._ledger.clock()
        block = Block(before.number + 1, first, last, gaps_in(first, last, ids), before.hmac, now)
        made = Mark(block.number, last, hmac_of(key, block, entries))
        try:
            with self._ledger.writing(SERVICE) as session:
                _keep(session, block, made, key)
                session.add_all([new_value] if new_value is not None else [])
        except Conflict:
            return None
        self._seen = made
        return made


def newest_mark(session: Session, key: str | None) -> Mark:
    """Return the newest seal, as its mark says.

    Raises:
        AuditDamaged: there are seals, but no key, or no valid mark for the newest of them.
    """
    value, last = session.execute(_MARK).one()  # in one statement: another service may be sealing
    if value is None and key is None and last is None:
        return BEGINNING
    mark = parse_mark(value, key) if value is not None and key is not None else None
    if mark is None:
        raise AuditDamaged("the key of the seals, or the mark of the newest, is missing or forged")
    if last is not None and last > mark.number:
        raise AuditDamaged(f"the mark of the newest seal, {last}, was set back to {mark.number}")
    return mark


_MARK = select(
    select(InstallationValue.value).where(InstallationValue.name == MARK_NAME).scalar_subquery(),
    select(func.max(AuditSeal.id)).scalar_subquery(),
)


def _newest_id(session: Session) -> int:
    return session.scalar(select(func.max(AuditEntry.id))) or 0


def _writers(session: Session) -> frozenset[str]:
    """Return the open transactions that have added an entry, or are about to."""
    return frozenset(session.scalars(_WRITERS))


_WRITERS = text(
    "SELECT virtualtransaction FROM pg_locks "
    "WHERE relation = 'audit_entry'::regclass AND mode = 'RowExclusiveLock' AND database = "
    "(SELECT oid FROM pg_database WHERE datname = current_database())"
)


def _entries(session: Session, first_id: int, last_id: int) -> tuple[Sequence[Row[Any]], int]:
    """Return the next entries, and the last id of them; unreadable entries are left out."""
    chosen = AuditEntry.id.between(first_id, last_id)
    query = select(*SEALED).order_by(AuditEntry.id).limit(BLOCK)
    try:
        entries = session.execute(query.where(chosen)).all()
        return entries, entries[-1].id if entries else 0
    except UNREADABLE:
        in_order = select(AuditEntry.id).where(chosen).order_by(AuditEntry.id)
        ids = session.scalars(in_order.limit(BLOCK)).all()
    readable: list[Row[Any]] = []
    for entry_id in ids:
        try:
            readable += session.execute(query.where(AuditEntry.id == entry_id)).all()
        except UNREADABLE:
            logger.exception(
                "audit entry %s can't be read, so no seal holds it; run: jobauto audit verify",
                entry_id,
            )
    return readable, ids[-1]


def _keep(session: WritingSession, block: Block, made: Mark, key: str) -> None:
    session.add(
        AuditSeal(
            id=block.number, first_id=block.first_id, last_id=block.last_id, gaps=block.gaps,
            previous=block.previous, hmac=made.hmac, sealed_at=block.sealed_at,
        )
    )  # fmt: skip
    session.flush()  # if another service was faster, this fails before the mark is touched
    mark = session.get(InstallationValue, MARK_NAME)
    if mark is None:
        session.add(InstallationValue(name=MARK_NAME, value=format_mark(made, key)))
    else:
        mark.value = format_mark(made, key)
