"""The messages between workers and the facade about a job (`/internal/v1`).

A worker *claims* a flow run and gets a `Launch` or a `Refusal`. While the job runs the worker
renews the *lease* and sends output; at the end it *reports*, and the answer says what to show in
Prefect.
"""

from datetime import UTC, datetime
from enum import StrEnum
from typing import Annotated, Any, Literal
from uuid import UUID

from pydantic import (
    AfterValidator,
    AwareDatetime,
    Base64Bytes,
    BaseModel,
    ConfigDict,
    Field,
)

from jobauto_prefect.definitions import Severity
from jobauto_prefect.definitions.storable import UNFIT, is_storable, storable_text
from jobauto_prefect.text_patterns import without_nul

VERSION_HEADER, VERSION = "Jobauto-Protocol", "1"
"""Sent with each request of a worker, and apart from the messages, so that a facade can tell an
older worker whatever its messages look like."""


class Message(BaseModel):
    """Base of all messages.

    During an upgrade either side may be the newer one: unknown fields are ignored, new fields have
    defaults.
    """

    model_config = ConfigDict(extra="ignore")


WorkerName = Annotated[str, without_nul(min_length=1, max_length=200)]
JobId = Annotated[int, Field(ge=1, le=2**63 - 1)]
StoredInteger = Annotated[int, Field(ge=-(2**31), le=2**31 - 1)]

MOST_LINES = 2_000_000_000
"""The highest number of a line; the numbers above are for lines that the ledger adds."""

ShownText = Annotated[str, AfterValidator(storable_text)]
"""Text that is only displayed: characters that can't be stored are replaced, instead of losing it
all."""

MESSAGE_LENGTH = 2000
"""Characters stored of a worker's text about a job or itself: lists repeat it."""

ShortText = Annotated[ShownText, AfterValidator(lambda text: text[:MESSAGE_LENGTH])]

LONGEST_PATH = 1000
"""Bytes of an artifact's path; a key of a PostgreSQL index can have some 2,700."""


def _keepable_path(path: str) -> str:
    if not is_storable(path):
        raise ValueError(UNFIT)
    if len(path.encode()) > LONGEST_PATH:
        raise ValueError(f"has more than {LONGEST_PATH} bytes")
    return path


ArtifactPath = Annotated[str, AfterValidator(_keepable_path)]

FIRST_MOMENT, LAST_MOMENT = datetime(1970, 1, 1, tzinfo=UTC), datetime(9998, 12, 31, tzinfo=UTC)


def _nearest_moment(at: datetime) -> datetime:
    return min(max(at, FIRST_MOMENT), LAST_MOMENT)


Moment = Annotated[AwareDatetime, AfterValidator(_nearest_moment)]
"""A worker's time: the nearest that can be stored, and shown in every zone."""


class Claim(Message):
    """A worker's request to start a flow run, and for what it needs.

    The worker generates `claim_id`; repeating it returns the same answer, so a lost answer does no
    harm. `run_number` is the `run_count` the run will have once Running, from 1. `auto_scheduled`,
    `scheduled_for` and `idempotency_key` are those of Prefect's flow run, `template_id` is the run
    template in the run's labels, which come from its deployment. With `announced` the worker has
    not read these from Prefect: it only got the event that the run was created, and the ledger may
    know the rest. `due` is when Prefect lets the run start, sent by a worker that obeys the
    answer's `wait_seconds` and so may claim slightly early; None: it would start the process at
    once. `changed_at` is when Prefect had last changed the run when the worker read it; None:
    unknown. `instance` is that of the worker's hello; `without` are executors it can't use just
    now.
    """

    claim_id: UUID
    flow_run_id: UUID
    run_number: int = Field(ge=1, le=2**31 - 1)
    deployment_id: UUID
    template_id: JobId | None = None
    parameters: dict[str, Any] = {}
    auto_scheduled: bool = False
    scheduled_for: Moment | None = None
    idempotency_key: ShownText | None = None
    announced: bool = False
    due: Moment | None = None
    changed_at: Moment | None = None
    worker: WorkerName
    instance: UUID
    work_directory: ShownText = Field(
        min_length=1, description="absolute; the job gets a folder in it"
    )
    without: list[str] = []


class ArtifactPattern(Message):
    """What to collect: `path` is a literal relative path; if there is no such file, `pattern` is a
    regular expression that must match the whole relative path.

    `${VAR}` is already substituted, in `pattern` as literal text.
    """

    name: str
    path: str
    pattern: str | None = Field(default=None, description="default: `path`")
    type: str


class InputFile(Message):
    """A file placed in a job's directory: a copy of another job's artifact."""

    artifact_id: int
    path: str = Field(description="relative to the job's directory")


class HelmRun(Message):
    """A release to install before the job. `release` is `namespace/name`."""

    release: str
    argv: list[str]
    timeout_seconds: int = Field(description="Helm's own limit")


