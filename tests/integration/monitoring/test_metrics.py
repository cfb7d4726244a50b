"""Metrics against the ledger's truth, and who may read them."""

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import httpx
import pytest
import yaml
from sqlalchemy import event, make_url, select, text

from jobauto_prefect import __version__
from jobauto_prefect.facade.app import create_app
from jobauto_prefect.facade.metrics import LedgerMetrics
from jobauto_prefect.ledger.audit.seals import Sealer
from jobauto_prefect.ledger.audit.trail import SERVICE
from jobauto_prefect.ledger.opening import open_ledger
from jobauto_prefect.ledger.records import (
    AuditEntry,
    AuditSeal,
    Company,
    Event,
    EventSource,
    Lease,
    Notice,
    OutboxMessage,
    PendingAction,
    SignInFailure,
    Task,
)
from jobauto_prefect.ledger.store import Ledger
from jobauto_prefect.settings import Settings
from tests.support.breakable import Relay
from tests.support.claims import claim_of, granted, own_run_of, refused, report
from tests.support.databases import both_databases
from tests.support.ledger_rows import count_rows
from tests.support.metrics import Scraped, scraped
from tests.support.paths import ROOT
from tests.support.servers import client, user_token
from tests.support.waits import eventually

HOUR = timedelta(hours=1)


@pytest.fixture(autouse=True)
def always_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """Figures are not remembered."""
    monkeypatch.setattr("jobauto_prefect.facade.metrics.REREAD_FACTOR", 0)


@pytest.fixture
def scraper(facade_url: str, ledger: Ledger) -> Iterator[httpx.Client]:
    with client(facade_url, user_token(ledger, "scraper", ["admin"])) as signed_in:
        yield signed_in


def _load(rest: httpx.Client, claims: httpx.Client, ledger: Ledger, template: Any) -> None:
    """Jobs of all kinds of ends, of two companies; windows; a lease; a job nobody claims."""
    for exit_code in (0, 0, 1, 4, 99):
        launch = granted(claims, claim_of())
        report(claims, launch, exit_code=exit_code)
    report(claims, granted(claims, claim_of()), ending="lost")
    granted(claims, claim_of())
    rest.post("/job/", json={"runtemplate_id": template["id"], "scheduled": "2099-01-01"})
    other = make_other_company(rest)
    job = rest.post("/job/", json={"runtemplate_id": other["id"]}).json()
    rest.post("/job/", json={"id": job["id"], "state": "cancelled"}).raise_for_status()
    gone = rest.post("/job/", json={"runtemplate_id": template["id"]}).json()
    rest.post("/job/", json={"id": gone["id"], "state": "cancelled"}).raise_for_status()
    rest.delete(f"/job/{gone['id']}.json").raise_for_status()
    now = ledger.clock()
    with ledger.writing(SERVICE) as session:
        for hours, state in ((1, "fulfilled"), (2, "fulfilled_late"), (3, "missed"), (4, "missed")):
            start = now - (hours + 1) * HOUR
            deadline = now - hours * HOUR + HOUR / 2 if hours < 4 else now - 5 * HOUR
            session.add(
                Task(
                    runtemplate_id=template["id"],
                    window_start=start,
                    window_end=start + HOUR,
                    deadline=deadline,
                    state=state,
                )
            )


def make_other_company(rest: httpx.Client) -> dict[str, Any]:
    rest.post("/company/", json={"slug": "globex", "name": "Globex"}).raise_for_status()
    apps = rest.get("/apps.json").json()
    body = {"app_id": next(iter(apps.values()))["id"], "company": "globex", "name": "daily"}
    made: dict[str, Any] = rest.post("/runtemplate/", json=body).raise_for_status().json()
    return made


def _counted(ledger: Ledger, statement: str) -> dict[tuple[str, ...], float]:
    with ledger.reading() as session:
        rows = session.execute(text(statement)).all()
    return {tuple(row[:-1]): row[-1] for row in rows}


