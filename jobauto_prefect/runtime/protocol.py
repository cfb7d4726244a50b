"""What workers and the facade say to each other about one job (`/internal/v1`).

A worker *claims* a flow run and is answered with a `Launch` or a `Refusal`. While the job runs it
renews the *lease*, sends output and at the end *reports*; the answer to the report says what
Prefect shall show.
"""

from datetime import datetime
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
    StringConstraints,
)

from jobauto_prefect.definitions import Severity
from jobauto_prefect.definitions.storable import storable_text


class Message(BaseModel):
    """Base of all messages: unknown fields are refused."""

    model_config = ConfigDict(extra="forbid")


WorkerName = Annotated[str, StringConstraints(min_length=1, max_length=200, pattern=r"^[^\x00]*$")]
JobId = Annotated[int, Field(ge=1, le=2**63 - 1)]
StoredInteger = Annotated[int, Field(ge=-(2**31), le=2**31 - 1)]

MOST_LINES = 2_000_000_000
"""The highest number of a line; behind it there is room for lines of the ledger's own."""

ShownText = Annotated[str, AfterValidator(storable_text)]
"""Text that is only shown: what can't be kept of it is replaced, and the rest is not lost."""

MESSAGE_LENGTH = 2000
"""Characters that are kept of what a worker says of a job, or of itself: lists repeat them."""

ShortText = Annotated[str, AfterValidator(lambda text: text[:MESSAGE_LENGTH])]


class Claim(Message):
    """A worker asks whether, and with what, it may start a flow run.

    `claim_id` is made by the worker: the same one asked again is given the same answer, so an
    answer that got lost does no harm. `run_number` is the `run_count` this start has once
    Running, from 1. `auto_scheduled`, `scheduled_for` and `idempotency_key` are what Prefect's
    flow run says, `template_id` which run template its labels name, being those of its deployment.
    With `announced` the worker has not asked Prefect for them: it heard that the run
    was made, and the ledger knows the rest or does not. `due` is when Prefect lets the run start,
    said by a worker that heeds `wait_seconds` of the answer, and so may ask a little before; None:
    it would start the process at once. `changed_at` is when Prefect had last changed the run as the
    worker saw it; None: not known. `instance` is that of the worker's hello; `without` are
    executors it can't use just now.
    """

    claim_id: UUID
    flow_run_id: UUID
    run_number: int = Field(ge=1, le=2**31 - 1)
    deployment_id: UUID
    template_id: int | None = None
    parameters: dict[str, Any] = {}
    auto_scheduled: bool = False
    scheduled_for: AwareDatetime | None = None
    idempotency_key: str | None = None
    announced: bool = False
    due: AwareDatetime | None = None
    changed_at: AwareDatetime | None = None
    worker: WorkerName
    instance: UUID
    work_directory: str = Field(min_length=1, description="absolute; the job gets a folder in it")
    without: list[str] = []


class ArtifactPattern(Message):
    """What to collect: `path` is a literal relative path; where there is no such file, `pattern`
    is a regular expression that the whole relative path matches.

    `${VAR}` is already substituted, in `pattern` as literal text.
    """

    name: str
    path: str
    pattern: str | None = Field(default=None, description="default: `path`")
    type: str


class InputFile(Message):
    """A file that a job finds in its directory: a copy of an artifact of another job."""

    artifact_id: int
    path: str = Field(description="relative to the job's directory")


class HelmRun(Message):
    """A release to install before the job. `release` is `namespace/name`."""

    release: str
    argv: list[str]
    timeout_seconds: int = Field(description="what Helm gives itself")


class KubernetesTerms(Message):
    """What the `kubernetes` section of a definition says, for a job of that executor.

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
    `stop_without_contact`, a lease that could not be renewed. `notices` stand before the output.
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
    """The stock Prefect state a decision is shown as."""

    COMPLETED = "COMPLETED"
    FAILED = "FAILED"
    CRASHED = "CRASHED"
    CANCELLED = "CANCELLED"
    SCHEDULED = "SCHEDULED"


class RunStatus(Message):
    """What Prefect shall show of a decision. `at` only with SCHEDULED: the new start time.

    `transition_id` is the same wherever the same end is told: Prefect counts it once. `tags`, of an
    end with a warning, are those that its run has if the ledger made it.
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
        """Whether it is about how a job ended, not about why none began."""
        return "jobauto.severity" in self.labels

    @property
    def has_warning(self) -> bool:
        """Whether a job did its work, with a warning."""
        severity = self.labels.get("jobauto.severity")
        return self.state is PrefectState.COMPLETED and severity == Severity.WARNING


UNKNOWN_DEPLOYMENT = "unknown_deployment"
"""Why a run of a deployment is refused that is no run template's."""

BEING_REGISTERED = "being_registered"
"""Why a run of a deployment is refused that may be a run template's: Prefect has it, and the ledger
is still to note that."""


