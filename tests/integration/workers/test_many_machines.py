"""As on many machines, each part is killed, stopped and ended with work in its hands.

Minutes by `make faults`, an hour by `make soak`. Both say how soon all was well again.
"""

import itertools
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from sqlalchemy import select

from jobauto_prefect.ledger.records import Delivery, Job, Lease, PartRecord
from jobauto_prefect.ledger.states import LIVE_JOBS
from tests.support.adapters import adapter_database
from tests.support.databases import database
from tests.support.haproxy import NAMES
from tests.support.installation import PATIENCE, Installation
from tests.support.ledger_rows import count_rows, fetch_all
from tests.support.load_complaints import complaints, is_over
from tests.support.many_machines import FAR, VILLAGE, ManyMachines, many_machines
from tests.support.mixed_load import Load
from tests.support.waits import eventually

LEASE_SECONDS, HOUR, LONGEST_AFTER = 10.0, 3600, 300
RESTART_SECONDS = 2  # RestartSec of the units that are shipped
START_WITHIN, OVER_WITHIN = 15, 45  # seconds from a fault's end, where a process has its core
LEAST_SHARE = 0.2  # of the requests, that each facade serves
EACH_POOL = ("posted", "failing")  # a template of each
BURST = 4  # jobs that are posted at once just before a fault


@dataclass(frozen=True, slots=True)
class Fault:
    """What happens to some parts at once; `seconds`: how long, where that is chosen.

    `all`: no other part does the same meanwhile, so that work waits until they are ready.
    """

    how: str
    parts: tuple[str, ...]
    seconds: float = RESTART_SECONDS
    all: bool = False


KILLED, STOPPED, ENDED, CUT, EMPTIED = "kill -9", "SIGSTOP", "SIGTERM", "cut off", "restarted empty"
FAILED_OVER, AHEAD, UNPLUGGED = "failed over", "clock 20 s ahead", "unplugged"
CLOCK_AHEAD = 20  # seconds
FAULTS = (
    Fault(KILLED, ("worker-1",)),
    Fault(KILLED, ("facade-1",)),
    Fault(KILLED, ("services-1",)),
    Fault(KILLED, ("prefect-api-1",)),
    Fault(KILLED, ("prefect-services-1",)),
    Fault(STOPPED, ("worker-2",), 15),  # longer than a lease
    Fault(STOPPED, ("facade-2",), 10),
    Fault(STOPPED, ("services-2",), 25),  # longer than what is in hand is held
    Fault(STOPPED, ("prefect-api-2",), 10),
    Fault(STOPPED, ("prefect-services-2",), 25),
    Fault(ENDED, ("worker-3",), all=True),
    Fault(ENDED, ("facade-2",)),
    Fault(ENDED, ("services-2",)),
    Fault(ENDED, ("prefect-api-2",)),
    Fault(ENDED, ("prefect-services-2",)),
    Fault(CUT, ("worker-1",), 15),
    Fault(UNPLUGGED, (FAR,), 25),  # packets are dropped, and no connection is closed
    Fault(KILLED, ("haproxy",), all=True),
    Fault(FAILED_OVER, ("redis primary",), all=True),
    Fault(EMPTIED, ("redis-1", "redis-2"), all=True),
    Fault(AHEAD, ("prefect-api-2", "prefect-services-2"), 25),
    Fault(CUT, ("databases",), all=True),
    Fault(KILLED, ("prefect-api-1", "prefect-api-2"), all=True),
    Fault(KILLED, ("prefect-services-1", "prefect-services-2"), all=True),
)


@dataclass(frozen=True, slots=True)
class Recovery:
    """Seconds from a fault's end until a new job began, older ones were over, all was ready."""

    fault: Fault
    lasted: float
    start: float
    over: float
    ready: float
    load: float

    def row(self) -> str:
        """A line of the table in docs/reliability.md."""
        figures = (self.lasted, self.start, self.over, self.ready, self.load)
        cells = [self.fault.how, ", ".join(self.fault.parts), *(f"{each:.1f}" for each in figures)]
        return f"| {' | '.join(cells)} |"


HEADINGS = (
    "| fault | parts | lasts, s | a new job begins, s | older jobs are over, s | all parts ready, s"
    " | load |\n|---|---|---|---|---|---|---|"
)


