"""A worker starts, or is gone for good."""

from collections.abc import Sequence

from jobauto_prefect.errors import Forbidden
from jobauto_prefect.jobs.loss import lose_for_certain
from jobauto_prefect.ledger import queries, workers
from jobauto_prefect.ledger.audit import WritingSession, write_entry
from jobauto_prefect.runtime.protocol import LeftOver, WorkerHello, WorkerWelcome
from jobauto_prefect.settings import Settings


def welcome(
    session: WritingSession, hello: WorkerHello, pools: Sequence[str], settings: Settings
) -> WorkerWelcome:
    """A worker starts: it has its name for itself, and hears of its predecessor's jobs.

    Those on another host may still run there: they are left to their leases. `pools` are those
    the worker's token names.

    Raises:
        Conflict: a live worker has this name.
        Forbidden: it is that of a worker of another pool, or the token is not for this pool.
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
    )
    same_host = workers.register(session, start, pools, settings.lease_seconds)
    left_over = [
        LeftOver(
            job_id=lease.job_id,
            claim_id=lease.claim_id,
            directory=lease.directory,
            flow_run_id=flow_run_id,
        )
        for lease, flow_run_id in queries.leases_of_worker(session, hello.worker)
        if flow_run_id is not None and same_host
    ]
    return WorkerWelcome(
        now=session.clock(), lease_seconds=settings.lease_seconds, left_over=left_over
    )


def lose_worker(session: WritingSession, name: str, settings: Settings) -> list[int]:
    """Somebody says that a worker is gone for good; returns the ids of its jobs, which are lost.

    It counts as the watchdog's word: nothing of them lives, and what follows a loss follows now.
    The worker, should it live after all, is granted nothing and told to end what it has.

    Raises:
        NotFound: there is no such worker.
        Conflict: it gave a sign of life within the last lease.
    """
    held = workers.declare_lost(session, name, settings.lease_seconds)
    message = f"{session.actor.name} declared its worker {name} lost"
    lose_for_certain(session, held, message, settings)
    lost = [lease.job_id for lease in held]
    write_entry(session, "Worker", "lost", {"name": [name, None], "jobs": [lost, None]})
    return lost
