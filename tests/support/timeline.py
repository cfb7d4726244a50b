"""A ledger with one run template, at times that the test sets."""

from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

import httpx
from sqlalchemy import select

from jobauto_prefect.engine.services.window_scheduler import WindowScheduler
from jobauto_prefect.jobs.outcome.loss import mark_lost
from jobauto_prefect.ledger.audit.trail import SERVICE
from jobauto_prefect.ledger.outbox import OutboxKind, pending_subjects
from jobauto_prefect.ledger.queries.jobs import job_with_context
from jobauto_prefect.ledger.records import Job, RunTemplate, Task
from jobauto_prefect.ledger.store import Ledger
from jobauto_prefect.runtime.protocol import Ending, Report
from jobauto_prefect.settings import Settings
from tests.support.beginnings import begin_with
from tests.support.claims import (
    DEPLOYMENT,
    claim_of,
    own_run_of,
    renewal_of,
    report,
)
from tests.support.ledger_rows import fetch_all
from tests.support.records import make_template

NOON = datetime(2026, 5, 4, 12, tzinfo=UTC)  # a Monday
MINUTE, HOUR, DAY = timedelta(minutes=1), timedelta(hours=1), timedelta(days=1)
Record = dict[str, Any]


class Timeline:
    """A ledger with one template, whose clock the test turns."""

    def __init__(
        self, ledger: Ledger, rest: httpx.Client, claims: httpx.Client, settings: Settings
    ) -> None:
        self.ledger, self.rest, self.claims, self.settings = ledger, rest, claims, settings
        self.now = NOON - 30 * MINUTE
        ledger.clock = lambda: self.now
        self.keeper = WindowScheduler(ledger)
        self.template: Record = {}
        self.renewals = 0

    def schedule(self, **members: Any) -> Record:
        """The template with a schedule; Prefect knows it by a deployment that has one, too."""

        def make() -> Record:
            made = make_template(self.rest, **{"interv": "h", **members})
            with self.ledger.writing(SERVICE) as session:
                record = session.get_one(RunTemplate, made["id"])
                record.deployment_id, record.applied_paused = DEPLOYMENT, False
            return made

        self.template = begin_with(self.ledger, f"schedule {members} at {self.now}", make)
        return self.template

    def change(self, **members: Any) -> None:
        """Change the template over REST."""
        body = {"id": self.template["id"], **members}
        self.rest.post("/runtemplate/", json=body).raise_for_status()

    def keep_at(self, now: datetime) -> None:
        """Let the keeper look at an instant."""
        self.now = now
        self.keeper.tick()

    def tasks(self) -> list[Task]:
        """All tasks, by their windows."""
        return fetch_all(self.ledger, select(Task).order_by(Task.window_start))

    def states(self) -> list[tuple[str, str | None]]:
        """State and reason of each task."""
        return [(task.state, task.reason) for task in self.tasks()]

    def jobs(self) -> list[Job]:
        """All jobs, the oldest first."""
        return fetch_all(self.ledger, Job)

    def pending_subjects(self, kind: str) -> list[int]:
        """What the messages of a kind that wait for Prefect are about."""
        return fetch_all(self.ledger, pending_subjects(OutboxKind(kind)))

    def bind(self, job: Job) -> None:
        """Prefect, which is away, has a run of this job: what it is to be told of that waits."""
        with self.ledger.writing(SERVICE) as session:
            session.get_one(Job, job.id).flow_run_id = uuid4()

    def by_prefect(self, due: datetime, **members: Any) -> Record:
        """A claim of the run that Prefect's scheduler made for a window."""
        return claim_of(auto_scheduled=True, scheduled_for=due.isoformat(), **members)

    def of_job(self, job: Job, **members: Any) -> Record:
        """A claim of the run that was made for a job."""
        return own_run_of(self.ledger, job.id, **members)

    def ends(self, launch: Record, after: timedelta = MINUTE, **members: Any) -> Record:
        """The attempt ends, so long after the present."""
        self.now += after
        at = self.now.isoformat()
        return report(self.claims, launch, started_at=at, ended_at=at, **members)

    def loses(self, launch: Record) -> None:
        """The reaper finds that the worker is silent."""
        loss = Report(
            claim_id=UUID(launch["claim_id"]),
            worker="w1",
            ending=Ending.LOST,
            message="no sign of life",
            ended_at=self.now,
        )
        with self.ledger.writing(SERVICE) as session:
            job = job_with_context(session, launch["job_id"])
            mark_lost(session, job, loss, self.settings)

    def renewal(self, launch: Record) -> Record:
        """Which jobs a renewal by the worker of a launch is told to stop."""
        self.renewals += 1
        held = {str(launch["job_id"]): launch["claim_id"]}
        body = renewal_of(self.renewals, jobs=held)
        answer: Record = self.claims.post("/renewals", json=body).raise_for_status().json()
        return answer["stop"]