@both_databases
def test_the_ledgers_counts_are_what_the_metrics_say(
    rest: httpx.Client,
    claims: httpx.Client,
    scraper: httpx.Client,
    ledger: Ledger,
    template: dict[str, Any],
) -> None:
    _load(rest, claims, ledger, template)
    Sealer(ledger).seal()

    found = scraped(scraper.get("/metrics"))

    jobs = _counted(
        ledger,
        "SELECT c.slug, j.state, coalesce(j.severity, ''), count(*) FROM job j JOIN company c"
        " ON c.id = j.company_id WHERE j.retired_at IS NULL GROUP BY 1, 2, 3",
    )
    assert len(jobs) >= 6
    assert found.by("jobauto_jobs", "company", "state", "severity") == jobs
    windows = _counted(ledger, "SELECT state, count(*) FROM task GROUP BY 1")
    assert found.by("jobauto_windows", "state") == windows
    assert found.value("jobauto_windows_opened") == sum(windows.values()) == 4
    lately = {("fulfilled",): 1.0}
    assert found.by("jobauto_windows_last_hour", "state") == lately
    # That of the lost job is kept for a late report.
    assert found.value("jobauto_leases") == 1 == count_rows(ledger, Lease) - 1
    assert found.value("jobauto_lost_attempts") == 1
    eventually(lambda: _outbox_is_told(scraper, ledger))  # what needs no Prefect goes meanwhile
    assert found.value("jobauto_audit_seals") == count_rows(ledger, AuditSeal)
    assert found.value("jobauto_ledger_up") == 1


def _outbox_is_told(scraper: httpx.Client, ledger: Ledger) -> bool:
    found = scraped(scraper.get("/metrics"))
    waiting = _counted(ledger, "SELECT kind, count(*) FROM outbox_message GROUP BY 1")
    assert waiting
    return bool(found.by("jobauto_outbox", "kind") == waiting)


def test_ages_dead_letters_lags_and_failures(
    rest: httpx.Client, scraper: httpx.Client, ledger: Ledger, template: dict[str, Any]
) -> None:
    source = {"name": "erp", "db_connection": "sqlite", "db_database": "/var/lib/erp.db"}
    made = rest.post("/eventsource/", json={**source, "enabled": False}).raise_for_status().json()
    now = ledger.clock()
    with ledger.writing(SERVICE) as session:
        record = session.get_one(EventSource, made["id"])
        record.enabled, record.polled_at, record.poll_error = True, now - HOUR, "no such table"
        change = Event(
            kind="change",
            event_source_id=made["id"],
            operation="create",
            data={},
            created_at=now - HOUR,
        )
        session.add(change)
        session.flush()
        for number, state in enumerate(("dead", "dead", "owed", "done")):
            webhook = {"kind": "webhook", "target": f"https://example.org/{number}"}
            session.add(PendingAction(event_id=change.id, state=state, due_at=now, **webhook))
        for state, attempts in (("owed", 2), ("owed", 0), ("dead", 9), ("sent", 1)):
            members = {
                "occasion": "failure",
                "channel": "mail",
                "target": "a@b.example",
                "data": {},
            }
            of = {"company_id": 1, "runtemplate_id": template["id"], "attempts": attempts}
            session.add(Notice(state=state, due_at=now, created_at=now, **members, **of))
        for number, at in ((1, now), (2, now), (3, now), (3, now), (4, now - HOUR)):
            failure = {"account": "a", "network": "n", "guess": str(number)}
            session.add(SignInFailure(**failure, failed_at=at))
        for message in session.scalars(select(OutboxMessage)):
            message.created_at = now - HOUR

    found = scraped(scraper.get("/metrics"))

    name = f"{made['id']} erp"
    assert found.by("jobauto_dead_actions", "kind") == {("webhook",): 2}
    assert found.by("jobauto_notices_failing", "channel") == {("mail",): 1}
    assert found.by("jobauto_event_source_failing", "source") == {(name,): 1}
    assert (found.value("jobauto_event_source_look_age_seconds", source=name) or 0) >= 3600
    assert (found.value("jobauto_event_lag_seconds", source=name) or 0) >= 3600
    assert found.value("jobauto_event_lag_seconds", source="ends of jobs") == 0
    assert found.value("jobauto_sign_in_failures") == 3
    ages = found.by("jobauto_outbox_age_seconds", "kind")
    assert ages
    assert min(ages.values()) >= 3600
    assert found.value("jobauto_audit_unsealed") == count_rows(ledger, AuditEntry)


