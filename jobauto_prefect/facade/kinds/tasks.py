"""Tasks, as shown."""

from datetime import datetime

from pydantic import Field

from jobauto_prefect.facade.answers import JsonObject, Record, serialize_fields
from jobauto_prefect.facade.http.field_types import parse_int
from jobauto_prefect.facade.kinds.jobs import Job, serialize_job
from jobauto_prefect.facade.kinds.resource import (
    TEMPLATE_NAME,
    Filter,
    Resource,
    choices,
    period,
    reference,
)
from jobauto_prefect.kinds import KINDS
from jobauto_prefect.ledger import records
from jobauto_prefect.ledger.queries.jobs import attempts_of
from jobauto_prefect.ledger.states import TaskReason, TaskState
from jobauto_prefect.settings import Settings


class Task(Record):
    """The obligation to run a template once in a window."""

    runtemplate_id: int = Field(description="The run template.")
    company_id: int = Field(description="The company of the run template.")
    state: TaskState = Field(description="Its state.")
    reason: TaskReason | None = Field(description="Why it is in this state.")
    message: str | None = Field(description="A one-line message.")
    attempts: int = Field(description="How many attempts were made.")
    fulfilled_by_job_id: int | None = Field(
        title="Fulfilled by", description="The job that fulfilled it."
    )
    excuse: str | None = Field(
        description="Why it is acceptable that the window failed or was missed."
    )
    excused_by: str | None = Field(description="Who excused it.")
    window_start: datetime = Field(description="Start of the window.")
    window_end: datetime = Field(description="End of the window, exclusive.")
    deadline: datetime = Field(description="The time by which the task must be fulfilled.")
    fulfilled_at: datetime | None = Field(description="When it was fulfilled.")


class TaskWithJobs(Task):
    """A task with all its attempts."""

    jobs: list[Job] = Field(description="Its attempts, the first one first.")


def serialize_task(task: records.Task, _settings: Settings) -> JsonObject:
    """Return a task as answers show it; its own page also has its attempts."""
    return serialize_fields(Task, task, company_id=task.runtemplate.company_id)


RESOURCE = Resource(
    KINDS["task"], records.Task, Task, serialize_task,
    filters={
        "state": choices("state", tuple(TaskState)),
        "runtemplate_id": reference("runtemplate"),
        "runtemplate": TEMPLATE_NAME,
        "company_id": Filter("company_id", parse_int, "company", refers_to="company"),
        **period("window_start"),
    },
    detail=TaskWithJobs,
    details=lambda session, task, settings: {
        "jobs": [serialize_job(job, settings) for job in attempts_of(session, task.id)],
    },
)  # fmt: skip