class Refusal(Message):
    """The ledger does not let this run start."""

    model_config = ConfigDict(populate_by_name=True)

    reason: str
    run_status: RunStatus = Field(alias="story")


class ClaimAnswer(Message):
    """Either `launch` or `refusal` is set; neither where Prefect has to be asked of an announced
    run first, or a run is not due and the same claim is to be asked again then.

    `unheard`: the ledger knows nothing of an announced run, and may in a moment. `wait_seconds` is
    how long, from this answer on, a run that said when it is `due` has to wait until then: its
    process must not start before.

    HTTP 409 is for a flow run that is to be left untouched: another claim holds it, or the job of
    this claim has ended, was lost or was superseded (`details.reason`). HTTP 503: ask again.
    """

    launch: Launch | None = None
    refusal: Refusal | None = None
    unheard: bool = False
    wait_seconds: float = 0


class OutputLines(Message):
    """Lines of one stream that were read at once.

    `seq` is the number of the first of `texts`; lines count from 1 over all streams of a job.
    `raws` are the bytes that were written, secrets masked, by the place in `texts`, where they are
    other than the text and a newline: none of a text that tells how much is missing there.
    """

    seq: int = Field(ge=1, le=MOST_LINES)
    stream: Literal["stdout", "stderr", "notice"]
    at: AwareDatetime
    texts: list[ShownText] = Field(min_length=1, max_length=5000)
    raws: dict[int, Base64Bytes] = {}


class OutputBatch(Message):
    """Output of one job, in its order; a line sent twice is kept once."""

    claim_id: UUID
    output: list[OutputLines] = Field(max_length=5000)


class Renewal(Message):
    """What one start of a worker has, in one call; it is its sign of life as well.

    A job is in `jobs` or `unknown` (job id -> claim id) from its grant until its report is
    accepted; it is unknown while what runs it can't be asked whether it does. `claims` are the
    claim ids that wait for their answer. `number` rises with each renewal of an instance;
    `answered` is the highest one whose answer has come, 0: none has. A lease that was granted
    before that one was, and is in none of the three, has no process: its job is lost.
    `hindrances` and `clock_ahead` are as in `WorkerRecord`.
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

    `now` is the ledger's time, which counts for the worker too.
    `superseded`: another start of the worker has its name, or it was declared lost; it is granted
    nothing any more. `useless`: every run template of its pool needs what hinders it.
    """

    now: AwareDatetime
    stop: dict[int, str] = {}
    superseded: bool = False
    useless: bool = False


class Ending(StrEnum):
    """How a job's process came to its end."""

    EXITED = "exited"  #: by itself; `exit_code` is the process's (128 + n for a signal n)
    TIMEOUT = "timeout"  #: the worker ended it after `timeout_seconds`
    CANCELLED = "cancelled"  #: the worker ended it because it was asked to
    NOT_STARTED = "not_started"  #: the executable could not be started
    LOST = "lost"  #: the worker died or was silent, and its process group has been ended


class Report(Message):
    """What became of a job. Sent until accepted; the same report twice is accepted once.

    `produced` is for people: path of a file the job left -> plain values of the JSON object in it.
    `worker_unable`, with LOST: nothing of the job began, because the worker can't start any just
    now.
    """

    claim_id: UUID
    worker: WorkerName
    ending: Ending
    worker_unable: bool = False
    exit_code: StoredInteger | None = None
    pid: StoredInteger | None = None
    message: ShortText = ""
    started_at: AwareDatetime | None = None
    ended_at: AwareDatetime
    lines: int = 0
    notices: list[str] = []
    produced: dict[str, dict[str, str]] = {}


class ReportAnswer(Message):
    """`recorded` is False where the job had already ended otherwise: nothing changed."""

    model_config = ConfigDict(populate_by_name=True)

    recorded: bool
    run_status: RunStatus = Field(alias="story")


class WorkerHello(Message):
    """A worker starts. `instance` differs for each start; `host` names the machine.

    `same_place` says that the worker holds the lock of its work directory, so a predecessor of
    its name on this host is gone. `run_as` are the operating-system users of its native jobs, by
    the id of the company; `""` is for the others. `limit` is how many jobs it runs at once; None:
    any number, or unknown.
    """

    worker: WorkerName
    pool: ShortText
    host: ShortText
    instance: UUID
    same_place: bool = False
    run_as: dict[str, str] = {}
    limit: int | None = Field(default=None, ge=1, le=2**31 - 1)


class LeftoverJob(Message):
    """A job the ledger holds for running on this worker name."""

    job_id: int
    claim_id: UUID
    directory: str
    flow_run_id: UUID


class WorkerWelcome(Message):
    """`left_over` are the jobs of the predecessor: confirm that they are gone, or report them.

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
"""The folder inside a job's directory that TMPDIR names."""
