"""DELETE of a list of jobs: those that filters choose, as far as they may go."""

from typing import Annotated

from fastapi import APIRouter, Query, Request, Response

from jobauto_prefect.errors import Fault, Forbidden, InvalidInput
from jobauto_prefect.facade.answers import plain
from jobauto_prefect.facade.auth import Identity, Person
from jobauto_prefect.facade.lists import LARGEST_PAGE, selection_of
from jobauto_prefect.facade.resources import RESOURCES, Resource
from jobauto_prefect.facade.service import CurrentService
from jobauto_prefect.facade.spellings import Truth
from jobauto_prefect.ledger import listing
from jobauto_prefect.ledger.listing import Selection
from jobauto_prefect.ledger.records import Job
from jobauto_prefect.ledger.retiring import hindrances, retire

JOBS = next(one for one in RESOURCES if one.kind is Job)


def add_routes(router: APIRouter) -> None:
    """Add them to the contract."""
    router.delete("/jobs.{suffix}", name="delete jobs")(delete_jobs)


def delete_jobs(
    request: Request,
    who: Person,
    service: CurrentService,
    dry_run: Annotated[Truth, Query()] = False,
) -> Response:
    """Delete the jobs of a filter that are over and belong to no task; the newest 1000 of them.

    With `dry_run` nothing is deleted: the answer says what would be.
    """
    chosen = _chosen(JOBS, request, who)
    with service.ledger.writing(who.actor) as session:
        page = listing.page(session, Job, chosen)
        gone = [job for job in page.records if not hindrances(session, job)]
        for job in () if dry_run else gone:
            retire(session, job)
        data = {
            "dry_run": dry_run,
            "matched": page.total,
            "deleted": 0 if dry_run else len(gone),
            "job_ids": [job.id for job in gone],
        }
    service.carrier.wake()
    return plain(request, who, "Deleted jobs", data)


def _chosen(resource: Resource, request: Request, who: Identity) -> Selection:
    """What the filters choose of the jobs that somebody may delete.

    Raises:
        InvalidInput: there is no filter.
        Forbidden: they may delete none.
    """
    permission = f"{resource.permissions}.delete"
    if not who.rights.anywhere(permission):
        raise Forbidden(f"this needs the permission {permission}; ask an administrator")
    selection = selection_of(resource, request, who)
    if not selection.conditions:
        names = ", ".join(resource.filters)
        message = f"say which jobs: at least one of {names}"
        raise InvalidInput([Fault("", "required", message)])
    companies = who.rights.companies_with(permission)
    return Selection(companies, selection.conditions, limit=LARGEST_PAGE)
