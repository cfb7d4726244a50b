"""Every route that changes something leaves exactly one entry for each entity it changes."""

from typing import Any

import httpx
import pytest
from sqlalchemy import func, select

from jobauto_prefect.ledger.records import AuditEntry
from jobauto_prefect.ledger.store import Ledger
from tests.support.databases import both_databases
from tests.support.ledger_rows import fetch_all
from tests.support.permission_table import TABLE, Row, fill_in

pytestmark = both_databases

KINDS = {
    "app": "App",
    "company": "Company",
    "runtemplate": "RunTemplate",
    "job": "Job",
    "user": "User",
    "credential": "Credential",
    "credential_type": "CredentialType",
    "topic": "Topic",
    "calendar": "Calendar",
    "eventsource": "EventSource",
    "eventrule": "EventRule",
    "task": "Task",
    "worker": "Worker",
}
SPECIAL = {
    "/maintenance.json": ("Freeze", "create"),
    "/user/{user}/roles/": ("UserRole", "create"),
    "/user/{user}/tokens/": ("Token", "create"),
    "/user/{user}/token/{token}": ("Token", "update"),
    "/company/{company}/user/": ("CompanyUser", "create"),
    "/company/{company}/user/{member}": ("CompanyUser", "delete"),
    "/logout": ("Token", "update"),
    "/task/{task}/excuse.json": ("Task", "update"),
    "/event/{event}/replay.json": ("Job", "create"),
    "/credential/{credential}/reveal.json": ("Credential", "reveal"),
    "/worker/{worker}/lost.json": ("Worker", "lost"),
}
BESIDES = {
    ("POST", "/task/{task}/retry.json"): {("Job", "create")},
    ("DELETE", "/user/{user}.json"): {
        ("Token", "update")
    },  # who is deleted has no token that counts
}
"""What a route makes beside what it changes."""

ASKING = ("/data-export", "/eventsource/{eventsource}/test.json", "/apply.json")
BY_FILTER = "/jobs.json"
SETTLING = "/reconcile.json"
"""What it changes depends on what somebody did in Prefect: test_deployment_drift."""

PRUNING = "/prune.json"
"""What it changes depends on what is old: engine/test_pruning."""

APART = (*ASKING, BY_FILTER, SETTLING, PRUNING)
CHANGING = [row for row in TABLE if row.method != "GET" and row.path not in APART]
LAST = ("eventrule", "eventsource", "credential", "credential_type", "job", "runtemplate", "app")


def _expected(row: Row) -> tuple[str, str]:
    if (row.method, row.path) == ("DELETE", "/maintenance.json"):
        return "Freeze", "update"  # it ends, and is kept
    if row.path in SPECIAL:
        return SPECIAL[row.path]
    kind = KINDS[row.path.split("/")[1]]
    if row.method == "DELETE":
        return kind, "delete"
    return kind, "update" if "{" in row.path or "cancelled" in str(row.body) else "create"


def _weight(row: Row) -> int:
    """What depends on something goes before it."""
    if row.path == "/logout":
        return 100
    if row.method != "DELETE":
        return 1 if "cancelled" in str(row.body) else 0
    if row.path.count("{") > 1:  # a part of a record
        return 1
    item = row.path.split("/")[1]
    return 2 + LAST.index(item) if item in LAST else 50


@pytest.mark.spec("1.9", "1.10")
def test_every_changing_route_leaves_one_entry_with_before_and_after(
    rest: httpx.Client, ledger: Ledger, record_ids: dict[str, int]
) -> None:
    blocked = []
    for row in sorted(CHANGING, key=_weight):
        newest = _newest(ledger)
        path = row.path.format(**record_ids)
        answer = rest.request(row.method, path, json=fill_in(row.body, record_ids))
        if answer.status_code == 409:  # what the creating rows made depends on it
            blocked.append(row.path)
            assert _after(ledger, newest) == []
            continue
        assert answer.is_success, (row, answer.text)
        written = _after(ledger, newest)
        assert len({(entry.entity_type, entry.entity_id) for entry in written}) == len(written)
        entries = {(entry.entity_type, entry.action): entry for entry in written}
        assert set(entries) == {_expected(row)} | BESIDES.get((row.method, row.path), set()), row
        for entry in written:
            assert entry.actor == "root"
            assert (entry.door, entry.address) == ("rest", "127.0.0.1")
            assert entry.request_id == answer.headers["x-request-id"]
        _check_changes(row, entries[_expected(row)], record_ids)
    assert len(blocked) <= 6


def test_deleting_by_a_filter_leaves_one_entry_for_each_job(
    rest: httpx.Client, ledger: Ledger, record_ids: dict[str, int]
) -> None:
    jobs = [
        rest.post("/job/", json={"runtemplate_id": record_ids["runtemplate"]}).json()["id"]
        for _ in range(2)
    ]
    for job in jobs:
        assert rest.post("/job/", json={"id": job, "state": "cancelled"}).is_success
    newest = _newest(ledger)
    assert rest.delete(BY_FILTER, params={"state": "cancelled"}).is_success
    written = {(one.entity_type, one.entity_id, one.action) for one in _after(ledger, newest)}
    assert written >= {("Job", job, "delete") for job in jobs}
    assert len(written) == len(_after(ledger, newest))


def _check_changes(row: Row, entry: AuditEntry, record_ids: dict[str, int]) -> None:
    if row.method == "DELETE":
        return
    for name, value in (fill_in(row.body, record_ids) or {}).items():
        if name in entry.changes and not isinstance(value, dict | list):
            before, after = entry.changes[name]
            assert after == value
            assert before != value


def _newest(ledger: Ledger) -> int:
    with ledger.reading() as session:
        return session.scalar(select(func.max(AuditEntry.id))) or 0


def _after(ledger: Ledger, newest: int) -> list[AuditEntry]:
    return fetch_all(ledger, select(AuditEntry).where(AuditEntry.id > newest))


@pytest.mark.parametrize("collection", ["apps", "jobs", "users", "auditlog", "credentials"])
def test_reading_leaves_none(
    rest: httpx.Client, ledger: Ledger, record_ids: dict[str, int], collection: str
) -> None:
    newest = _newest(ledger)
    assert rest.get(f"/{collection}.json").is_success
    assert _after(ledger, newest) == []


def test_what_is_refused_changes_nothing_but_may_leave_an_entry(
    rest: httpx.Client, ledger: Ledger, record_ids: dict[str, int]
) -> None:
    newest = _newest(ledger)
    bad: list[tuple[str, dict[str, Any]]] = [
        ("/company/", {"slug": "x y", "name": "n"}),
        ("/app/", {"name": "half"}),
        ("/runtemplate/", {"id": record_ids["runtemplate"], "interv": "q"}),
        ("/job/", {"runtemplate_id": record_ids["runtemplate"], "env": {"COUNT": "many"}}),
    ]
    for path, body in bad:
        assert rest.post(path, json=body).status_code == 400
    assert _after(ledger, newest) == []


def test_deletions_can_be_looked_for(rest: httpx.Client, record_ids: dict[str, int]) -> None:
    assert rest.delete(f"/topic/{record_ids['topic']}.json").is_success
    found = rest.get("/auditlog.json", params={"action": "delete", "entity_type": "Topic"}).json()
    (entry,) = found.values()
    assert entry["entity_id"] == record_ids["topic"]
