"""The records of jobs and their output, as responses show them."""

from datetime import datetime
from typing import Literal

from pydantic import BaseModel, Field

from jobauto_prefect.facade.models.common import Fault, Record
from jobauto_prefect.ledger.states import JobState

Severity = Literal["success", "info", "warning", "error", "critical"]


class Job(Record):
    """One attempt to run a run template; in lists without its output."""

    app_id: int = Field(description="The application.")
    company_id: int = Field(description="The company.")
    runtemplate_id: int = Field(description="The run template.")
    task_id: int | None = Field(description="The task; null: nobody owed this run.")
    attempt: int = Field(description="Counts the attempts for one task, from 1.")
    retry_of: int | None = Field(
        description="The first attempt, where it is another one; written: a job that is over, to "
        "run once more with its run template and its own values."
    )
    event_id: int | None = Field(description="The event that started it; null: none.")
    eventrule_id: int | None = Field(description="The event rule.")
    state: JobState = Field(description="Where it stands.")
    severity: Severity | None = Field(description="What the exit code means.")
    message: str | None = Field(description="One line for people.")
    exitcode: int | None = Field(
        title="Exit code", description="What the command returned; null: nothing yet."
    )
    schedule: datetime = Field(title="Scheduled for", description="When it is due.")
    schedule_type: str = Field(description="What it comes from: a schedule, an event, or somebody.")
    begin: datetime | None = Field(title="Began", description="When it started; null: it has not.")
    end: datetime | None = Field(title="Ended", description="When it ended; null: it has not.")
    executor: str = Field(
        description="What runs the command: one of these, or one that a package adds."
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
        description="Environment keys that had values and were left out, because the definition "
        "does not declare them."
    )
    warnings: list[Fault] = Field(description="What is allowed and surely wrong.")
    worker: str | None = Field(description="The worker that runs it.")
    pid: int | None = Field(description="The number of its process on the worker's machine.")
    cancel_reason: str | None = Field(description="Why it was asked to end.")
    note: str | None = Field(description="Free text.")
    waits_for: str | None = Field(
        description="Why a job that is due does not start; null: it is not due, or may start any "
        "moment."
    )
    flow_run_id: str | None = Field(description="The flow run in Prefect.")
    prefect_url: str | None = Field(
        description="Its page in Prefect's UI; null: Prefect does not know of it yet."
    )


class Artifact(BaseModel):
    """A file that a job left behind."""

    id: int = Field(description="The number of the record.")
    href: str = Field(description="Where to download it.")
    name: str = Field(description="The name for people.")
    path: str = Field(description="Relative to the job's directory.")
    type: str = Field(description="The kind of artifact, as the definition says.")
    content_type: str = Field(description="The media type the worker found.")
    size: int = Field(description="In bytes.")
    created_at: datetime = Field(description="When it was made.")


class JobWithOutput(Job):
    """A job with the end of its output and its artifacts."""

    stdout: str = Field(
        title="Standard output", description="The end of its standard output, at most 64 KiB."
    )
    stderr: str = Field(
        title="Standard error", description="The end of its standard error, at most 64 KiB."
    )
    artifacts: list[Artifact] = Field(description="The files the job left behind.")


class OutputLine(BaseModel):
    """One line of output."""

    seq: int = Field(description="Counts the lines of a job, from 1.")
    stream: Literal["stdout", "stderr", "notice"] = Field(
        description="Where it was written; `notice`: the worker's own word."
    )
    text: str = Field(description="The text without its end of line.")
    at: datetime = Field(description="When it was written.")


class Output(BaseModel):
    """Lines of a job's output."""

    job_id: int = Field(description="The job.")
    lines: list[OutputLine] = Field(description="The lines, in their order.")
    last: int = Field(description="The number of the last line: `after` for the next request.")
    state: JobState = Field(description="Where it stands.")
