"""Records of tasks, jobs, leases, output and artifacts."""

from datetime import datetime
from typing import Any, ClassVar
from uuid import UUID

from sqlalchemy import (
    JSON,
    ColumnElement,
    ForeignKey,
    Index,
    LargeBinary,
    Text,
    UniqueConstraint,
    func,
    text,
)
from sqlalchemy.ext.hybrid import hybrid_property
from sqlalchemy.orm import Mapped, mapped_column, relationship

from jobauto_prefect.ledger.base import (
    SEALED,
    UNAUDITED,
    Audited,
    Base,
    BigId,
    Retirable,
    ordered_by,
)
from jobauto_prefect.ledger.records.applications import RunTemplate
from jobauto_prefect.ledger.states import JobState, TaskState


class Task(Audited, Base):
    """The obligation for one window `[window_start, window_end)` of a run template.

    `attempts` counts those that began. `reason` is the rule that ended it, `message` says more.
    `catch_up` marks a window that passed unattended and waits for its turn; its deadline counts
    from then on. `excuse` is somebody's reason to accept its end.
    """

    __tablename__ = "task"
    __table_args__ = (
        UniqueConstraint("runtemplate_id", "window_start"),
        Index("ix_task_state_deadline", "state", "deadline"),
        *ordered_by(
            "task",
            "runtemplate_id",
            "window_start",
            "window_end",
            "deadline",
            "state",
            "reason",
            "attempts",
            "fulfilled_by_job_id",
            "fulfilled_at",
            "created_at",
        ),
    )
    entity_name: ClassVar[str] = "Task"

    id: Mapped[int] = mapped_column(BigId, primary_key=True)
    runtemplate_id: Mapped[int] = mapped_column(ForeignKey("runtemplate.id"))
    window_start: Mapped[datetime]
    window_end: Mapped[datetime]
    deadline: Mapped[datetime]
    state: Mapped[str] = mapped_column(default=TaskState.OPEN)
    reason: Mapped[str | None]
    message: Mapped[str | None] = mapped_column(Text)
    attempts: Mapped[int] = mapped_column(default=0)
    catch_up: Mapped[bool] = mapped_column(default=False)
    excuse: Mapped[str | None] = mapped_column(Text)
    excused_by: Mapped[str | None]
    fulfilled_by_job_id: Mapped[int | None] = mapped_column(BigId)
    fulfilled_at: Mapped[datetime | None]
    created_at: Mapped[datetime] = mapped_column(info=UNAUDITED)

    runtemplate: Mapped[RunTemplate] = relationship()


class Job(Audited, Retirable, Base):
    """One attempt.

    `env` and `command` are for people: secrets are masked in them. `overrides` are the values
    requested for this job, `override_secrets` the encrypted ones among them. `policy` has the exit
    codes of the definition and the template's rules as of the claim. `retry_of` is the first
    attempt of a job without a task. `pid` is of its leading process. `input_files`: environment key
    -> id of the artifact whose copy it names. `worker_losses` counts its predecessors with the same
    attempt number, which no worker was able to start. `warnings` are faults in what it received and
    produced. `traceparent` continues its trace (W3C Trace Context).
    """

    __tablename__ = "job"
    __table_args__ = (
        UniqueConstraint("flow_run_id", "run_number"),
        *ordered_by(
            "job",
            "app_id",
            "company_id",
            "runtemplate_id",
            "task_id",
            "attempt",
            "retry_of",
            "state",
            "severity",
            "exitcode",
            "schedule",
            "schedule_type",
            "begin",
            "end",
            "executor",
            "event_id",
            "eventrule_id",
            "launched_by",
            "flow_run_id",
            "pid",
            "created_at",
        ),
        # Counting all jobs, or those of a template, must not read them.
        Index(
            "ix_job_runtemplate_states",
            "runtemplate_id",
            "state",
            "schedule",
            sqlite_where=text("retired_at IS NULL"),
            postgresql_where=text("retired_at IS NULL"),
        ),
        Index(
            "ix_job_active",
            "id",
            sqlite_where=text("retired_at IS NULL"),
            postgresql_where=text("retired_at IS NULL"),
        ),
        # Waiting jobs are read in the order in which they are due.
        Index(
            "ix_job_state_schedule",
            "state",
            "schedule",
            "id",
            sqlite_where=text("retired_at IS NULL"),
            postgresql_where=text("retired_at IS NULL"),
        ),
        # Ends are counted by day and state without reading the jobs.
        Index(
            "ix_job_ended",
            "state",
            "end",
            "company_id",
            "retired_at",  # otherwise SQLite would read the job for it
            sqlite_where=text("retired_at IS NULL"),
            postgresql_where=text("retired_at IS NULL"),
        ),
        # Monitoring counts them all at each scrape.
        Index(
            "ix_job_figures",
            "company_id",
            "state",
            "severity",
            sqlite_where=text("retired_at IS NULL"),
            postgresql_where=text("retired_at IS NULL"),
        ),
        # One flow run, one process; one task, one live attempt: the database enforces it.
        Index(
            "uq_job_live_flow_run",
            "flow_run_id",
            unique=True,
            sqlite_where=text("state = 'running'"),
            postgresql_where=text("state = 'running'"),
        ),
        Index(
            "uq_job_live_task",
            "task_id",
            unique=True,
            sqlite_where=text("state = 'running'"),
            postgresql_where=text("state = 'running'"),
        ),
    )
    entity_name: ClassVar[str] = "Job"

    id: Mapped[int] = mapped_column(BigId, primary_key=True)
    app_id: Mapped[int] = mapped_column(ForeignKey("app.id"))
    company_id: Mapped[int] = mapped_column(ForeignKey("company.id"))
    runtemplate_id: Mapped[int] = mapped_column(ForeignKey("runtemplate.id"))
    task_id: Mapped[int | None] = mapped_column(ForeignKey("task.id"))
    attempt: Mapped[int] = mapped_column(default=1)
    retry_of: Mapped[int | None] = mapped_column(ForeignKey("job.id"))
    worker_losses: Mapped[int] = mapped_column(default=0, info=UNAUDITED)
    state: Mapped[str] = mapped_column(default=JobState.SCHEDULED)
    severity: Mapped[str | None]
    message: Mapped[str | None] = mapped_column(Text)
    exitcode: Mapped[int | None]
    schedule: Mapped[datetime]
    schedule_type: Mapped[str]
    begin: Mapped[datetime | None]
    end: Mapped[datetime | None]
    executor: Mapped[str]
    event_id: Mapped[int | None] = mapped_column(BigId)
    eventrule_id: Mapped[int | None]
    launched_by: Mapped[int | None] = mapped_column(ForeignKey("user.id"))
    app_version: Mapped[str | None]
    command: Mapped[str | None] = mapped_column(Text)
    env: Mapped[dict[str, str]] = mapped_column(default=dict)
    undeclared: Mapped[list[str]] = mapped_column(default=list)
    warnings: Mapped[list[dict[str, Any]]] = mapped_column(JSON, default=list, info=UNAUDITED)
    overrides: Mapped[dict[str, str]] = mapped_column(default=dict)
    override_secrets: Mapped[dict[str, str]] = mapped_column(default=dict, info=SEALED)
    input_files: Mapped[dict[str, int]] = mapped_column(default=dict)
    policy: Mapped[dict[str, Any]] = mapped_column(default=dict, info=UNAUDITED)
    cancel_reason: Mapped[str | None]
    note: Mapped[str | None] = mapped_column(Text)
    flow_run_id: Mapped[UUID | None]
    run_number: Mapped[int | None]
    claim_id: Mapped[UUID | None] = mapped_column(unique=True, info=UNAUDITED)
    traceparent: Mapped[str | None] = mapped_column(info=UNAUDITED)
    worker: Mapped[str | None]
    pid: Mapped[int | None]
    created_at: Mapped[datetime] = mapped_column(info=UNAUDITED)

    runtemplate: Mapped[RunTemplate] = relationship()
    task: Mapped[Task | None] = relationship()

    @hybrid_property
    def begun_or_due(self) -> datetime:
        """When it began; when it is due, if it has not begun."""
        return self.begin or self.schedule

    @begun_or_due.inplace.expression
    @classmethod
    def _begun_or_due(cls) -> ColumnElement[datetime]:
        return func.coalesce(cls.begin, cls.schedule)


