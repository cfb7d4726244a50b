"""The whole contract over a real port: lists, formats, deletion, keys, people, the trail."""

import csv
import io
import json
import re
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4
from xml.etree import ElementTree

import httpx
import pytest
import yaml
from sqlalchemy import select
from sqlalchemy import text as sql

from jobauto_prefect.facade.compat.translation import PREFIXES
from jobauto_prefect.facade.kinds.registry import RESOURCES
from jobauto_prefect.facade.kinds.resource import Resource
from jobauto_prefect.ledger import service_status
from jobauto_prefect.ledger.audit.trail import SERVICE
from jobauto_prefect.ledger.jobs.attempts import new_job
from jobauto_prefect.ledger.records import Artifact, AuditEntry, Company, Job, RunTemplate, Task
from jobauto_prefect.ledger.store import Ledger
from tests.support.databases import both_databases, on_sqlite
from tests.support.ledger_rows import fetch, fetch_all
from tests.support.permission_table import TABLE
from tests.support.records import HIDDEN, make_template, ok
from tests.support.secrets import secret
from tests.support.servers import client, user_token

PASSWORD = secret("dlouhe-heslo-1")
COLLECTIONS = {
    "app": "apps",
    "company": "companies",
    "runtemplate": "runtemplates",
    "job": "jobs",
    "user": "users",
    "credential": "credentials",
    "credential_type": "credential_types",
    "topic": "topics",
    "calendar": "calendars",
    "eventrule": "eventrules",
    "eventsource": "eventsources",
}


def _lasting(shown: Any) -> Any:
    """An answer without why jobs wait: what carries them to Prefect finds out more meanwhile."""
    if not isinstance(shown, dict):
        return shown
    return {name: _lasting(value) for name, value in shown.items() if name != "waits_for"}


@pytest.mark.spec("1.14", "2.2.1", "4.1", "4.3")
def test_every_kind_is_read_listed_and_updated_alike(
    rest: httpx.Client, everything: dict[str, int]
) -> None:
    for item, record_id in everything.items():
        read = ok(rest.get(f"/{item}/{record_id}.json"))
        assert read["id"] == record_id
        listed = ok(rest.get(f"/{COLLECTIONS[item]}.json"))
        assert str(record_id) in listed
        assert set(listed[str(record_id)]) <= set(read)
        assert _lasting(ok(rest.get(f"/{item}/{record_id}"))) == _lasting(read)
        assert rest.get(f"/{item}/999999.json").status_code == 404
        assert rest.post(f"/{item}/999999.json", json={}).status_code == 404


@pytest.mark.parametrize(
    "item", ["credential", "credential_type", "topic", "calendar", "eventsource"]
)
def test_posting_to_the_records_own_path_updates_it(
    rest: httpx.Client, everything: dict[str, int], item: str
) -> None:
    path = f"/{item}/{everything[item]}.json"
    changed = ok(rest.post(path, json={"name": "another"}), 201)
    assert (changed["id"], changed["name"], changed["created"]) == (
        everything[item],
        "another",
        False,
    )
    mismatch = ok(rest.post(path, json={"id": 999, "name": "x"}), 400)
    assert mismatch["details"][0]["pointer"] == "/id"


def test_secrets_are_masked_and_a_masked_or_blank_one_keeps_what_is_there(
    rest: httpx.Client, everything: dict[str, int], ledger: Ledger
) -> None:
    path = f"/credential/{everything['credential']}.json"
    assert ok(rest.get(path))["values"] == {"MAIL_HOST": "mx", "MAIL_PASSWORD": "********"}
    for kept in ("********", ""):
        body = {"values": {"MAIL_HOST": "mx", "MAIL_PASSWORD": kept}, "labels": ["mail"]}
        assert ok(rest.post(path, json=body), 201)["labels"] == ["mail"]
    with ledger.engine.connect() as connection:
        (sealed,) = connection.exec_driver_sql("SELECT secrets FROM credential").one()
    read = json.loads(sealed) if isinstance(sealed, str) else sealed
    assert ledger.box.open(read) == {"MAIL_PASSWORD": HIDDEN}
    source = ok(rest.get(f"/eventsource/{everything['eventsource']}.json"))
    assert source["db_password"] == "********"
    unknown = ok(rest.post(path, json={"values": {"OTHER": 1}}), 400)
    assert "OTHER" in unknown["message"]


