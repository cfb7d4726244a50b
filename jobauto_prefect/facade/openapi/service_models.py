"""Responses about the service: its state, its workers, and how it differs from Prefect."""

from datetime import datetime
from typing import Any, Literal
from uuid import UUID

from pydantic import BaseModel, Field

from jobauto_prefect.ledger.states import JobState


class Difference(BaseModel):
    """What Prefect has, and what it should have."""

    prefect: Any = Field(description="What Prefect has; null: nothing.")
    record: Any = Field(description="What it should have, as the records say.")


class Drift(BaseModel):
    """Where Prefect has something else than a run template says, or a deployment of none."""

    runtemplate_id: int | None = Field(
        description="The run template; null: the deployment is none's."
    )
    deployment: str = Field(description="The name its deployment should have, or has.")
    differences: dict[str, Difference] = Field(description="Field by field.")


class Settlement(BaseModel):
    """What was done about one object that somebody changed in Prefect."""

    kind: str = Field(
        description="The kind of the record: app, runtemplate, eventrule, credential or credtype."
    )
    id: int = Field(description="The id of the record.")
    name: str = Field(description="The name of the object in Prefect.")
    taken_over: list[str] = Field(
        description="The fields that the record now says as Prefect does."
    )
    restored: list[str] = Field(
        description="The fields that Prefect is told again as the record says."
    )


class Reconciled(BaseModel):
    """What somebody changed in Prefect, and what was done about it."""

    settled: list[Settlement] = Field(
        description="An object each; what is restored is so once Prefect is told."
    )


class PrunedKind(BaseModel):
    """How many records of a kind went, or with `dry_run` would go."""

    kind: Literal["events", "output", "jobs", "tasks", "runs"] = Field(
        description="`output` counts the jobs whose output and artifacts went, `runs` the flow "
        "runs in Prefect beside those that went with their jobs."
    )
    company_id: int | None = Field(
        description="Whose they are; null: of no company, or, of `runs`, of all."
    )
    company: str | None = Field(description="Slug of the company.")
    count: int = Field(description="How many.")


class Pruned(BaseModel):
    """What is kept no longer."""

    dry_run: bool = Field(description="Whether it was only counted.")
    complete: bool = Field(description="Whether nothing more is to go.")
    pruned: list[PrunedKind] = Field(description="An object for each kind and company.")


class Worker(BaseModel):
    """A worker, as Prefect last heard of it."""

    name: str = Field(description="Its name.")
    online: bool = Field(description="Whether Prefect has heard of it lately.")
    last_heartbeat: datetime | None = Field(description="When Prefect last heard of it.")


class WorkPool(BaseModel):
    """A work pool of run templates; where `exists` is false Prefect has none of that name."""

    name: str = Field(description="The name for people.")
    type: str | None = Field(
        description="The kind of worker that serves it; null: there is no such pool."
    )
    exists: bool = Field(description="Whether Prefect has it.")
    paused: bool = Field(description="Whether it starts nothing.")
    workers: list[Worker] = Field(description="Those that have ever served it.")


class WorkerState(BaseModel):
    """A worker as it last spoke to this service."""

    name: str = Field(description="Its name.")
    pool: str = Field(description="The work pool it serves.")
    host: str = Field(description="The name of its machine.")
    instance: UUID = Field(description="Differs for each start of it.")
    state: Literal["working", "frozen", "hindered", "silent", "lost"] = Field(
        description="working; hindered: it can't start some or all jobs just now; silent: for "
        "longer than a lease; lost: somebody said that it is gone for good."
    )
    seen_at: datetime = Field(description="Its last sign of life.")
    hindrances: dict[str, str] = Field(
        description="What keeps it from working: disk, processes, or the name of an executor, and "
        "why."
    )
    clock_ahead: float = Field(
        description="How many seconds its host's clock is ahead of the one that counts; negative: "
        "behind."
    )
    limit: int | None = Field(description="How many jobs it runs at once; null: unknown.")
    free: int | None = Field(description="How many more jobs it takes; null: unknown.")
    jobs: list[int] = Field(
        description="The ids of those of its jobs that may run and that one may see."
    )


class WorkerLost(BaseModel):
    """A worker that is gone for good, and the jobs that are lost with it."""

    name: str = Field(description="The name of the worker.")
    lost_jobs: list[int] = Field(description="Their ids.")


