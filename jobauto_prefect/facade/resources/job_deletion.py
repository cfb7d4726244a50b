"""Deleting the jobs that match filters."""

from dataclasses import replace
from typing import Annotated

from fastapi import APIRouter, Depends, Query, Request, Response
from pydantic import Field, WithJsonSchema

from jobauto_prefect.errors import Fault, Forbidden, InvalidInput
from jobauto_prefect.facade.answers import Answer
from jobauto_prefect.facade.auth.identity import CurrentUser, Identity
from jobauto_prefect.facade.http.field_types import Boolean, parse_datetime
from jobauto_prefect.facade.http.operations import answered, operation
from jobauto_prefect.facade.http.parameters import MAX_PAGE
from jobauto_prefect.facade.http.responses import respond_plain
from jobauto_prefect.facade.kinds import jobs
from jobauto_prefect.facade.kinds.resource import Filter, Resource
from jobauto_prefect.facade.resources.lists import parse_selection
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

BEGUN_OR_DUE = "`begin` (or `schedule` if a job has not begun)"
DELETABLE_JOBS = replace(
    jobs.RESOURCE,
    filters={
        **jobs.RESOURCE.filters,
        "from": Filter("begun_or_due", parse_datetime, "ge", shown=BEGUN_OR_DUE),
        "to": Filter("begun_or_due", parse_datetime, "le", shown=BEGUN_OR_DUE),
    },
)
"""Jobs with the filters of the published description: by their begin, both ends included."""


router = APIRouter()


class JobKept(Answer):
    """A matching job that was not deleted, with the reason."""

    job_id: int = Field(description="The job.")
    reason: str = Field(description="The reason.")


class JobsDeleted(Answer):
    """Which of the matching jobs were deleted; with `dry_run`, which would be deleted."""

    dry_run: bool = Field(description="Whether this was only a dry run.")
    matched: int = Field(description="How many jobs match the filters.")
    deleted: int = Field(description="How many were deleted; 0 with `dry_run`.")
    job_ids: list[int] = Field(
        description="The jobs that were deleted; with `dry_run`, those that would be deleted."
    )
    kept: list[JobKept] = Field(description="The matching jobs that were not deleted.")


async def read_dry_run(
    dry_run: Annotated[
        Boolean | None,
        WithJsonSchema({"type": "boolean"}),
        Query(description="Only report what would be deleted."),
    ] = None,
) -> bool:
    """Return whether this is a dry run; as a dependency it follows the filters in the document."""
    return bool(dry_run)


DryRun = Annotated[bool, Depends(read_dry_run)]


@operation(
    router, "DELETE /jobs.{suffix}", "deleteJobs", "Delete jobs",
    "Deletes the matching jobs that have ended and belong to no task, at most the newest "
    f"{MAX_PAGE}. At least one filter is required. With `state=scheduled`, waiting jobs are "
    "cancelled and deleted, even if they belong to a task. The answer lists matching jobs that "
    "were not deleted, with the reason. Needs `jobs.delete`.",
    tag="Jobs", answer=answered("What was deleted.", JobsDeleted), errors=(409,), twin=None,
    parameters=lambda: (
        each.parameter(name) for name, each in DELETABLE_JOBS.filters.items()
    ),
    passed=(),  # nothing that could be mistaken for a limit
)  # fmt: skip
def delete_jobs(
    request: Request,
    who: CurrentUser,
    service: CurrentService,
    dry_run: DryRun,
) -> Response:
    """Delete the matching jobs that can be deleted, at most the newest 1000.

    Waiting jobs are cancelled first if the filter asks for their state. With `dry_run` nothing
    changes: the answer says what would be deleted.
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
    """Return why a job that matched as waiting can't be cancelled and deleted; None: it can."""
    if job.state != JobState.SCHEDULED:
        return f"it is no longer waiting, it is {job.state}"
    if not who.rights.may("jobs.execute", job.company_id):
        return "cancelling it needs the permission jobs.execute"
    return None


def _reason_not_deleted(session: WritingSession, job: Job) -> str | None:
    """Return why a job can't be deleted; None: it can."""
    if job.state == JobState.SCHEDULED:
        return "it is waiting; state=scheduled cancels and deletes such jobs"
    if job.state == JobState.RUNNING:
        return "it is running; cancel it first, or wait for its end"
    named = dependents(session, job)
    return f"it belongs to {', '.join(named)}" if named else None


def _parse_deletion(resource: Resource, request: Request, who: Identity) -> Selection:
    """Return the selection of the matching jobs that the caller may delete.

    Raises:
        InvalidInput: there is no filter.
        Forbidden: the caller may delete none.
    """
    permission = f"{resource.kind.permissions}.delete"
    if not who.rights.anywhere(permission):
        raise Forbidden(f"this needs the permission {permission}; ask an administrator")
    selection = parse_selection(resource, request, who)
    if not selection.conditions:
        names = ", ".join(resource.filters)
        message = f"select the jobs by at least one of {names}"
        raise InvalidInput([Fault("", "required", message)])
    companies = who.rights.companies_with(permission)
    return Selection(companies, selection.conditions, limit=MAX_PAGE)
