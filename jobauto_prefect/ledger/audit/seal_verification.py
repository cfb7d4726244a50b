"""Verification that the audit trail is as it was sealed."""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from sqlalchemy import Row, func, select
from sqlalchemy.orm import Session

from jobauto_prefect.errors import AuditDamaged
from jobauto_prefect.ledger.audit import archives
from jobauto_prefect.ledger.audit.seals import (
    BEGINNING,
    BLOCK,
    SEALED,
    UNREADABLE,
    Block,
    Mark,
    gaps_in,
    hmac_of,
    newest_mark,
)
from jobauto_prefect.ledger.records import AuditEntry, AuditSeal
from jobauto_prefect.ledger.store import Ledger, audit_key

PAGE = 100
"""Seals that are read at once, with their entries."""

ASKED = 500
"""Logged seals that are looked up at once."""


@dataclass(frozen=True, slots=True)
class Verification:
    """Result of a verification. `damages` are sentences; empty: the trail is intact.

    `entries` are in `seals`; `unsealed` ones were added since, the first of them at
    `unsealed_since`; `archived` ones have left the trail.
    """

    seals: int
    entries: int
    newest: Mark
    unsealed: int
    unsealed_since: datetime | None
    damages: Sequence[str]
    archived: int = 0


def verify(ledger: Ledger, logged: Iterable[Mark] = (), files: Iterable[Path] = ()) -> Verification:
    """Compare all entries with their seals, and the seals with each other and with the log.

    Archived parts are taken from their digests in the ledger; `files` are archives to compare with
    these digests.
    """
    with ledger.snapshot() as session:
        key = audit_key(ledger, session)
        archived, archived_entries, damages = archives.end_of(session, key)
        chain = _Chain(key, archived)
        for seal, entries in _sealed(session, archived.number):
            chain.follow(seal, entries)
        later = [mark for mark in logged if mark.number > archived.number]
        damages += [*chain.damages, *_end(session, key, chain.last), *_unlike(session, later)]
        damages += archives.left_over(session, archived)
        damages += archives.archive_damages(session, files)
        if session.scalar(select(AuditEntry.id).where(AuditEntry.id < 1).limit(1)) is not None:
            damages.append("there are entries before the first one")
        unsealed, since = _unsealed(session, chain.last)
    return Verification(
        chain.seals, chain.entries, chain.last, unsealed, since, damages, archived_entries
    )


def intact_seals(
    session: Session, key: str | None, last: int
) -> Iterator[tuple[AuditSeal, Sequence[Row[Any]]]]:
    """Yield the seals up to this one with their entries, without those in archives.

    Raises:
        AuditDamaged: they differ from what was sealed.
    """
    archived, _, damages = archives.end_of(session, key)
    chain = _Chain(key, archived)
    chain.damages += damages
    for seal, entries in _sealed(session, archived.number):
        if seal.id > last:
            return
        chain.follow(seal, entries)
        if chain.damages or entries is None:
            message = "; ".join(chain.damages) or f"seal {seal.id} can't be read"
            raise AuditDamaged(f"{message}; nothing is archived; see: jobauto audit verify")
        yield seal, entries


def verify_newest(ledger: Ledger) -> Verification:
    """Compare the newest seal with its mark, its entries and the seal before it, not the rest.

    It reads at most `BLOCK` entries, however long the trail is.
    """
    with ledger.snapshot() as session:
        key = audit_key(ledger, session)
        query = select(AuditSeal).order_by(AuditSeal.id.desc()).limit(2)
        try:
            seals = session.scalars(query).all()
        except UNREADABLE:
            raise AuditDamaged("the newest seals can no longer be read") from None
        before = [Mark(seal.id, seal.last_id, seal.hmac) for seal in seals[1:]]
        chain = _Chain(key, *before)
        for seal, entries in _with_entries(session, seals[:1]) if seals else ():
            chain.follow(seal, entries)
        damages = [*chain.damages, *_end(session, key, chain.last)]
        unsealed, since = _unsealed(session, chain.last)
    return Verification(chain.seals, chain.entries, chain.last, unsealed, since, damages)


def _unsealed(session: Session, last: Mark) -> tuple[int, datetime | None]:
    """Return the number of entries without a seal, and the time of the first of them.

    None: there is none.
    """
    query = select(func.count(), func.min(AuditEntry.created_at))
    unsealed, since = session.execute(query.where(AuditEntry.id > last.last_id)).one()
    return unsealed, since


