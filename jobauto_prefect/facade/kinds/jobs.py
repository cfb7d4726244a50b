"""Jobs, their output and artifacts, as shown and written."""

from collections.abc import Sequence
from datetime import datetime
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field, WithJsonSchema, field_validator
from pydantic.json_schema import JsonSchemaValue

from jobauto_prefect.definitions import EVENT_VARIABLES
from jobauto_prefect.definitions.environment_names import EnvironmentNames
from jobauto_prefect.definitions.records.value_rules import ValueRules
from jobauto_prefect.engine.message_handlers import prepare_starts
from jobauto_prefect.errors import Conflict, Fault, InvalidInput, NotFound
from jobauto_prefect.facade import answers
from jobauto_prefect.facade.answers import (
    Answer,
    JsonObject,
    Record,
    prefect_link,
    serialize_fields,
)
from jobauto_prefect.facade.http.field_types import Timestamp, parse_int, parse_text
from jobauto_prefect.facade.http.requests import Body
from jobauto_prefect.facade.http.requests import parse as parse_body
from jobauto_prefect.facade.kinds.resource import (
    TEMPLATE_NAME,
    Filter,
    Resource,
    choices,
    link,
    period,
    reference,
)
from jobauto_prefect.facade.writes.base import Id, Note, Ref, WriteRequest, WriteResult
from jobauto_prefect.facade.writes.env import (
    StoredValues,
    address_warnings,
    merge_values,
    short_secret_warnings,
)
from jobauto_prefect.facade.writes.executors import ExecutorName, require_allowed_executor
from jobauto_prefect.jobs import waits
from jobauto_prefect.jobs.outcome.cancellation import cancel
from jobauto_prefect.jobs.outcome.retry import inherit_values
from jobauto_prefect.kinds import KINDS
from jobauto_prefect.ledger import records
from jobauto_prefect.ledger.jobs import attempts
from jobauto_prefect.ledger.jobs.attempts import inactive_reason
from jobauto_prefect.ledger.outbox import OutboxKind, enqueue, enqueue_reschedule
from jobauto_prefect.ledger.queries.jobs import artifacts_of, last_output_of
from jobauto_prefect.ledger.queries.lookup import get_record
from jobauto_prefect.ledger.queries.run_templates import template_with_context
from jobauto_prefect.ledger.records import RunTemplate
from jobauto_prefect.ledger.states import LIVE_JOBS, JobState
from jobauto_prefect.ledger.store import ReadingSession
from jobauto_prefect.logs import current_log_context
from jobauto_prefect.settings import Settings

Severity = Literal["success", "info", "warning", "error", "critical"]


class Job(Record):
    """One attempt to run a run template; in lists without its output."""

    app_id: int = Field(description="The application.")
    company_id: int = Field(description="The company.")
    runtemplate_id: int = Field(description="The run template.")
    task_id: int | None = Field(description="The task it is an attempt at; null: none.")
    attempt: int = Field(description="Number of the attempt, from 1.")
    retry_of: int | None = Field(
        description="If this is a later attempt: the first attempt. In requests: an ended job, to "
        "run again with its run template and its own values."
    )
    event_id: int | None = Field(description="The event that started it; null: none.")
    eventrule_id: int | None = Field(description="The event rule that started it.")
    state: JobState = Field(description="Its state.")
    severity: Severity | None = Field(description="What the exit code means.")
    message: str | None = Field(description="A one-line message.")
    exitcode: int | None = Field(
        title="Exit code", description="The command's exit code; null: none yet."
    )
    schedule: datetime = Field(title="Scheduled for", description="When it is due.")
    schedule_type: str = Field(description="What created it: a schedule, an event, or a user.")
    begin: datetime | None = Field(title="Began", description="When it started; null: not yet.")
    end: datetime | None = Field(title="Ended", description="When it ended; null: not yet.")
    executor: str = Field(
        description="What runs the command: Native, Docker, Podman, Kubernetes, or an executor "
        "that a package adds."
    )
    launched_by: int | None = Field(description="The user who started it.")
    app_version: str | None = Field(
        title="Application version",
        description="The version of the application's definition that ran.",
    )
    command: str | None = Field(description="The command line as it ran, secrets masked.")
    env: dict[str, str] = Field(
        title="Environment",
        description="Values by environment key; secret ones are masked in answers. null removes a "
        "value.",
    )
    undeclared: list[str] = Field(
        description="Environment keys whose values were left out because the definition does not "
        "declare them."
    )
    warnings: list[answers.Fault] = Field(description="What was accepted but is probably wrong.")
    worker: str | None = Field(description="The worker that runs it.")
    pid: int | None = Field(description="Its process id on the worker's machine.")
    cancel_reason: str | None = Field(description="Why its cancellation was requested.")
    note: str | None = Field(description="Free text.")
    waits_for: str | None = Field(
        description="Why a due job does not start; null: it is not due, or may start at any moment."
    )
    flow_run_id: str | None = Field(description="The flow run in Prefect.")
    prefect_url: str | None = Field(
        description="Address of its page in Prefect's UI; null: it is not in Prefect yet."
    )


