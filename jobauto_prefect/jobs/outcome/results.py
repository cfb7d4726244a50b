"""A job's result: its end in the ledger, and what Prefect shows."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID, uuid5

from jobauto_prefect.compiler.plan import template_tags
from jobauto_prefect.definitions import ExitCode, Severity, parse_exit_codes
from jobauto_prefect.errors import Conflict
from jobauto_prefect.jobs.appearance import run_name
from jobauto_prefect.jobs.outcome.artifact_markdown import artifact_key, page
from jobauto_prefect.jobs.outcome.cancellation import skip
from jobauto_prefect.jobs.outcome.retry import RetryPolicy, finish_attempt, release_room
from jobauto_prefect.ledger.audit.trail import WritingSession
from jobauto_prefect.ledger.jobs import attempts
from jobauto_prefect.ledger.jobs.leases import delete_lease, end_lease
from jobauto_prefect.ledger.queries.topics import topics_of
from jobauto_prefect.ledger.records import Artifact, Job, Lease
from jobauto_prefect.ledger.states import JobState, next_job_state
from jobauto_prefect.runtime.outcome import end_message, severity
from jobauto_prefect.runtime.protocol import Ending, PrefectState, Report, RunStatus
from jobauto_prefect.settings import Settings


@dataclass(frozen=True, slots=True)
class JobResult:
    """How a job ended. `exit_code` is None if no process exited by itself.

    `again`: ends of this kind are retried, not before `not_before`. `heard` is False if nobody
    confirmed that its process is gone, `fenced` is True if none of its reports count any more.
    `worker_unable`: it did not begin, because its worker can't start any job.
    """

    state: JobState
    severity: Severity
    message: str
    ended_at: datetime
    exit_code: int | None = None
    started_at: datetime | None = None
    pid: int | None = None
    again: bool = False
    heard: bool = True
    not_before: datetime | None = None
    fenced: bool = False
    worker_unable: bool = False


PREFECT_STATES: Mapping[str, PrefectState] = {
    JobState.SUCCEEDED: PrefectState.COMPLETED,
    JobState.WARNING: PrefectState.COMPLETED,
    JobState.FAILED: PrefectState.FAILED,
    JobState.LOST: PrefectState.CRASHED,
    JobState.CANCELLED: PrefectState.CANCELLED,
    JobState.BLOCKED: PrefectState.FAILED,
    JobState.SKIPPED: PrefectState.CANCELLED,
}
"""The stock Prefect state that a job's final state is shown as."""


def record_result(session: WritingSession, job: Job, report: Report, language: str) -> bool:
    """Record the reported end of a locked job; return whether no other attempt follows.

    Raises:
        Conflict: it has ended otherwise, or another attempt has replaced it.
    """
    return record_end(session, job, result_of(job, report, language))


def record_end(session: WritingSession, job: Job, result: JobResult) -> bool:
    """Record how a job ended, and update its task; return whether no other attempt follows.

    Both are locked. A lost job whose end is unconfirmed keeps its lease: nothing follows until its
    worker reports or its time is up.

    Raises:
        Conflict: the job has ended otherwise, or another attempt has replaced it.
    """
    lost_before, lost = job.state == JobState.LOST, result.state is JobState.LOST
    follower = attempts.lock_follower(session, job) if lost_before else None
    lease = None
    if lost_before or lost:  # any other end deletes the lease unread
        lease = session.get(Lease, job.id, populate_existing=True, with_for_update=True)
    if lost_before and (lease is None or not result.heard):
        raise Conflict(f"job {job.id} is lost; its report comes too late")
    if lost_before and lost and lease is not None and lease.ends_by is None:
        raise Conflict(f"job {job.id} is lost; that is recorded, and its follow-up is under way")
    if not (lost_before and lost):
        job.state = next_job_state(JobState(job.state), result.state)
    job.severity = result.severity
    job.message = result.message
    job.exitcode = result.exit_code
    job.begin = result.started_at or job.begin
    job.pid = result.pid or job.pid
    job.end = result.ended_at
    if not result.heard:
        return False
    if follower is not None:
        skip(session, follower, f"attempt {job.attempt} reported after all")
    settles = finish_attempt(
        session,
        job,
        again=result.again,
        not_before=result.not_before,
        worker_unable=result.worker_unable,
        is_first_end=not lost_before,
    )
    if not lost:
        delete_lease(session, job.id)
    elif lease is not None:
        end_lease(session, lease, may_report=not settles and not result.fenced)
    release_room(session, job)
    return settles


