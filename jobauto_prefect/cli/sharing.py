"""Which companies' native jobs run as one user, and so can read each other's files."""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime, timedelta

from jobauto_prefect.ledger import queries
from jobauto_prefect.ledger.records import WorkerRecord
from jobauto_prefect.ledger.store import ReadingSession

WORKER_PATIENCE = timedelta(minutes=2)
"""A worker that gave no sign of life for so long is gone."""

MOST_WORKERS = 1000

Users = Mapping[str, str]
"""Whom the jobs of one worker run as, by company (slug); `""` is for the others."""


def users_of_workers(session: ReadingSession, now: datetime) -> dict[str, list[Users]]:
    """What the living workers of each pool said at their start."""
    users: dict[str, list[Users]] = {}
    for worker in queries.newest(session, WorkerRecord, limit=MOST_WORKERS):
        if worker.seen_at > now - WORKER_PATIENCE:
            users.setdefault(worker.pool, []).append(worker.run_as)
    return users


def sharing(companies: Collection[str], workers: Sequence[Users]) -> int:
    """How many of these companies have one user on the worst of these workers.

    Without workers it is as on one that was not told of any user.
    """
    return max((_sharing(companies, users) for users in workers or [{}]), default=0)


def _sharing(companies: Collection[str], users: Users) -> int:
    counts = Counter(users.get(company, users.get("", "")) for company in companies)
    return max(counts.values(), default=0)
