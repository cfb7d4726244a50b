"""Whether everything that was asked of an installation happened, once, and Prefect shows it."""

from collections import Counter
from collections.abc import Iterator
from typing import Any

from sqlalchemy import func, select

from jobauto_prefect.jobs.outcome.results import PREFECT_STATES
from jobauto_prefect.ledger.audit.seal_verification import verify
from jobauto_prefect.ledger.events.deliveries import EventKind
from jobauto_prefect.ledger.records import (
    AuditEntry,
    Delivery,
    Event,
    Job,
    Lease,
    OutboxMessage,
    Task,
    UnconfirmedEnd,
)
from jobauto_prefect.ledger.states import LIVE_JOBS, LIVE_TASKS
from tests.support.installation import Installation
from tests.support.ledger_rows import count_rows, fetch_all
from tests.support.mixed_load import Load

PAGE = 200
OPEN = ("PENDING", "RUNNING", "PAUSED", "CANCELLING")
ENDS = {
    "posted": {"succeeded"},
    "paused": {"succeeded"},
    "changed": {"succeeded"},
    "chained": {"succeeded"},
    "failing": {"failed"},
    "long": {"cancelled"},
}
"""How the jobs of each template end, but those that were lost with what ran them."""

SWITCHED_OFF = {
    ("cancelled", "its run template was switched off"),
    ("blocked", "the run template paused is not active"),
}
"""State and message of a job that waited, or was claimed, when its deployment was paused."""

_DELIVERED_CHANGES = (
    select(func.count(Delivery.id)).join(Event).where(Event.kind == EventKind.CHANGE)
)
"""Of changes only: a chain has as many. A source whose reader was killed while it read has the next
one a minute later."""


def is_over(load: Load) -> bool:
    """Whether nothing is left to be done or to be confirmed: no job, task, message, event, end."""
    installation = load.installation
    queries = (
        select(func.count(Job.id)).where(Job.state.in_(LIVE_JOBS)),
        select(func.count(Task.id)).where(Task.state.in_(LIVE_TASKS)),
        select(func.count(Delivery.id)).where(Delivery.state != "started"),
        select(func.count(OutboxMessage.id)),
        select(func.count(UnconfirmedEnd.job_id)),
    )
    with installation.ledger.reading() as session:
        return (
            not any(session.scalar(query) for query in queries)
            and (session.scalar(_DELIVERED_CHANGES) or 0) >= load.changes
        )


def complaints(load: Load) -> list[str]:
    """What was lost, done twice, or is shown wrongly; in words."""
    installation = load.installation
    windows = installation.match()
    with installation.ledger.reading() as session:
        jobs = list(session.scalars(select(Job).order_by(Job.id)))
        deliveries = session.execute(select(Delivery.event_id, Delivery.job_id)).all()
    return [
        *load.errors,
        *(f"missed: {story}" for story in windows.missed),
        *(f"extra: {story}" for story in windows.extra),
        *(f"task {task} had two processes at once" for task in installation.overlaps()),
        *_wrongly_ended(load, jobs),
        *_wrongly_started(installation, load, jobs),
        *_wrongly_delivered(load, jobs, [(event, job) for event, job in deliveries]),
        *_wrongly_shown(jobs, runs_of(installation)),
        *_wrongly_audited(load),
        *(f"job {lease.job_id} has a lease" for lease in fetch_all(installation.ledger, Lease)),
        *(f"still runs: {command}" for command in installation.orphans()),
    ]


def _wrongly_ended(load: Load, jobs: list[Job]) -> Iterator[str]:
    names = {number: name for name, number in load.templates.items()}
    for job in jobs:
        name = names.get(job.runtemplate_id or 0)
        if name == "paused" and (job.state, job.message) in SWITCHED_OFF:
            continue
        if name and job.state not in ENDS[name] and job.state not in ("lost", "skipped"):
            yield f"job {job.id} of {name} ended as {job.state}: {job.message}"
    known = {job.id for job in jobs}
    for name, numbers in load.posted.items():
        for number, times in Counter(numbers).items():
            if times > 1 or number not in known:
                yield f"job {number} of {name} was answered {times} times"
        of_name = [job for job in jobs if names.get(job.runtemplate_id or 0) == name]
        first = {job.id for job in of_name if job.attempt == 1 and not job.event_id}
        if first - set(numbers):
            yield f"jobs {first - set(numbers)} of {name} were never asked for"


