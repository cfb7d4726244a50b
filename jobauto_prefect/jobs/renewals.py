"""Renewals: a worker's sign of life, and its word on which of its jobs have no process.

A renewal and what it says of jobs that are not had are transactions of their own: what a worker
left out once it leaves out again, so nothing is lost where only the first is committed.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from jobauto_prefect.ledger import leases, queries, workers
from jobauto_prefect.ledger.audit import WritingSession
from jobauto_prefect.ledger.records import Lease, WorkerRecord
from jobauto_prefect.runtime.protocol import Renewal, RenewalAnswer
from jobauto_prefect.settings import Settings

NOT_HELD = "the ledger does not hold this job for running"
NOT_HAD = "its worker has no process of it"


class Renewed(NamedTuple):
    """What a worker is answered, and the leases of jobs it says it does not have."""

    answer: RenewalAnswer
    not_had: Sequence[Lease]


def renew(
    session: WritingSession, renewal: Renewal, pools: Sequence[str], settings: Settings
) -> Renewed:
    """Renew the leases of a worker's jobs, and say which are to be ended.

    One of another start of the worker, or not later than the last one, renews and judges nothing.

    Raises:
        Forbidden: the worker is of a pool its token does not name.
    """
    worker = workers.lock_for_renewal(session, renewal.worker, pools)
    present = worker is not None and worker.instance == renewal.instance
    not_had: Sequence[Lease] = ()
    useless = False
    if worker is not None and present and renewal.number > worker.renewal:
        _note(session, worker, renewal)
        not_had = jobs_not_had(workers.leases_of(session, worker), renewal)
        useless = _is_useless(session, worker, settings)
    stop = _to_stop(session, renewal)
    answer = RenewalAnswer(now=session.clock(), stop=stop, superseded=not present, useless=useless)
    return Renewed(answer, not_had)


def _note(session: WritingSession, worker: WorkerRecord, renewal: Renewal) -> None:
    worker.renewal, worker.seen_at = renewal.number, session.clock()
    worker.hindrances, worker.clock_ahead = dict(renewal.hindrances), renewal.clock_ahead
    if renewal.jobs:
        leases.renew(session, worker, renewal.jobs)


def jobs_not_had(held: Iterable[Lease], renewal: Renewal) -> list[Lease]:
    """Of the leases of this start of a worker, those of which it has no process.

    A lease granted after the answered renewal may be of a claim that was sent after this renewal
    was written; one granted before was answered, or waited for its answer, by then.
    """
    named = {*renewal.jobs.items(), *renewal.unknown.items()}
    waiting = set(renewal.claims)
    return [
        lease
        for lease in held
        if lease.granted_renewal < renewal.answered
        and (lease.job_id, lease.claim_id) not in named
        and lease.claim_id not in waiting
    ]


def _is_useless(session: WritingSession, worker: WorkerRecord, settings: Settings) -> bool:
    if not worker.hindrances:
        return False
    used = queries.executors_used(session, worker.pool, settings.pool)
    return bool(used) and used <= worker.hindrances.keys()


def _to_stop(session: WritingSession, renewal: Renewal) -> dict[int, str]:
    named = {**renewal.jobs, **renewal.unknown}
    if not named:
        return {}
    held = leases.held_among(session, named)
    cancelled = queries.cancelled_among(session, list(held))
    return {job_id: NOT_HELD for job_id in named if job_id not in held} | cancelled
