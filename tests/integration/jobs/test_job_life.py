"""What two workers, two facades and the services may say about a job, in any order and again.

A state machine sends claims, renewals, reports, cancellations and the reaper's word, late and
repeated, and looks after each whether the ledger's promises hold: one process per window and flow
run (P3), an outcome that was taken stays (P1), and every task ends (P4). A job that its living
worker does not have is decided within one lease of renewals, and none that it has is taken for one.
A claim that comes ahead of its time is granted only a little before, or changes nothing.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from sqlalchemy import select

from jobauto_prefect.errors import ClaimOver, Conflict
from jobauto_prefect.facade.kinds.applications import write_app
from jobauto_prefect.facade.kinds.companies import write_company
from jobauto_prefect.facade.kinds.run_templates import write_template
from jobauto_prefect.facade.writes.base import WriteRequest
from jobauto_prefect.jobs import workers
from jobauto_prefect.jobs.claims import decision
from jobauto_prefect.jobs.claims.claim import NotDue, OpenClaim
from jobauto_prefect.jobs.outcome import reports
from jobauto_prefect.jobs.outcome.cancellation import cancel
from jobauto_prefect.jobs.outcome.loss import close_lost, mark_certainly_lost, mark_lost
from jobauto_prefect.jobs.windows.due_windows import open_until
from jobauto_prefect.jobs.windows.tasks import close_lapsed
from jobauto_prefect.ledger.audit.trail import SERVICE
from jobauto_prefect.ledger.jobs import attempts, windows
from jobauto_prefect.ledger.jobs.flow_runs import run_key
from jobauto_prefect.ledger.jobs.workers import Registration, register
from jobauto_prefect.ledger.opening import open_ledger
from jobauto_prefect.ledger.queries.jobs import job_with_context, leases_older_than
from jobauto_prefect.ledger.records import Job, Lease, OutboxMessage, RunTemplate, Task
from jobauto_prefect.ledger.states import LIVE_JOBS, LIVE_TASKS, JobState, TaskState
from jobauto_prefect.ledger.store import Ledger
from jobauto_prefect.runtime.protocol import Claim, Ending, Launch, Renewal, Report
from jobauto_prefect.settings import Settings
from tests.support.databases import both_databases
from tests.support.documents import smallest
from tests.support.ledger_rows import fetch, fetch_all
from tests.support.servers import OPERATOR

NOON = datetime(2026, 5, 1, 12, tzinfo=UTC)
SECOND = timedelta(seconds=1)
LEASE = timedelta(seconds=60)
TIMEOUT = timedelta(seconds=300)
WORKERS = ("w1", "w2")
TRIED_AGAIN = 75
"""The exit code after which there is another attempt."""

STEPS = 6
NORMAL = settings(
    max_examples=30,
    stateful_step_count=STEPS,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=list(HealthCheck),
)
LONG = settings(NORMAL, max_examples=2000, derandomize=False)

State = tuple[Any, ...]


@dataclass(slots=True)
class Process:
    """A job in the hands of a worker, from its grant on; `asked` is when its claim was sent."""

    worker: str
    claim: Claim
    launch: Launch
    asked: datetime
    renewed: datetime
    started: datetime | None = None
    ended: datetime | None = None
    settled: bool = False  # its report has come, or there is none

    @property
    def lives(self) -> bool:
        return self.started is not None and self.ended is None


@dataclass(slots=True)
class Installation:
    """Two facades over one ledger, with an application that all templates run."""

    ledgers: tuple[Ledger, Ledger]
    settings: Settings
    count: int = 0
    now: datetime = NOON
    deployments: dict[int, UUID] = field(default_factory=dict)

    def write(self, kind: Any, **fields: Any) -> Any:
        ledger = self.ledgers[0]
        with ledger.writing(SERVICE) as session:
            written = kind(WriteRequest(session, ledger.box, self.settings, OPERATOR, fields))
            session.flush()
            return written.record.id

    def add_template(self, **members: Any) -> int:
        self.count += 1
        named = {"company": "acme", "app": "Steps", "name": f"template {self.count}"}
        number: int = self.write(write_template, **named, **members)
        with self.ledgers[0].writing(SERVICE) as session:
            session.get_one(RunTemplate, number).deployment_id = UUID(int=self.count)
        return number


@pytest.fixture
def installation(ledger_settings: Settings) -> Iterator[Installation]:
    told = {"lease_seconds": LEASE.total_seconds(), "timeout_seconds": TIMEOUT.total_seconds()}
    used = ledger_settings.model_copy(update=told)
    ledgers = open_ledger(used), open_ledger(used)
    made = Installation(ledgers, used)
    for ledger in ledgers:
        ledger.clock = lambda: made.now
    again = {"description": "later", "severity": "error", "retry": True}
    made.write(
        write_app,
        **smallest(name="Steps", exitCodes={str(TRIED_AGAIN): again}),
    )
    made.write(write_company, slug="acme", name="Acme")
    yield made
    for ledger in ledgers:
        ledger.close()


class JobLife(RuleBasedStateMachine):
    """One window, or one job by hand, and all that is said about it."""

    def __init__(self, installation: Installation) -> None:
        super().__init__()
        self.here = installation
        self.runs: dict[int, UUID] = {}
        self.asked: list[Claim] = []
        self.processes: list[Process] = []
        self.told: list[tuple[int, Report]] = []
        self.outcomes: dict[int, str] = {}
        self.ended_tasks: dict[int, str] = {}
        self.instances = {worker: uuid4() for worker in WORKERS}
        self.numbers = dict.fromkeys(WORKERS, 0)
        self.answered = dict.fromkeys(WORKERS, 0)
        self.waiting: dict[str, set[UUID]] = {worker: set() for worker in WORKERS}
        self.given_up: set[UUID] = set()
        self.late: list[Renewal] = []

    @initialize(
        by_window=st.booleans(),
        on_contact_lost=st.sampled_from(["finish", "stop"]),
        overlap=st.sampled_from(["wait", "skip", "parallel"]),
    )
    def begin(self, *, by_window: bool, on_contact_lost: str, overlap: str) -> None:
        self.here.now = NOON - LEASE
        members = {"max_attempts": 3, "on_contact_lost": on_contact_lost, "overlap": overlap}
        times = {"interv": "h"} if by_window else {}
        self.template = self.here.add_template(**members, **times)
        self.stops = on_contact_lost == "stop"
        self.here.now = NOON + SECOND
        pools = [self.here.settings.pool]
        with self.here.ledgers[0].writing(SERVICE) as session:
            for worker, instance in self.instances.items():
                start = Registration(worker, pools[0], "here", instance, same_place=True)
                register(session, start, pools, LEASE.total_seconds())
            template = session.get_one(RunTemplate, self.template)
            if by_window:
                open_until(session, template, self.here.now)
            else:
                session.add(
                    attempts.new_job(template, schedule=self.here.now, schedule_type="adhoc-api")
                )

    # what is said

    @rule(
        worker=st.sampled_from(WORKERS),
        facade=st.integers(0, 1),
        back=st.integers(0, 2),
        ahead=st.sampled_from([None, 0, 0.25, 30]),
        heard=st.booleans(),
    )
    def claim(
        self, worker: str, facade: int, back: int, *, ahead: float | None, heard: bool
    ) -> None:
        """A worker sees the flow run of one of the jobs, most often the newest, and may say that it
        waits so many seconds until this is due; the answer to its claim may get lost.
        """
        jobs = self.jobs()
        job = jobs[-1 - min(back, len(jobs) - 1)]
        run = self.runs.setdefault(job.id, job.flow_run_id or uuid4())
        number = sum(other.flow_run_id == run and bool(other.run_number) for other in jobs) + 1
        claim = Claim(
            claim_id=uuid4(),
            flow_run_id=run,
            run_number=number,
            deployment_id=UUID(int=self.here.count),
            parameters={"jobauto": {"job": job.id}},
            idempotency_key=run_key(job),
            due=None if ahead is None else self.here.now + ahead * SECOND,
            worker=worker,
            instance=self.instances[worker],
            work_directory="/work",
        )
        self.asked.append(claim)
        self.waiting[worker].add(claim.claim_id)
        self.ask(claim, facade, heard=heard)

    @precondition(lambda self: self.asked)
    @rule(which=st.integers(0, 9), facade=st.integers(0, 1))
    def claim_again(self, which: int, facade: int) -> None:
        """A claim whose answer was lost, or that was long under way, comes once more."""
        claim = self.asked[which % len(self.asked)]
        self.ask(claim, facade, heard=claim.claim_id not in self.given_up)

    @rule(worker=st.sampled_from(WORKERS))
    def give_up_claims(self, worker: str) -> None:
        """A worker does not wait for its answers any more; what it asked may still be granted."""
        self.given_up |= self.waiting[worker]
        self.waiting[worker] = set()

    def ask(self, claim: Claim, facade: int, *, heard: bool = True) -> bool:
        """Whether the ledger granted the claim, now or before."""
        if heard:
            self.waiting[claim.worker].discard(claim.claim_id)
        before, all_before = self.job_of(claim), self.snapshot()
        ledger = self.here.ledgers[facade]
        try:
            with ledger.writing(SERVICE) as session:
                pools = (self.here.settings.pool,)
                opened = OpenClaim(self.here.settings, ledger.box, session, claim, pools)
                answer = decision.decide_claim(opened)
        except NotDue:
            assert before is None
            assert claim.due is not None
            assert claim.due > self.here.now
            assert self.snapshot() == all_before
            return False
        except ClaimOver:
            assert before is not None
            assert before.state != JobState.RUNNING
            return False
        except Conflict:
            assert before is None
            return False
        if answer.launch is None:
            assert before is None or before.state != JobState.RUNNING
            return False
        assert before is None or before.state == JobState.RUNNING
        if claim.due is not None:
            begin = self.job(answer.launch.job_id).begin
            assert claim.due - self.here.now <= decision.MOST_AHEAD
            assert begin is not None
            assert begin >= claim.due
        known = next((one for one in self.processes if one.claim == claim), None)
        if not heard:
            pass
        elif known is None:
            now = self.here.now
            self.processes.append(Process(claim.worker, claim, answer.launch, now, now))
        else:
            assert known.launch == answer.launch
            known.asked = known.renewed = self.here.now
        return True

    @precondition(lambda self: self.granted())
    @rule(which=st.integers(0, 9), facade=st.integers(0, 1))
    def start(self, which: int, facade: int) -> None:
        """A worker starts a process when its run is due; a launch that grew old is asked for again
        before.
        """
        granted = self.granted()
        process = granted[which % len(granted)]
        self.here.now = max(self.here.now, process.claim.due or self.here.now)
        if self.here.now - process.asked > LEASE / 2 and not self.ask(process.claim, facade):
            process.ended, process.settled = self.here.now, True
            return
        process.started = self.here.now

    def granted(self) -> list[Process]:
        return [one for one in self.processes if one.started is None and one.ended is None]

    @rule(worker=st.sampled_from(WORKERS), facade=st.integers(0, 1), delayed=st.booleans())
    def renew(self, worker: str, facade: int, *, delayed: bool) -> None:
        """A worker names what it has; it ends what it is told to."""
        message = self.renewal(worker)
        if delayed:
            self.late.append(message)
            return
        stop = self.deliver(message, facade)
        self.answered[worker] = message.number
        for process in self.had(worker):
            process.renewed = self.here.now
            if process.launch.job_id in stop and process.ended is None:
                self.end(process, Ending.CANCELLED, None)

    @precondition(lambda self: self.late)
    @rule(which=st.integers(0, 9), facade=st.integers(0, 1))
    def deliver_late(self, which: int, facade: int) -> None:
        """A renewal arrives that its worker does not wait for any more."""
        self.deliver(self.late.pop(which % len(self.late)), facade)

    @rule(worker=st.sampled_from(WORKERS), facade=st.integers(0, 1))
    def renew_for_one_lease(self, worker: str, facade: int) -> None:
        """After one lease of renewals the ledger holds for running what the worker has."""
        for _ in range(3):
            self.renew(worker, facade, delayed=False)
        named = {one.launch.job_id for one in self.had(worker)}
        found = select(Lease).join(Job, Job.id == Lease.job_id).where(
            Lease.instance == self.instances[worker],
            Lease.ends_by.is_not(None),
            Lease.claim_id.not_in(self.waiting[worker]),
        )  # fmt: skip
        assert {lease.job_id for lease in fetch_all(self.here.ledgers[1], found)} <= named

    def had(self, worker: str) -> list[Process]:
        return [one for one in self.processes if one.worker == worker and not one.settled]

    def renewal(self, worker: str) -> Renewal:
        self.numbers[worker] += 1
        return Renewal(
            worker=worker,
            instance=self.instances[worker],
            number=self.numbers[worker],
            answered=self.answered[worker],
            jobs={one.launch.job_id: one.claim.claim_id for one in self.had(worker)},
            claims=sorted(self.waiting[worker]),
        )

    def deliver(self, message: Renewal, facade: int) -> dict[int, str]:
        """What its worker is told to end; what it does not have is lost."""
        ledger, used = self.here.ledgers[facade], self.here.settings
        with ledger.writing(SERVICE) as session:
            answer, not_had = workers.renew_leases(session, message, [used.pool], used)
        had = {one.launch.job_id for one in self.had(message.worker)}
        assert not had & {lease.job_id for lease in not_had}
        with ledger.writing(SERVICE) as session:
            mark_certainly_lost(session, not_had, workers.NOT_HAD, used)
        return answer.stop

    @precondition(lambda self: any(one.lives for one in self.processes))
    @rule(code=st.sampled_from([0, 1, TRIED_AGAIN]), facade=st.integers(0, 1))
    def finish(self, code: int, facade: int) -> None:
        """A process ends by itself, and its worker reports it."""
        process = next(one for one in self.processes if one.lives)
        self.end(process, Ending.EXITED, code)
        self.report(*self.told[-1], facade)

    @precondition(lambda self: self.processes)
    @rule(which=st.integers(0, 9), facade=st.integers(0, 1))
    def lose_process(self, which: int, facade: int) -> None:
        """A worker, or its watchdog, says that nothing of a job lives."""
        process = self.processes[which % len(self.processes)]
        if process.ended is None:
            self.end(process, Ending.LOST, None)
            self.report(*self.told[-1], facade)

    @precondition(lambda self: self.told)
    @rule(which=st.integers(0, 9), facade=st.integers(0, 1))
    def report_again(self, which: int, facade: int) -> None:
        """A report whose answer was lost, or that was long under way."""
        self.report(*self.told[which % len(self.told)], facade)

    def end(self, process: Process, ending: Ending, code: int | None) -> None:
        process.ended = self.here.now
        message = Report(
            claim_id=process.claim.claim_id,
            worker=process.worker,
            ending=ending,
            exit_code=code,
            started_at=process.started,
            ended_at=self.here.now,
        )
        self.told.append((process.launch.job_id, message))

    def report(self, job_id: int, message: Report, facade: int) -> None:
        before = self.snapshot()
        for process in self.processes:
            process.settled |= process.claim.claim_id == message.claim_id
        pools = (self.here.settings.pool,)
        with self.here.ledgers[facade].writing(SERVICE) as session:
            answer = reports.accept_report(session, job_id, message, pools, self.here.settings)
        if not answer.recorded:
            assert self.snapshot() == before
        elif message.ending is not Ending.LOST:
            self.outcomes[job_id] = self.job(job_id).state

    @rule(back=st.integers(0, 1))
    def cancel(self, back: int) -> None:
        """Somebody cancels one of the jobs."""
        jobs = self.jobs()
        before = self.snapshot()
        try:
            with self.here.ledgers[0].writing(SERVICE) as session:
                job = job_with_context(session, jobs[-1 - min(back, len(jobs) - 1)].id)
                cancel(session, job, "not wanted")
        except Conflict:
            assert self.snapshot() == before

    @rule(leases=st.sampled_from([0.3, 0.6, 1.1, 7]))
    def wait(self, leases: float) -> None:
        """Time goes by; the services look for what is silent or too late."""
        until = self.here.now + leases * LEASE
        while self.here.now < until:
            self.here.now = min(until, self.here.now + LEASE / 4)
            self.end_what_is_over()
            self.serve()

    def end_what_is_over(self) -> None:
        """What workers do by their own clocks: the timeout, and `stop` without contact."""
        now = self.here.now
        for process in self.processes:
            if process.started is None or process.ended is not None:
                continue
            if now - process.started >= TIMEOUT:
                self.end(process, Ending.TIMEOUT, None)
            elif self.stops and now - process.renewed >= LEASE:
                self.end(process, Ending.LOST, None)

    def serve(self) -> None:
        ledger, now = self.here.ledgers[0], self.here.now
        with ledger.writing(SERVICE) as session:
            ours = {job.id for job in self.jobs()}
            silent = leases_older_than(session, now - LEASE)
            for lease in [one for one in silent if one.job_id in ours]:
                loss = Report(
                    claim_id=lease.claim_id, worker=lease.worker, ending=Ending.LOST, ended_at=now
                )
                job = job_with_context(session, lease.job_id)
                mark_lost(session, job, loss, self.here.settings)
        with ledger.writing(SERVICE) as session:
            for job in windows.unheard_jobs(session, now, 100):
                if job.id in ours:
                    close_lost(session, job_with_context(session, job.id))
        with ledger.writing(SERVICE) as session:
            late = windows.lock_lapsed_tasks(session, 1000)
            close_lapsed(session, [one for one in late if one.runtemplate_id == self.template])

    # what there is

    def jobs(self) -> list[Job]:
        found = select(Job).where(Job.runtemplate_id == self.template).order_by(Job.id)
        return fetch_all(self.here.ledgers[1], found)

    def job(self, job_id: int) -> Job:
        return fetch(self.here.ledgers[1], Job, job_id)

    def job_of(self, claim: Claim) -> Job | None:
        return next((job for job in self.jobs() if job.claim_id == claim.claim_id), None)

    def tasks(self) -> list[Task]:
        found = select(Task).where(Task.runtemplate_id == self.template)
        return fetch_all(self.here.ledgers[1], found)

    def snapshot(self) -> State:
        """All that the ledger holds about the jobs, but the audit trail."""
        with self.here.ledgers[1].reading() as session:
            ours = select(Job.id).where(Job.runtemplate_id == self.template)
            leases = session.execute(
                select(Lease.job_id, Lease.renewed_at, Lease.ends_by)
                .where(Lease.job_id.in_(ours))
                .order_by(Lease.job_id)
            ).all()
            outbox = session.execute(
                select(OutboxMessage.id, OutboxMessage.kind).order_by(OutboxMessage.id)
            ).all()
        jobs = [(one.id, one.state, one.end, one.message, one.cancel_reason) for one in self.jobs()]
        tasks = [(one.id, one.state, one.attempts, one.message) for one in self.tasks()]
        return tuple(map(tuple, leases)), tuple(map(tuple, outbox)), tuple(jobs), tuple(tasks)

    # what always holds

    @invariant()
    def one_process_at_a_time(self) -> None:
        """P3: of a window, and of a flow run, at most one process lives and one job runs."""
        lives = [one for one in self.processes if one.lives]
        for kind in ("task_id", "flow_run_id"):
            at_once = [getattr(self.job(one.launch.job_id), kind) for one in lives]
            running = [getattr(job, kind) for job in self.jobs() if job.state == JobState.RUNNING]
            for found in (at_once, running):
                named = [one for one in found if one is not None]
                assert len(named) == len(set(named)), (kind, named)

    @invariant()
    def what_was_taken_stays(self) -> None:
        """P1: an outcome the ledger has taken is its outcome for ever, and so is a task's end."""
        for job_id, state in self.outcomes.items():
            assert self.job(job_id).state == state
        tasks = {task.id: task.state for task in self.tasks()}
        for task_id, state in self.ended_tasks.items():
            assert tasks[task_id] == state
        self.ended_tasks |= {
            task_id: state for task_id, state in tasks.items() if state not in LIVE_TASKS
        }

    @invariant()
    def an_open_task_has_somebody_to_end_it(self) -> None:
        """P4: a live task has an attempt that is to come, runs, or may be heard of."""
        jobs = self.jobs()
        leased = set(fetch_all(self.here.ledgers[1], select(Lease.job_id)))
        for task in self.tasks():
            mine = [job for job in jobs if job.task_id == task.id]
            if task.state in LIVE_TASKS:
                assert any(job.state in LIVE_JOBS or job.id in leased for job in mine)
            else:
                assert not any(job.state in LIVE_JOBS for job in mine)
                assert task.reason

    def teardown(self) -> None:
        """P4: whoever falls silent now, every task ends."""
        if not hasattr(self, "template"):
            return
        for process in self.processes:
            if process.ended is None:
                process.ended = self.here.now
        for _ in range(6):
            self.here.now += TIMEOUT + 2 * LEASE + timedelta(minutes=20)
            self.serve()
        assert all(task.state not in LIVE_TASKS for task in self.tasks())
        assert not any(job.state == JobState.RUNNING for job in self.jobs())
        assert all(task.state != TaskState.MISSED or task.attempts == 0 for task in self.tasks())


@both_databases
def test_the_promises_hold_whatever_is_said_in_whatever_order(
    installation: Installation,
) -> None:
    run_state_machine_as_test(lambda: JobLife(installation), settings=NORMAL)


@pytest.mark.soak
def test_the_promises_hold_in_very_many_orders(installation: Installation) -> None:
    run_state_machine_as_test(lambda: JobLife(installation), settings=LONG)
