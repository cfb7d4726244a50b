"""A simulated installation: the real keeper, claims and reports on a real ledger.

Time, Prefect's flow runs, the worker and the processes are the simulation's; nothing sleeps.
"""

import heapq
import itertools
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from uuid import UUID

from sqlalchemy import delete, select, update

from jobauto_prefect.engine.services.window_scheduler import WindowScheduler
from jobauto_prefect.errors import Conflict, NumberTaken
from jobauto_prefect.facade.app import create_app
from jobauto_prefect.facade.service import Service
from jobauto_prefect.jobs.claims import decision
from jobauto_prefect.jobs.claims.claim import OpenClaim
from jobauto_prefect.jobs.outcome import reports
from jobauto_prefect.jobs.outcome.loss import mark_lost
from jobauto_prefect.ledger.audit.trail import SERVICE
from jobauto_prefect.ledger.jobs import windows
from jobauto_prefect.ledger.outbox import OutboxKind
from jobauto_prefect.ledger.queries.jobs import job_with_context
from jobauto_prefect.ledger.records import Job, OutboxMessage, RunTemplate
from jobauto_prefect.ledger.store import Ledger
from jobauto_prefect.runtime.protocol import Claim, Ending, PrefectState, Report
from jobauto_prefect.settings import Settings
from tests.support.claims import instance_of, start_workers
from tests.support.simulation.habits import Habits
from tests.support.simulation.matcher import Outage, Process

LOOK = timedelta(minutes=15)
"""How often is looked again where nothing is due: each second is too often for a year."""

SECOND = timedelta(seconds=1)
WORKER = "w0"
INSTANCE = UUID(instance_of(WORKER))


@dataclass(slots=True)
class Run:
    """A flow run: `turn` counts its start times, so that a former one starts nothing."""

    id: UUID
    job_id: int
    deployment_id: UUID
    number: int = 0
    turn: int = 0
    over: bool = False


