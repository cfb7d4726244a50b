"""What windows cost with 1,000, 10,000 and 100,000 run templates, at midnight.

    python -m benchmarks.scale [--quick] [midnight | hour | prefect | parts]

`midnight`: this checkout's code on PostgreSQL with a clock of its own. 80 % of the run templates
are daily, of which a quarter begin at 00:00; 15 % are hourly; 5 % have a window each 5 minutes.
Each had some windows before. Measured are the opening of all windows of midnight, claim and report
of some of their jobs, and each look that the services take at regular intervals; beside 1,000 run
templates, taken in turn, because machines are uneven.

`hour`: all windows from midnight to 01:00 of 1,000 run templates, whose tasks and jobs are
those of 90 days, beside 1,000 run templates with some windows before.

`prefect`: a real Prefect's scheduler with as many deployments as it takes to fill its minute.

`parts`: CPU of each part of `jobauto up` per job, with run templates that run each minute.

CPU seconds are those of this process, or part, and of PostgreSQL's for it.
"""

import asyncio
import contextlib
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any, cast
from uuid import UUID, uuid4

from sqlalchemy import event, select

from benchmarks.installation import (
    Bare,
    Database,
    Figures,
    bare,
    database,
    eventually,
    postgresql_cpu_seconds,
    program,
    report,
    sized,
    up,
)
from jobauto_prefect.engine.api import PrefectApi
from jobauto_prefect.engine.context import EngineContext
from jobauto_prefect.engine.services.window_scheduler import GRACE, WindowScheduler
from jobauto_prefect.engine.sync.upcoming_runs import MOST_READ, UpcomingRuns, read_outlooks
from jobauto_prefect.facade.auth.identity import Identity
from jobauto_prefect.facade.auth.permissions import EVERYTHING
from jobauto_prefect.facade.kinds.applications import write_app
from jobauto_prefect.facade.kinds.companies import write_company
from jobauto_prefect.facade.kinds.run_templates import write_template
from jobauto_prefect.facade.writes.base import WriteRequest
from jobauto_prefect.jobs.claims import decision
from jobauto_prefect.jobs.claims.claim import OpenClaim
from jobauto_prefect.jobs.outcome import reports
from jobauto_prefect.jobs.overruns import OverrunMonitor
from jobauto_prefect.jobs.windows.schedulers import follow_scheduler
from jobauto_prefect.ledger.audit.trail import SERVICE
from jobauto_prefect.ledger.database import migration
from jobauto_prefect.ledger.database.engine import make_engine
from jobauto_prefect.ledger.figures import read_figures
from jobauto_prefect.ledger.jobs import windows
from jobauto_prefect.ledger.jobs.workers import Registration, register
from jobauto_prefect.ledger.opening import open_ledger
from jobauto_prefect.ledger.queries.agenda import agenda
from jobauto_prefect.ledger.records import Job, RunTemplate
from jobauto_prefect.ledger.secrets import create_key
from jobauto_prefect.ledger.store import Ledger
from jobauto_prefect.runtime.protocol import Claim, Ending, Report
from jobauto_prefect.settings import Settings

SIZES = (1_000, 10_000, 100_000)
MIDNIGHT = datetime(2027, 3, 2, tzinfo=UTC)
BEFORE = MIDNIGHT - timedelta(minutes=5)
SOME = "5"
"""How many windows of each run template there were before."""

DAYS = sized(90, 2)
WINDOWS_OF_DAYS = f"{DAYS} * d.a_day"
JOBS, TURN = sized(300, 20), 10
"""Of how many windows the jobs are claimed and reported, and how many at a time."""

LOOKS = 3  # of each look the last counts
GOAL = 1.2
OPERATOR = Identity(SERVICE, EVERYTHING)
DEFINITION = {
    "$schema": "https://example.com/application.schema.json",
    "name": "True",
    "description": "Is measured",
    "executable": "/bin/true",
    "environment": {},
}
WORKER, INSTANCE = "scale", uuid4()