class KubernetesTerms(Message):
    """The `kubernetes` section of a definition, for a job of that executor.

    `copies`: files of the pod are artifacts; an empty `output_path` means the job's directory.
    Without a `namespace` it is the worker's.
    """

    namespace: str | None = None
    helm: HelmRun | None = None
    copies: bool = False
    output_path: str = ""
    keep_pod_on_failure: bool = False


class Launch(Message):
    """Everything a worker needs to start one attempt, secrets included.

    `argv[0]` is looked up on the PATH of `environment`. `secrets` are the values to mask in
    captured output. `result_file` is the value of RESULT_FILE (relative paths are inside
    `directory`). `deadline` is informative; `timeout_seconds` ends the process, and so does, with
    `stop_without_contact`, a lease that could not be renewed. `notices` precede the output.
    """

    job_id: int
    claim_id: UUID
    task_id: int | None = None
    attempt: int = 1
    title: str = Field(description="company / template #job")
    argv: list[str] = Field(repr=False)
    command_shown: str = Field(description="the command with secrets masked, for people")
    environment: dict[str, str] = Field(repr=False)
    secrets: list[str] = Field(default=[], repr=False)
    executor: str = "Native"
    executor_settings: dict[str, Any] = {}
    image: str | None = Field(default=None, description="the application's ociimage")
    company: str = Field(default="", description="the slug, for people")
    company_id: int = 0
    kubernetes: KubernetesTerms | None = Field(default=None, description="None: another executor")
    directory: str
    result_file: str | None = None
    artifacts: list[ArtifactPattern] = []
    inputs: list[InputFile] = []
    timeout_seconds: float
    deadline: AwareDatetime | None = None
    lease_seconds: float
    stop_without_contact: bool = False
    output_limit_bytes: int
    artifact_limit_bytes: int
    notices: list[str] = []


class PrefectState(StrEnum):
    """The stock Prefect state that a decision is shown as."""

    COMPLETED = "COMPLETED"
    FAILED = "FAILED"
    CRASHED = "CRASHED"
    CANCELLED = "CANCELLED"
    SCHEDULED = "SCHEDULED"


class RunStatus(Message):
    """How to show a decision in Prefect. `at` only with SCHEDULED: the new start time.

    `transition_id` is the same for every report of the same end, so Prefect counts it once. `tags`,
    for an end with a warning, are those its run has if the ledger created the run.
    """

    state: PrefectState
    message: str
    at: AwareDatetime | None = None
    transition_id: UUID | None = None
    run_name: str | None = None
    labels: dict[str, str | int] = {}
    tags: list[str] = []
    artifact_key: str | None = None
    artifact_markdown: str | None = None

    @property
    def tells_end(self) -> bool:
        """Whether it is about a job's end, rather than about why no job started."""
        return "jobauto.severity" in self.labels

    @property
    def has_warning(self) -> bool:
        """Whether a job succeeded with a warning."""
        severity = self.labels.get("jobauto.severity")
        return self.state is PrefectState.COMPLETED and severity == Severity.WARNING


UNKNOWN_DEPLOYMENT = "unknown_deployment"
"""Reason to refuse a run of a deployment that belongs to no run template."""

BEING_REGISTERED = "being_registered"
"""Reason to refuse a run of a deployment that may be a run template's: it is in Prefect, but the
ledger has not stored that yet."""


class Refusal(Message):
    """The ledger does not let this run start."""

    model_config = ConfigDict(populate_by_name=True)

    reason: str
    run_status: RunStatus = Field(alias="story")


class ClaimAnswer(Message):
    """Has `launch` or `refusal`; neither if the worker must first read an announced run from
    Prefect, or if the run is not due yet and the worker must repeat the claim then.

    `unheard`: the ledger does not know the announced run yet, but may in a moment. `wait_seconds`
    is the time from this answer until the run is due, if the claim has `due`: its process must not
    start earlier.

    HTTP 409 means: leave the flow run untouched, because another claim holds it, or the job of this
    claim has ended, was lost or was superseded (`details.reason`). HTTP 503: retry.
    """

    launch: Launch | None = None
    refusal: Refusal | None = None
    unheard: bool = False
    wait_seconds: float = 0


class OutputLines(Message):
    """Lines of one stream that were read at once.

    `seq` is the number of the first of `texts`; lines count from 1 over all streams of a job.
    `raws` are the bytes that were written, secrets masked, by index in `texts`, unless they are the
    text and a newline; empty for a text that says how much is missing there.
    """

    seq: int = Field(ge=1, le=MOST_LINES)
    stream: Literal["stdout", "stderr", "notice"]
    at: Moment
    texts: list[ShownText] = Field(min_length=1, max_length=5000)
    raws: dict[int, Base64Bytes] = {}


class OutputBatch(Message):
    """Output of one job, in order; a repeated line is stored once."""

    claim_id: UUID
    output: list[OutputLines] = Field(max_length=5000)


