"""An installation that runs for a long time stays as big as what it keeps."""

import asyncio
import gzip
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import httpx
import pytest
from sqlalchemy import insert

from jobauto_prefect.engine.api import PrefectApi
from jobauto_prefect.engine.context import EngineContext
from jobauto_prefect.engine.services.retention import Pruner
from jobauto_prefect.ledger.audit import seals
from jobauto_prefect.ledger.audit.archive_files import archive, whole_months_before
from jobauto_prefect.ledger.audit.seal_verification import verify
from jobauto_prefect.ledger.audit.seals import Sealer
from jobauto_prefect.ledger.audit.trail import SERVICE
from jobauto_prefect.ledger.jobs import attempts
from jobauto_prefect.ledger.records import (
    AuditEntry,
    AuditSeal,
    Event,
    Job,
    OutputLine,
    RunTemplate,
    Task,
    UnconfirmedEnd,
)
from jobauto_prefect.ledger.store import Ledger
from jobauto_prefect.settings import Settings
from tests.support.databases import both_databases
from tests.support.ledger_rows import count_rows
from tests.support.records import make_template
from tests.support.servers import client, user_token

pytestmark = both_databases

START = datetime(2026, 1, 20, tzinfo=UTC)
DAY = timedelta(days=1)
LINES = 20
AT_ONCE = 100
ASKED = (
    "/jobs.json?limit=100",
    "/tasks.json?limit=100",
    "/auditlog.json?limit=100",
    "/status.json",
)


@dataclass(frozen=True)
class Story:
    """So many days of so many jobs a day, of which so many days are kept."""

    days: int
    jobs: int
    kept: int


SHORT = Story(days=42, jobs=2, kept=10)
LONG = Story(days=90, jobs=1000, kept=30)


@pytest.mark.parametrize("story", [SHORT, pytest.param(LONG, marks=pytest.mark.soak)])
def test_what_is_kept_is_bounded_and_the_trail_is_whole(
    ledger: Ledger,
    facade_settings: Settings,
    facade_url: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    record_property: Callable[[str, object], None],
    story: Story,
) -> None:
    monkeypatch.setattr(seals, "BLOCK", max(10, story.jobs))  # a day has its seals
    kept = {f"keep_{name}_days": story.kept for name in ("jobs", "output", "tasks", "events")}
    settings = facade_settings.model_copy(update={**kept, "keep_runs_days": 0})
    rest = client(f"{facade_url}/api/v1", user_token(ledger))
    template = make_template(rest, name="nightly")["id"]
    sizes, speeds = [], []
    for day in range(story.days):
        now = START + day * DAY
        ledger.clock = lambda now=now: now  # type: ignore[misc]
        live_a_day(ledger, template, story.jobs, now)
        asyncio.run(prune(ledger, settings))
        Sealer(ledger).seal()
        if day + 1 in (story.kept, story.days):
            sizes.append(counts(ledger))
            for path, table in (("/jobs.json", "job"), ("/auditlog.json", "audit_entry")):
                total = rest.get(path, params={"limit": 1}).headers["X-Total-Count"]
                assert int(total) == sizes[-1][table]
            speeds.append({path: median(rest, path) for path in ASKED})
    # A day more or less is at the edge of what is kept.
    most = (story.kept + 1) * story.jobs
    for size in sizes:
        assert story.kept * story.jobs - story.jobs <= size["job"] <= most
        assert size["task"] == size["job"]
        assert size["event"] == size["job"]
        assert size["job_output_line"] == LINES * size["job"]
    record_property("medians in ms", speeds)
    whole = verify(ledger)
    assert (whole.damages, whole.unsealed) == ([], 0)
    archives = list(archive(ledger, SERVICE, whole_months_before(ledger.clock(), 1), tmp_path))
    assert archives[0].month == "2026-01"
    assert Sealer(ledger).seal()
    after = verify(ledger, files=tmp_path.glob("*.gz"))
    assert after.damages == []
    assert after.archived == sum(month.entries for month in archives)
    assert after.archived + after.entries == whole.entries + len(archives)
    every = [gzip.decompress(file.read_bytes()).count(b"\n") for file in tmp_path.glob("*.gz")]
    assert sum(every) > after.archived


def live_a_day(ledger: Ledger, template_id: int, jobs: int, day: datetime) -> None:
    """So many windows with a job each, an event and output, one after the other."""
    for start in range(0, jobs, AT_ONCE):
        with ledger.writing(SERVICE) as session:
            template = session.get_one(RunTemplate, template_id)
            for number in range(start, min(jobs, start + AT_ONCE)):
                at = day + number * DAY / jobs
                task = Task(
                    runtemplate_id=template_id, window_start=at, window_end=at, deadline=at,
                    state="fulfilled",
                )  # fmt: skip
                session.add(task)
                session.flush()
                job = attempts.new_job(template, schedule=at, schedule_type="scheduled")
                job.task_id, job.begin, job.end = task.id, at, at
                job.state, job.severity = "succeeded", "success"
                session.add(job)
                session.flush()
                end = Event(
                    kind="job", operation="succeeded", data={}, job_id=job.id,
                    company_id=job.company_id, created_at=at, emitted_at=at,
                )  # fmt: skip
                session.add(end)
                rows = [
                    {"job_id": job.id, "seq": seq, "stream": "stdout", "text": "line", "at": at}
                    for seq in range(1, LINES + 1)
                ]
                session.execute(insert(OutputLine), rows)
            session.flush()
            session.query(UnconfirmedEnd).delete()  # Prefect has confirmed them


async def prune(ledger: Ledger, settings: Settings) -> None:
    """What the services do once an hour."""
    async with PrefectApi(settings.prefect_api_url) as prefect:
        await Pruner(EngineContext(ledger, prefect, settings)).prune()


def counts(ledger: Ledger) -> dict[str, int]:
    """How many rows there are, by table."""
    kinds = (Job, Task, Event, OutputLine, AuditEntry, AuditSeal)
    return {kind.__tablename__: count_rows(ledger, kind) for kind in kinds}


def median(rest: httpx.Client, path: str) -> float:
    """Milliseconds of a request, the middle one of nine."""
    taken = []
    for _ in range(9):
        began = time.perf_counter()
        rest.get(path).raise_for_status()
        taken.append((time.perf_counter() - began) * 1000)
    return round(statistics.median(taken), 1)
