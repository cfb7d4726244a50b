"""Actions on a task that has ended: retry and excuse."""

from typing import Annotated, Any

from fastapi import APIRouter, Request, Response
from pydantic import Field, StringConstraints

from jobauto_prefect.errors import Conflict
from jobauto_prefect.facade.auth.identity import CurrentUser, Identity
from jobauto_prefect.facade.http.operations import WRITE_ERRORS, answered, operation
from jobauto_prefect.facade.http.parameters import number_key
from jobauto_prefect.facade.http.requests import Body, BodyFields, parse
from jobauto_prefect.facade.http.responses import respond_plain
from jobauto_prefect.facade.kinds.jobs import Job, serialize_job
from jobauto_prefect.facade.kinds.tasks import Task as ShownTask
from jobauto_prefect.facade.kinds.tasks import serialize_task
from jobauto_prefect.facade.service import CurrentService
from jobauto_prefect.jobs.windows import tasks
from jobauto_prefect.ledger.jobs.attempts import inactive_reason
from jobauto_prefect.ledger.queries.lookup import get_record
from jobauto_prefect.ledger.records import Task
from jobauto_prefect.ledger.store import ReadingSession

Why = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=1000)]


class ExcuseBody(Body):
    """Why a failed or missed window is acceptable."""

    why: Why = Field(description="The reason.")


TaskKey: Any = number_key("taskId", "task")
router = APIRouter()


@operation(
    router, "POST /task/{task_id}/retry.{suffix}", "retryTask", "Retry a task",
    "Reopens a failed or missed task and starts another attempt now; the new deadline is one "
    "window length from now. Needs `jobs.execute`.",
    tag="Tasks", answer=answered("The job of the attempt.", Job), errors=(409, 413, 415),
)  # fmt: skip
def retry(
    task_id: TaskKey, request: Request, who: CurrentUser, service: CurrentService
) -> Response:
    """Start another attempt at a failed or missed window now; return its job."""
    with service.ledger.writing(who.actor) as session:
        task = _get_task(session, task_id, who, "execute")
        reason = inactive_reason(task.runtemplate)
        if reason is not None:
            raise Conflict(f"{reason}; activate it first")
        job = tasks.retry_task(session, task, who.user_id)
        session.flush()
        shown = serialize_job(job, service.settings)
    service.outbox_worker.wake()
    return respond_plain(request, who, f"Retry of task {task_id}", shown)


@operation(
    router, "POST /task/{task_id}/excuse.{suffix}", "excuseTask", "Excuse a task",
    "Records why a failed or missed task is acceptable; its state does not change. Needs "
    "`jobs.update`.",
    tag="Tasks", answer=answered("The task.", ShownTask), errors=WRITE_ERRORS, body=ExcuseBody,
)  # fmt: skip
def excuse(
    task_id: TaskKey,
    fields: BodyFields,
    request: Request,
    who: CurrentUser,
    service: CurrentService,
) -> Response:
    """Record why a failed or missed task is acceptable."""
    body = parse(ExcuseBody, fields)
    with service.ledger.writing(who.actor) as session:
        task = _get_task(session, task_id, who, "update")
        tasks.excuse_task(session, task, body.why)
        shown = serialize_task(task, service.settings)
    return respond_plain(request, who, f"Excuse of task {task_id}", shown)


def _get_task(session: ReadingSession, task_id: int, who: Identity, action: str) -> Task:
    task = get_record(session, Task, task_id)
    who.rights.require("jobs", action, task.runtemplate.company_id, task)
    return task
