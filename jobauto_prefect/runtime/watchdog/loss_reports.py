"""Reports to the facade about jobs that this watchdog had to end."""

import http.client
import json
import shutil
import time
import urllib.error
import urllib.request
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

PATIENCE_SECONDS = 600.0
LONGEST_PAUSE_SECONDS = 5.0
AGAIN = (408, 425, 429)


class Facade(NamedTuple):
    """The address of the claims API, and who is calling."""

    url: str
    token: str
    worker: str


class LostJob(NamedTuple):
    """An ended job; times are ISO 8601 texts, `record` is its file on disk."""

    job_id: int
    claim_id: str
    directory: str
    record: str
    started_at: str
    ended_at: str
    message: str


def report_lost_jobs(facade: Facade, jobs: Iterable[LostJob]) -> None:
    """Report each job until accepted, at most for some minutes, then remove its files.

    Unreported jobs keep their files: the worker's successor finds them.
    """
    waiting = list(jobs)
    deadline = time.monotonic() + PATIENCE_SECONDS
    pause = 0.2
    while waiting and time.monotonic() < deadline:
        waiting = [job for job in waiting if not _settled(facade, job)]
        if waiting:
            time.sleep(pause)
            pause = min(2 * pause, LONGEST_PAUSE_SECONDS)


def _settled(facade: Facade, job: LostJob) -> bool:
    status = _send(facade, job)
    if status is None or status >= 500 or status in AGAIN:
        return False
    if status not in (401, 403):  # these are not about the job
        shutil.rmtree(job.directory, ignore_errors=True)
        Path(job.record).unlink(missing_ok=True)
    return True


def _send(facade: Facade, job: LostJob) -> int | None:
    """Send a loss; return the answer's status, or None without an answer."""
    body = {
        "claim_id": job.claim_id,
        "worker": facade.worker,
        "ending": "lost",
        "message": job.message,
        "started_at": job.started_at,
        "ended_at": job.ended_at,
    }
    request = urllib.request.Request(  # noqa: S310 - the worker's own setting
        f"{facade.url}/internal/v1/jobs/{job.job_id}/report",
        data=json.dumps(body).encode(),
        headers={"Authorization": f"Bearer {facade.token}", "Content-Type": "application/json"},
    )
    try:
        with urllib.request.urlopen(request, timeout=10) as answer:  # noqa: S310
            status: int = answer.status
            return status
    except urllib.error.HTTPError as error:
        return error.code
    except (OSError, http.client.HTTPException):
        return None