class JobTally(Base):
    """The number of a company's unretired jobs in a state: the sum of `number`.

    Triggers insert a row for each change and update none, so that nobody waits for others. Services
    merge the rows (`ledger/tallies.py`).
    """

    __tablename__ = "job_tally"

    id: Mapped[int] = mapped_column(BigId, primary_key=True)
    company_id: Mapped[int]
    state: Mapped[str]
    number: Mapped[int] = mapped_column(BigId)


class Lease(Base):
    """The sign of life of a job; it exists exactly while the job's report counts.

    At `ends_by` its timeout has certainly ended it. None: it is lost and its process is gone; until
    another attempt is granted, or its task has ended, a report of it still counts. `instance` is
    the start of the worker that got it, None: from before this column; `granted_renewal` is the
    number of that instance's last renewal at the grant.
    """

    __tablename__ = "lease"

    job_id: Mapped[int] = mapped_column(ForeignKey("job.id", ondelete="CASCADE"), primary_key=True)
    worker: Mapped[str] = mapped_column(index=True)
    instance: Mapped[UUID | None]
    granted_renewal: Mapped[int] = mapped_column(default=0)
    claim_id: Mapped[UUID]
    directory: Mapped[str]
    renewed_at: Mapped[datetime]
    ends_by: Mapped[datetime | None]


class OutputLine(Base):
    """One line of a job's output; `seq` counts from 1 over all its streams.

    `raw` are the written bytes, secrets masked; None if they are the text and a newline, empty if
    the text says how much is missing.
    """

    __tablename__ = "job_output_line"

    job_id: Mapped[int] = mapped_column(ForeignKey("job.id", ondelete="CASCADE"), primary_key=True)
    seq: Mapped[int] = mapped_column(primary_key=True)
    stream: Mapped[str]
    text: Mapped[str] = mapped_column(Text)
    at: Mapped[datetime]
    raw: Mapped[bytes | None] = mapped_column(LargeBinary)

    @property
    def written(self) -> bytes:
        return f"{self.text}\n".encode() if self.raw is None else self.raw

    @property
    def is_gap(self) -> bool:
        """Whether it says how much of its stream is missing."""
        return self.raw == b""


class Artifact(Base):
    """A file of a job; `path` is relative to the job's directory."""

    __tablename__ = "artifact"
    __table_args__ = (UniqueConstraint("job_id", "path"),)

    id: Mapped[int] = mapped_column(BigId, primary_key=True)
    job_id: Mapped[int] = mapped_column(ForeignKey("job.id", ondelete="CASCADE"))
    path: Mapped[str]
    name: Mapped[str]
    type: Mapped[str]
    content_type: Mapped[str]
    size: Mapped[int]
    content: Mapped[bytes] = mapped_column(LargeBinary, deferred=True)
    created_at: Mapped[datetime]
