"""Rotation of the key of all secret values, while the service runs; any crash is safe.

1. All values are decrypted: a wrong key is noticed before anything changes. 2. The key file gets
the new key above the old one. From now on processes encrypt with the new one. 3. Values of the old
key are encrypted again, some rows per transaction, until none is left. 4. The ledger remembers the
new key, with an audit entry; the file loses the old one.

A command that finds two keys in the file continues at step 3. The values themselves do not change,
so no record has an audit entry or another modification time.
"""

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from cryptography.fernet import Fernet
from sqlalchemy import Column, String, Table, cast, select, update

from jobauto_prefect.errors import Conflict, KeyMissing
from jobauto_prefect.ledger.audit.trail import Actor, write_entry
from jobauto_prefect.ledger.base import Base, noun_of_table
from jobauto_prefect.ledger.parts import SIGN_SECONDS, living_parts
from jobauto_prefect.ledger.records import InstallationValue
from jobauto_prefect.ledger.secrets import SecretBox, replace_keys, rotation_lock
from jobauto_prefect.ledger.store import KEY_FACT, SEALED_FACTS, Ledger
from jobauto_prefect.settings import host_name

BATCH = 100  # rows in a transaction
EMPTY = ("{}", "null", "")


@dataclass(frozen=True, slots=True)
class RotationResult:
    """How many values were encrypted again, and the fingerprint of the new key."""

    resealed: int
    fingerprint: str


def rotate(ledger: Ledger, actor: Actor, settle_seconds: float) -> RotationResult:
    """Give the ledger a new key, or finish an interrupted rotation.

    `settle_seconds` is how long transactions that have encrypted a value with the old key may take
    to end; a last check follows.

    Parts on other machines have files of their own: they need the one with both keys before the
    old one may go.

    Raises:
        KeyMissing: a value can't be decrypted; nothing was changed.
        Conflict: another command is rotating, or parts elsewhere lack the new key.
    """
    box = ledger.box
    with rotation_lock(box.path):
        before = box.ring.keys
        if len(before) == 1:
            for column in _sealed_columns():
                _each_batch(ledger, actor, column, box, write=False)
            replace_keys(box.path, [Fernet.generate_key(), *before])
        _require_key_elsewhere(ledger)
        resealed = _until_none_is_left(ledger, actor)
        time.sleep(settle_seconds)
        resealed += _until_none_is_left(ledger, actor)
        newest = box.ring.keys[0]
        fingerprint = ledger.box.fingerprint
        with ledger.writing(actor) as session:
            fact = session.get_one(InstallationValue, KEY_FACT)
            if fact.value != fingerprint:
                write_entry(session, "Key", "update", {"fingerprint": [fact.value, fingerprint]})
                fact.value = fingerprint
        replace_keys(box.path, [newest])
        return RotationResult(resealed, box.fingerprint)


def _require_key_elsewhere(ledger: Ledger) -> None:
    with ledger.reading() as session:
        hosts = {
            part.host
            for part in living_parts(session, ledger.clock())
            if part.host != host_name() and part.facts["key"] != ledger.box.fingerprint
        }
    if hosts:
        raise Conflict(
            f"{ledger.box.path} now has a new key and the old one; copy this file over the key"
            f" files on {', '.join(sorted(hosts))}, and repeat the command: it continues when the"
            f" parts there have reported the new key, within {SIGN_SECONDS:.0f} s"
        )


def _until_none_is_left(ledger: Ledger, actor: Actor) -> int:
    total = 0
    while True:
        done = _reseal_facts(ledger, actor)
        for column in _sealed_columns():
            done += _each_batch(ledger, actor, column, ledger.box, write=True)
        total += done
        if not done:
            return total


def _sealed_columns() -> Iterator[Column[Any]]:
    for table in Base.metadata.sorted_tables:
        yield from (column for column in table.columns if column.info.get("sealed"))


def _each_batch(
    ledger: Ledger, actor: Actor, column: Column[Any], box: SecretBox, *, write: bool
) -> int:
    """Reseal a column in batches; return how many values had an older key.

    Without `write` they are only counted.
    """
    done, last = 0, -1
    while True:
        with ledger.writing(actor) if write else ledger.reading() as session:
            key = column.table.c.id
            query = (
                select(key, column)
                .where(key > last, column.is_not(None), cast(column, String).not_in(EMPTY))
                .order_by(key)
                .limit(BATCH)
            )
            rows: Sequence[Any] = session.execute(query.with_for_update() if write else query).all()
            for number, value in rows:
                done += _reseal(session, column, number, value, box, write=write)
        if len(rows) < BATCH:
            return done
        last = rows[-1][0]


def _reseal(
    session: Any, column: Column[Any], number: int, value: Any, box: SecretBox, *, write: bool
) -> int:
    table: Table = column.table
    sealed = value if isinstance(value, dict) else {column.name: value}
    try:
        if not write:
            box.open(sealed)
            return 0
        changed = box.resealed(sealed)
    except KeyMissing as error:
        raise KeyMissing(f"{noun_of_table(table.name)} {number}, {column.name}: {error}") from None
    if changed:
        new = {**sealed, **changed} if isinstance(value, dict) else changed[column.name]
        # Bypass the session, which would treat this as a change of the record.
        statement = update(table).where(table.c.id == number).values({column: new})
        session.connection().execute(statement)
    return len(changed)


def _reseal_facts(ledger: Ledger, actor: Actor) -> int:
    with ledger.writing(actor) as session:
        facts = session.scalars(
            select(InstallationValue)
            .where(InstallationValue.name.in_(SEALED_FACTS))
            .with_for_update()
        )
        done = 0
        for fact in facts:
            changed = ledger.box.resealed({fact.name: fact.value})
            fact.value = changed.get(fact.name, fact.value)
            done += len(changed)
        return done