class _Chain:
    """The seals so far; `last` is the newest, initially the one before those to follow."""

    def __init__(self, key: str | None, last: Mark = BEGINNING) -> None:
        self.last = last
        self.seals = 0
        self.entries = 0
        self.damages: list[str] = []
        self._key = key

    def follow(self, seal: AuditSeal, entries: Sequence[Row[Any]] | None) -> None:
        """Follow the chain to the next seal with its entries; None: they can't be read."""
        number = self.last.number + 1
        if seal.id != number:
            self.damages.append(f"{_from_to('seal', number, seal.id - 1)} missing")
        elif (seal.first_id, seal.previous) != (self.last.last_id + 1, self.last.hmac):
            self.damages.append(f"seal {seal.id} does not follow the seal before it")
        try:
            self.damages += self._content(seal, entries)
        except UNREADABLE:
            self.damages.append(f"seal {seal.id} can no longer be read")
        self.last = Mark(seal.id, seal.last_id, seal.hmac)
        self.seals += 1
        self.entries += len(entries or ())

    def _content(self, seal: AuditSeal, entries: Sequence[Row[Any]] | None) -> Iterator[str]:
        where = f"entries {seal.first_id} to {seal.last_id} (seal {seal.id})"
        if entries is None:
            yield f"{where}: one can no longer be read"
            return
        ids = [entry.id for entry in entries]
        gaps = gaps_in(seal.first_id, seal.last_id, ids)
        if gaps != seal.gaps:
            yield from (
                f"{_from_to('entry', *gap)} missing (seal {seal.id})"
                for gap in gaps
                if gap not in seal.gaps
            )
            yield from (
                f"entry {number} was added later (seal {seal.id})"
                for number in ids
                if any(first <= number <= last for first, last in seal.gaps)
            )
        elif self._key is not None:
            block = Block(
                seal.id, seal.first_id, seal.last_id, seal.gaps, seal.previous, seal.sealed_at
            )
            if hmac_of(self._key, block, entries) != seal.hmac:
                yield f"{where}: an entry or the seal was changed"


def _from_to(kind: str, first: int, last: int) -> str:
    kinds = {"entry": "entries"}.get(kind, f"{kind}s")
    return f"{kind} {first} is" if first == last else f"{kinds} {first} to {last} are"


def _sealed(session: Session, after: int) -> Iterator[tuple[AuditSeal, Sequence[Row[Any]] | None]]:
    """Yield all seals after this one in order, with their entries; None: they can't be read."""
    while True:
        query = select(AuditSeal).where(AuditSeal.id > after).order_by(AuditSeal.id).limit(PAGE)
        try:
            seals = session.scalars(query).all()
        except UNREADABLE:
            raise AuditDamaged(f"the seals after seal {after} can no longer be read") from None
        if not seals:
            return
        yield from _with_entries(session, seals)
        after = seals[-1].id


def _with_entries(
    session: Session, seals: Sequence[AuditSeal]
) -> Iterator[tuple[AuditSeal, Sequence[Row[Any]] | None]]:
    try:
        within = AuditEntry.id.between(seals[0].first_id, seals[-1].last_id)
        # A forged range in a seal must not make this read everything at once.
        most = len(seals) * BLOCK + 1
        query = select(*SEALED).where(within).order_by(AuditEntry.id).limit(most)
        entries = session.execute(query).all()
    except UNREADABLE:
        if len(seals) == 1:
            yield seals[0], None
            return
        for seal in seals:
            yield from _with_entries(session, [seal])
        return
    ids = [entry.id for entry in entries]
    for seal in seals:
        yield seal, entries[bisect_left(ids, seal.first_id) : bisect_right(ids, seal.last_id)]


def _end(session: Session, key: str | None, last: Mark) -> Iterator[str]:
    """Yield a damage if the chain does not end where the mark says."""
    try:
        mark = newest_mark(session, key)
    except AuditDamaged as error:
        yield f"{error}: the end may be cut off"
        return
    if mark.number > last.number:
        missing = _from_to("seal", last.number + 1, mark.number)
        yield f"{missing} missing: the end is cut off (it went up to entry {mark.last_id})"
    elif mark != last:
        yield f"seal {last.number} differs from its mark"


def _unlike(session: Session, logged: Iterable[Mark]) -> Iterator[str]:
    """Yield the logged seals that the ledger does not have."""
    given = sorted(set(logged))
    for marks in (given[at : at + ASKED] for at in range(0, len(given), ASKED)):
        wanted = AuditSeal.id.in_([mark.number for mark in marks])
        rows = session.execute(select(AuditSeal.id, AuditSeal.hmac).where(wanted)).all()
        kept = {row.id: row.hmac for row in rows}
        for mark in marks:
            if mark.number not in kept:
                yield (
                    f"seal {mark.number} is in the log and not in the ledger: the end is cut off "
                    "or an older copy of the database was restored"
                )
            elif kept[mark.number] != mark.hmac:
                yield f"seal {mark.number} differs between the log and the ledger"