@pytest.mark.spec("4.1", "4.2")
def test_every_kind_can_be_had_in_every_format(
    rest: httpx.Client, everything: dict[str, int]
) -> None:
    rest.post("/company/", json={"slug": "acme", "name": "<script>alert(1)</script>"})
    paths = [f"/{item}/{record_id}" for item, record_id in everything.items()]
    paths += [f"/{name}" for name in (*COLLECTIONS.values(), "auditlog", "tasks")]
    paths += ["/status", "/index", "/jobs/status"]
    for path in paths:
        as_json = ok(rest.get(f"{path}.json"))
        assert rest.get(path, headers={"Accept": "text/yaml"}).status_code == 200
        as_yaml = yaml.safe_load(rest.get(f"{path}.yaml").text)
        if not path.endswith("/status"):  # these tell the time
            assert _lasting(as_yaml) == _lasting(as_json), path
        ElementTree.fromstring(rest.get(f"{path}.xml").content)
        page = rest.get(f"{path}.html")
        assert page.headers["content-type"] == "text/html; charset=utf-8"
        assert "default-src 'none'" in page.headers["content-security-policy"]
        assert "<script" not in page.text


def test_lists_come_as_csv_and_records_do_not(
    rest: httpx.Client, everything: dict[str, int]
) -> None:
    rows = list(csv.DictReader(io.StringIO(rest.get("/companies.csv").text)))
    assert rows[0]["name"] == "Acme"
    answer = rest.get(f"/company/{everything['company']}.csv")
    assert answer.status_code == 406
    assert "json" in answer.json()["details"]["formats"]
    assert rest.get("/apps", headers={"Accept": "image/png"}).status_code == 406


def test_an_error_is_said_in_the_format_asked_for(rest: httpx.Client) -> None:
    page = rest.get("/company/77.html")
    assert (page.status_code, page.headers["content-type"][:9]) == (404, "text/html")
    ElementTree.fromstring(rest.get("/company/77.xml").content)
    assert yaml.safe_load(rest.get("/company/77.yaml").text)["error"] == "Not Found"


