"""DELETE of a list of jobs: those that filters choose, as far as they may go."""

from dataclasses import replace
from typing import Annotated

from fastapi import APIRouter, Query, Request, Response

from jobauto_prefect.errors import Fault, Forbidden, InvalidInput
from jobauto_prefect.facade.auth.identity import CurrentUser, Identity
from jobauto_prefect.facade.http.field_types import Boolean, parse_datetime
from jobauto_prefect.facade.http.responses import respond_plain
from jobauto_prefect.facade.kinds.registry import RESOURCES
from jobauto_prefect.facade.kinds.resource import Filter, Resource
from jobauto_prefect.facade.resources.lists import MAX_PAGE, parse_selection
from jobauto_prefect.facade.service import CurrentService
from jobauto_prefect.jobs.outcome.cancellation import cancel
from jobauto_prefect.jobs.windows.tasks import deactivate
from jobauto_prefect.ledger.audit.trail import WritingSession
from jobauto_prefect.ledger.jobs.attempts import lock_jobs
from jobauto_prefect.ledger.queries import lists
from jobauto_prefect.ledger.queries.lists import Condition, Selection
from jobauto_prefect.ledger.records import Job
from jobauto_prefect.ledger.soft_delete import dependents, soft_delete
from jobauto_prefect.ledger.states import JobState

DELETE_JOBS = "delete jobs"
"""The name of the route."""

JOBS = next(resource for resource in RESOURCES if resource.record is Job)
DELETABLE_JOBS = replace(
    JOBS,
    filters={
        **JOBS.filters,
        "from": Filter("begun_or_due", parse_datetime, "ge"),
        "to": Filter("begun_or_due", parse_datetime, "le"),
    },
)
"""Jobs, chosen as the published description says: by when they began, both ends included."""


def add_routes(router: APIRouter) -> None:
    """Add them to the contract."""
    router.delete("/jobs.{suffix}", name=DELETE_JOBS)(delete_jobs)


def delete_jobs(
    request: Request,
    who: CurrentUser,
    service: CurrentService,
    dry_run: Annotated[Boolean, Query()] = False,
) -> Response:
    """Delete the jobs of a filter, as far as they may go; the newest 1000 of them.

    Waiting ones are cancelled first where the filter asks for them by their state. With `dry_run`
    nothing is changed: the answer says what would be.
    """
    chosen = _parse_deletion(DELETABLE_JOBS, request, who)
    wants_waiting = Condition("state", JobState.SCHEDULED) in chosen.conditions
    with service.ledger.writing(who.actor) as session:
        page = lists.page(session, Job, chosen)
        jobs = sorted(page.records, key=lambda job: job.id)
        if wants_waiting:
            lock_jobs(session, jobs)
        kept: dict[int, str] = {}
        for job in jobs:
            reason = (
                _reason_not_cancelled(who, job)
                if wants_waiting
                else _reason_not_deleted(session, job)
            )
            if reason is not None:
                kept[job.id] = reason
            elif not dry_run:
                if wants_waiting:
                    cancel(session, job, f"deleted by {who.actor.name}")
                soft_delete(session, job, deactivate)
        gone = [job.id for job in page.records if job.id not in kept]
        data = {
            "dry_run": dry_run,
            "matched": page.total,
            "deleted": 0 if dry_run else len(gone),
            "job_ids": gone,
            "kept": [{"job_id": job_id, "reason": reason} for job_id, reason in kept.items()],
        }
    service.outbox_worker.wake()
    return respond_plain(request, who, "Deleted jobs", data)


def _reason_not_cancelled(who: Identity, job: Job) -> str | None:
    """Return why a job, chosen because it waits, can't be cancelled and deleted; None: it can."""
    if job.state != JobState.SCHEDULED:
        return f"it does not wait any more, it is {job.state}"
    if not who.rights.may("jobs.execute", job.company_id):
        return "to cancel it needs the permission jobs.execute"
    return None


def _reason_not_deleted(session: WritingSession, job: Job) -> str | None:
    """Return why a job can't be deleted; None: it can."""
    if job.state == JobState.SCHEDULED:
        return "it waits; state=scheduled cancels and deletes such jobs"
    if job.state == JobState.RUNNING:
        return "it is running; cancel it first, or wait for its end"
    named = dependents(session, job)
    return f"it belongs to {', '.join(named)}" if named else None


def _parse_deletion(resource: Resource, request: Request, who: Identity) -> Selection:
    """Return the selection of jobs that the filters make of those somebody may delete.

    Raises:
        InvalidInput: there is no filter.
        Forbidden: they may delete none.
    """
    permission = f"{resource.kind.permissions}.delete"
    if not who.rights.anywhere(permission):
        raise Forbidden(f"this needs the permission {permission}; ask an administrator")
    selection = parse_selection(resource, request, who)
    if not selection.conditions:
        names = ", ".join(resource.filters)
        message = f"say which jobs: at least one of {names}"
        raise InvalidInput([Fault("", "required", message)])
    companies = who.rights.companies_with(permission)
    return Selection(companies, selection.conditions, limit=MAX_PAGE)
