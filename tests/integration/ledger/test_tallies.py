"""The totals of lists are exact, whatever comes, changes and goes, and however many do at once."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path

import pytest
from sqlalchemy import select

from jobauto_prefect.engine.api import PrefectApi
from jobauto_prefect.engine.context import EngineContext
from jobauto_prefect.engine.services.retention import Pruner
from jobauto_prefect.ledger import tallies
from jobauto_prefect.ledger.audit.archive_files import archive
from jobauto_prefect.ledger.audit.seal_verification import verify
from jobauto_prefect.ledger.audit.seals import Sealer
from jobauto_prefect.ledger.audit.trail import SERVICE, write_entry
from jobauto_prefect.ledger.base import Base
from jobauto_prefect.ledger.database import migration
from jobauto_prefect.ledger.jobs.attempts import new_job
from jobauto_prefect.ledger.queries import lists
from jobauto_prefect.ledger.queries.lists import Condition, Selection
from jobauto_prefect.ledger.records import (
    AuditEntry,
    AuditSeal,
    AuditTally,
    Job,
    JobTally,
    RunTemplate,
    UnconfirmedEnd,
)
from jobauto_prefect.ledger.secrets import create_key, load_key
from jobauto_prefect.ledger.store import Ledger
from jobauto_prefect.ledger.tallies import TALLIES, fold_tallies
from jobauto_prefect.settings import Settings
from tests.support.databases import KINDS, both_databases
from tests.support.former_ledger import Rows, former_ledger, version_before
from tests.support.ledger_rows import count_rows

START = datetime(2026, 3, 20, tzinfo=UTC)
DAY = timedelta(days=1)
WRITERS = 4
TURNS = 25


@pytest.fixture
def templates(ledger: Ledger) -> list[int]:
    """A run template of each of two companies."""
    with ledger.engine.execution_options(jobauto_writes=True).begin() as connection:
        return add_templates(Rows(connection))


def add_templates(rows: Rows) -> list[int]:
    """Add a run template of each of two companies; return their ids."""
    app = rows.add("app", name="Probe")
    companies = [rows.add("company", slug=slug) for slug in ("here", "there")]
    return [rows.add("runtemplate", company_id=company, app_id=app) for company in companies]


def add_jobs(ledger: Ledger, template_id: int, *states: str, at: datetime = START) -> list[int]:
    """Add a job for each state; those that are over ended then."""
    with ledger.writing(SERVICE) as session:
        template = session.get_one(RunTemplate, template_id)
        jobs = [new_job(template, schedule=at, schedule_type="adhoc-api") for _ in states]
        for job, state in zip(jobs, states, strict=True):
            job.state = state
            job.end = None if state in ("scheduled", "running") else at
        session.add_all(jobs)
        session.flush()
        return [job.id for job in jobs]


def require_exact(ledger: Ledger) -> None:
    """Compare each total with the rows there are, as of one instant."""
    companies = [None, frozenset({1}), frozenset({2}), frozenset({1, 2}), frozenset[int]()]
    conditions = [
        (),
        (Condition("state", "failed"),),
        (Condition("state", ["scheduled", "running"], "in"),),
        (Condition("company_id", 2), Condition("state", "succeeded")),
        (Condition("runtemplate_id", 1), Condition("state", "failed")),
        (Condition("id", 2),),
    ]
    asked = [(Job, Selection(seen, chosen)) for seen in companies for chosen in conditions]
    kinds = (None, "Job", "Company", "nothing")
    asked += [
        (AuditEntry, Selection(conditions=(Condition("entity_type", kind),) if kind else ()))
        for kind in kinds
    ]
    with ledger.snapshot() as session:
        for kind, selection in asked:
            rows = sum(len(batch) for batch in lists.batches(session, kind, selection))
            assert lists.count(session, kind, selection) == rows, (kind, selection)


def tally_rows(ledger: Ledger) -> int:
    """How many rows the tallies have."""
    return count_rows(ledger, JobTally) + count_rows(ledger, AuditTally)


@both_databases
def test_totals_follow_what_comes_changes_and_goes(ledger: Ledger, templates: list[int]) -> None:
    require_exact(ledger)
    here, there = templates
    first, second, *_ = add_jobs(ledger, here, "scheduled", "running", "failed", "failed")
    add_jobs(ledger, there, "failed", "succeeded")
    require_exact(ledger)
    with ledger.writing(SERVICE) as session:
        session.get_one(Job, first).state = "running"
        session.get_one(Job, second).note = "seen"
    require_exact(ledger)
    with ledger.writing(SERVICE) as session:
        session.get_one(Job, first).retired_at = START
        session.get_one(Job, second).retired_at = START
        session.get_one(Job, second).state = "cancelled"
    require_exact(ledger)
    with ledger.writing(SERVICE) as session:
        session.get_one(Job, second).retired_at = None
        session.delete(session.get_one(Job, first))
    require_exact(ledger)
    with pytest.raises(RuntimeError), ledger.writing(SERVICE) as session:
        session.delete(session.get_one(Job, second))
        session.flush()
        raise RuntimeError
    require_exact(ledger)
    with ledger.reading() as session:
        assert lists.count(session, Job, Selection()) == 5
        assert lists.count(session, Job, Selection(frozenset({2}))) == 2


@both_databases
def test_totals_are_exact_after_retention(
    ledger: Ledger, templates: list[int], ledger_settings: Settings
) -> None:
    settings = ledger_settings.model_copy(
        update={"keep_jobs_days": 30, "prefect_api_url": "http://127.0.0.1:9/api"}
    )
    for template in templates:
        for days in range(0, 60, 10):
            add_jobs(ledger, template, "failed", "succeeded", at=START - days * DAY)
    with ledger.writing(SERVICE) as session:
        session.query(UnconfirmedEnd).delete()
        session.get_one(Job, 1).retired_at = START
    ledger.clock = lambda: START + DAY
    asyncio.run(_prune(ledger, settings))
    require_exact(ledger)
    with ledger.reading() as session:
        assert 0 < lists.count(session, Job, Selection()) < 24 - 1


async def _prune(ledger: Ledger, settings: Settings) -> None:
    async with PrefectApi(settings.prefect_api_url) as prefect:
        await Pruner(EngineContext(ledger, prefect, settings)).prune()


@both_databases
def test_totals_are_exact_after_archives(ledger: Ledger, tmp_path: Path) -> None:
    for day in range(40):
        ledger.clock = lambda at=START + day * DAY: at  # type: ignore[misc]
        with ledger.writing(SERVICE) as session:
            write_entry(session, "Company", "update", {}, entity_id=day)
        Sealer(ledger).seal()
    ledger.clock = lambda: START + 60 * DAY
    before = verify(ledger).entries
    (march,) = archive(ledger, SERVICE, datetime(2026, 4, 1, tzinfo=UTC), tmp_path)
    require_exact(ledger)
    with ledger.reading() as session:
        entries = lists.count(session, AuditEntry, Selection())
    assert entries == before - march.entries + 1
    assert march.entries == 12


@both_databases
def test_what_is_put_together_has_the_same_sums(
    ledger: Ledger, templates: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tallies, "MOST_ROWS", 3)
    monkeypatch.setattr(tallies, "AT_ONCE", 4)
    for template in templates:
        for _ in range(9):
            add_jobs(ledger, template, "succeeded", "failed")
    with ledger.writing(SERVICE) as session:
        for job in session.scalars(select(Job).where(Job.state == "failed")):
            session.delete(job)
    many = tally_rows(ledger)
    fold_tallies(ledger)
    assert tally_rows(ledger) < many
    require_exact(ledger)
    few = tally_rows(ledger)
    fold_tallies(ledger)
    assert tally_rows(ledger) == few


@both_databases
def test_totals_are_exact_while_others_write_and_put_together(
    ledger: Ledger, templates: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tallies, "MOST_ROWS", 2)
    works = [partial(fold_tallies, ledger), partial(fold_tallies, ledger)]
    works += [partial(require_exact, ledger)]
    works += [partial(_write, ledger, templates[number % 2]) for number in range(WRITERS)]
    with ThreadPoolExecutor(len(works)) as threads:
        done = [threads.submit(_repeat, work) for work in works]
    for each in done:
        each.result()
    require_exact(ledger)
    with ledger.reading() as session:
        assert lists.count(session, Job, Selection()) == WRITERS * TURNS


def _write(ledger: Ledger, template: int) -> None:
    first, second = add_jobs(ledger, template, "scheduled", "scheduled")
    with ledger.writing(SERVICE) as session:
        session.get_one(Job, first).state = "failed"
        session.delete(session.get_one(Job, second))


def _repeat(work: Callable[[], None]) -> None:
    for _ in range(TURNS):
        work()


@both_databases
def test_the_end_of_a_list_tells_its_total(ledger: Ledger, templates: list[int]) -> None:
    add_jobs(ledger, templates[0], *["failed"] * 5)
    conditions = (Condition("runtemplate_id", templates[0]),)
    with ledger.reading() as session:
        for limit in (None, 1, 2, 4, 5, 6):
            for offset in (0, 1, 4, 5, 6):
                chosen = Selection(conditions=conditions, limit=limit, offset=offset)
                page = lists.page(session, Job, chosen)
                assert page.total == 5, (limit, offset)
                cursor = page.next_cursor
                if cursor is not None:
                    last = Selection(conditions=conditions, limit=limit, cursor=cursor)
                    assert lists.page(session, Job, last).total == 5
        none = Selection(conditions=(Condition("runtemplate_id", 77),), limit=5, offset=3)
        assert lists.page(session, Job, none).total == 0


@pytest.mark.parametrize("kind", KINDS)
def test_a_ledger_that_is_upgraded_has_its_totals(kind: str, tmp_path: Path) -> None:
    with former_ledger(kind, tmp_path, version_before("tallies")) as engine:
        writing = engine.execution_options(jobauto_writes=True)
        with writing.begin() as connection:
            rows = Rows(connection)
            here, _ = add_templates(rows)
            owners = {"company_id": 1, "app_id": 1, "runtemplate_id": here}
            for state in ("failed", "failed", "succeeded"):
                rows.add("job", state=state, **owners)
            rows.add("job", state="failed", retired_at=START, **owners)
            for entity_type in ("Job", "Job", "Company"):
                rows.add("audit_entry", entity_type=entity_type)
            rows.add("audit_seal", id=1, first_id=1, last_id=2, gaps=[])
        migration.upgrade(engine)
        create_key(tmp_path / "key")
        ledger = Ledger(engine, load_key(tmp_path / "key"))
        require_exact(ledger)
        add_jobs(ledger, here, "failed")
        require_exact(ledger)
        with ledger.reading() as session:
            assert lists.count(session, Job, Selection()) == 4
            failed = Selection(frozenset({1}), [Condition("state", "failed")])
            assert lists.count(session, Job, failed) == 3
            assert session.get_one(AuditSeal, 1).last_id == 2


def test_a_tally_counts_by_columns_of_what_it_counts() -> None:
    for kind, tally in TALLIES.items():
        assert issubclass(kind, Base)
        assert all(hasattr(kind, name) and hasattr(tally.rows, name) for name in tally.groups)
