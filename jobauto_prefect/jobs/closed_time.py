"""What closes the time of run templates: freezes for maintenance."""

from collections.abc import Collection, Mapping
from datetime import datetime

from jobauto_prefect.compiler.closures import ClosedTime, Closure
from jobauto_prefect.ledger import freezes
from jobauto_prefect.ledger.records import Freeze, RunTemplate
from jobauto_prefect.ledger.store import ReadingSession


def closed_times(
    session: ReadingSession, templates: Collection[RunTemplate], since: datetime
) -> Mapping[int, ClosedTime]:
    """Run template -> its closed time after an instant; as many statements for one as for all."""
    frozen = [closure_of(freeze) for freeze in freezes.freezes_since(session, since)]
    return {template.id: ClosedTime(frozen, template.on_closed) for template in templates}


def closure_of(freeze: Freeze) -> Closure:
    """The time that a freeze closes."""
    return Closure(freeze.since, freeze.ended_at or freeze.until, reason_of(freeze))


def reason_of(freeze: Freeze) -> str:
    """Why what fell into a freeze did not start."""
    return f"maintenance: {freeze.reason}" if freeze.reason else "maintenance"


def story_of(freeze: Freeze) -> str:
    """Why nothing starts, for people."""
    until = "it is ended: jobauto resume" if freeze.until is None else freeze.until.isoformat()
    return f"{reason_of(freeze)}; nothing starts until {until}"