class Artifact(Answer):
    """A file produced by a job."""

    id: int = Field(description="The record's id.")
    href: str = Field(description="Where to download it.")
    name: str = Field(description="Display name.")
    path: str = Field(description="Relative to the job's directory.")
    type: str = Field(description="The kind of artifact, as the definition declares it.")
    content_type: str = Field(description="The media type the worker detected.")
    size: int = Field(description="In bytes.")
    created_at: datetime = Field(description="When it was created.")


class JobWithOutput(Job):
    """A job with its artifacts and the end of its output."""

    stdout: str = Field(
        title="Standard output", description="The end of its standard output, at most 64 KiB."
    )
    stderr: str = Field(
        title="Standard error", description="The end of its standard error, at most 64 KiB."
    )
    artifacts: list[Artifact] = Field(description="The files it produced.")


class OutputLine(Answer):
    """One line of output."""

    seq: int = Field(description="Number of the line within its job, from 1.")
    stream: Literal["stdout", "stderr", "notice"] = Field(
        description="The stream it was written to; `notice`: a message from the worker."
    )
    text: str = Field(description="The text without its line ending.")
    at: datetime = Field(description="When it was written.")


class Output(Answer):
    """Lines of a job's output."""

    job_id: int = Field(description="The job.")
    lines: list[OutputLine] = Field(description="The lines, in order.")
    last: int = Field(description="The number of the last line: `after` for the next request.")
    state: JobState = Field(description="The job's state.")


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
"""The entry points recorded in jobs; all others count as REST."""


class JobBody(Body):
    """A run of a template now or at `scheduled`; with an id, a change or cancellation.

    `retry_of` is an ended job: the new job gets that job's run template and own values. `scheduled`
    is "now", ISO 8601, or `Y-m-d H:i:s` in UTC.
    """

    record: ClassVar = Job

    runtemplate_id: Ref | None = None
    retry_of: Id | None = None
    scheduled: Annotated[Timestamp | None, WithJsonSchema(SCHEDULED)] = Field(
        default=None,
        description="When to run: `now` (the default), an ISO 8601 time, or `Y-m-d H:i:s` in UTC.",
    )
    executor: ExecutorName | None = Field(
        default=None,
        description="Used instead of the run template's `executor`; one of its `executors`.",
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
    """Write a job; without an id a new one, committed with the message that creates its flow run.

    Raises:
        NotFound: the template or job does not exist, or the user may not see it.
        Conflict: the template is not active, or the job is no longer waiting.
    """
    body = parse_body(JobBody, write.fields)
    if write.record_id is not None:
        return WriteResult(_change_job(write, body), created=False)
    retried = _job_to_retry(write, body)
    if body.runtemplate_id is None:
        fault = Fault(
            "/runtemplate_id", "required", "runtemplate_id is required: the run template to start"
        )
        raise InvalidInput([fault])
    template = template_with_context(write.session, body.runtemplate_id)
    write.who.rights.require("jobs", "create", template.company_id, template)
    if reason := inactive_reason(template):
        raise Conflict(f"{reason}; activate it first")
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
    starts = {message: prepare_starts(write.session, [job], write.box)[0]} if own else {}
    return WriteResult(job, created=True, warnings=warnings, starts=starts)


def _job_to_retry(write: WriteRequest, body: JobBody) -> records.Job | None:
    """Return the job to repeat, and set its template in the body; None if it is not a retry.

    Raises:
        Conflict: it has not ended, is being retried already, or is an attempt for a task.
    """
    if body.retry_of is None:
        return None
    job = get_record(write.session, records.Job, body.retry_of)
    write.who.rights.require("jobs", "read", job.company_id, job)
    if body.runtemplate_id not in (None, job.runtemplate_id):
        message = (
            f"job {job.id} belongs to run template {job.runtemplate_id}; leave runtemplate_id out"
        )
        raise InvalidInput([Fault("/runtemplate_id", "mismatch", message)])
    attempts.lock_job(write.session, job)
    if job.state in LIVE_JOBS:
        raise Conflict(f"job {job.id} is {job.state}; cancel it first, or wait until it ends")
    if job.task_id is not None:
        raise Conflict(f"job {job.id} is an attempt for task {job.task_id}; retry that task")
    follower = attempts.follower_of(write.session, job)
    if follower is not None:
        raise Conflict(f"job {follower.id} already retries it, at {follower.schedule}")
    body.runtemplate_id = job.runtemplate_id
    return job


def _apply_overrides(
    write: WriteRequest,
    job: records.Job,
    template: RunTemplate,
    body: JobBody,
    retried: records.Job | None,
) -> list[Fault]:
    """Apply the values of this job; return warnings about omitted values and short secrets."""
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
    retried: records.Job | None, names: EnvironmentNames
) -> tuple[StoredValues, dict[str, str], list[Fault]]:
    """Return what a retry takes from the job it repeats: its own values and those of its event.

    The warnings name each omitted value.
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


def _change_job(write: WriteRequest, body: JobBody) -> records.Job:
    """Cancel a job, or change its editable fields while it waits."""
    job = get_record(write.session, records.Job, write.record_id or 0)
    if body.state == "cancelled":
        write.who.rights.require("jobs", "execute", job.company_id, job)
        cancel(write.session, job, body.reason or f"cancelled by {write.session.actor.name}")
        return job
    write.who.rights.require("jobs", "update", job.company_id, job)
    fixed = {name for name in body.model_fields_set if getattr(body, name)} - {"scheduled", "note"}
    if fixed:
        message = (
            'only scheduled and note can be changed; to cancel the job, send "state": "cancelled"'
        )
        raise InvalidInput([Fault(f"/{name}", "fixed", message) for name in sorted(fixed)])
    if not body.model_fields_set:
        return job
    attempts.lock_job(write.session, job)
    if job.state != JobState.SCHEDULED:
        raise Conflict(f"the job is {job.state}; only a scheduled one can be changed")
    if "note" in body.model_fields_set:
        job.note = body.note
    if "scheduled" in body.model_fields_set:
        job.schedule = body.scheduled or write.session.clock()
        enqueue_reschedule(write.session, job.id)
    return job


MAX_OUTPUT_BYTES = 64 * 1024


def serialize_job(job: records.Job, settings: Settings) -> JsonObject:
    """Return a job as lists show it: without output and artifacts.

    Wait reasons depend on other records: see `add_wait_reasons`.
    """
    link = prefect_link(settings, "runs/flow-run", job.flow_run_id)
    return serialize_fields(Job, job, waits_for=None, prefect_url=link)


def add_wait_reasons(
    session: ReadingSession,
    listed: Sequence[records.Job],
    shown: Sequence[JsonObject],
    settings: Settings,
    now: datetime,
) -> None:
    """Add the reasons why jobs wait."""
    reasons = waits.wait_reasons(session, listed, settings, now)
    for record in shown:
        record["waits_for"] = reasons.get(record["id"])


def serialize_artifact(artifact: records.Artifact) -> JsonObject:
    """Return an artifact without its content."""
    return serialize_fields(Artifact, artifact, href=f"/api/v1/artifact/{artifact.id}")


def _tail_of(lines: Sequence[records.OutputLine], stream: str) -> str:
    text = "".join(
        f"{line.text}\n" if line.is_gap or line.written.endswith(b"\n") else line.text
        for line in lines
        if line.stream == stream
    )
    return text.encode()[-MAX_OUTPUT_BYTES:].decode(errors="ignore")


def serialize_line(line: records.OutputLine) -> JsonObject:
    """Return one line of output as answers show it."""
    return serialize_fields(OutputLine, line)


def _written(job: records.Job) -> JsonObject:
    """Return the id by its published name; the request's log lines name the job, too."""
    current_log_context().job_id = job.id
    return {"job_id": job.id}


