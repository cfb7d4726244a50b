"""The start of a worker, its renewals, and its loss."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from jobauto_prefect.errors import Forbidden
from jobauto_prefect.jobs.outcome.loss import mark_certainly_lost
from jobauto_prefect.ledger.audit.trail import WritingSession, write_entry
from jobauto_prefect.ledger.jobs import leases, workers
from jobauto_prefect.ledger.queries.jobs import leases_of_worker
from jobauto_prefect.ledger.queries.run_templates import executors_used
from jobauto_prefect.ledger.records import Lease
from jobauto_prefect.runtime.protocol import (
    LeftoverJob,
    Renewal,
    RenewalAnswer,
    SignOfLife,
    WorkerHello,
    WorkerWelcome,
)
from jobauto_prefect.settings import Settings


def register_worker(
    session: WritingSession, hello: WorkerHello, pools: Sequence[str], settings: Settings
) -> WorkerWelcome:
    """Register the start of a worker, and tell it of its predecessor's jobs.

    Jobs on another host may still run there: they are left to their leases. `pools` are those the
    worker's token names.

    Raises:
        Conflict: a live worker has this name.
        Forbidden: the name belongs to a worker of another pool, or the token is not for this pool.
    """
    if hello.pool not in pools:
        raise Forbidden(f"this token is not for the work pool {hello.pool}")
    start = workers.Registration(
        name=hello.worker,
        pool=hello.pool,
        host=hello.host,
        instance=hello.instance,
        same_place=hello.same_place,
        run_as=hello.run_as,
        limit=hello.limit,
        facts=hello.facts.model_dump(),
    )
    same_host = workers.register(session, start, pools, settings.lease_seconds)
    left_over = [
        LeftoverJob(
            job_id=lease.job_id,
            claim_id=lease.claim_id,
            directory=lease.directory,
            flow_run_id=flow_run_id,
        )
        for lease, flow_run_id in leases_of_worker(session, hello.worker)
        if flow_run_id is not None and same_host
    ]
    return WorkerWelcome(
        now=session.clock(), lease_seconds=settings.lease_seconds, left_over=left_over
    )


def declare_worker_lost(session: WritingSession, name: str, settings: Settings) -> list[int]:
    """Declare a worker gone for good; return the ids of its jobs, which are lost.

    It counts like the watchdog's report: none of their processes live, and their follow-up starts
    now. If the worker does live, it gets no jobs and must end those it has.

    Raises:
        NotFound: there is no such worker.
        Conflict: it gave a sign of life within the last lease.
    """
    held = workers.declare_lost(session, name, settings.lease_seconds)
    message = f"{session.actor.name} declared its worker {name} lost"
    mark_certainly_lost(session, held, message, settings)
    lost = [lease.job_id for lease in held]
    write_entry(session, "Worker", "lost", {"name": [name, None], "jobs": [lost, None]})
    return lost


NOT_HELD = "the ledger has no lease for this claim of the job"
NOT_HAD = "its worker has no process for it"


class RenewalResult(NamedTuple):
    """The answer to a worker, and the leases of jobs it says it does not have."""

    answer: RenewalAnswer
    not_had: Sequence[Lease]


def renew_leases(
    session: WritingSession, renewal: Renewal, pools: Sequence[str], settings: Settings
) -> RenewalResult:
    """Renew the leases of a worker's jobs, and say which jobs it must end.

    A renewal by another start of the worker, or one out of order, renews and decides nothing.

    Raises:
        Forbidden: the worker is of a pool its token does not name.
    """
    worker = workers.lock_for_renewal(session, renewal.worker, pools)
    present = worker is not None and worker.instance == renewal.instance
    not_had: Sequence[Lease] = ()
    useless = False
    if worker is not None and present and renewal.number > worker.renewal:
        worker.renewal, worker.seen_at = renewal.number, session.clock()
        worker.hindrances, worker.clock_ahead = dict(renewal.hindrances), renewal.clock_ahead
        if renewal.jobs:
            leases.renew(session, worker, renewal.jobs)
        not_had = jobs_not_had(workers.leases_of(session, worker), renewal)
        if worker.hindrances:
            used = executors_used(session, worker.pool, settings.pool)
            useless = bool(used) and used <= worker.hindrances.keys()
    stop = _to_stop(session, renewal)
    answer = RenewalAnswer(now=session.clock(), stop=stop, superseded=not present, useless=useless)
    return RenewalResult(answer, not_had)


def keep_leases(session: WritingSession, sign: SignOfLife, pools: Sequence[str]) -> None:
    """Renew all leases of a worker that lives, but whose renewal this version can't read.

    Raises:
        Forbidden: the worker is of a pool its token does not name.
    """
    worker = workers.lock_for_renewal(session, sign.worker, pools)
    if worker is not None and worker.instance == sign.instance:
        worker.seen_at = session.clock()
        held = {lease.job_id: lease.claim_id for lease in workers.leases_of(session, worker)}
        leases.renew(session, worker, held)


def jobs_not_had(held: Iterable[Lease], renewal: Renewal) -> list[Lease]:
    """Return the leases of this start of a worker for which it has no process.

    A lease granted after the answered renewal may belong to a claim sent after this renewal was
    written; an earlier one has been answered before, or its claim was waiting for the answer.
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


def _to_stop(session: WritingSession, renewal: Renewal) -> dict[int, str]:
    named = {**renewal.jobs, **renewal.unknown}
    if not named:
        return {}
    held = leases.held_among(session, named)
    cancelled = {job_id: reason for job_id, reason in held.items() if reason is not None}
    return {job_id: NOT_HELD for job_id in named if job_id not in held} | cancelled