class Renewal(Message):
    """All jobs and claims of a worker process; also its sign of life.

    A job is in `jobs` or `unknown` (job id -> claim id) from its grant until its report is
    accepted; it is unknown while its runtime can't be asked whether it is running. `claims` are the
    claim ids that wait for an answer. `number` rises with each renewal of an instance; `answered`
    is the highest answered one, or 0. A lease that was granted before that one, and is in none of
    the three, has no process: its job is lost. `hindrances` and `clock_ahead` are as in
    `WorkerRecord`.
    """

    worker: WorkerName
    instance: UUID
    number: int = Field(ge=1, le=2**31 - 1)
    answered: int = Field(default=0, ge=0, le=2**31 - 1)
    jobs: dict[JobId, UUID] = {}
    claims: list[UUID] = []
    unknown: dict[JobId, UUID] = {}
    hindrances: dict[ShortText, ShortText] = Field(default={}, max_length=100)
    clock_ahead: float = Field(default=0.0, allow_inf_nan=False)


class RenewalAnswer(Message):
    """`stop` are the jobs to end: job id -> why (cancelled, fenced, unknown).

    `now` is the ledger's time, which the worker uses, too. `superseded`: another process has taken
    the worker's name, or it was declared lost; it gets no more grants. `useless`: every run
    template of its pool needs something that the worker lacks.
    """

    now: AwareDatetime
    stop: dict[int, str] = {}
    superseded: bool = False
    useless: bool = False


class SignOfLife(Message):
    """What is read of a renewal that can't be read as a whole."""

    worker: WorkerName
    instance: UUID


class Ending(StrEnum):
    """How a job's process ended."""

    EXITED = "exited"  #: by itself; `exit_code` is the process's (128 + n for a signal n)
    TIMEOUT = "timeout"  #: the worker ended it after `timeout_seconds`
    CANCELLED = "cancelled"  #: the worker ended it because it was asked to
    NOT_STARTED = "not_started"  #: the executable could not be started
    LOST = "lost"  #: the worker died or was silent, and its process group has been ended


class Report(Message):
    """The outcome of a job. Sent until accepted; a repeated report has no further effect.

    `produced` is for people: path of a file the job left -> plain values of the JSON object in it.
    `worker_unable`, with LOST: the job did not start, because the worker can't start any just now.
    """

    claim_id: UUID
    worker: WorkerName
    ending: Ending
    worker_unable: bool = False
    exit_code: StoredInteger | None = None
    pid: StoredInteger | None = None
    message: ShortText = ""
    started_at: Moment | None = None
    ended_at: Moment
    lines: int = 0
    notices: list[ShownText] = []
    produced: dict[ShownText, dict[ShownText, ShownText]] = {}


class ReportAnswer(Message):
    """`recorded` is False if the job had already ended otherwise: nothing changed."""

    model_config = ConfigDict(populate_by_name=True)

    recorded: bool
    run_status: RunStatus = Field(alias="story")


class WorkerFacts(Message):
    """What a worker is compared with others by; empty if its release does not say it.

    `charts` are digests of the files in its Helm directory, by their paths in it; `settings` are
    values of those that workers of a pool must have alike, by variable, without those not set.
    """

    version: ShortText = ""
    prefect: ShortText = ""
    pid: int | None = None
    charts: dict[ShortText, ShortText] = Field(default={}, max_length=1000)
    settings: dict[ShortText, ShortText] = Field(default={}, max_length=100)


class WorkerHello(Message):
    """The first message of a worker. `instance` differs for each start; `host` names the machine.

    `same_place` says that the worker holds the lock of its work directory, so a predecessor of its
    name on this host is gone. `run_as` are the operating-system users of its native jobs, by the id
    of the company; `""` is for the others. `limit` is the maximum of concurrent jobs; None: any
    number, or unknown.
    """

    worker: WorkerName
    pool: ShortText
    host: ShortText
    instance: UUID
    same_place: bool = False
    run_as: dict[ShortText, ShortText] = {}
    limit: int | None = Field(default=None, ge=1, le=2**31 - 1)
    facts: WorkerFacts = WorkerFacts()


class LeftoverJob(Message):
    """A job that, by the ledger, runs on a worker of this name."""

    job_id: int
    claim_id: UUID
    directory: str
    flow_run_id: UUID


class WorkerWelcome(Message):
    """`left_over` are the predecessor's jobs: confirm that they are gone, or report them.

    `now` is the ledger's time.
    """

    now: AwareDatetime
    lease_seconds: float
    left_over: list[LeftoverJob] = []


class ApplicationDocument(Message):
    """What a compiled flow in a stock worker loads."""

    id: int
    document: dict[str, Any]
    parameter_keys: dict[str, str] = Field(description="parameter name -> environment key")
    updated_at: datetime


TEMPORARY = "tmp"
"""The folder inside a job's directory that TMPDIR points to."""