class JobsByState(BaseModel):
    """How many jobs there are, of the companies one may see."""

    timestamp: datetime = Field(description="When this was true.")
    total_jobs: int = Field(description="All jobs.")
    successful_jobs: int = Field(description="Jobs that succeeded.")
    failed_jobs: int = Field(description="Jobs that failed or were lost.")
    incomplete_jobs: int = Field(description="Jobs that wait or run.")
    total_applications: int = Field(description="The applications one may see.")
    repeated_jobs: int = Field(description="Jobs that are no first attempts.")
    states: dict[JobState, int] = Field(description="Number of jobs by state.")


class Ping(BaseModel):
    """The service and its database answer."""

    ping: Literal["pong"] = Field(description="Always pong.")


class Maintenance(BaseModel):
    """The freeze for maintenance: whether nothing starts just now, and why."""

    frozen: bool = Field(description="Whether nothing starts.")
    reason: str | None = Field(description="Why; null: nobody said.")
    since: datetime | None = Field(description="When it began.")
    until: datetime | None = Field(
        description="When it ends by itself; null: when somebody ends it."
    )
    by: str | None = Field(description="Who began it.")


class Status(BaseModel):
    """What this service is; the numbers of records for those with `system.logs`."""

    version: str = Field(description="The version of this service.")
    timestamp: datetime = Field(description="When this was true.")
    prefect: str = Field(description="Address of Prefect's API.")
    prefect_ui: str = Field(description="Address of Prefect's UI.")
    waiting_for_prefect: int = Field(description="How many changes Prefect has not been told yet.")
    prefect_away: str | None = Field(
        description="Why Prefect did not take the last change; null: it did, or was told none."
    )
    extra_env: list[str] = Field(
        description="Names that jobs of all applications may be given beside those of their "
        "definitions."
    )
    database: str = Field(description="What the ledger is kept in, with its version.")
    daemon: Literal["active", "inactive"] = Field(
        description="Whether `jobauto services` has signed within the last minute."
    )
    maintenance: Maintenance | None = Field(
        description="The freeze for maintenance that lasts; null: there is none."
    )
    app: int | None = Field(default=None, description="Number of applications.")
    company: int | None = Field(default=None, description="Number of companies.")
    runtemplate: int | None = Field(default=None, description="Number of run templates.")
    job: int | None = Field(default=None, description="Number of jobs.")
    user: int | None = Field(default=None, description="Number of users.")
    topic: int | None = Field(default=None, description="How many topics there are.")
    credential: int | None = Field(default=None, description="How many credentials there are.")
    credential_type: int | None = Field(
        default=None,
        description="How many credential types there are.",
    )
    event_source: int | None = Field(default=None, description="How many event sources there are.")
    event_rule: int | None = Field(default=None, description="How many event rules there are.")


class Endpoint(BaseModel):
    """A path, and what may be done there."""

    path: str = Field(description="The path.")
    methods: list[str] = Field(description="The HTTP methods.")


class Index(BaseModel):
    """All paths."""

    index: list[Endpoint] = Field(description="The paths, in the order of the documentation.")


class Launch(BaseModel):
    """A window of a run template, and when its job starts."""

    runtemplate_id: int = Field(description="The run template.")
    launch_at: datetime = Field(description="When its job starts.")
    moved_from: datetime | None = Field(
        description="When its job would start were the time open; null: it is not moved."
    )
    closed: str | None = Field(description="Why the time it is due at is closed; null: it is open.")
    excused: bool = Field(description="Whether no job starts, for the time is closed.")
    window_start: datetime = Field(description="Beginning of the window.")
    window_end: datetime = Field(description="End of the window, not within it.")
    deadline: datetime = Field(description="Until when it may be fulfilled.")
    timezone: str = Field(description="IANA name of the zone of the schedule.")


class Forecast(BaseModel):
    """What will run when; `more`: there are more windows than were asked for."""

    from_: datetime = Field(alias="from", description="When it was asked.")
    until: datetime = Field(description="How far it looks.")
    more: bool = Field(description="Whether there are more windows than were asked for.")
    windows: list[Launch] = Field(description="The windows, by the start of their jobs.")