def result_of(job: Job, report: Report, language: str, *, heard: bool = True) -> JobResult:
    """Return the result of a report, by the definition's exit codes and the rules.

    A job that was to be cancelled, and whose worker is gone, is cancelled. `heard` is False if
    nobody confirmed that its process is gone: then the job is lost, even if somebody cancelled it.
    """
    is_cancelled = heard and report.ending is Ending.LOST and job.cancel_reason is not None
    ending = Ending.CANCELLED if is_cancelled else report.ending
    codes = parse_exit_codes(job.policy.get("exit_codes", {}))
    level = severity(codes, ending, report.exit_code)
    reason = job.cancel_reason if ending is Ending.CANCELLED else None
    return JobResult(
        state=_final_state(ending, level),
        severity=level,
        message=end_message(
            ending, report.exit_code, level, codes, language, reason or report.message
        ),
        ended_at=report.ended_at,
        exit_code=report.exit_code,
        started_at=report.started_at,
        pid=report.pid,
        again=_is_tried_again(job, ending, report.exit_code, codes),
        heard=heard,
        worker_unable=ending is Ending.LOST and report.worker_unable,
        fenced=ending is Ending.LOST and report.worker_unable,
    )


def _is_tried_again(
    job: Job, ending: Ending, exit_code: int | None, codes: Mapping[int, ExitCode]
) -> bool:
    """Whether an end of this kind is retried, whatever its severity."""
    if ending is Ending.LOST:
        return True
    if ending is Ending.CANCELLED:
        return False
    declared = codes.get(exit_code) if ending is Ending.EXITED and exit_code is not None else None
    if declared is not None:
        return declared.retry
    good = ending is Ending.EXITED and exit_code == 0
    return not good and RetryPolicy.read(job.policy).retry_undeclared


def _final_state(ending: Ending, level: Severity) -> JobState:
    if ending is Ending.CANCELLED:
        return JobState.CANCELLED
    if ending is Ending.LOST:
        return JobState.LOST
    if level is Severity.WARNING:
        return JobState.WARNING
    return JobState.SUCCEEDED if level.fulfils else JobState.FAILED


def run_status_of(
    job: Job,
    settings: Settings,
    artifacts: Sequence[Artifact] = (),
    produced: Mapping[str, Mapping[str, str]] | None = None,
) -> RunStatus:
    """Return what Prefect shows of a job that has ended; `produced` is read from its files."""
    return RunStatus(
        state=PREFECT_STATES[job.state],
        message=job.message or job.state,
        transition_id=end_transition(job),
        run_name=run_name(job),
        labels=labels_of(job),
        tags=_tags_of(job),
        artifact_key=artifact_key(job.runtemplate),
        artifact_markdown=page(job, run_name(job), settings, artifacts, produced or {}),
    )


def _tags_of(job: Job) -> list[str]:
    """Return the original tags of the run for a job with a warning; none for others."""
    if job.state != JobState.WARNING:
        return []
    template = job.runtemplate
    return list(template_tags(template.company.slug, topics_of(template)))


def end_transition(job: Job) -> UUID:
    """Return the transition id by which everybody tells Prefect of this end of a job.

    It derives from the job's claim, if it had one. A new ledger counts from 1 again: the instant
    distinguishes its jobs from earlier ones.
    """
    of = job.claim_id or f"job {job.id} {job.created_at}"
    return transition_of(of, PREFECT_STATES[job.state])


PREFECTS_TRACEPARENT = "__OTEL_TRACEPARENT"
"""The label by which Prefect's own spans of a flow run continue a trace."""


def labels_of(job: Job) -> dict[str, str | int]:
    """Return the labels by which Prefect's flow runs can be found."""
    labels = {
        "jobauto.job": job.id,
        "jobauto.attempt": job.attempt,
        "jobauto.task": job.task_id,
        "jobauto.event": job.event_id,
        "jobauto.rule": job.eventrule_id,
        "jobauto.exit_code": job.exitcode,
        "jobauto.severity": job.severity,
        PREFECTS_TRACEPARENT: job.traceparent,
    }
    return {name: value for name, value in labels.items() if value is not None}


TRANSITIONS = UUID("0d3a6c1e-6f1c-4c55-9f7e-0b7d5a5d9a41")


def transition_of(subject: UUID | str, state: PrefectState) -> UUID:
    """Return the id of a transition to a state, of a claim's run or of a job without claim."""
    return uuid5(TRANSITIONS, f"{subject} {state}")