def test_latencies_and_requests_are_measured_and_their_labels_bounded(
    rest: httpx.Client,
    claims: httpx.Client,
    scraper: httpx.Client,
    ledger: Ledger,
    template: dict[str, Any],
) -> None:
    job = rest.post("/job/", json={"runtemplate_id": template["id"]}).json()["id"]
    claim = own_run_of(ledger, job)
    launch = granted(claims, claim)
    granted(claims, claim)  # its answer got lost
    report(claims, launch)
    report(claims, launch)
    rest.post("/runtemplate/", json={"id": template["id"], "active": False})
    refused(claims, claim_of())
    for path in ("/nowhere/1", "/nowhere/2", f"/job/{job}.json", "/job/999.json"):
        rest.get(path)

    found = scraped(scraper.get("/metrics"))

    def count(name: str, **labels: str) -> float | None:
        return found.value(f"{name}_count", **labels)

    assert count("jobauto_job_start_seconds", schedule_type="adhoc-api") == 1
    assert count("jobauto_claim_seconds", answer="granted") == 2
    assert count("jobauto_claim_seconds", answer="refused") == 1
    assert count("jobauto_outcome_seconds") == 1
    requests = found.by("jobauto_requests_total", "method", "route", "status")
    one_job = "/job/{record_id}.{suffix}"
    assert requests["GET", one_job, "200"] == 1
    assert requests["GET", one_job, "404"] == 1
    assert requests["GET", "other", "404"] == 2
    assert requests["POST", "/internal/v1/claims", "200"] == 3
    assert not any(
        character.isdigit() for key in requests for character in key[1].replace("v1", "")
    )


@pytest.mark.parametrize("role", ["editor", "user", "viewer"])
def test_numbers_of_all_companies_are_for_administrators(
    facade_url: str, ledger: Ledger, role: str
) -> None:
    assert httpx.get(f"{facade_url}/metrics").status_code == 401
    with client(facade_url, user_token(ledger, role, [role])) as signed_in:
        answer = signed_in.get("/metrics")
    assert answer.status_code == 403
    assert "JOBAUTO_MANAGEMENT_PORT" in answer.json()["message"]


@both_databases
def test_jobs_that_a_worker_could_start_or_runs_are_counted_by_work_pool(
    rest: httpx.Client,
    claims: httpx.Client,
    scraper: httpx.Client,
    template: dict[str, Any],
) -> None:
    rest.post("/runtemplate/", json={"id": template["id"], "pool": "jobauto"}).raise_for_status()
    granted(claims, claim_of())
    for moment in ("2026-01-01", "2099-01-01"):
        rest.post("/job/", json={"runtemplate_id": template["id"], "scheduled": moment})
    scaling = yaml.safe_load((ROOT / "deployments" / "keda.yaml").read_text())
    (query,) = (trigger["metadata"]["query"] for trigger in scaling["spec"]["triggers"])
    assert 'jobauto_jobs_due{pool="jobauto"}' in query
    due = scraped(scraper.get("/metrics"))
    for state in ("scheduled", "running"):
        assert due.value("jobauto_jobs_due", pool="jobauto", state=state) == 1


def test_figures_are_remembered_for_a_share_of_what_reading_them_takes(
    ledger: Ledger, ledger_settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("jobauto_prefect.facade.metrics.REREAD_FACTOR", 1e9)
    metrics = LedgerMetrics(ledger, ledger_settings)
    before = list(metrics.families())
    with ledger.writing(SERVICE) as session:
        session.add(Company(slug="acme", name="Acme"))
        session.add(SignInFailure(account="a", network="n", guess="g", failed_at=ledger.clock()))
    failures = next(one for one in metrics.families() if one.name == "jobauto_sign_in_failures")
    assert failures in before


@both_databases
def test_a_ledger_that_does_not_answer_is_a_metric_too(
    ledger: Ledger, facade_settings: Settings
) -> None:
    url = make_url(facade_settings.ledger_url)
    if url.get_backend_name() == "sqlite":
        pytest.skip("a file does not stop answering")
    with Relay(url.port or 5432) as relay:
        there = url.set(host="127.0.0.1", port=relay.port).render_as_string(hide_password=False)
        away = open_ledger(facade_settings.model_copy(update={"database_url": there}))
        monitor = create_app(facade_settings, away).state.service.monitor
        assert Scraped(monitor.exposition().decode()).value("jobauto_ledger_up") == 1
        relay.cut()

        found = Scraped(monitor.exposition().decode())
        away.close()

    assert found.value("jobauto_ledger_up") == 0
    assert found.value("jobauto_build_info", part="facade", version=__version__) == 1
    assert "jobauto_jobs" not in found.families


def test_a_scrape_is_few_statements(ledger: Ledger, facade_settings: Settings) -> None:
    monitor = create_app(facade_settings, ledger).state.service.monitor
    statements: list[str] = []

    @event.listens_for(ledger.engine, "before_cursor_execute")
    def note(_connection: Any, _cursor: Any, statement: str, *_others: Any) -> None:
        statements.append(statement)

    monitor.exposition()
    assert 10 < len(statements) <= 19, "\n".join(statements)
