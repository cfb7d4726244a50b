"""POST /job/: schedule a run, change one that waits, cancel one."""

from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field, WithJsonSchema, field_validator
from pydantic.json_schema import JsonSchemaValue

from jobauto_prefect.definitions import EVENT_VARIABLES
from jobauto_prefect.definitions.environment_names import EnvironmentNames
from jobauto_prefect.definitions.records.value_rules import ValueRules
from jobauto_prefect.errors import Conflict, Fault, InvalidInput
from jobauto_prefect.facade.http.field_types import Timestamp
from jobauto_prefect.facade.http.requests import Body
from jobauto_prefect.facade.http.requests import parse as parse_body
from jobauto_prefect.facade.models import jobs
from jobauto_prefect.facade.writes.base import Id, Note, Ref, WriteRequest, WriteResult
from jobauto_prefect.facade.writes.env import (
    StoredValues,
    address_warnings,
    merge_values,
    short_secret_warnings,
)
from jobauto_prefect.facade.writes.executors import ExecutorName, require_allowed_executor
from jobauto_prefect.jobs.outcome.cancellation import cancel
from jobauto_prefect.jobs.outcome.retry import inherit_values
from jobauto_prefect.ledger.jobs import attempts
from jobauto_prefect.ledger.jobs.attempts import inactive_reason
from jobauto_prefect.ledger.outbox import OutboxKind, enqueue
from jobauto_prefect.ledger.queries.lookup import get_record
from jobauto_prefect.ledger.queries.run_templates import template_with_context
from jobauto_prefect.ledger.records import Job, RunTemplate
from jobauto_prefect.ledger.states import LIVE_JOBS, JobState

SCHEDULED: JsonSchemaValue = {
    "anyOf": [
        {"type": "string", "format": "date-time"},
        {
            "type": "string",
            "pattern": "^20[0-9]{2}-(0[1-9]|1[0-2])-(0[1-9]|1[0-9]|2[0-8])"
            " ([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9]$",
        },
        {"enum": ["now", "", None]},
    ]
}


APART = ("cli", "console")
"""The ways in that jobs name; all others are REST."""


class JobBody(Body):
    """A run of a template now or at `scheduled`; with an id its change or cancellation.

    `retry_of` is a job that is over: a new one gets its run template and the values it alone had.
    `scheduled` is "now", ISO 8601, or `Y-m-d H:i:s` in UTC.
    """

    record: ClassVar = jobs.Job

    runtemplate_id: Ref | None = None
    retry_of: Id | None = None
    scheduled: Annotated[Timestamp | None, WithJsonSchema(SCHEDULED)] = Field(
        default=None,
        description="When to run: `now` (the default), an ISO 8601 time, or `Y-m-d H:i:s` in UTC.",
    )
    executor: ExecutorName | None = Field(
        default=None, description="Instead of the run template's; one of its `executors`."
    )
    env: dict[str, Any] = Field(default_factory=dict)
    state: Literal["cancelled"] | None = Field(
        default=None, description="`cancelled` ends the job."
    )
    reason: Note | None = Field(default=None, description="Why it is cancelled.")
    note: Note | None = None

    @field_validator("scheduled", mode="before")
    @classmethod
    def _now(cls, value: Any) -> Any:
        return None if value in ("", "now") else value


def write_job(write: WriteRequest) -> WriteResult:
    """Write a job: without an id a new one, committed with the message that makes its flow run.

    Raises:
        NotFound: there is no such template or job, or this person may not see it.
        Conflict: the template is not active, or the job does not wait any more.
    """
    body = parse_body(JobBody, write.fields)
    if write.record_id is not None:
        return WriteResult(_change_job(write, body), created=False)
    retried = _job_to_retry(write, body)
    if body.runtemplate_id is None:
        fault = Fault("/runtemplate_id", "required", "runtemplate_id is required: what to run")
        raise InvalidInput([fault])
    template = template_with_context(write.session, body.runtemplate_id)
    write.who.rights.require("jobs", "create", template.company_id, template)
    _require_active(template)
    job = attempts.new_job(
        template,
        schedule=body.scheduled or write.session.clock(),
        schedule_type=f"adhoc-{door if (door := write.who.actor.door) in APART else 'api'}",
    )
    job.launched_by, job.note = write.who.user_id, body.note
    if retried is not None:
        job.attempt, job.retry_of = retried.attempt + 1, retried.retry_of or retried.id
        inherit_values(job, retried)
    warnings = _apply_overrides(write, job, template, body, retried)
    write.session.add(job)
    write.session.flush()
    own = write.outbox_worker is not None and write.outbox_worker.is_running
    message = enqueue(write.session, OutboxKind.CREATE_RUN, job.id, own=own)
    return WriteResult(job, created=True, warnings=warnings, messages=[message])