def _many_jobs(ledger: Ledger, template_id: int, number: int) -> list[int]:
    with ledger.writing(SERVICE) as session:
        template = session.get_one(RunTemplate, template_id)
        start = datetime(2026, 1, 1, tzinfo=UTC)
        made = [
            new_job(template, schedule=start + timedelta(hours=n // 3), schedule_type="adhoc")
            for n in range(number)
        ]
        session.add_all(made)
        session.flush()
        return [job.id for job in made]


@both_databases
@pytest.mark.parametrize("order", ["id", "-id", "schedule", "-schedule"])
def test_pages_followed_by_their_cursor_have_each_row_once(
    rest: httpx.Client, everything: dict[str, int], ledger: Ledger, order: str
) -> None:
    _many_jobs(ledger, everything["runtemplate"], 25)
    seen: list[int] = []
    url: str | None = f"/jobs.json?limit=7&order={order}"
    while url is not None:
        answer = rest.get(url)
        page = ok(answer)
        assert answer.headers["x-total-count"] == str(26 + len(seen) // 7)
        seen += [record["id"] for record in page.values()]
        _many_jobs(ledger, everything["runtemplate"], 1)  # somebody writes meanwhile
        link = answer.headers.get("link")
        url = link[link.index("<") + 1 : link.index(">")].removeprefix("/api/v1") if link else None
        if len(seen) > 60:
            break
    assert len(seen) == len(set(seen))
    assert len(seen) >= 26


@both_databases
def test_jobs_come_newest_first_a_hundred_at_a_time(
    rest: httpx.Client, everything: dict[str, int], ledger: Ledger
) -> None:
    made = _many_jobs(ledger, everything["runtemplate"], 120)
    page = ok(rest.get("/jobs.json"))
    assert [record["id"] for record in page.values()] == made[:-101:-1]
    assert len(ok(rest.get("/jobs.json", params={"limit": 1000}))) == 121
    skipped = ok(rest.get("/jobs.json", params={"limit": 2, "offset": 3}))
    assert [record["id"] for record in skipped.values()] == made[-4:-6:-1]


@both_databases
@pytest.mark.parametrize("resource", RESOURCES, ids=lambda one: one.kind.collection)
def test_a_list_is_ordered_by_each_of_its_orders_and_by_nothing_else(
    rest: httpx.Client, everything: dict[str, int], ledger: Ledger, resource: Resource
) -> None:
    if resource.kind.item == "job":
        _differing_jobs(ledger, _many_jobs(ledger, everything["runtemplate"], 6))
    whole = {record["id"] for record in _all(rest, resource.kind.collection, limit=1000)}
    for order in (f"{sign}{name}" for name in resource.orders for sign in ("", "-")):
        followed = [record["id"] for record in _all(rest, resource.kind.collection, 5, order)]
        assert sorted(followed) == sorted(whole), order
        at_once = _all(rest, resource.kind.collection, 1000, order)
        assert [record["id"] for record in at_once] == followed, order
    for name in ("prefect_url", "labels", "db_password", "password_hash", "nothing"):
        (fault,) = ok(rest.get(f"/{resource.kind.collection}.json?order={name}"), 400)["details"]
        assert fault["message"].startswith("order must be one of id, ")


def _differing_jobs(ledger: Ledger, made: list[int]) -> None:
    """Some with a value, some with the same, some with none."""
    with ledger.writing(SERVICE) as session:
        for number, job in enumerate(session.get_one(Job, one) for one in made):
            if number % 3:
                job.severity = ("info", "error")[number % 2]
                job.begin = job.end = job.schedule + timedelta(minutes=number // 2)
                job.exitcode, job.worker, job.pid = number % 2, f"w{number}", None
                job.flow_run_id = uuid4()


def _all(
    rest: httpx.Client, collection: str, limit: int = 100, order: str = "id"
) -> list[dict[str, Any]]:
    """The records of a list, a page after the other, in their order."""
    found: list[dict[str, Any]] = []
    url: str | None = f"/{collection}.json?limit={limit}&order={order}"
    while url is not None:
        answer = rest.get(url)
        found += ok(answer).values()
        assert len(found) <= 1000
        link = answer.headers.get("link")
        url = link[link.index("<") + 1 : link.index(">")].removeprefix("/api/v1") if link else None
    return found


@both_databases
def test_jobs_are_deleted_by_when_they_began_and_the_others_are_named_with_their_reason(
    rest: httpx.Client, everything: dict[str, int], ledger: Ledger
) -> None:
    noon = datetime(2026, 5, 1, 12, tzinfo=UTC)
    before, first, last, after, running, attempt, waiting = _many_jobs(
        ledger, everything["runtemplate"], 7
    )
    begun = {before: -1, first: 0, last: 60, after: 61, running: 30, attempt: 31}
    with ledger.writing(SERVICE) as session:
        task = Task(runtemplate_id=everything["runtemplate"], window_start=noon, window_end=noon,
                    deadline=noon, state="failed")  # fmt: skip
        session.add(task)
        for job_id, minutes in begun.items():
            job = session.get_one(Job, job_id)
            job.begin, job.state = noon + timedelta(minutes=minutes), "succeeded"
        session.get_one(Job, running).state = "running"
        session.get_one(Job, attempt).task = task
        session.get_one(Job, waiting).schedule = noon + timedelta(minutes=10)
    asked = {"from": noon.isoformat(), "to": (noon + timedelta(minutes=60)).isoformat()}
    tried = ok(rest.delete("/jobs.json", params={**asked, "dry_run": "1"}))
    done = ok(rest.delete("/jobs.json", params=asked))
    assert done == {**tried, "dry_run": False, "deleted": 2}
    assert (done["matched"], done["job_ids"]) == (5, [last, first])
    reasons = {one["job_id"]: one["reason"] for one in done["kept"]}
    assert reasons == {
        running: "it is running; cancel it first, or wait for its end",
        attempt: "it belongs to task 1",
        waiting: "it is waiting; state=scheduled cancels and deletes such jobs",
    }
    left = {before, after, running, attempt, waiting, everything["job"]}
    assert {int(job_id) for job_id in ok(rest.get("/jobs.json"))} == left


def test_a_schedule_gone_wrong_is_cleared_up(
    rest: httpx.Client, everything: dict[str, int], ledger: Ledger
) -> None:
    template = everything["runtemplate"]
    over, *waiting = _many_jobs(ledger, template, 4)
    now = datetime(2026, 1, 1, tzinfo=UTC)
    with ledger.writing(SERVICE) as session:
        session.get_one(Job, over).state = "failed"
        session.get_one(Job, waiting[0]).task = Task(
            runtemplate_id=template, window_start=now, window_end=now, deadline=now
        )
    asked = {"state": "scheduled", "runtemplate_id": template}
    tried = ok(rest.delete("/jobs.json", params={**asked, "dry_run": "true"}))
    assert tried["job_ids"] == [*waiting[::-1], everything["job"]]
    assert len(ok(rest.get("/jobs.json", params=asked))) == 4
    assert ok(rest.delete("/jobs.json", params=asked))["deleted"] == 4
    assert list(ok(rest.get("/jobs.json"))) == [str(over)]
    (task,) = ok(rest.get("/tasks.json")).values()
    assert (task["state"], task["reason"]) == ("failed", "cancelled")
    (attempt,) = ok(rest.get(f"/task/{task['id']}.json"))["jobs"]  # the history has it
    assert (attempt["state"], attempt["message"]) == ("cancelled", "deleted by root")
    entries = ok(rest.get("/auditlog.json?entity_type=Job&action=delete"))
    assert {one["entity_id"] for one in entries.values()} == {*waiting, everything["job"]}


@pytest.mark.parametrize("address", ["/api/v1", *PREFIXES])
def test_a_company_without_a_code_is_taken_and_known_by_its_name(
    rest: httpx.Client, facade_url: str, address: str
) -> None:
    def post(**body: Any) -> dict[str, Any]:
        made = ok(rest.post(f"{facade_url}{address}/company/", json=body), 201)
        return ok(rest.get(f"/company/{made['id']}.json")) | {"created": made["created"]}

    first = post(name="Účetní s.r.o.")
    assert (first["slug"], first["created"]) == ("ucetni-s-r-o", True)
    same = post(name="Účetní s.r.o.", email="x@example.com")
    assert (same["id"], same["created"]) == (first["id"], False)
    assert (same["slug"], same["email"]) == ("ucetni-s-r-o", "x@example.com")
    assert post(name="Ucetni (s r o)")["slug"] == "ucetni-s-r-o-2"
    assert post(name="UCETNI s-r-o")["slug"] == "ucetni-s-r-o-3"
    nameless = post(name="東京")
    assert nameless["slug"] == f"company-{nameless['id']}"
    entries = ok(rest.get(f"/auditlog.json?entity_type=Company&entity_id={nameless['id']}"))
    assert [one["changes"]["slug"] for one in entries.values()] == [[None, nameless["slug"]]]
    assert rest.post(f"{facade_url}{address}/company/", json={}).status_code == 400


def test_a_published_code_leads_back_to_its_company_and_changes_nothing(
    rest: httpx.Client, facade_url: str
) -> None:
    old = f"{facade_url}{PREFIXES[0]}"
    made = ok(rest.post("/company/", json={"slug": "limited-liability", "name": "L"}), 201)
    read = ok(rest.get(f"{old}/company/{made['id']}.json"))
    assert read["code"] == f"limited{made['id']:03}"
    for path in ("/company/", f"/company/?companyId={made['id']}", f"/company/{made['id']}.json"):
        body = read if "?" not in path else {k: v for k, v in read.items() if k != "id"}
        back = ok(rest.post(old + path, json=body), 201)
        assert (back["id"], back["created"]) == (made["id"], False)
    by_code = ok(rest.post(f"{old}/company/", json={"code": read["code"], "ic": "7"}), 201)
    assert (by_code["id"], by_code["created"]) == (made["id"], False)
    entries = ok(rest.get(f"/auditlog.json?entity_type=Company&entity_id={made['id']}"))
    assert next(sorted(one["changes"]) for one in entries.values()) == ["ic"]
    assert len(entries) == 2
    assert ok(rest.get(f"/company/{made['id']}.json"))["slug"] == "limited-liability"


def test_another_companys_name_is_not_told_to_who_may_not_see_it(
    rest: httpx.Client, facade_url: str, ledger: Ledger
) -> None:
    ok(rest.post("/company/", json={"slug": "planted", "name": "Planted"}), 201)
    with client(f"{facade_url}/api/v1", user_token(ledger, "eva", ["editor"])) as eva:
        answers = [eva.post("/company/", json={"name": name}) for name in ("Planted", "Nobody's")]
    assert [answer.status_code for answer in answers] == [403, 403]
    bodies = [answer.json() | {"request_id": ""} for answer in answers]
    assert bodies[0] == bodies[1]


def test_published_run_templates_have_counts_and_schedules(
    rest: httpx.Client, facade_url: str, everything: dict[str, int], ledger: Ledger
) -> None:
    template, old = everything["runtemplate"], f"{facade_url}{PREFIXES[0]}"
    states = ["succeeded", "succeeded", "warning", "failed", "lost", "cancelled", "scheduled"]
    made = _many_jobs(ledger, template, len(states))
    with ledger.writing(SERVICE) as session:
        for job_id, state in zip(made, states, strict=True):
            session.get_one(Job, job_id).state = state
        session.get_one(RunTemplate, template).next_schedule = datetime(2030, 1, 1, tzinfo=UTC)
    other = ok(
        rest.post(
            "/runtemplate/",
            json={"app_id": everything["app"], "name": "idle", "company_id": everything["company"]},
        ),
        201,
    )
    expected = {
        "successfull_jobs_count": 3,
        "failed_jobs_count": 2,
        "last_schedule": "2026-01-01T01:00:00+00:00",
        "next_schedule": "2030-01-01T00:00:00+00:00",
    }
    idle = {
        "successfull_jobs_count": 0,
        "failed_jobs_count": 0,
        "last_schedule": None,
        "next_schedule": None,
    }
    read = ok(rest.get(f"{old}/runtemplate/{template}.json"))
    note = {"note": "read " * 3}
    for shown in (
        read,
        ok(rest.get(f"{old}/runtemplates.json"))[str(template)],
        ok(rest.get(f"{old}/runtemplates.json?limit=1&order=id"))[str(template)],
        ok(rest.post(f"{old}/runtemplate/{template}.json", json=note), 201),
        yaml.safe_load(rest.get(f"{old}/runtemplates.yaml").text)[str(template)],
    ):
        assert {name: shown[name] for name in expected} == expected
    listed = ok(rest.get(f"{old}/runtemplates.json"))[str(other["id"])]
    assert {name: listed[name] for name in idle} == idle
    assert not expected.keys() & ok(rest.get(f"/runtemplate/{template}.json")).keys()
    ok(rest.post(f"{old}/runtemplate/{template}.json", json=read), 201)  # as it was read


@pytest.mark.parametrize("address", ["/api/v1", PREFIXES[0]])
def test_the_states_of_service_and_jobs_have_what_published_clients_read(
    rest: httpx.Client, facade_url: str, everything: dict[str, int], ledger: Ledger, address: str
) -> None:
    status = ok(rest.get(f"{facade_url}{address}/status.json"))
    assert status["database"].startswith(("SQLite 3.", "PostgreSQL "))
    assert status["daemon"] == "inactive"
    with ledger.writing(SERVICE) as session:
        service_status.record_heartbeat(session)
    assert ok(rest.get(f"{facade_url}{address}/status.json"))["daemon"] == "active"
    now = ledger.clock()
    ledger.clock = lambda: now + service_status.HEARTBEAT_HOLDS
    assert ok(rest.get(f"{facade_url}{address}/status.json"))["daemon"] == "inactive"
    again, *_ = _many_jobs(ledger, everything["runtemplate"], 3)
    with ledger.writing(SERVICE) as session:
        session.get_one(Job, again).attempt = 2
    jobs = ok(rest.get(f"{facade_url}{address}/jobs/status.json"))
    (jobs,) = jobs if isinstance(jobs, list) else (jobs,)
    assert (jobs["total_applications"], jobs["repeated_jobs"]) == (1, 1)


LARGE = ("job", "task", "audit_entry", "event")
WITHOUT_INDEX = {
    "job": {"app_version", "cancel_reason", "worker"},
    "task": {"excused_by"},
    "audit_entry": {"actor", "address", "user_agent", "request_id"},
    "event": {"evidence", "operation", "record_id", "job_id"},
}
"""Texts without a limit, which PostgreSQL puts into no index; a job has one event."""


@on_sqlite
def test_large_lists_are_read_in_order_and_not_sorted(ledger: Ledger) -> None:
    for resource in RESOURCES:
        table = resource.record.__tablename__
        if table not in LARGE:
            continue
        for name in set(resource.orders) - WITHOUT_INDEX[table]:
            by = f'"{name}", id' if name != "id" else "id"
            with ledger.reading() as session:
                asked = f"EXPLAIN QUERY PLAN SELECT * FROM {table} ORDER BY {by} LIMIT 101"
                steps = [row.detail for row in session.execute(sql(asked))]
            assert not any("TEMP B-TREE" in step for step in steps), (table, name)


@pytest.mark.parametrize("address", ["/api/v1", "/api", *PREFIXES])
def test_a_parameter_nobody_documents_changes_nothing(
    rest: httpx.Client, facade_url: str, everything: dict[str, int], address: str
) -> None:
    here, template = f"{facade_url}{address}", everything["runtemplate"]
    jobs = list(ok(rest.get("/jobs.json")))
    asked = [
        ("DELETE", f"/jobs.json?runtemplate_id={template}&statee=x", "/statee"),
        ("DELETE", f"/jobs.json?runtemplate_id={template}&dryrun=1", "/dryrun"),
        ("DELETE", f"/job/{everything['job']}.json?force=1", "/force"),
        ("DELETE", f"/company/{everything['company']}/user/1?role=x", "/role"),
        ("POST", f"/company/?companyId={everything['company']}&nam=x", "/nam"),
        ("POST", "/app/?name=x&executabel=x", "/executabel"),
        ("POST", f"/task/1/retry.json?runtemplate_id={template}", "/runtemplate_id"),
        ("PUT", f"/eventrule/{everything['eventrule']}.json?target=1", "/target"),
    ]
    for method, path, pointer in asked:
        faults = ok(rest.request(method, here + path), 400)["details"]
        assert [(one["pointer"], one["rule"]) for one in faults] == [(pointer, "unknown")], path
    assert list(ok(rest.get("/jobs.json"))) == jobs
    fault = ok(rest.delete(f"{here}/jobs.json?statee=x"), 400)["details"][0]
    assert "did you mean 'state'?" in fault["message"]
    assert "retry_of, runtemplate, runtemplate_id, state, to, worker" in fault["message"]


def test_a_read_of_the_published_dialect_names_what_it_ignored(
    rest: httpx.Client, facade_url: str
) -> None:
    for path in ("/jobs.json?statee=x&limit=2&%0Aodd=", "/jobs?statee=x&%0Aodd=1", "/status?a=b"):
        for address in PREFIXES:
            answer = rest.get(f"{facade_url}{address}{path}")
            named = "a" if "status" in path else "statee, %0Aodd"
            assert (answer.status_code, answer.headers["x-jobauto-ignored"]) == (200, named)
        for address in ("/api/v1", "/api"):
            refused = rest.get(f"{facade_url}{address}{path}")
            assert (refused.status_code, "x-jobauto-ignored" in refused.headers) == (400, False)


@pytest.mark.parametrize("address", ["/api/v1", *PREFIXES])
def test_what_either_document_names_is_known_at_both_addresses(
    rest: httpx.Client, facade_url: str, everything: dict[str, int], address: str
) -> None:
    here = f"{facade_url}{address}"
    for path in ("/credentials.json?token=x&limit=5", "/index.json?limit=1", "/ping.json?limit=1",
                 "/data-export?action=export&format=json", "/jobs.json?order=id&token=x&limit=1",
                 f"/topic/{everything['topic']}.json?token=x"):  # fmt: skip
        answer = rest.get(here + path)
        assert (answer.status_code, "x-jobauto-ignored" in answer.headers) == (200, False), path
    changed = rest.post(f"{here}/company/?companyId={everything['company']}&limit=20&name=Named")
    assert changed.status_code == (400 if address == "/api/v1" else 201), changed.text


@pytest.mark.parametrize("name", ["limit", "offset", "order", "token", "cursor"])
def test_what_a_change_does_not_heed_is_refused(
    rest: httpx.Client, facade_url: str, record_ids: dict[str, int], name: str
) -> None:
    job = record_ids["job"]
    for method, path in {(row.method, row.path.format(**record_ids)) for row in TABLE}:
        if method != "GET" and (path, name) != ("/logout", "token"):
            joined = f"{path}?runtemplate_id=1" if path == "/jobs.json" else f"{path}?"
            faults = ok(rest.request(method, f"{joined}&{name}=1"), 400)["details"]
            assert f"/{name}" in {fault["pointer"] for fault in faults}, (method, path)
    for address in PREFIXES:
        refused = rest.delete(f"{facade_url}{address}/jobs.json?state=scheduled&{name}=1")
        assert refused.status_code == 400, refused.text
    assert ok(rest.get(f"/job/{job}.json"))["state"] == "scheduled"
    assert ok(rest.get("/maintenance.json"))["frozen"] is False


def test_the_list_of_parameters_there_are_is_complete(rest: httpx.Client) -> None:
    (fault,) = ok(rest.get("/jobs.json?statee=x"), 400)["details"]
    for name in ("limit", "offset", "order", "cursor", "state", "runtemplate_id"):
        assert re.search(rf"there are: .*\b{name}\b", fault["message"]), name


@pytest.mark.parametrize(
    ("query", "pointer"),
    [
        ("order=waits_for", "/order"),
        ("limit=0", "/limit"),
        ("limit=1001", "/limit"),
        ("limit=x", "/limit"),
        ("offset=-1", "/offset"),
        ("cursor=rubbish", "/cursor"),
        ("state=done", "/state"),
        ("runtemplate_id=%20x", "/runtemplate_id"),
        ("from=yesterday", "/from"),
        ("order=command&limit=x&state=done", "/state"),
    ],
)
def test_a_wrong_query_is_a_400_with_its_place(
    rest: httpx.Client, query: str, pointer: str
) -> None:
    faults = ok(rest.get(f"/jobs.json?{query}"), 400)["details"]
    assert pointer in {fault["pointer"] for fault in faults}
    assert len(faults) == query.count("=")


@both_databases
def test_filters_narrow_and_times_come_in_every_spelling(
    rest: httpx.Client, everything: dict[str, int], ledger: Ledger
) -> None:
    made = _many_jobs(ledger, everything["runtemplate"], 6)  # three each hour
    for text in (
        "2026-01-01T01:00:00Z",
        "2026-01-01 01:00:00",
        "2026-01-01T02:00:00+01:00",
        "2026-01-01T01:00:00.000000+0000",
    ):
        page = ok(rest.get("/jobs.json", params={"from": text, "to": "2026-01-02 00:00:00"}))
        assert {record["id"] for record in page.values()} == set(made[3:]), text
        page = ok(rest.get("/jobs.json", params={"to": text}))
        assert {record["id"] for record in page.values()} == set(made[:3]), text
    assert ok(rest.get("/jobs.json?state=running")) == {}
    counted = ok(rest.get("/jobs/status.json"))
    assert counted["total_jobs"] == counted["incomplete_jobs"] == 7


@both_databases
@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ({"name": "invoice"}, {"Invoices", "Old invoices"}),
        ({"name": "100%_"}, {"100%_\\"}),
        ({"name": "_"}, {"100%_\\"}),
        ({"name": "\\"}, {"100%_\\"}),
        ({"name": "nothing"}, set()),
        ({"topic": "účtárna"}, {"Invoices", "100%_\\"}),
        ({"topic": "účt"}, set()),
        ({"topic": '", "'}, set()),
        ({"topic": "účtárna", "name": "inv"}, {"Invoices"}),
    ],
)
def test_run_templates_are_looked_for_by_a_part_of_their_name_and_by_topic(
    rest: httpx.Client, everything: dict[str, int], query: dict[str, str], expected: set[str]
) -> None:
    for topic in ("účtárna", "sklad"):
        ok(rest.post("/topic/", json={"name": topic}), 201)
    reference = {"app_id": everything["app"], "company_id": everything["company"]}
    for name, topics in (
        ("Invoices", ["sklad", "účtárna"]),
        ("Old invoices", ["sklad"]),
        ("100%_\\", ["účtárna"]),
    ):
        ok(rest.post("/runtemplate/", json={**reference, "name": name, "topics": topics}), 201)
    listed = ok(rest.get("/runtemplates.json", params=query))
    assert {record["name"] for record in listed.values()} == expected


def test_a_record_that_must_be_new_changes_no_other(
    rest: httpx.Client, everything: dict[str, int]
) -> None:
    before = ok(rest.get(f"/company/{everything['company']}.json"))
    body = {"slug": before["slug"], "name": "Another", "email": "x@example.com"}
    new = {"If-None-Match": "*"}
    assert (
        "this name is taken" in ok(rest.post("/company/", json=body, headers=new), 412)["message"]
    )
    assert ok(rest.get(f"/company/{everything['company']}.json")) == before
    key = {"Idempotency-Key": "first"}
    body["slug"] = "another"
    made = ok(rest.post("/company/", json=body, headers=new | key), 201)
    assert ok(rest.post("/company/", json=body, headers=new | key), 201) == made
    ok(rest.post("/company/", json=body, headers=new), 412)


def test_what_others_depend_on_stays_and_what_goes_frees_its_name(
    rest: httpx.Client, everything: dict[str, int], ledger: Ledger
) -> None:
    def delete(item: str) -> httpx.Response:
        return rest.delete(f"/{item}/{everything[item]}.json")

    for item in ("app", "company", "runtemplate", "credential_type", "eventsource", "job"):
        answer = delete(item)
        assert answer.status_code == 409, item
        assert "depend on it" in answer.json()["message"]
    ok(rest.post("/job/", json={"id": everything["job"], "state": "cancelled"}), 201)
    order = (
        "eventrule",
        "eventsource",
        "job",
        "credential",
        "credential_type",
        "topic",
        "calendar",
    )
    for item in (*order, "runtemplate", "app", "company", "user"):
        assert ok(delete(item))["deleted"] is True
        assert delete(item).status_code == 404
        assert rest.get(f"/{item}/{everything[item]}.json").status_code == 404
        assert str(everything[item]) not in ok(rest.get(f"/{COLLECTIONS[item]}.json"))
    again = make_template(rest)
    assert again["id"] != everything["runtemplate"]
    assert fetch(ledger, Company, everything["company"]).retired_at is not None


def test_a_request_repeated_with_its_key_changes_nothing_more(
    rest: httpx.Client, everything: dict[str, int]
) -> None:
    body = {"runtemplate_id": everything["runtemplate"]}
    headers = {"Idempotency-Key": "order-77"}
    first = rest.post("/job/", json=body, headers=headers)
    again = rest.post("/job/", json=body, headers=headers)
    assert (first.status_code, first.json()) == (again.status_code, again.json())
    assert again.headers["location"] == first.headers["location"]
    other = rest.post("/job/", json={**body, "note": "x"}, headers=headers)
    assert other.status_code == 422
    assert len(ok(rest.get("/jobs.json"))) == 2


def test_a_waiting_job_can_be_moved_and_noted(
    rest: httpx.Client, everything: dict[str, int]
) -> None:
    body = {"id": everything["job"], "scheduled": "2099-01-01 10:00:00", "note": "later"}
    moved = ok(rest.post("/job/", json=body), 201)
    assert (moved["schedule"], moved["note"]) == ("2099-01-01T10:00:00+00:00", "later")
    assert rest.post("/job/", json={"id": everything["job"], "env": {"A": "b"}}).status_code == 400
    ok(rest.post("/job/", json={"id": everything["job"], "state": "cancelled"}), 201)
    assert rest.post("/job/", json=body).status_code == 409


def test_roles_and_members_are_keyed_and_changed(
    rest: httpx.Client, everything: dict[str, int]
) -> None:
    user, company = everything["user"], everything["company"]
    path = f"/user/{user}/roles"
    assert ok(rest.post(f"{path}/", json={"roles": ["viewer", "editor"]}))["roles"] == [
        "viewer",
        "editor",
    ]
    more = ok(rest.post(f"{path}/?replace=false", json={"roles": ["user"]}))
    assert set(more["roles"]) == {"viewer", "editor", "user"}
    assert {one["name"] for one in ok(rest.get(f"{path}.json")).values()} == set(more["roles"])
    assert all(key == str(one["id"]) for key, one in ok(rest.get(f"{path}.json")).items())
    wrong = ok(rest.post(f"{path}/", json={"roles": ["king", "viewer"]}), 400)
    assert "king" in wrong["message"]
    assert ok(rest.post(f"{path}/", json={"roles": []}))["roles"] == []
    member = {"user_id": user, "role": "manager"}
    assert ok(rest.post(f"/company/{company}/user/", json=member), 201)["role"] == "manager"
    listed = ok(rest.get(f"/company/{company}/users.json"))
    assert listed[str(user)]["login"] == "eva"
    assert ok(rest.delete(f"/company/{company}/user/{user}"))["deleted"] == 1
    assert rest.delete(f"/company/{company}/user/{user}").status_code == 404
    assert ok(rest.get(f"/company/{company}/users.json")) == {}


def test_the_last_super_admin_stays(rest: httpx.Client) -> None:
    me = next(iter(ok(rest.get("/users.json?login=root")).values()))
    for answer in (
        rest.post(f"/user/{me['id']}/roles/", json={"roles": ["viewer"]}),
        rest.post("/user/", json={"id": me["id"], "enabled": False}),
        rest.delete(f"/user/{me['id']}.json"),
    ):
        assert answer.status_code == 409
        assert "last super_admin" in answer.json()["message"]


def test_signing_out_revokes_the_token(rest: httpx.Client, facade_url: str) -> None:
    ok(
        rest.post("/user/", json={"login": "jan", "password": PASSWORD, "roles": ["user"]}),
        201,
    )
    answer = httpx.post(
        f"{facade_url}/api/v1/login.json", json={"login": "jan", "password": PASSWORD}
    )
    headers = {"Authorization": f"Bearer {ok(answer)['token']}"}
    exported = ok(httpx.get(f"{facade_url}/api/v1/data-export", headers=headers))
    assert exported["user_profile"]["login"] == "jan"
    assert "argon2" not in json.dumps(exported)
    logout = f"{facade_url}/api/v1/logout"
    assert httpx.post(logout, headers=headers, json={"token": ["no", "text"]}).status_code == 400
    assert httpx.post(logout, headers=headers).status_code == 200
    assert httpx.get(f"{facade_url}/api/v1/apps.json", headers=headers).status_code == 401


def test_logins_and_their_failures_are_in_the_trail(
    rest: httpx.Client, facade_url: str, ledger: Ledger
) -> None:
    ok(rest.post("/user/", json={"login": "jan", "password": PASSWORD}), 201)
    for password in (PASSWORD, "wrong"):
        httpx.post(f"{facade_url}/api/v1/login.json", json={"login": "jan", "password": password})
    logins = select(AuditEntry).where(AuditEntry.entity_type == "Login")
    entries = fetch_all(ledger, logins.order_by(AuditEntry.id))
    assert [(one.action, one.actor) for one in entries] == [("login", "jan"), ("refuse", "unknown")]
    assert entries[1].changes == {"login": [None, "jan"]}


def test_output_and_artifacts_are_served_whole_and_inert(
    rest: httpx.Client, everything: dict[str, int], ledger: Ledger
) -> None:
    from jobauto_prefect.ledger.jobs import leases

    now = datetime.now(UTC)
    with ledger.writing(SERVICE) as session:
        texts = [f"line {number}" for number in range(1, 6002)]
        output = {"seq": 1, "stream": "stdout", "at": now, "texts": texts}
        leases.add_output(session, everything["job"], [output])
        session.add(
            Artifact(
                job_id=everything["job"], path="out/evil.html", name="e", type="file",
                content_type="text/html", size=3, content=b"<b>", created_at=now,
            )
        )  # fmt: skip
        job = session.get_one(Job, everything["job"])
        job.state, job.begin = "succeeded", now
    path = f"/job/{everything['job']}/output"
    assert rest.get(f"{path}.txt").text.splitlines() == [f"line {n}" for n in range(1, 6002)]
    whole = ok(rest.get(f"{path}.json", params={"after": 5999, "follow": "true"}))
    assert ([line["seq"] for line in whole["lines"]], whole["last"]) == ([6000, 6001], 6001)
    (artifact,) = ok(rest.get(f"/job/{everything['job']}.json"))["artifacts"]
    answer = rest.get(artifact["href"].removeprefix("/api/v1"))
    assert answer.content == b"<b>"
    assert answer.headers["content-type"] == "application/octet-stream"
    assert answer.headers["content-disposition"] == "attachment; filename*=UTF-8''evil.html"


def test_forged_hosts_and_forwarding_headers_are_refused_before_credentials(
    facade_url: str,
) -> None:
    for headers in ({"Host": "evil.example"}, {"X-Forwarded-For": "1.2.3.4"}):
        answer = httpx.get(f"{facade_url}/api/v1/ping.json", headers=headers)
        assert answer.status_code == 403
