"""What the reconciler last saw of Prefect, for those who must not wait for it."""

import json
from collections.abc import Collection
from dataclasses import dataclass

from sqlalchemy import select
from sqlalchemy.orm import Session

from jobauto_prefect.ledger.audit import WritingSession
from jobauto_prefect.ledger.records import Fact

NAME = "prefect_status"


@dataclass(frozen=True, slots=True)
class PrefectStatus:
    """`away` says why Prefect does not answer, None: it does.

    `paused` are work pools by name, `foreign` those of Prefect's own kinds of worker, which this
    service hears of only while they run a job.
    """

    away: str | None = None
    paused: Collection[str] = ()
    foreign: Collection[str] = ()


def read_status(session: Session) -> PrefectStatus:
    """The last one there is; before the first nothing is wrong."""
    kept = session.scalar(select(Fact.value).where(Fact.name == NAME))
    return PrefectStatus(**json.loads(kept)) if kept else PrefectStatus()


def keep_status(session: WritingSession, status: PrefectStatus) -> None:
    """From now on this is what is known."""
    kept = {
        "away": status.away,
        "paused": sorted(status.paused),
        "foreign": sorted(status.foreign),
    }
    session.merge(Fact(name=NAME, value=json.dumps(kept)))
