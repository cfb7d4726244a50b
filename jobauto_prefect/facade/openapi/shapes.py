"""What records look like in answers, as types; `facade/records.py` makes them."""

from datetime import datetime
from typing import Any, Literal

from pydantic import BaseModel

from jobauto_prefect.definitions import Backoff, ContactLost, Misfire, OnClosed, Overlap
from jobauto_prefect.definitions.actions import Action
from jobauto_prefect.definitions.notices import Occasion
from jobauto_prefect.facade.permissions import Membership, Role
from jobauto_prefect.ledger.actions import ActionState
from jobauto_prefect.ledger.deliveries import DeliveryState, EventKind
from jobauto_prefect.ledger.states import JobState, TaskReason, TaskState

Severity = Literal["success", "info", "warning", "error", "critical"]
Operation = Literal["any", "create", "update", "delete"]
Localized = str | dict[str, str]


class Timed(BaseModel):
    """What changes over time."""

    created_at: datetime
    updated_at: datetime


class Labelled(Timed):
    """What files can own."""

    labels: list[str]


class ApplicationVersion(BaseModel):
    """A definition that a later one replaced."""

    number: int
    version: str | None
    replaced_at: datetime
    replaced_by: str
    definition: dict[str, Any]


Bound = Literal["jobs_days", "jobs_count", "output_days", "runs_days", "tasks_days"]
CompanyBound = Literal[
    "jobs_days", "jobs_count", "output_days", "runs_days", "tasks_days", "events_days"
]


class MailNotices(BaseModel):
    """Who is told by mail, and of what."""

    on: list[Occasion]
    to: list[str]


class SlackNotices(BaseModel):
    """What a webhook in Slack's form is told."""

    on: list[Occasion]
    uri: Literal["********"] | None


class Notices(BaseModel):
    """Who is told of what becomes of jobs; a channel that is left out is not said."""

    mail: MailNotices | None = None
    slack: SlackNotices | None = None
    finished_by: str | None = None


class Company(Labelled):
    """A company; `env` are its values for all its run templates, secret ones masked."""

    id: int
    slug: str
    name: str
    enabled: bool
    ic: str | None
    email: str | None
    logo: str | None
    settings: str | None
    customer: int | None
    timezone: str | None
    topics: list[str]
    calendars: list[str]
    retention: dict[CompanyBound, int]
    notices: Notices
    env: dict[str, str]
    prefect_url: str


class TemplateBlock(BaseModel):
    """A block of other people in Prefect, and which of its fields become variables."""

    block: str
    env: dict[str, str]


class RunTemplate(Labelled):
    """How a company runs an application: when, where and with which values."""

    id: int
    app_id: int
    company_id: int
    name: str
    active: bool
    interv: Literal["n", "i", "h", "d", "w", "m", "y", "c"]
    cron: str | None
    timezone: str | None
    delay: int
    executor: str
    executors: list[str]
    executor_settings: dict[str, Any]
    pool: str | None
    queue: str | None
    queue_priority: int | None
    timeout_seconds: float | None
    deadline_offset: str | None
    allow_late: bool
    max_attempts: int | None
    retry_backoff: Backoff
    retry_min_gap: int
    retry_undeclared: bool
    overlap: Overlap
    misfire: Misfire
    on_contact_lost: ContactLost
    on_closed: OnClosed
    note: str | None
    topics: list[str]
    calendars: list[str]
    all_topics: list[str] | None = None
    retention: dict[Bound, int]
    notices: Notices
    success: dict[Action, dict[str, Any]]
    fail: dict[Action, dict[str, Any]]
    env: dict[str, str]
    credentials: list[int]
    blocks: list[TemplateBlock]
    prefect_url: str | None


class Fault(BaseModel):
    """One thing wrong: with a request, or with what a job produced."""

    pointer: str
    rule: str
    message: str
    line: int | None = None
    column: int | None = None


class Job(BaseModel):
    """One attempt to run a run template; in lists without its output."""

    id: int
    app_id: int
    company_id: int
    runtemplate_id: int
    task_id: int | None
    attempt: int
    retry_of: int | None
    event_id: int | None
    eventrule_id: int | None
    state: JobState
    severity: Severity | None
    message: str | None
    exitcode: int | None
    schedule: datetime
    schedule_type: str
    begin: datetime | None
    end: datetime | None
    executor: str
    launched_by: int | None
    app_version: str | None
    command: str | None
    env: dict[str, str]
    undeclared: list[str]
    warnings: list[Fault]
    worker: str | None
    pid: int | None
    cancel_reason: str | None
    note: str | None
    waits_for: str | None
    flow_run_id: str | None
    prefect_url: str | None
    created_at: datetime


class Artifact(BaseModel):
    """A file that a job left behind."""

    id: int
    href: str
    name: str
    path: str
    type: str
    content_type: str
    size: int
    created_at: datetime


class JobWithOutput(Job):
    """A job with the end of its output and its artifacts."""

    stdout: str
    stderr: str
    artifacts: list[Artifact]


class OutputLine(BaseModel):
    """One line of output."""

    seq: int
    stream: Literal["stdout", "stderr"]
    text: str
    at: datetime


class Output(BaseModel):
    """Lines of a job's output."""

    job_id: int
    lines: list[OutputLine]
    last: int
    state: JobState


class Task(BaseModel):
    """The obligation to run a template once in a window."""

    id: int
    runtemplate_id: int
    state: TaskState
    reason: TaskReason | None
    message: str | None
    attempts: int
    fulfilled_by_job_id: int | None
    excuse: str | None
    excused_by: str | None
    window_start: datetime
    window_end: datetime
    deadline: datetime
    fulfilled_at: datetime | None
    created_at: datetime