@dataclass(slots=True)
class Plant:
    """The parts, their load, and what came of the faults so far."""

    installation: Installation
    machines: ManyMachines
    load: Load
    recoveries: list[Recovery] = field(default_factory=list)

    def suffer(self, seconds: float, tell: Callable[[str], None]) -> None:
        """Each fault in turn, once at least and for so long, beside all of the load."""
        tell(HEADINGS)
        possible = [each for each in FAULTS if self.machines.wire or each.how != UNPLUGGED]
        faults = itertools.cycle(possible)
        until = time.monotonic() + seconds
        with self.load.running(pausing=False):
            while len(self.recoveries) < len(possible) or time.monotonic() < until:
                self.recoveries.append(self._recover(next(faults)))
                tell(self.recoveries[-1].row())
        self.installation.switch_off()
        eventually(lambda: is_over(self.load), LONGEST_AFTER)

    def _recover(self, fault: Fault) -> Recovery:
        with ThreadPoolExecutor(BURST + len(EACH_POOL)) as posting:
            before = [posting.submit(self.load.post, name) for name in EACH_POOL * (BURST // 2)]
            self._until_in_hand(fault)
            began = time.monotonic()
            self._inflict(fault)
            ended = time.monotonic()
            older = self._owed(fault)
            new = list(posting.map(self.load.post, EACH_POOL))

            def seconds_until(true: Callable[[], bool]) -> float:
                eventually(true, LONGEST_AFTER)
                return time.monotonic() - ended

            start = seconds_until(lambda: self._begun().issuperset(new))
            over = seconds_until(lambda: not older & self._owed(fault))
            ready = seconds_until(lambda: not self.machines.unready())
            for post in before:
                post.result()
        return Recovery(fault, ended - began, start, over, ready, os.getloadavg()[0])

    def _until_in_hand(self, fault: Fault) -> None:
        """Return while requests are answered and messages sent; of a worker while it has jobs."""
        time.sleep(0.1)
        if (worker := fault.parts[0]).startswith("worker"):
            ledger = self.installation.ledger
            eventually(lambda: count_rows(ledger, Lease, Lease.worker == worker), PATIENCE)

    def _inflict(self, fault: Fault) -> None:
        if fault.parts == ("databases",):
            self.machines.cut_databases()
            return
        if fault.how == AHEAD:
            self.machines.clock.set_ahead(CLOCK_AHEAD)
            time.sleep(fault.seconds)
            ahead = PartRecord.clock_ahead > CLOCK_AHEAD / 2
            assert count_rows(self.installation.ledger, PartRecord, ahead) == len(fault.parts)
            self.machines.clock.set_ahead(0)
            return
        if fault.how == FAILED_OVER:
            self._fail_over()
            return
        parts = [self.installation.parts[name] for name in fault.parts]
        if way := {CUT: self.installation.relay, UNPLUGGED: self.machines.wire}.get(fault.how):
            way.cut()
            time.sleep(fault.seconds)
            way.mend()
            return
        for part in parts:
            if fault.how == STOPPED:
                part.signal(signal.SIGSTOP)
            elif fault.how == ENDED:
                part.stop()
            else:
                part.kill()
        time.sleep(0 if fault.how == EMPTIED else fault.seconds)
        for part in parts:
            if fault.how == STOPPED:
                part.signal(signal.SIGCONT)
            else:
                part.start()

    def _fail_over(self) -> None:
        """Kill the primary Redis until the replica is primary; it comes back as its replica."""
        redis = self.machines.redis
        eventually(redis.has_replica, PATIENCE)
        former = redis.primary()
        self.installation.parts[former].kill()
        eventually(lambda: redis.primary() != former, PATIENCE)
        self.installation.parts[former].start()

    def _begun(self) -> set[int | None]:
        return {int(line) for line in (self.installation.marks / "worked").read_text().split()}

    def _owed(self, fault: Fault) -> set[tuple[str, int]]:
        """Events without a job, jobs that are due; none of a faulty worker, and no retries."""
        ledger = self.installation.ledger
        theirs = select(Lease.job_id).where(Lease.worker.in_(fault.parts))
        jobs = (
            select(Job)
            .where(Job.state.in_(LIVE_JOBS), Job.schedule <= ledger.clock(), Job.attempt == 1)
            .where(Job.id.not_in(theirs), Job.worker_losses == 0)
        )
        deliveries = select(Delivery).where(Delivery.state != "started")
        return {("job", job.id) for job in fetch_all(ledger, jobs)} | {
            ("delivery", delivery.id) for delivery in fetch_all(ledger, deliveries)
        }

    def shares(self) -> dict[str, float]:
        """Of the requests to facades and to Prefect servers, those that each of them served."""
        found: dict[str, float] = {}
        for backend in ("facade", "prefect"):
            served = self.machines.balancer.served(backend)
            found |= {f"{backend} {name}": served[name] / served.total() for name in NAMES}
        return found

    def complaints(self) -> Iterator[str]:
        """All that was not as it should be."""
        yield from complaints(self.load)
        for name, share in self.shares().items():
            if name.startswith("facade") and share < LEAST_SHARE:
                yield f"{name} served {share:.0%} of the requests"
        for recovery in self.recoveries:
            waited = recovery.ready if recovery.fault.all else 0
            busy = max(1, recovery.load / (os.cpu_count() or 1))  # processes for each core
            start, over = recovery.start - waited, recovery.over - waited
            if start > busy * START_WITHIN or over > busy * OVER_WITHIN:
                yield f"late: {recovery.row()}"

    def summary(self) -> str:
        """How much there was of it."""
        shares = ", ".join(f"{name}: {share:.0%}" for name, share in sorted(self.shares().items()))
        return f"{count_rows(self.installation.ledger, Job)} jobs; requests: {shares}\n"


@pytest.fixture
def plant(migrate_once: Callable[[str], str], tmp_path: Path) -> Iterator[Plant]:
    """All parts, ready, and a load that has begun to be asked for."""
    with (
        database("postgresql", tmp_path, migrate_once("postgresql")) as ledger_url,
        adapter_database("pgsql", tmp_path / "adapter") as adapter,
        many_machines(ledger_url, tmp_path, LEASE_SECONDS) as (installation, machines),
    ):
        pools = dict.fromkeys(VILLAGE, "village")
        load = Load(installation, adapter, windows_every=10, turn=4.0, pools=pools)
        load.prepare()
        eventually(lambda: not machines.unready(), PATIENCE)
        yield Plant(installation, machines, load)


@pytest.mark.parametrize(
    "seconds",
    [
        pytest.param(0, marks=pytest.mark.faults, id="each once"),
        pytest.param(HOUR, marks=pytest.mark.soak, id="an hour"),
    ],
)
def test_no_fault_of_one_of_many_costs_a_job_or_a_window(
    plant: Plant, seconds: float, capsys: pytest.CaptureFixture[str]
) -> None:
    def tell(line: str) -> None:
        with capsys.disabled():
            sys.stdout.write(f"\n{line}")
            sys.stdout.flush()

    plant.suffer(seconds, tell)
    tell(plant.summary())
    assert list(plant.complaints()) == []
    for part in reversed(plant.installation.parts.values()):
        part.stop()
    assert plant.installation.orphans() == []
