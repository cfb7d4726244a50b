"""A job's end: what the ledger keeps of it, and the story Prefect shows."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import timedelta

from jobauto_prefect.definitions import ContactLost, ExitCode, Severity, parse_exit_codes
from jobauto_prefect.engine.page import artifact_key, page
from jobauto_prefect.ledger import jobs
from jobauto_prefect.ledger.audit import WritingSession
from jobauto_prefect.ledger.policy import Policy
from jobauto_prefect.ledger.records import Artifact, Job
from jobauto_prefect.ledger.states import JobState
from jobauto_prefect.runtime import end_message, severity
from jobauto_prefect.runtime.protocol import Ending, PrefectState, Report, Story
from jobauto_prefect.settings import Settings

SHOWN: Mapping[str, PrefectState] = {
    JobState.SUCCEEDED: PrefectState.COMPLETED,
    JobState.WARNING: PrefectState.COMPLETED,
    JobState.FAILED: PrefectState.FAILED,
    JobState.LOST: PrefectState.CRASHED,
    JobState.CANCELLED: PrefectState.CANCELLED,
    JobState.BLOCKED: PrefectState.FAILED,
    JobState.SKIPPED: PrefectState.CANCELLED,
}
"""The stock Prefect state a job that is over is shown as."""


def settle(session: WritingSession, job: Job, report: Report, language: str) -> bool:
    """Write down the reported end of a job; True: it settles the matter, no attempt follows.

    Raises:
        Conflict: it has ended otherwise, or another attempt has taken its place.
    """
    return jobs.settle(session, job, _settlement(job, report, language))


def lose(session: WritingSession, job: Job, report: Report, settings: Settings) -> None:
    """A job's worker has been silent for one lease; `report` says so.

    Its process may live. What was told to go on without contact is waited for; what was told to
    stop has done so one lease later.

    Raises:
        Conflict: it has ended otherwise.
    """
    settlement = _settlement(job, report, settings.language)
    if Policy.read(job.policy).on_contact_lost == ContactLost.STOP:
        stopped_by = report.ended_at + timedelta(
            seconds=settings.lease_seconds + settings.stop_seconds
        )
        jobs.settle(session, job, replace(settlement, not_before=stopped_by, fenced=True))
    else:
        jobs.settle(session, job, replace(settlement, heard=False))


def _settlement(job: Job, report: Report, language: str) -> jobs.Settlement:
    ending = _ending(job, report)
    codes = parse_exit_codes(job.policy.get("exit_codes", {}))
    level = severity(codes, ending, report.exit_code)
    said = job.cancel_reason if ending is Ending.CANCELLED else None
    return jobs.Settlement(
        state=_final_state(ending, level),
        severity=level,
        message=end_message(
            ending, report.exit_code, level, codes, language, said or report.message
        ),
        ended_at=report.ended_at,
        exit_code=report.exit_code,
        started_at=report.started_at,
        pid=report.pid,
        again=_is_tried_again(job, ending, report.exit_code, codes),
    )


def _is_tried_again(
    job: Job, ending: Ending, exit_code: int | None, codes: Mapping[int, ExitCode]
) -> bool:
    """Whether an end of this kind is worth another attempt, whatever its severity."""
    if ending is Ending.LOST:
        return True
    if ending is Ending.CANCELLED:
        return False
    declared = codes.get(exit_code) if ending is Ending.EXITED and exit_code is not None else None
    if declared is not None:
        return declared.retry
    good = ending is Ending.EXITED and exit_code == 0
    return not good and Policy.read(job.policy).retry_undeclared


def _ending(job: Job, report: Report) -> Ending:
    """A job that somebody asked to end and whose worker is gone has been cancelled."""
    if report.ending is Ending.LOST and job.cancel_reason is not None:
        return Ending.CANCELLED
    return report.ending


def _final_state(ending: Ending, level: Severity) -> JobState:
    if ending is Ending.CANCELLED:
        return JobState.CANCELLED
    if ending is Ending.LOST:
        return JobState.LOST
    if level is Severity.WARNING:
        return JobState.WARNING
    return JobState.SUCCEEDED if level.fulfils else JobState.FAILED


def story_of(
    job: Job,
    settings: Settings,
    artifacts: Sequence[Artifact] = (),
    produced: Mapping[str, Mapping[str, str]] | None = None,
) -> Story:
    """What Prefect shows of a job that is over; `produced` is what its files say, by path."""
    return Story(
        state=SHOWN[job.state],
        message=job.message or job.state,
        run_name=run_name(job),
        labels=labels_of(job),
        artifact_key=artifact_key(job.runtemplate),
        artifact_markdown=page(job, run_name(job), settings, artifacts, produced or {}),
    )


def run_name(job: Job) -> str:
    """How Prefect names the flow run of a job."""
    name = f"{job.runtemplate.company.name} / {job.runtemplate.name} #{job.id}"
    if job.task_id is None:
        return name
    return f"{name} (task {job.task_id}, attempt {job.attempt})"


def labels_of(job: Job) -> dict[str, str | int]:
    """Labels by which Prefect's flow runs can be found."""
    labels = {
        "jobauto.job": job.id,
        "jobauto.attempt": job.attempt,
        "jobauto.task": job.task_id,
        "jobauto.event": job.event_id,
        "jobauto.rule": job.eventrule_id,
        "jobauto.exit_code": job.exitcode,
        "jobauto.severity": job.severity,
    }
    return {name: value for name, value in labels.items() if value is not None}
