"""Serializers of jobs, their output and artifacts, and of tasks."""

from collections.abc import Iterable, Sequence
from datetime import datetime

from jobauto_prefect.facade.models import jobs as models
from jobauto_prefect.facade.models import tasks
from jobauto_prefect.facade.serializers.common import (
    JsonObject,
    isoformat,
    prefect_link,
    serialize_fields,
)
from jobauto_prefect.jobs import waits
from jobauto_prefect.ledger.queries.run_templates import work_of_templates
from jobauto_prefect.ledger.records import Artifact, Job, OutputLine, RunTemplate, Task
from jobauto_prefect.ledger.store import ReadingSession
from jobauto_prefect.settings import Settings

MAX_OUTPUT_BYTES = 64 * 1024


def serialize_job(job: Job, settings: Settings) -> JsonObject:
    """Return a job as lists show it: without output and artifacts.

    What it waits for is others' to know: see `add_wait_reasons`.
    """
    link = prefect_link(settings, "runs/flow-run", job.flow_run_id)
    return serialize_fields(models.Job, job, waits_for=None, prefect_url=link)


def add_wait_reasons(
    session: ReadingSession,
    jobs: Iterable[object],
    shown: Iterable[JsonObject],
    settings: Settings,
    now: datetime,
) -> None:
    """Add what they wait for to records of jobs; those of other kinds stay as they are."""
    reasons = waits.wait_reasons(
        session, (job for job in jobs if isinstance(job, Job)), settings, now
    )
    for record in shown:
        if record.get("id") in reasons and "waits_for" in record:
            record["waits_for"] = reasons[record["id"]]


def add_job_counts(
    session: ReadingSession, records: Sequence[object], shown: Sequence[JsonObject]
) -> None:
    """Add what became of their jobs to records of run templates; other kinds stay as they are."""
    templates = {record.id: record for record in records if isinstance(record, RunTemplate)}
    if not templates:
        return
    work_by_template = work_of_templates(session, list(templates))
    for record in shown:
        work = work_by_template[record["id"]]
        record["successfull_jobs_count"] = work.succeeded
        record["failed_jobs_count"] = work.failed
        record["last_schedule"] = isoformat(work.last_schedule)
        record["next_schedule"] = isoformat(templates[record["id"]].next_schedule)


def serialize_job_details(lines: Sequence[OutputLine], artifacts: Sequence[Artifact]) -> JsonObject:
    """Return what a job's own record has beyond its row in a list."""
    return {
        "stdout": _tail_of(lines, "stdout"),
        "stderr": _tail_of(lines, "stderr"),
        "artifacts": [serialize_artifact(artifact) for artifact in artifacts],
    }


def serialize_artifact(artifact: Artifact) -> JsonObject:
    """Return an artifact without its content."""
    return serialize_fields(models.Artifact, artifact, href=f"/api/v1/artifact/{artifact.id}")


def _tail_of(lines: Sequence[OutputLine], stream: str) -> str:
    text = "".join(
        f"{line.text}\n" if line.is_gap or line.written.endswith(b"\n") else line.text
        for line in lines
        if line.stream == stream
    )
    return text.encode()[-MAX_OUTPUT_BYTES:].decode(errors="ignore")


def serialize_line(line: OutputLine) -> JsonObject:
    """Return one line of output as answers show it."""
    return serialize_fields(models.OutputLine, line)


def serialize_task(task: Task, _settings: Settings) -> JsonObject:
    """Return a task as answers show it; its own record has its attempts besides."""
    return serialize_fields(tasks.Task, task, company_id=task.runtemplate.company_id)
