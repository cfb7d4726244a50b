"""Where a job's trace goes on from, with a tracer and without."""

import subprocess
import sys
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import httpx
import pytest
from sqlalchemy import select

from jobauto_prefect.jobs.windows.due_windows import open_windows
from jobauto_prefect.ledger.audit.trail import SERVICE
from jobauto_prefect.ledger.events.event_store import SourceChange, store_changes
from jobauto_prefect.ledger.jobs import windows
from jobauto_prefect.ledger.records import Event, EventSource, Job
from jobauto_prefect.ledger.store import Ledger
from jobauto_prefect.logs import trace_id_of, valid_traceparent
from jobauto_prefect.monitoring import tracing
from tests.support.claims import claim_of, granted, own_run_of, report
from tests.support.ledger_rows import fetch, fetch_all
from tests.support.webhook_receiver import receiver

PARENT = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"


@pytest.fixture
def tracer(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """This process traces, to a real receiver."""
    with receiver() as received:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", received.url)
        tracing.begin_tracing("tests")
        assert tracing.is_on()
        yield
        tracing.end_tracing()
    assert received.received


def _job(ledger: Ledger, job_id: int) -> Job:
    return fetch(ledger, Job, job_id)


def test_without_a_tracer_the_callers_trace_is_handed_on(
    rest: httpx.Client, claims: httpx.Client, ledger: Ledger, template: dict[str, Any]
) -> None:
    body = {"runtemplate_id": template["id"]}
    posted = rest.post("/job/", json=body, headers={"traceparent": PARENT}).json()["id"]
    launch = granted(claims, own_run_of(ledger, posted))
    assert launch["environment"]["TRACEPARENT"] == PARENT
    assert "TRACEPARENT" not in _job(ledger, posted).env
    other = rest.post("/job/", json=body, headers={"traceparent": "nonsense"}).json()["id"]
    launch = granted(claims, own_run_of(ledger, other))
    assert "TRACEPARENT" not in launch["environment"]
    assert _job(ledger, other).traceparent is None


def test_another_attempt_and_what_follows_go_on_with_the_trace(
    rest: httpx.Client, claims: httpx.Client, ledger: Ledger, template: dict[str, Any]
) -> None:
    rest.post("/runtemplate/", json={"id": template["id"], "max_attempts": 2}).raise_for_status()
    body = {"runtemplate_id": template["id"]}
    posted = rest.post("/job/", json=body, headers={"traceparent": PARENT}).json()["id"]
    report(claims, granted(claims, own_run_of(ledger, posted)), ending="lost")
    again = _job(ledger, posted + 1)
    assert (again.retry_of, again.traceparent) == (posted, PARENT)
    report(claims, granted(claims, own_run_of(ledger, again.id)))
    ends = fetch_all(ledger, select(Event).filter_by(job_id=again.id))
    assert [end.traceparent for end in ends] == [PARENT]


@pytest.mark.usefixtures("tracer")
def test_windows_changes_and_clicks_begin_traces_of_their_own(
    rest: httpx.Client, claims: httpx.Client, ledger: Ledger, template: dict[str, Any]
) -> None:
    clicked = granted(claims, claim_of())
    source = {"name": "erp", "db_connection": "sqlite", "db_database": "/var/lib/erp.db"}
    made = rest.post("/eventsource/", json={**source, "enabled": False}).raise_for_status().json()
    rest.post("/runtemplate/", json={"id": template["id"], "interv": "h"}).raise_for_status()
    now = ledger.clock()
    ledger.clock = lambda: now + timedelta(hours=1)
    with ledger.writing(SERVICE) as session:
        open_windows(
            session, windows.lock_due_templates(session, ledger.clock(), 10), ledger.clock()
        )
        record = session.get_one(EventSource, made["id"])
        store_changes(session, record, [SourceChange(1, {"recordid": "7"})])
    with ledger.reading() as session:
        jobs = session.query(Job).filter_by(schedule_type="scheduled").all()
        changes = session.query(Event).filter_by(kind="change").all()
    begun = [
        clicked["environment"]["TRACEPARENT"],
        *(job.traceparent for job in jobs),
        *(change.traceparent for change in changes),
    ]
    assert len(begun) >= 3
    assert all(map(valid_traceparent, begun))
    assert len({trace_id_of(each) for each in begun}) == len(begun)


@pytest.mark.parametrize(
    ("environment", "wanted"),
    [
        ({}, False),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://x"}, True),
        ({"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://x"}, True),
        ({"OTEL_TRACES_EXPORTER": "otlp"}, True),
        ({"OTEL_TRACES_EXPORTER": "none", "OTEL_EXPORTER_OTLP_ENDPOINT": "http://x"}, False),
        ({"OTEL_SDK_DISABLED": "true", "OTEL_EXPORTER_OTLP_ENDPOINT": "http://x"}, False),
    ],
)
def test_the_standard_variables_say_whether_there_are_traces(
    environment: dict[str, str], wanted: bool
) -> None:
    assert tracing.is_wanted(environment) is wanted


def test_without_them_nothing_is_loaded_and_without_the_extra_it_is_said() -> None:
    program = """
import os, sys
from jobauto_prefect.monitoring import tracing
tracing.begin_tracing("facade")
with tracing.span("x"):
    tracing.note("y")
assert not [name for name in sys.modules if name.startswith("opentelemetry")]
sys.modules["opentelemetry.sdk.trace"] = None
os.environ["OTEL_TRACES_EXPORTER"] = "otlp"
tracing.begin_tracing("facade")
assert not tracing.is_on()
"""
    argv = [sys.executable, "-c", program]
    ran = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    assert "pip install 'jobauto-prefect[traces]'" in ran.stderr
