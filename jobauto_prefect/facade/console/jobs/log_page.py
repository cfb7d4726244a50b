"""Addresses of a job's log and of its files: what came since, and all of it to be saved."""

from typing import Annotated

from fastapi import Query, Request, Response

from jobauto_prefect.console_addresses import CONSOLE
from jobauto_prefect.facade.console.contract import CurrentContract
from jobauto_prefect.facade.console.jobs.log_section import read_next_lines
from jobauto_prefect.facade.console.page_response import respond_in_console
from jobauto_prefect.facade.http import late_routes

LineNumber = Annotated[int, Query(ge=0, lt=2**31)]

router = late_routes.router(include_in_schema=False)


@router.get(f"{CONSOLE}/jobs/{{job_id:int}}/log")
async def show_next_lines(
    job_id: int,
    request: Request,
    contract: CurrentContract,
    after: LineNumber = 0,
    first: LineNumber = 1,
    state: str = "",
) -> Response:
    """Send the lines after one, and where to ask for more; a page whose job went on loads anew."""
    log = await read_next_lines(contract, job_id, after, first)
    answer = respond_in_console(request, contract.who, "jobs/next_lines.html", "", log=log)
    if log.state != state:
        answer.headers["HX-Refresh"] = "true"
    if log.begins_anew:
        answer.headers["HX-Retarget"] = "#lines"
        answer.headers["HX-Reswap"] = "innerHTML"
    return answer


@router.get(f"{CONSOLE}/jobs/{{job_id:int}}/log.txt")
async def download_log(job_id: int, contract: CurrentContract) -> Response:
    """Send all lines, to be saved."""
    headers = {"Content-Disposition": f'attachment; filename="job-{job_id}.txt"'}
    return contract.pass_on(f"/job/{job_id}/output.txt", headers)


@router.get(f"{CONSOLE}/artifacts/{{artifact_id:int}}")
async def download_artifact(artifact_id: int, contract: CurrentContract) -> Response:
    """Send a file as the contract does: to be saved, and nothing that a browser would run."""
    return contract.pass_on(f"/artifact/{artifact_id}")