class TaskWithJobs(Task):
    """A task with all its attempts."""

    jobs: list[Job]


class User(Timed):
    """A person or program that signs in."""

    id: int
    login: str
    email: str | None
    firstname: str | None
    lastname: str | None
    enabled: bool
    roles: list[Role]


class AssignedRole(BaseModel):
    """A role that a user has."""

    id: int
    name: Role
    display_name: str
    description: str
    assigned_by: str | None
    assigned_at: datetime
    expires_at: datetime | None


class Member(BaseModel):
    """A user's membership of a company."""

    id: int
    company_id: int
    user_id: int
    role: Membership
    login: str | None
    created_at: datetime


class CredentialTypeField(BaseModel):
    """One member of a credential type; `keyword` is the environment key it fills."""

    keyword: str
    type: str
    name: Localized | None = None
    description: Localized | None = None
    hint: Localized | None = None
    default_value: Any = None
    required: bool
    options: dict[str, Any] | list[Any] | None = None


class Availability(BaseModel):
    """How to find out whether what a credential opens is there."""

    url: str | None = None
    command: list[str] | None = None
    timeout_seconds: float
    retry_seconds: float


class CredentialType(Labelled):
    """A kind of credential: which values it has, and which of them are secret."""

    id: int
    company_id: int | None
    uuid: str | None
    code: str
    name: str
    description: str | None
    version: str | None
    url: str | None
    homepage: str | None
    logo: str | None
    translations: dict[str, dict[str, str]]
    tags: list[str]
    fields: list[CredentialTypeField]
    availability: Availability | None
    source: str | None
    stock: bool


class Credential(Labelled):
    """Values of a credential type that belong to a company; secret ones are masked."""

    id: int
    name: str
    company_id: int
    credential_type_id: int
    max_jobs: int | None
    values: dict[str, str]


class Calendar(Labelled):
    """When windows' jobs do not start."""

    id: int
    name: str
    timezone: str | None
    country: str | None
    subdivision: str | None
    days: list[dict[str, Any]]
    times: list[dict[str, Any]]
    periods: list[dict[str, Any]]


class Topic(Labelled):
    """A tag with a colour."""

    id: int
    company_id: int | None
    name: str
    description: str | None
    color: str
    prefect_url: str


class EventSource(Labelled):
    """A database that webhooks write changes into; its password is masked."""

    id: int
    name: str
    company_id: int | None
    adapter_type: str
    db_connection: Literal["mysql", "pgsql", "sqlite"]
    db_host: str
    db_port: str
    db_database: str
    db_username: str | None
    db_password: Literal["********"] | None
    enabled: bool
    poll_interval: int
    consume: Literal["delete", "keep"]
    last_processed_id: int
    poll_error: str | None
    polled_at: datetime | None


class Event(BaseModel):
    """Something that happened: a change of an event source, or the end of a run template's job."""

    id: int
    kind: EventKind
    state: Literal["done", "owed", "dead"]
    event_source_id: int | None
    runtemplate_id: int | None
    job_id: int | None
    company_id: int | None
    inversion: int | None
    evidence: str | None
    operation: str
    record_id: str | None
    depth: int
    emission_error: str | None
    emitted_at: datetime | None
    created_at: datetime


class Delivery(BaseModel):
    """What an event owes one rule."""

    eventrule_id: int
    element: int
    state: DeliveryState
    job_id: int | None
    flow_run_id: str | None
    due_at: datetime | None
    error: str | None


class OwedAction(BaseModel):
    """What an event has the service do, beside starting rules."""

    id: int
    kind: Action
    target: str | None
    state: ActionState
    attempts: int
    job_id: int | None
    error: str | None
    due_at: datetime
    done_at: datetime | None


class EventWithDeliveries(Event):
    """An event, all that is known of it, and what it owes."""

    data: dict[str, Any]
    deliveries: list[Delivery]
    actions: list[OwedAction]


class EventRule(Labelled):
    """What a change, or the end of another run template, starts."""

    id: int
    event_source_id: int | None
    runtemplate_source_id: int | None
    runtemplate_id: int
    evidence: str | None
    operation: Operation
    on: Literal["success", "warning", "failure", "any"]
    fan_out: bool
    enabled: bool
    priority: int
    env_mapping: dict[str, Any]


class AuditEntry(BaseModel):
    """Who changed what; never changed or deleted itself."""

    id: int
    actor: str
    user_id: int | None
    door: str
    address: str | None
    user_agent: str | None
    request_id: str | None
    entity_type: str
    entity_id: int | None
    company_id: int | None
    action: Literal[
        "create", "update", "delete", "login", "refuse", "reveal", "intend", "fail", "lost"
    ]
    changes: dict[str, list[Any]]
    created_at: datetime


class Token(BaseModel):
    """What is known of a token; its text is not."""

    id: int
    kind: str
    expires_at: datetime | None
    revoked_at: datetime | None
    last_used_at: datetime | None
    created_at: datetime


RECORDS: tuple[type[BaseModel], ...] = (
    ApplicationVersion,
    AssignedRole,
    AuditEntry,
    Company,
    Credential,
    CredentialType,
    Event,
    EventRule,
    EventSource,
    EventWithDeliveries,
    Job,
    JobWithOutput,
    Member,
    Output,
    RunTemplate,
    Task,
    TaskWithJobs,
    Topic,
    Calendar,
    User,
)
