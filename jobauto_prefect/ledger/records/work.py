"""Obligations, their attempts, and what these leave behind."""

from datetime import datetime
from typing import Any, ClassVar
from uuid import UUID

from sqlalchemy import ForeignKey, Index, LargeBinary, Text, UniqueConstraint, text
from sqlalchemy.orm import Mapped, mapped_column, relationship

from jobauto_prefect.ledger.base import SEALED, UNAUDITED, Audited, Base, BigId, Retirable
from jobauto_prefect.ledger.records.applications import RunTemplate
from jobauto_prefect.ledger.states import JobState, TaskState


class Task(Audited, Base):
    """The obligation for one window `[window_start, window_end)` of a run template.

    `attempts` counts those that began. `reason` is the rule that ended it, `message` says more.
    `catch_up` marks a window that passed unattended and waits for its turn; its deadline counts
    from when that comes. `excuse` is why somebody says that its end is all right.
    """

    __tablename__ = "task"
    __table_args__ = (
        UniqueConstraint("runtemplate_id", "window_start"),
        Index("ix_task_state_deadline", "state", "deadline"),
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
    this job was asked to run with, `override_secrets` the encrypted ones among them. `policy`
    are the exit codes of the definition and the template's rules as they were at the claim.
    `retry_of` is the first attempt of a job without a task. `pid` is of its leading process.
    `input_files`: environment key -> id of the artifact whose copy it names.
    """

    __tablename__ = "job"
    __table_args__ = (
        UniqueConstraint("flow_run_id", "run_number"),
        # Counting the jobs there are must not read them.
        Index(
            "ix_job_active",
            "id",
            sqlite_where=text("retired_at IS NULL"),
            postgresql_where=text("retired_at IS NULL"),
        ),
        # One flow run, one process; one task, one live attempt: the database says so (P3).
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
    app_id: Mapped[int] = mapped_column(ForeignKey("app.id"), index=True)
    company_id: Mapped[int] = mapped_column(ForeignKey("company.id"), index=True)
    runtemplate_id: Mapped[int] = mapped_column(ForeignKey("runtemplate.id"), index=True)
    task_id: Mapped[int | None] = mapped_column(ForeignKey("task.id"), index=True)
    attempt: Mapped[int] = mapped_column(default=1)
    retry_of: Mapped[int | None] = mapped_column(ForeignKey("job.id"), index=True)
    state: Mapped[str] = mapped_column(default=JobState.SCHEDULED, index=True)
    severity: Mapped[str | None]
    message: Mapped[str | None] = mapped_column(Text)
    exitcode: Mapped[int | None]
    schedule: Mapped[datetime]
    schedule_type: Mapped[str]
    begin: Mapped[datetime | None]
    end: Mapped[datetime | None]
    executor: Mapped[str]
    event_id: Mapped[int | None] = mapped_column(BigId, index=True)
    eventrule_id: Mapped[int | None]
    launched_by: Mapped[int | None] = mapped_column(ForeignKey("user.id"))
    app_version: Mapped[str | None]
    command: Mapped[str | None] = mapped_column(Text)
    env: Mapped[dict[str, str]] = mapped_column(default=dict)
    undeclared: Mapped[list[str]] = mapped_column(default=list)
    overrides: Mapped[dict[str, str]] = mapped_column(default=dict)
    override_secrets: Mapped[dict[str, str]] = mapped_column(default=dict, info=SEALED)
    input_files: Mapped[dict[str, int]] = mapped_column(default=dict)
    policy: Mapped[dict[str, Any]] = mapped_column(default=dict, info=UNAUDITED)
    cancel_reason: Mapped[str | None]
    note: Mapped[str | None] = mapped_column(Text)
    flow_run_id: Mapped[UUID | None] = mapped_column(index=True)
    run_number: Mapped[int | None]
    claim_id: Mapped[UUID | None] = mapped_column(unique=True, info=UNAUDITED)
    worker: Mapped[str | None]
    pid: Mapped[int | None]
    created_at: Mapped[datetime] = mapped_column(info=UNAUDITED)

    runtemplate: Mapped[RunTemplate] = relationship()
    task: Mapped[Task | None] = relationship()


class Lease(Base):
    """The sign of life of a job; there is one exactly while its report counts.

    At `ends_by` its timeout has ended it in any case. None: it is lost and its process is gone;
    until another attempt is granted, or its task has ended, a report of it still counts.
    """

    __tablename__ = "lease"

    job_id: Mapped[int] = mapped_column(ForeignKey("job.id", ondelete="CASCADE"), primary_key=True)
    worker: Mapped[str] = mapped_column(index=True)
    claim_id: Mapped[UUID]
    directory: Mapped[str]
    renewed_at: Mapped[datetime]
    ends_by: Mapped[datetime | None]


class OutputLine(Base):
    """One line of a job's output; `seq` counts from 1 over all its streams."""

    __tablename__ = "job_output_line"

    job_id: Mapped[int] = mapped_column(ForeignKey("job.id", ondelete="CASCADE"), primary_key=True)
    seq: Mapped[int] = mapped_column(primary_key=True)
    stream: Mapped[str]
    text: Mapped[str] = mapped_column(Text)
    at: Mapped[datetime]


class Artifact(Base):
    """A file a job left; `path` is relative to the job's directory."""

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
