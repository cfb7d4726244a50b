"""Whether the services beside the facade run, and the reconciler's latest view of Prefect."""

import json
from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime, timedelta

from sqlalchemy import select
from sqlalchemy.orm import Session

from jobauto_prefect.ledger.audit.trail import WritingSession
from jobauto_prefect.ledger.records import InstallationValue

SERVICES_SEEN_AT = "services_seen_at"

HEARTBEAT_HOLDS = timedelta(minutes=1)
"""How long a heartbeat is valid."""


def record_heartbeat(session: WritingSession) -> None:
    """Record that the services are running."""
    session.merge(InstallationValue(name=SERVICES_SEEN_AT, value=session.clock().isoformat()))


def are_running(session: Session, now: datetime) -> bool:
    """Whether the last heartbeat is recent."""
    seen = seen_at(session)
    return seen is not None and seen > now - HEARTBEAT_HOLDS


def seen_at(session: Session) -> datetime | None:
    """Return the time of the last heartbeat; None if there was none."""
    kept = session.scalar(
        select(InstallationValue.value).where(InstallationValue.name == SERVICES_SEEN_AT)
    )
    return None if kept is None else datetime.fromisoformat(kept)


PREFECT_STATUS = "prefect_status"


@dataclass(frozen=True, slots=True)
class PrefectStatus:
    """`away` says why Prefect does not answer, None: it does.

    `paused` are work pools by name, `foreign` those of Prefect's own worker types, which this
    service notices only while they run a job.
    """

    away: str | None = None
    paused: Collection[str] = ()
    foreign: Collection[str] = ()


PREFECT_STATUS_VALUE = (
    select(InstallationValue.value)
    .where(InstallationValue.name == PREFECT_STATUS)
    .scalar_subquery()
)
"""The last stored status, for `parse_status`, in larger statements."""


def parse_status(kept: str | None) -> PrefectStatus:
    """Parse a stored status; before the first one nothing is wrong."""
    return PrefectStatus(**json.loads(kept)) if kept else PrefectStatus()


def read_status(session: Session) -> PrefectStatus:
    """Read the last stored status."""
    return parse_status(session.scalar(select(PREFECT_STATUS_VALUE)))


def store_status(session: WritingSession, status: PrefectStatus) -> None:
    kept = {
        "away": status.away,
        "paused": sorted(status.paused),
        "foreign": sorted(status.foreign),
    }
    session.merge(InstallationValue(name=PREFECT_STATUS, value=json.dumps(kept)))
