"""What is answered beside records: errors, what was done, states, signs of being signed in."""

from datetime import datetime
from typing import Any, Literal
from uuid import UUID

from pydantic import BaseModel, Field

from jobauto_prefect.facade.openapi import applied, suggested
from jobauto_prefect.facade.openapi.shapes import (
    RECORDS,
    AuditEntry,
    Fault,
    Job,
    Member,
    Token,
    User,
)
from jobauto_prefect.facade.permissions import Role
from jobauto_prefect.ledger.states import JobState


class Formats(BaseModel):
    """The formats that are spoken, where one was asked for that is not."""

    formats: list[str]


class Error(BaseModel):
    """Every error looks like this, in the format that was asked for."""

    error: str
    message: str
    details: list[Fault] | Formats | None = None
    request_id: str


class Written(BaseModel):
    """What the answer to a write has besides the record."""

    created: bool
    warnings: list[Fault] | None = None


class Deleted(BaseModel):
    """A record is gone: from lists and from Prefect; history keeps it."""

    id: int
    deleted: Literal[True]
    success: Literal[True]


class JobKept(BaseModel):
    """A job that was chosen and stays, and why."""

    job_id: int
    reason: str


class JobsDeleted(BaseModel):
    """Which jobs of those that a filter chose are gone, or with `dry_run` would be."""

    dry_run: bool
    matched: int
    deleted: int
    job_ids: list[int]
    kept: list[JobKept]


class Difference(BaseModel):
    """What Prefect has, and what it should have."""

    prefect: Any
    record: Any


class Drift(BaseModel):
    """Where Prefect has something else than a run template says."""

    runtemplate_id: int
    deployment: str
    differences: dict[str, Difference]


class Settlement(BaseModel):
    """What was done about one object that somebody changed in Prefect."""

    kind: str
    id: int
    name: str
    taken_over: list[str]
    restored: list[str]


class Reconciled(BaseModel):
    """What somebody changed in Prefect, and what was done about it."""

    settled: list[Settlement]


class PrunedKind(BaseModel):
    """How many records of a kind went, or with `dry_run` would go."""

    kind: Literal["events", "output", "jobs", "tasks", "runs"]
    company_id: int | None
    company: str | None
    count: int


class Pruned(BaseModel):
    """What is kept no longer."""

    dry_run: bool
    complete: bool
    pruned: list[PrunedKind]


class Worker(BaseModel):
    """A worker, as Prefect last heard of it."""

    name: str
    online: bool
    last_heartbeat: datetime | None


class WorkPool(BaseModel):
    """A work pool of run templates; where `exists` is false Prefect has none of that name."""

    name: str
    type: str | None
    exists: bool
    paused: bool
    workers: list[Worker]


class WorkerState(BaseModel):
    """A worker as it last spoke to this service."""

    name: str
    pool: str
    host: str
    instance: UUID
    state: Literal["working", "frozen", "hindered", "silent", "lost"]
    seen_at: datetime
    hindrances: dict[str, str]
    clock_ahead: float
    limit: int | None
    free: int | None
    jobs: list[int]


class WorkerLost(BaseModel):
    """A worker that is gone for good, and the jobs that are lost with it."""

    name: str
    lost_jobs: list[int]


class JobsByState(BaseModel):
    """How many jobs there are, of the companies one may see."""

    timestamp: datetime
    total_jobs: int
    successful_jobs: int
    failed_jobs: int
    incomplete_jobs: int
    total_applications: int
    repeated_jobs: int
    states: dict[JobState, int]


class RolesSet(BaseModel):
    """The roles a user has from now on."""

    user_id: int
    replace: bool
    roles: list[Role]


class MembershipEnded(BaseModel):
    """The user is no member of the company any more."""

    company_id: int
    user_id: int
    deleted: Literal[1]
    success: Literal[True]


class CredentialRevealed(BaseModel):
    """A credential with its secret values in clear."""

    id: int
    name: str
    values: dict[str, str]


class Launch(BaseModel):
    """A window of a run template, and when its job starts."""

    runtemplate_id: int
    launch_at: datetime
    moved_from: datetime | None
    closed: str | None
    excused: bool
    window_start: datetime
    window_end: datetime
    deadline: datetime
    timezone: str


class Forecast(BaseModel):
    """What will run when; `more`: there are more windows than were asked for."""

    from_: datetime = Field(alias="from")
    until: datetime
    more: bool
    windows: list[Launch]


class SourceTested(BaseModel):
    """What a test of an event source found."""

    reachable: bool
    message: str


class Ping(BaseModel):
    """The service and its database answer."""

    ping: Literal["pong"]


class Maintenance(BaseModel):
    """The freeze for maintenance: whether nothing starts just now, and why."""

    frozen: bool
    reason: str | None
    since: datetime | None
    until: datetime | None
    by: str | None


class Status(BaseModel):
    """What this service is; the numbers of records for those with `system.logs`."""

    version: str
    timestamp: datetime
    prefect: str
    prefect_ui: str
    waiting_for_prefect: int
    extra_env: list[str]
    database: str
    daemon: Literal["active", "inactive"]
    maintenance: Maintenance | None
    app: int | None = None
    company: int | None = None
    runtemplate: int | None = None
    job: int | None = None
    user: int | None = None
    topic: int | None = None
    credential: int | None = None
    credential_type: int | None = None
    event_source: int | None = None
    event_rule: int | None = None


class Endpoint(BaseModel):
    """A path, and what may be done there."""

    path: str
    methods: list[str]


class Index(BaseModel):
    """All paths."""

    index: list[Endpoint]


class SignedInUser(BaseModel):
    """Who has signed in."""

    id: int
    login: str
    email: str | None


class SignedIn(BaseModel):
    """A token, for the header `Authorization: Bearer TOKEN`."""

    token: str
    expires_at: datetime
    user: SignedInUser
    status: Literal["success"]
    message: str


class SignedOut(BaseModel):
    """The token is worth nothing any more."""

    message: str
    status: Literal["success"]


class Association(Member):
    """A membership with the name of the company."""

    company: str | None


class ExportMetadata(BaseModel):
    """When an export was made."""

    generated_at: datetime


class DataExport(BaseModel):
    """What the service holds about a user: the newest 1000 jobs and audit entries, all else."""

    export_metadata: ExportMetadata
    user_profile: User
    company_associations: list[Association]
    tokens: list[Token]
    job_history: list[Job]
    audit_trails: list[AuditEntry]


SHAPES: tuple[type[BaseModel], ...] = (
    *RECORDS,
    CredentialRevealed,
    DataExport,
    Deleted,
    Drift,
    Error,
    Forecast,
    Index,
    JobsByState,
    JobsDeleted,
    MembershipEnded,
    Ping,
    Pruned,
    Reconciled,
    RolesSet,
    SignedIn,
    SignedOut,
    SourceTested,
    Status,
    WorkPool,
    Maintenance,
    WorkerLost,
    WorkerState,
    Written,
    *suggested.SHAPES,
    *applied.SHAPES,
)