def _details(session: ReadingSession, job: records.Job, _settings: Settings) -> JsonObject:
    has_begun = job.begin is not None  # there is no output before
    lines = last_output_of(session, job.id) if has_begun else ()
    artifacts = artifacts_of(session, job.id) if has_begun else ()
    return {
        "stdout": _tail_of(lines, "stdout"),
        "stderr": _tail_of(lines, "stderr"),
        "artifacts": [serialize_artifact(artifact) for artifact in artifacts],
    }


def _describe_change(body: JsonObject) -> JsonObject:
    """Derive the schema of a job's editable fields from that of its body."""
    changing = ("scheduled", "note", "state", "reason", "id", "job_id")
    return {
        **body,
        "description": "`scheduled` and `note` of a waiting job; or `state` to cancel it.",
        "properties": {name: dict(body["properties"][name]) for name in changing},
        "if": {"required": ["reason"]},
        "then": {"required": ["state"]},
    }


RESOURCE = Resource(
    KINDS["job"], records.Job, Job, serialize_job, write_job,
    filters={
        "state": choices("state", tuple(JobState)),
        "runtemplate_id": reference("runtemplate"),
        "runtemplate": TEMPLATE_NAME,
        "company_id": reference("company"),
        "app_id": reference("app"),
        **period("schedule"),
        **period("end", "ended_"),
        "message": Filter("message", parse_text, "contains"),
        "worker": Filter("worker", parse_text),
        "retry_of": Filter("retry_of", parse_int),
    },
    body=JobBody, detail=JobWithOutput, details=_details, written=_written,
    change=_describe_change, annotate=add_wait_reasons, unresolved=NotFound,
    note=" Without an id, the request schedules a run, now or at `scheduled`. With an id, it "
    "changes `scheduled` and `note` of a waiting job; `state` `cancelled` cancels the job "
    "(this needs `jobs.execute`).",
    deletion="Deletes a job that has ended and belongs to no task.",
    links={"output": link("getOutput", "jobId")},
    repeated={"job_id": {"type": "integer", "description": "The same as `id`."}},
)  # fmt: skip