def _wrongly_started(installation: Installation, load: Load, jobs: list[Job]) -> Iterator[str]:
    path = installation.marks / "worked"
    began = Counter(map(int, path.read_text().split())) if path.exists() else Counter()
    for job in jobs:
        if job.runtemplate_id not in load.templates.values():
            continue
        if began[job.id] > 1:
            yield f"job {job.id} began {began[job.id]} times"
        if not began[job.id] and job.state in ("succeeded", "failed"):
            yield f"job {job.id} ended as {job.state} and never began"


def _wrongly_delivered(
    load: Load, jobs: list[Job], deliveries: list[tuple[int, int | None]]
) -> Iterator[str]:
    count = Counter(job.runtemplate_id for job in jobs if job.event_id and job.attempt == 1)
    if (changed := count[load.templates["changed"]]) != load.changes:
        yield f"{changed} jobs of {load.changes} changes"
    posted = [job for job in jobs if job.runtemplate_id == load.templates["posted"]]
    ended = sum(job.state == "succeeded" for job in posted)
    if (chained := count[load.templates["chained"]]) < ended:
        yield f"{chained} jobs follow {ended} that succeeded"
    for (event, job), times in Counter(deliveries).items():
        if times > 1 or job is None:
            yield f"event {event} started {job} {times} times"


def _wrongly_shown(jobs: list[Job], runs: dict[str, dict[str, Any]]) -> Iterator[str]:
    of_jobs = Counter(str(job.flow_run_id) for job in jobs if job.flow_run_id)
    for job in jobs:
        if job.flow_run_id is None:
            continue
        run, wanted = runs.get(str(job.flow_run_id)), PREFECT_STATES[job.state].value
        if run is None or run["state_type"] != wanted:
            shown = run["state_type"] if run else "not there"
            of = f"of run template {job.runtemplate_id}, begun {job.begin}, due {job.schedule}"
            yield f"job {job.id} {of} is {job.state} ({job.message}), in Prefect {shown}"
    for number, run in runs.items():
        if of_jobs[number] > 1:
            sharing = [job for job in jobs if str(job.flow_run_id) == number]
            states = ", ".join(f"job {job.id} {job.state} ({job.message})" for job in sharing)
            yield f"flow run {number} is shared: {states}"
        if run["state_type"] in OPEN:
            yield f"flow run {run['name']} is still {run['state_type']}"
        if not of_jobs[number] and run["state_type"] in ("COMPLETED", "FAILED"):
            yield f"flow run {run['name']} is {run['state_type']} and no job's"


def _wrongly_audited(load: Load) -> Iterator[str]:
    """What differs between the trail and the records: their creation, and each state they had."""
    ledger = load.installation.ledger
    yield from verify(ledger).damages
    for kind in (Task, Job):
        shown = {record.id: record.state for record in fetch_all(ledger, kind)}
        told: dict[int | None, Any] = {}
        of_kind = select(AuditEntry).where(AuditEntry.entity_type == kind.entity_name)
        for entry in fetch_all(ledger, of_kind.order_by(AuditEntry.id)):
            if (entry.action == "create") != (entry.entity_id not in told):
                yield f"{kind.entity_name} {entry.entity_id}: {entry.action} is not its turn"
            before, after = entry.changes.get("state", [told.get(entry.entity_id)] * 2)
            if before != told.get(entry.entity_id):
                yield f"{kind.entity_name} {entry.entity_id} became {before} without an entry"
            told[entry.entity_id] = after
        if told != shown:
            wrong = {key for key in told | shown if told.get(key) != shown.get(key)}
            yield f"{kind.entity_name} {wrong}: its last entry tells another state"
    posted = (AuditEntry.entity_type == "Job", AuditEntry.action == "create")
    entries = count_rows(ledger, AuditEntry, *posted, AuditEntry.door == "rest")
    if entries != (asked := sum(map(len, load.posted.values()))):
        yield f"{entries} entries about {asked} posted jobs"


def runs_of(installation: Installation) -> dict[str, dict[str, Any]]:
    """All flow runs of Prefect by their ids."""
    runs: dict[str, dict[str, Any]] = {}
    while True:
        query = {"limit": PAGE, "offset": len(runs), "sort": "ID_DESC"}
        page = installation.prefect.post("/flow_runs/filter", json=query).raise_for_status().json()
        runs |= {run["id"]: run for run in page}
        if len(page) < PAGE:
            return runs