TEMPLATES = """
INSERT INTO runtemplate SELECT made.*
FROM runtemplate r, generate_series(2, {templates}) n,
    LATERAL (SELECT n * 7 % 60 AS minute, 1 + n * 11 % 23 AS hour) t,
    LATERAL (SELECT CASE WHEN n % 100 < 20 THEN '0 0 * * *'
        WHEN n % 100 < 80 THEN minute || ' ' || hour || ' * * *'
        WHEN n % 100 < 95 THEN '0 * * * *' ELSE '*/5 * * * *' END AS cron,
        timestamptz '{midnight}' + CASE WHEN n % 100 BETWEEN 20 AND 79
        THEN make_interval(hours => hour, mins => minute)
        WHEN n % 100 >= 95 THEN interval '-5 minutes' ELSE interval '0' END AS at) s,
    LATERAL jsonb_populate_record(r, jsonb_build_object(
        'id', n, 'name', 'Template ' || n, 'interv', 'c', 'cron', s.cron,
        'kept_schedule', s.cron || '|UTC|0', 'next_window', at, 'next_schedule', at,
        'deployment_id', md5(n::text)::uuid)) made
WHERE r.id = 1
"""
PAST = (
    """
INSERT INTO task SELECT made.*
FROM (SELECT t AS last FROM task t WHERE state = 'fulfilled' ORDER BY id LIMIT 1) s,
    runtemplate r,
    LATERAL (SELECT CASE WHEN r.cron LIKE '*/5 %' THEN 288 WHEN r.cron LIKE '0 * %' THEN 24
        ELSE 1 END AS a_day) d,
    LATERAL generate_series(1, {windows}) k,
    LATERAL (SELECT k * interval '1 day' / d.a_day AS ago) a,
    LATERAL jsonb_populate_record(s.last, jsonb_build_object(
        'id', k::bigint * 1000000 + r.id, 'runtemplate_id', r.id,
        'window_start', (s.last).window_start - a.ago,
        'window_end', (s.last).window_end - a.ago,
        'deadline', (s.last).deadline - a.ago)) made
""",
    """
INSERT INTO job SELECT made.*
FROM (SELECT j AS last FROM job j WHERE state = 'succeeded' ORDER BY id LIMIT 1) s, task k,
    LATERAL jsonb_populate_record(s.last, jsonb_build_object(
        'id', k.id, 'task_id', k.id, 'runtemplate_id', k.runtemplate_id,
        'flow_run_id', md5(k.id::text)::uuid, 'claim_id', md5(k.id::text)::uuid,
        'schedule', k.window_start, 'begin', k.window_start, 'end', k.window_start)) made
WHERE k.id > 1000000
""",
    "VACUUM ANALYZE",
)
WRITTEN = ("task", "job", "outbox_message", "audit_entry")
"""Tables that windows write rows of."""


def _rows_written(ledger: Database) -> int:
    return sum(int(ledger.one(f"SELECT count(*) FROM {table}")) for table in WRITTEN)