class World:
    """Everything that happens, in the order of its instants."""

    def __init__(self, ledger: Ledger, settings: Settings, start: datetime, seed: int) -> None:
        self.now = start
        self.ledger, self.settings = ledger, settings
        ledger.clock = lambda: self.now
        start_workers(ledger, settings.pool)
        self.service: Service = create_app(settings, ledger).state.service
        self.keeper = WindowScheduler(ledger)
        self.chance = random.Random(seed)
        self.habits: dict[int, Habits] = {}
        self.overlaps: dict[int, str] = {}
        self.template_of: dict[UUID, int] = {}
        self.outages: Sequence[Outage] = ()
        self.processes: list[Process] = []
        self.duplicates = 0
        self._running: dict[int, tuple[Process, UUID]] = {}
        self._runs: dict[int, Run] = {}
        self._queue: list[tuple[datetime, int, Callable[[], None]]] = []
        self._order = itertools.count()

    def at(self, instant: datetime, action: Callable[[], None]) -> None:
        """Something happens at an instant, or at once where that has passed."""
        heapq.heappush(self._queue, (max(instant, self.now), next(self._order), action))

    def begin(self, outages: Sequence[Outage]) -> None:
        """The service starts; parts of it will be away."""
        self.outages = outages
        for outage in self.outages:
            if outage.part in ("crash", "cut"):
                self.at(outage.start, partial(self._lose_worker, outage))
        self.at(self.now, self._tick)

    def run(self, until: datetime) -> None:
        """Let time go by."""
        while self._queue and self._queue[0][0] <= until:
            self.now, _, action = heapq.heappop(self._queue)
            action()
        self.now = until

    def _back(self, *parts: str) -> datetime | None:
        """When all these parts are there again; None: they are."""
        ends = [
            outage.end
            for outage in self.outages
            if outage.part in parts and outage.start <= self.now < outage.end
        ]
        return max(ends, default=None)

    def _tick(self) -> None:
        back = self._back("services", "database")
        if back is not None:
            self.at(back, self._tick)
            return
        self.keeper.tick()
        self._carry()
        with self.ledger.reading() as session:
            due = windows.next_due(session)
        self.at(min(due or self.now + LOOK, self.now + LOOK), self._tick)

    def _carry(self) -> None:
        """What Prefect is told."""
        with self.ledger.engine.begin() as connection:
            taken = delete(OutboxMessage).returning(
                OutboxMessage.id, OutboxMessage.kind, OutboxMessage.subject_id
            )
            messages = sorted(connection.execute(taken).all())
            made = [
                message.subject_id for message in messages if message.kind == OutboxKind.CREATE_RUN
            ]
            query = select(Job.id, Job.schedule, RunTemplate.deployment_id).join(RunTemplate)
            jobs = (
                connection.execute(query.where(Job.id.in_(made), Job.flow_run_id.is_(None))).all()
                if made
                else []
            )
            for job_id, schedule, deployment_id in jobs:
                run = Run(self._uuid(), job_id, deployment_id)
                self._runs[job_id] = run
                connection.execute(
                    update(Job.__table__)  # type: ignore[arg-type]
                    .where(Job.__table__.c.id == job_id)
                    .values(flow_run_id=run.id)
                )
                self._start(run, schedule)
                if self.chance.random() < 0.03:
                    self.duplicates += 1
                    delay = timedelta(seconds=self.chance.uniform(0, 900))
                    self._start(Run(self._uuid(), job_id, deployment_id), schedule + delay)
        for message in messages:
            run_of = self._runs.get(message.subject_id)
            if run_of is None:
                continue
            if message.kind == OutboxKind.RESCHEDULE_RUN:
                self._start(run_of, self.now)
            elif message.kind == OutboxKind.CANCEL_RUN:
                run_of.over = True

    def _uuid(self) -> UUID:
        return UUID(int=self.chance.getrandbits(128))

    def _start(self, run: Run, due: datetime) -> None:
        run.turn += 1
        turn = run.turn
        self.at(due, lambda: self._claim(run, turn))

    def _claim(self, run: Run, turn: int) -> None:
        if run.over or run.turn != turn:
            return
        back = self._back("crash", "cut", "database")
        if back is not None:
            self.at(back, lambda: self._claim(run, turn))
            return
        claim = Claim(
            claim_id=self._uuid(),
            flow_run_id=run.id,
            run_number=run.number + 1,
            deployment_id=run.deployment_id,
            parameters={"jobauto": {"job": run.job_id}},
            worker=WORKER,
            instance=INSTANCE,
            work_directory="/simulated",
        )
        try:
            with self.ledger.writing(SERVICE) as session:
                opened = OpenClaim(
                    self.settings, self.ledger.box, session, claim, (self.settings.pool,)
                )
                answer = decision.decide_claim(opened)
        except NumberTaken:
            run.over = True
            return
        if answer.launch is not None:
            run.number += 1
            self._launch(
                run,
                answer.launch.job_id,
                answer.launch.task_id,
                claim.claim_id,
                timedelta(seconds=answer.launch.timeout_seconds),
            )
        elif answer.refusal is not None:
            run_status = answer.refusal.run_status
            if run_status.state is PrefectState.SCHEDULED and run_status.at is not None:
                # Who waits for another is told when that one ends; looking again is for the rest.
                self._start(run, max(run_status.at, self.now + LOOK))
            else:
                run.over = True
        self._carry()

    def _launch(
        self, run: Run, job_id: int, task_id: int | None, claim_id: UUID, timeout: timedelta
    ) -> None:
        template = self.template_of[run.deployment_id]
        code, fulfils, takes = self.habits[template].process(self.chance)
        ended_by_us = takes > timeout
        process = Process(template, task_id, job_id, self.now, code, fulfils and not ended_by_us)
        self.processes.append(process)
        self._running[job_id] = (process, claim_id)
        ending = Ending.TIMEOUT if ended_by_us else Ending.EXITED
        self.at(self.now + min(takes, timeout), lambda: self._end(process, claim_id, ending))

    def _end(self, process: Process, claim_id: UUID, ending: Ending) -> None:
        if process.dead:
            return
        process.ended = self.now
        self._report(process, claim_id, ending, self.now)

    def _report(self, process: Process, claim_id: UUID, ending: Ending, ended: datetime) -> None:
        """Until it is accepted."""
        back = self._back("crash", "cut", "database")
        if back is not None:
            self.at(back, lambda: self._report(process, claim_id, ending, ended))
            return
        report = Report(
            claim_id=claim_id,
            worker=WORKER,
            ending=ending,
            exit_code=process.exit_code if ending is Ending.EXITED else None,
            started_at=process.started,
            ended_at=ended,
        )
        with self.ledger.writing(SERVICE) as session:
            pools = (self.settings.pool,)
            reports.accept_report(session, process.job_id, report, pools, self.settings)
        process.settled_at = self.now
        self._running.pop(process.job_id, None)
        self._carry()

    def _lose_worker(self, outage: Outage) -> None:
        """A crash ends its processes, which its successor tells; a cut keeps it from telling."""
        if outage.part == "crash":
            for process, claim_id in list(self._running.values()):
                if process.ended is None:
                    process.dead, process.ended = True, self.now
                    self._report(process, claim_id, Ending.LOST, self.now)
        lease = timedelta(seconds=self.settings.lease_seconds)
        self.at(self.now + lease, lambda: self._reap(outage))

    def _reap(self, outage: Outage) -> None:
        """The worker has been silent for a lease."""
        if self.now >= outage.end:
            return
        back = self._back("services", "database")
        if back is not None:
            lease = timedelta(seconds=self.settings.lease_seconds)
            self.at(back + lease, lambda: self._reap(outage))
            return
        for process, claim_id in list(self._running.values()):
            loss = Report(
                claim_id=claim_id,
                worker=WORKER,
                ending=Ending.LOST,
                message="no sign of life",
                ended_at=self.now,
            )
            try:
                with self.ledger.writing(SERVICE) as session:
                    job = job_with_context(session, process.job_id)
                    mark_lost(session, job, loss, self.settings)
            except Conflict:
                continue
        self._carry()