def _job_to_retry(write: WriteRequest, body: JobBody) -> Job | None:
    """Return the job to run once more, with its template in the body; None: a job of its own.

    Raises:
        Conflict: it is not over, is tried again already, or is an attempt for a task.
    """
    if body.retry_of is None:
        return None
    job = get_record(write.session, Job, body.retry_of)
    write.who.rights.require("jobs", "read", job.company_id, job)
    if body.runtemplate_id not in (None, job.runtemplate_id):
        message = f"job {job.id} is one of run template {job.runtemplate_id}"
        raise InvalidInput([Fault("/runtemplate_id", "mismatch", message)])
    attempts.lock_job(write.session, job)
    if job.state in LIVE_JOBS:
        raise Conflict(f"job {job.id} is {job.state}; cancel it first, or wait for its end")
    if job.task_id is not None:
        raise Conflict(f"job {job.id} is an attempt for task {job.task_id}; retry that task")
    follower = attempts.follower_of(write.session, job)
    if follower is not None:
        raise Conflict(f"job {follower.id} tries it again already, at {follower.schedule}")
    body.runtemplate_id = job.runtemplate_id
    return job


def _require_active(template: RunTemplate) -> None:
    if reason := inactive_reason(template):
        raise Conflict(f"{reason}; activate it first")


def _apply_overrides(
    write: WriteRequest, job: Job, template: RunTemplate, body: JobBody, retried: Job | None
) -> list[Fault]:
    """Apply the values of this job; return warnings: values left out, short secrets."""
    definition, extra = template.app.definition, write.settings.extra_env
    secret = definition.secret_keys
    given = {name: value for name, value in body.env.items() if value is not None}
    inherited, event_values, warnings = _inherited_values(
        retried, EnvironmentNames.of(definition, extra)
    )
    values = merge_values(inherited, given, secret, write.box, ValueRules(definition, extra))
    job.overrides, job.override_secrets = event_values | values.env, values.secrets
    files = retried.input_files if retried else {}
    job.input_files = {key: artifact_id for key, artifact_id in files.items() if key not in given}
    job.env = values.shown()
    if body.executor is not None:
        require_allowed_executor(body.executor, template)
        job.executor = body.executor
    warnings += address_warnings(body.env, definition)
    return [*warnings, *short_secret_warnings(body.env, secret)]


def _inherited_values(
    retried: Job | None, names: EnvironmentNames
) -> tuple[StoredValues, dict[str, str], list[Fault]]:
    """Return what a job has of the one it repeats: values, what that was told of its event.

    The warnings name each value that is left out.
    """
    if retried is None:
        return StoredValues({}, {}), {}, []
    event_values = {
        name: text for name, text in retried.overrides.items() if name in EVENT_VARIABLES
    }
    env = {name: text for name, text in retried.overrides.items() if names.permits(name)}
    secrets = {name: text for name, text in retried.override_secrets.items() if names.permits(name)}
    given = {*retried.overrides, *retried.override_secrets} - {*event_values, *env, *secrets}
    left_out = [
        Fault(fault.pointer, fault.rule, f"left out: {fault.message}")
        for fault in names.faults(sorted(given))
    ]
    return StoredValues(env, secrets), event_values, left_out


def _refuse_fixed(body: JobBody) -> None:
    fixed = {name for name in body.model_fields_set if getattr(body, name)} - {"scheduled", "note"}
    if fixed:
        message = 'of a job, scheduled and note can be changed, or send "state": "cancelled"'
        raise InvalidInput([Fault(f"/{name}", "fixed", message) for name in sorted(fixed)])


def _change_job(write: WriteRequest, body: JobBody) -> Job:
    """Cancel a job, or change what may change while it waits."""
    job = get_record(write.session, Job, write.record_id or 0)
    if body.state == "cancelled":
        write.who.rights.require("jobs", "execute", job.company_id, job)
        cancel(write.session, job, body.reason or f"cancelled by {write.session.actor.name}")
        return job
    write.who.rights.require("jobs", "update", job.company_id, job)
    _refuse_fixed(body)
    if not body.model_fields_set:
        return job
    attempts.lock_job(write.session, job)
    if job.state != JobState.SCHEDULED:
        raise Conflict(f"the job is {job.state}; only a scheduled one can be changed")
    if "note" in body.model_fields_set:
        job.note = body.note
    if "scheduled" in body.model_fields_set:
        job.schedule = body.scheduled or write.session.clock()
        enqueue(write.session, OutboxKind.RESCHEDULE_RUN, job.id)
    return job