class Simulated:
    """A ledger with so many run templates, whose clock is ours.

    `before` says how many windows each had.
    """

    def __init__(self, home: Path, on: Database, templates: int, before: str = SOME) -> None:
        self.on, self.templates, self.before = on, templates, before
        self.settings = Settings(home=home, database_url=on.url)
        create_key(self.settings.key_path)
        engine = make_engine(self.settings.ledger_url)
        migration.upgrade(engine)
        engine.dispose()
        self.ledger: Ledger = open_ledger(self.settings)
        self.now = BEFORE
        self.ledger.clock = lambda: self.now
        self.statements = 0
        event.listen(self.ledger.engine, "before_cursor_execute", self._count)
        self.scheduler = WindowScheduler(self.ledger)

    def _count(self, *_: object) -> None:
        self.statements += 1

    def fill(self) -> None:
        """Add the records, and what there has been before midnight."""
        with self.ledger.writing(SERVICE) as session:

            def write(**fields: Any) -> WriteRequest:
                return WriteRequest(session, self.ledger.box, self.settings, OPERATOR, fields)

            write_app(write(**DEFINITION))
            write_company(write(slug="bench", name="Bench"))
            session.flush()
            fields = {"company": "bench", "app": "True", "name": "Template 1", "interv": "h"}
            made = cast("RunTemplate", write_template(write(**fields)).record)
            made.deployment_id, made.applied_paused, made.applied_schedule = uuid4(), False, False
            worker = Registration(WORKER, self.settings.pool, "here", INSTANCE)
            register(session, worker, [self.settings.pool], lease_seconds=30)
        server = self.on.server
        server.execute(TEMPLATES.format(templates=self.templates, midnight=MIDNIGHT))
        self.scheduler.tick()
        self.run_jobs(self.opened_jobs()[: self.templates // 40])
        for statement in PAST:
            server.execute(statement.format(windows=self.before))

    def opened_jobs(self, most: int = JOBS) -> list[tuple[int, UUID]]:
        """The jobs of windows that have just opened, with their deployments."""
        query = (
            select(Job.id, RunTemplate.deployment_id)
            .join(RunTemplate)
            .where(Job.state == "scheduled", Job.schedule == self.now)
            .limit(most)
        )
        with self.ledger.reading() as session:
            return [(job_id, UUID(str(of))) for job_id, of in session.execute(query)]

    def run_jobs(self, jobs: Iterable[tuple[int, UUID]]) -> None:
        """Claim and report them."""
        for job_id, deployment_id in jobs:
            self._run(job_id, deployment_id)

    def _run(self, job_id: int, deployment_id: UUID) -> None:
        pools = (self.settings.pool,)
        with self.ledger.writing(SERVICE) as session:
            session.get_one(Job, job_id).flow_run_id = run = uuid4()  # as its hand-over does
        claim = Claim(
            claim_id=uuid4(),
            flow_run_id=run,
            run_number=1,
            deployment_id=deployment_id,
            parameters={"jobauto": {"job": job_id}},
            worker=WORKER,
            instance=INSTANCE,
            work_directory="/simulated",
        )
        with self.ledger.writing(SERVICE) as session:
            opened = OpenClaim(self.settings, self.ledger.box, session, claim, pools)
            if decision.decide_claim(opened).launch is None:
                raise RuntimeError(f"job {job_id} may not start")
        ended = Report(
            claim_id=claim.claim_id,
            worker=WORKER,
            ending=Ending.EXITED,
            exit_code=0,
            started_at=self.now,
            ended_at=self.now,
        )
        with self.ledger.writing(SERVICE) as session:
            reports.accept_report(session, job_id, ended, pools, self.settings)

    def measured(self, work: Callable[[], object]) -> dict[str, float]:
        """What some work takes: seconds of CPU, here and of PostgreSQL, statements and rows."""
        self.statements, rows = 0, _rows_written(self.on)
        own, theirs = time.process_time(), postgresql_cpu_seconds([self.on])
        began = time.perf_counter()
        work()
        return {
            "seconds": time.perf_counter() - began,
            "own": time.process_time() - own,
            "postgresql": postgresql_cpu_seconds([self.on]) - theirs,
            "statements": float(self.statements),
            "rows": float(_rows_written(self.on) - rows),
        }

    def looks(self) -> dict[str, Callable[[], object]]:
        """What the services, and the monitoring, look at again and again."""
        ledger = self.ledger
        context = EngineContext(ledger, cast("PrefectApi", None), self.settings)
        upcoming = UpcomingRuns(context)
        with ledger.reading() as session:  # Prefect shows them already
            for outlook in read_outlooks(session, session.scalars(select(RunTemplate)), context):
                upcoming.shown(outlook)
        for _ in range(0, self.templates, MOST_READ):
            asyncio.run(upcoming.look())

        def read(work: Callable[..., object], *given: object) -> Callable[[], object]:
            def look() -> object:
                with ledger.reading() as session:
                    return work(session, *given)

            return look

        def follow() -> None:
            with ledger.writing(SERVICE) as session:
                follow_scheduler(session, self.settings)

        def figures(session: Any) -> object:
            return read_figures(
                session, self.now, lease_seconds=30, sign_in_seconds=300, pool="jobauto"
            )

        return {
            "timetable, each 5 s": read(agenda),
            "upcoming runs, each 30 s": lambda: asyncio.run(upcoming.look()),
            "jobs without a run, each 10 s": read(windows.jobs_without_run, self.now - GRACE, 200),
            "late and slow jobs, each 15 s": OverrunMonitor(ledger, self.settings).look,
            "scheduler in charge, each 60 s": follow,
            "metrics, at each scrape": read(figures),
        }


@contextlib.contextmanager
def simulated(templates: int, before: str = SOME) -> Iterator[Simulated]:
    """A ledger on PostgreSQL that is about to see midnight."""
    with database() as on, tempfile.TemporaryDirectory(prefix="jobauto-bench-") as home:
        made = Simulated(Path(home), on, templates, before)
        made.fill()
        yield made
        made.ledger.close()


def _open(world: Simulated) -> dict[str, float]:
    """What opening each window of midnight takes."""
    world.now = MIDNIGHT
    taken = world.measured(world.scheduler.tick)
    due = int(world.on.one(f"SELECT count(*) FROM task WHERE window_start = '{MIDNIGHT}'"))
    return {"windows": due} | {name: each / due for name, each in taken.items()}


def _run_in_turn(*worlds: Simulated) -> list[dict[str, float]]:
    """What the claim and the report of a job take in each of these."""
    taken: list[Counter[str]] = [Counter() for _ in worlds]
    waiting = [world.opened_jobs() for world in worlds]
    for start in range(0, JOBS, TURN):
        for world, jobs_of, so_far in zip(worlds, waiting, taken, strict=True):
            turn = jobs_of[start : start + TURN]
            so_far.update(world.measured(partial(world.run_jobs, turn)))
    return [
        {"windows": JOBS} | {name: each / JOBS for name, each in of_one.items()} for of_one in taken
    ]


def midnight(sizes: Sequence[int]) -> Iterator[Figures]:
    """The figures of each size, beside the smallest."""
    for templates in sizes:
        with (
            simulated(SIZES[0]) as few,
            simulated(SIZES[0]) as others,
            simulated(templates) as many,
        ):
            opened = [_open(world) for world in (few, many, others)]
            yield _row("opened", templates, opened[1], (opened[0], opened[2]))
            ran = _run_in_turn(few, many)
            yield _row("ran", templates, ran[1], ran[:1])
            looked = {
                name: min(_cpu(many.measured(look)) for _ in range(LOOKS))
                for name, look in many.looks().items()
            }
        yield {
            "name": "scale: looks",
            "templates": templates,
            **{name: f"{1000 * seconds:.1f} ms" for name, seconds in looked.items()},
        }


def hour() -> Iterator[Figures]:
    """An hour over tables that have been filled for long, beside nearly empty ones."""
    with (
        simulated(SIZES[0]) as new,
        simulated(SIZES[0], WINDOWS_OF_DAYS) as old,
    ):
        opened, ran = (Counter[str](), Counter[str]()), (Counter[str](), Counter[str]())
        windows = 0
        for minute in range(sized(60, 2)):
            for world, opening, running in zip((new, old), opened, ran, strict=True):
                world.now = MIDNIGHT + timedelta(minutes=minute)
                opening.update(world.measured(world.scheduler.tick))
                jobs = world.opened_jobs(SIZES[0])
                running.update(world.measured(partial(world.run_jobs, jobs)))
            windows += len(jobs)
        rows = {table: old.on.one(f"SELECT count(*) FROM {table}") for table in WRITTEN}
        for what, taken in (("hour: opened", opened), ("hour: ran", ran)):
            few, many = (
                {"windows": windows} | {name: each / windows for name, each in of_one.items()}
                for of_one in taken
            )
            yield _row(what, SIZES[0], many, [few]) | {"rows_before": rows}


def _row(
    what: str, templates: int, taken: Mapping[str, float], few: Sequence[Mapping[str, float]]
) -> Figures:
    growth = _cpu(taken) * len(few) / sum(map(_cpu, few))
    return {
        "name": f"scale: {what}",
        "templates": templates,
        "windows": int(taken["windows"]),
        "cpu_ms": round(1000 * _cpu(taken), 2),
        "postgresql_ms": round(1000 * taken["postgresql"], 2),
        "elapsed_ms": round(1000 * taken["seconds"], 2),
        "statements": round(taken["statements"], 3),
        "rows": round(taken["rows"], 3),
        "growth": round(growth, 2),
        "met": growth <= GOAL,
    }


def _cpu(taken: Mapping[str, float]) -> float:
    return taken["own"] + taken["postgresql"]


EACH_MINUTE = (500, 1_000, 2_000)
MIXED = 10_000
DEPLOYMENTS = (
    """
INSERT INTO deployment SELECT made.* FROM deployment d, generate_series(2, {number}) n,
    LATERAL jsonb_populate_record(d, jsonb_build_object(
        'id', md5(n::text)::uuid, 'name', 'Deployment ' || n)) made
WHERE d.name = 'first'
""",
    """
INSERT INTO deployment_schedule SELECT made.*
FROM (SELECT s AS one FROM deployment_schedule s LIMIT 1) s, deployment d,
    LATERAL (SELECT ('x' || left(d.id::text, 4))::bit(16)::int % 100 AS n) h,
    LATERAL jsonb_populate_record(s.one, jsonb_build_object(
        'id', md5(d.id::text)::uuid, 'deployment_id', d.id, 'schedule',
        jsonb_build_object('timezone', 'UTC', 'day_or', true, 'cron', {cron}))) made
WHERE d.name <> 'first'
""",
    "VACUUM ANALYZE",
)
MIX = """CASE WHEN n < 20 THEN '0 0 * * *' WHEN n < 80 THEN n % 60 || ' ' || 1 + n % 23 || ' * * *'
        WHEN n < 95 THEN '0 * * * *' ELSE '*/5 * * * *' END"""
"""The schedules of `midnight`, spread by the ids."""

LAST_RUNS = """
DELETE FROM flow_run WHERE id IN (
    SELECT DISTINCT ON (deployment_id) id FROM flow_run f
    WHERE {due} ORDER BY deployment_id, expected_start_time DESC)
"""
"""The last run of each deployment: one more is wanted, as when its first one is over."""

PASS = """
import asyncio, time
from prefect.server.services.scheduler import schedule_deployments
began, used = time.perf_counter(), time.process_time()
asyncio.run(schedule_deployments())
print(time.perf_counter() - began, time.process_time() - used)
"""


def _pass(server: Bare) -> tuple[float, float]:
    """Seconds of one round of Prefect's scheduler, and CPU seconds of its process."""
    done = subprocess.run(
        [program("python"), "-c", PASS],
        env=server.environment, capture_output=True, text=True, check=True,
    )  # fmt: skip
    seconds, used = done.stdout.split()[-2:]
    return float(seconds), float(used)


def _prefects_scheduler(number: int, cron: str, due: str) -> Figures:
    """The rounds of Prefect's scheduler: when all is new, and when each `due` wants one run."""
    with bare() as server:
        flow = server.create("/flows/", {"name": "true"})
        schedule = {"active": True, "schedule": {"cron": "0 0 1 1 *", "timezone": "UTC"}}
        body = {"name": "first", "flow_id": flow, "schedules": [schedule]}
        server.create("/deployments/", body)
        server.stop()
        for statement in DEPLOYMENTS:
            server.prefect_database.server.execute(statement.format(number=number, cron=cron))
        new, _ = _pass(server)
        runs = server.prefect_database.server.execute(LAST_RUNS.format(due=due)).rowcount
        seconds, used = _pass(server)
        nothing, _ = _pass(server)
    return {
        "deployments": number,
        "first_round_seconds": round(new, 1),
        "runs_wanted": runs,
        "round_seconds": round(seconds, 1),
        "round_cpu_seconds": round(used, 1),
        "idle_round_seconds": round(nothing, 1),
        "met": seconds < 60,
    }


def prefect() -> Iterator[Figures]:
    """The rounds of Prefect's scheduler, of which there is one each minute."""
    for number in EACH_MINUTE[: sized(3, 1)]:
        name = "scale: prefect, each minute"
        yield {"name": name} | _prefects_scheduler(number, "'* * * * *'", "true")
    at_midnight = "extract(hour FROM expected_start_time AT TIME ZONE 'UTC') = 0"
    many = sized(MIXED, 200)
    yield {"name": "scale: prefect, midnight"} | _prefects_scheduler(many, MIX, at_midnight)


MINUTELY = sized(30, 5)
MINUTES = sized(4, 2)


def _parts(scheduler: str) -> Figures:
    with up(JOBAUTO_SCHEDULER=scheduler) as service:
        app = service.app("/bin/true")
        for number in range(MINUTELY):
            body = {"app_id": app, "company": "bench", "name": str(number), "interv": "n"}
            body["deadline_offset"] = "+1h"
            service.post("/runtemplate/", body)
        service.applied()
        time.sleep(10)
        before, began = service.cpu(), time.monotonic()
        time.sleep(60)
        idle = {name: used / 60 for name, used in service.cpu_since(before).items()}
        for number in range(1, MINUTELY + 1):
            service.post("/runtemplate/", {"id": number, "interv": "i"})
        service.applied()
        eventually(lambda: service.ended() >= MINUTELY, 180)
        before, began, ended = service.cpu(), time.monotonic(), service.ended()
        eventually(lambda: service.ended() >= ended + MINUTES * MINUTELY, 60 * MINUTES + 120)
        span, jobs = time.monotonic() - began, service.ended() - ended
        used = service.cpu_since(before)
    return {
        "name": f"scale: parts, scheduler {scheduler}",
        "jobs": jobs,
        **{
            f"{part}_ms": round(1000 * (seconds - idle[part] * span) / jobs, 1)
            for part, seconds in used.items()
        },
        "idle_cores": {part: round(cores, 4) for part, cores in idle.items()},
    }


def parts() -> Iterator[Figures]:
    """CPU per job beyond what is used without any, by part and who makes the flow runs."""
    for scheduler in ("prefect", "ledger"):
        yield _parts(scheduler)


def measure() -> Iterator[Figures]:
    """All, or what is asked for."""
    sizes = [int(word) for word in sys.argv[1:] if word.isdecimal()] or SIZES[: sized(3, 1)]
    chosen = {
        "midnight": lambda: midnight(sizes),
        "hour": hour,
        "prefect": prefect,
        "parts": parts,
    }
    asked = [word for word in sys.argv[1:] if word in chosen] or [*chosen]
    for word in asked:
        yield from chosen[word]()


if __name__ == "__main__":
    report(measure, __doc__)
