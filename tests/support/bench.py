"""A ledger whose clock the test sets, beside a real Prefect."""

import asyncio
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any
from uuid import UUID, uuid4

from sqlalchemy import select

from jobauto_prefect.engine import flow_runs
from jobauto_prefect.engine.api import PrefectApi
from jobauto_prefect.engine.context import EngineContext
from jobauto_prefect.engine.outbox_worker import OutboxWorker
from jobauto_prefect.jobs.outcome.results import run_status_of
from jobauto_prefect.ledger.audit.trail import SERVICE
from jobauto_prefect.ledger.jobs import attempts
from jobauto_prefect.ledger.jobs.confirmations import SETTLED_FOR
from jobauto_prefect.ledger.outbox import OutboxKind, enqueue
from jobauto_prefect.ledger.queries.jobs import job_with_context
from jobauto_prefect.ledger.records import Job, OutboxMessage, OutputLine, RunTemplate
from jobauto_prefect.ledger.store import Ledger
from jobauto_prefect.runtime.protocol import RunStatus
from tests.support.counting_proxy import CountingTransport
from tests.support.ledger_rows import fetch, fetch_all


@dataclass
class Bench:
    """A ledger whose clock the test sets, and a Prefect whose calls are counted."""

    context: EngineContext
    transport: CountingTransport
    template: int
    ahead: list[timedelta] = field(default_factory=lambda: [timedelta()])

    @property
    def ledger(self) -> Ledger:
        """The ledger."""
        return self.context.ledger

    @property
    def prefect(self) -> PrefectApi:
        """A client of the real Prefect."""
        return self.context.prefect

    async def claimed(self) -> tuple[int, UUID]:
        """A job that runs, and its flow run, which Prefect shows as Running."""
        job_id = await asyncio.to_thread(self._scheduled)
        await OutboxWorker(self.context).handle_all()
        run = await asyncio.to_thread(self.change, job_id, state="running", claim_id=uuid4(),
                                      run_number=1)  # fmt: skip
        assert run is not None
        assert (await flow_runs.propose(self.prefect, run, "RUNNING")).accepted
        return job_id, run

    def _scheduled(self) -> int:
        with self.ledger.writing(SERVICE) as session:
            template = session.get_one(RunTemplate, self.template)
            due = session.clock() - timedelta(minutes=1)  # also by Prefect's own clock
            job = attempts.new_job(template, schedule=due, schedule_type="adhoc")
            session.add(job)
            session.flush()
            enqueue(session, OutboxKind.CREATE_RUN, job.id)
            return job.id

    def change(self, job_id: int, **members: Any) -> UUID | None:
        """Change the record of a job; its flow run."""
        with self.ledger.writing(SERVICE) as session:
            job = session.get_one(Job, job_id)
            for name, value in members.items():
                setattr(job, name, value)
            return job.flow_run_id

    def end(self, job_id: int, state: str = "succeeded") -> None:
        """The job is over now."""
        severity = "warning" if state == "warning" else "success"
        self.change(job_id, state=state, severity=severity, message="so", end=self.ledger.clock())

    def later(self, span: timedelta = SETTLED_FOR) -> None:
        """Let time go by: what was written is settled then."""
        self.ahead[0] += span

    def run_status(self, job_id: int) -> RunStatus:
        """What Prefect is to show of a job."""
        with self.ledger.reading() as session:
            return run_status_of(job_with_context(session, job_id), self.context.settings)

    async def state(self, run: UUID) -> str:
        """The type of the state that Prefect shows."""
        shown: str = (await self.prefect.get(f"/flow_runs/{run}"))["state_type"]
        return shown

    async def looks(self, run: UUID) -> tuple[str, list[str]]:
        """Name and tags that Prefect shows."""
        shown = await self.prefect.get(f"/flow_runs/{run}")
        return shown["name"], sorted(shown["tags"])

    async def history(self, run: UUID) -> list[str]:
        """The types of all states a flow run was in."""
        states = await self.prefect.get(f"/flow_run_states/?flow_run_id={run}")
        return [state["type"] for state in states]

    def job(self, job_id: int) -> Job:
        """The record of a job."""
        return fetch(self.ledger, Job, job_id)

    def notices(self, job_id: int) -> list[str]:
        """The lines of a job's output."""
        lines = fetch_all(self.ledger, select(OutputLine).where(OutputLine.job_id == job_id))
        return [line.text for line in lines]

    def waiting(self) -> list[str]:
        """The kinds of messages that wait for Prefect."""
        return [message.kind for message in fetch_all(self.ledger, OutboxMessage)]
