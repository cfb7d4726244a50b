"""Differences between a restored ledger and the copy of Prefect's database beside it.

No server is running yet, so Prefect's tables are read directly; nothing is written to them. The
services find other differences, such as fields of deployments, once `jobauto up` runs.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from uuid import UUID

from jobauto_prefect.backup.databases import Database
from jobauto_prefect.ledger.jobs import restoration
from jobauto_prefect.ledger.states import LIVE_JOBS, JobState
from jobauto_prefect.ledger.store import ReadingSession

KNOWN_RUNS = "SELECT id FROM flow_run WHERE id IN ({values})"
KNOWN_DEPLOYMENTS = "SELECT id FROM deployment WHERE id IN ({values})"
BEGUN_RUNS = (
    "SELECT id, state_type, deployment_id FROM flow_run"
    " WHERE state_type IN ('PENDING', 'RUNNING', 'PAUSED', 'CANCELLING')"
)


@dataclass(frozen=True, slots=True)
class Difference:
    """One thing that only one of them has, or that differs, and what will happen to it."""

    kind: str
    id: str
    record: str
    what: str


@dataclass(frozen=True, slots=True)
class Comparison:
    """The differences, and the flow runs unknown to Prefect that jobs wait for."""

    differences: tuple[Difference, ...] = ()
    unknown_runs: frozenset[UUID] = frozenset()


def compare(session: ReadingSession, prefect: Database) -> Comparison:
    """Compare jobs with flow runs, and run templates with deployments."""
    waiting = {job.flow_run_id: job.id for job in restoration.waiting_jobs(session)}
    runs = [run for run in waiting if run is not None]
    unknown = frozenset(runs) - _known(prefect, KNOWN_RUNS, runs)
    templates = restoration.templates_by_deployment(session)
    gone = frozenset(templates) - _known(prefect, KNOWN_DEPLOYMENTS, templates)
    differences = [
        *(
            Difference(
                "flow run", str(run), f"job {waiting[run]}", "not in Prefect: will be created again"
            )
            for run in sorted(unknown, key=str)
        ),
        *(
            Difference(
                "deployment",
                str(deployment),
                templates[deployment],
                "not in Prefect: will be created again",
            )
            for deployment in sorted(gone, key=str)
        ),
        *_begun(session, prefect, templates.keys()),
    ]
    return Comparison(tuple(differences), unknown)


def _known(prefect: Database, statement: str, ids: Iterable[UUID]) -> set[UUID]:
    wanted = [str(prefect_id) for prefect_id in ids]
    return {UUID(str(row[0])) for row in prefect.select(statement, wanted)}


def _begun(
    session: ReadingSession, prefect: Database, deployments: Iterable[UUID]
) -> Iterator[Difference]:
    """Compare the started flow runs of this ledger that Prefect has with their jobs."""
    ours = set(deployments)
    begun = {
        UUID(str(run)): state
        for run, state, deployment in prefect.select(BEGUN_RUNS)
        if deployment is not None and UUID(str(deployment)) in ours
    }
    jobs = restoration.jobs_of_runs(session, begun)
    for run, state in sorted(begun.items(), key=lambda item: str(item[0])):
        if run not in jobs:
            what = (
                f"{state} in Prefect, but no job has it: it becomes Crashed once the services run"
            )
            yield Difference("flow run", str(run), "", what)
            continue
        number, state_of_job = jobs[run]
        if state_of_job == JobState.RUNNING:
            continue
        what = f"{state} in Prefect, but its job is {state_of_job}"
        if state_of_job not in LIVE_JOBS:
            what += ": Prefect will be corrected"
        yield Difference("flow run", str(run), f"job {number}", what)
