"""The lock of the ledger under which files are applied: one set of them after the other."""

import time
from collections.abc import Collection

from sqlalchemy import func, or_, select

from jobauto_prefect.errors import Contended
from jobauto_prefect.ledger.audit import WritingSession
from jobauto_prefect.ledger.records import RunTemplate

LOCK = 8_241_904
"""Any number that nobody else uses for a lock."""

LOOK_AGAIN_SECONDS = 0.05


def hold(session: WritingSession, patience_seconds: float) -> None:
    """Let nobody else apply files until this transaction ends, however it ends.

    Asked for again and again: a statement that waits would be ended by the limits of a statement.
    On SQLite writers come one after another anyway.

    Raises:
        Contended: somebody else has it for longer than that.
    """
    if session.get_bind().dialect.name != "postgresql":
        return
    until = time.monotonic() + patience_seconds
    while not session.scalar(select(func.pg_try_advisory_xact_lock(LOCK))):
        if time.monotonic() > until:
            raise Contended("other files are being applied for a long time; try again later")
        time.sleep(LOOK_AGAIN_SECONDS)


def lock_templates(
    session: WritingSession, ids: Collection[int], companies: Collection[int]
) -> None:
    """Lock run templates, and those of companies, in the order in which everybody locks them.

    Jobs can be inserted meanwhile: the locks are not those of the keys.
    """
    wanted = or_(RunTemplate.id.in_(ids), RunTemplate.company_id.in_(companies))
    found = select(RunTemplate.id).where(wanted).order_by(RunTemplate.id)
    if ids or companies:
        session.execute(found.with_for_update(key_share=True)).all()
