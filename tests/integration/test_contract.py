"""The whole contract over a real port: lists, formats, deletion, keys, people, the trail."""

import csv
import io
import json
from datetime import UTC, datetime, timedelta
from typing import Any
from xml.etree import ElementTree

import httpx
import pytest
import yaml
from sqlalchemy import select

from jobauto_prefect.ledger import jobs
from jobauto_prefect.ledger.audit import SERVICE
from jobauto_prefect.ledger.records import Artifact, AuditEntry, Company, Job, RunTemplate
from jobauto_prefect.ledger.store import Ledger
from tests.integration.test_facade import make_template
from tests.planted import secret

HIDDEN, PASSWORD = secret("hid-den"), secret("dlouhe-heslo-1")
TYPE = {
    "code": "mail",
    "name": "Mail",
    "fields": [
        {"keyword": "MAIL_HOST", "type": "string", "required": True},
        {"keyword": "MAIL_PASSWORD", "type": "password"},
    ],
}


def ok(answer: httpx.Response, status: int = 200) -> dict[str, Any]:
    assert answer.status_code == status, answer.text
    body: dict[str, Any] = answer.json()
    return body


@pytest.fixture
def everything(rest: httpx.Client) -> dict[str, int]:
    """One record of each kind that clients write: kind -> id."""
    template = make_template(rest)
    ids = {
        "runtemplate": template["id"],
        "app": template["app_id"],
        "company": template["company_id"],
    }
    bodies: dict[str, dict[str, Any]] = {
        "credential_type": TYPE,
        "topic": {"name": "bank", "color": "#00ff00"},
        "eventsource": {"name": "changes", "db_database": "adapter", "db_password": HIDDEN},
        "user": {"login": "eva", "email": "eva@example.com"},
        "job": {"runtemplate_id": template["id"]},
    }
    for item, body in bodies.items():
        ids[item] = ok(rest.post(f"/{item}/", json=body), 201)["id"]
    credential = {
        "name": "mailbox",
        "company": "acme",
        "credential_type": "mail",
        "values": {"MAIL_HOST": "mx", "MAIL_PASSWORD": HIDDEN},
    }
    ids["credential"] = ok(rest.post("/credential/", json=credential), 201)["id"]
    rule = {"event_source_id": ids["eventsource"], "runtemplate_id": ids["runtemplate"]}
    ids["eventrule"] = ok(rest.post("/eventrule/", json=rule), 201)["id"]
    return ids


COLLECTIONS = {
    "app": "apps",
    "company": "companies",
    "runtemplate": "runtemplates",
    "job": "jobs",
    "user": "users",
    "credential": "credentials",
    "credential_type": "credential_types",
    "topic": "topics",
    "eventrule": "eventrules",
    "eventsource": "eventsources",
}


def test_every_kind_is_read_listed_and_updated_alike(
    rest: httpx.Client, everything: dict[str, int]
) -> None:
    for item, record_id in everything.items():
        read = ok(rest.get(f"/{item}/{record_id}.json"))
        assert read["id"] == record_id
        listed = ok(rest.get(f"/{COLLECTIONS[item]}.json"))
        assert str(record_id) in listed
        assert set(listed[str(record_id)]) <= set(read)
        assert ok(rest.get(f"/{item}/{record_id}")) == read
        assert rest.get(f"/{item}/999999.json").status_code == 404
        assert rest.post(f"/{item}/999999.json", json={}).status_code == 404


@pytest.mark.parametrize("item", ["credential", "credential_type", "topic", "eventsource"])
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
        body = {"values": {"MAIL_HOST": "mx2", "MAIL_PASSWORD": kept}}
        assert ok(rest.post(path, json=body), 201)["values"]["MAIL_HOST"] == "mx2"
    with ledger.engine.connect() as connection:
        (sealed,) = connection.exec_driver_sql("SELECT secrets FROM credential").one()
    read = json.loads(sealed) if isinstance(sealed, str) else sealed
    assert ledger.box.open(read) == {"MAIL_PASSWORD": HIDDEN}
    source = ok(rest.get(f"/eventsource/{everything['eventsource']}.json"))
    assert source["db_password"] == "********"
    unknown = ok(rest.post(path, json={"values": {"OTHER": 1}}), 400)
    assert "OTHER" in unknown["message"]


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
            assert as_yaml == as_json, path
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
            jobs.new_job(template, schedule=start + timedelta(hours=n // 3), schedule_type="adhoc")
            for n in range(number)
        ]
        session.add_all(made)
        session.flush()
        return [job.id for job in made]


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


def test_jobs_come_newest_first_a_hundred_at_a_time(
    rest: httpx.Client, everything: dict[str, int], ledger: Ledger
) -> None:
    made = _many_jobs(ledger, everything["runtemplate"], 120)
    page = ok(rest.get("/jobs.json"))
    assert [record["id"] for record in page.values()] == made[:-101:-1]
    assert len(ok(rest.get("/jobs.json", params={"limit": 1000}))) == 121
    skipped = ok(rest.get("/jobs.json", params={"limit": 2, "offset": 3}))
    assert [record["id"] for record in skipped.values()] == made[-4:-6:-1]


@pytest.mark.parametrize(
    ("query", "pointer"),
    [
        ("order=begin", "/order"),
        ("limit=0", "/limit"),
        ("limit=1001", "/limit"),
        ("limit=x", "/limit"),
        ("offset=-1", "/offset"),
        ("cursor=rubbish", "/cursor"),
        ("state=done", "/state"),
        ("runtemplate_id=x", "/runtemplate_id"),
        ("from=yesterday", "/from"),
        ("order=begin&limit=x&state=done", "/state"),
    ],
)
def test_a_wrong_query_is_a_400_with_its_place(
    rest: httpx.Client, query: str, pointer: str
) -> None:
    faults = ok(rest.get(f"/jobs.json?{query}"), 400)["details"]
    assert pointer in {fault["pointer"] for fault in faults}
    assert len(faults) == query.count("=")


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
    order = ("eventrule", "eventsource", "job", "credential", "credential_type", "topic")
    for item in (*order, "runtemplate", "app", "company", "user"):
        assert ok(delete(item))["deleted"] is True
        assert delete(item).status_code == 404
        assert rest.get(f"/{item}/{everything[item]}.json").status_code == 404
        assert str(everything[item]) not in ok(rest.get(f"/{COLLECTIONS[item]}.json"))
    again = make_template(rest)
    assert again["id"] != everything["runtemplate"]
    with ledger.reading() as session:
        assert session.get_one(Company, everything["company"]).retired_at is not None


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
    with ledger.reading() as session:
        logins = select(AuditEntry).where(AuditEntry.entity_type == "Login")
        entries = session.scalars(logins.order_by(AuditEntry.id)).all()
    assert [(one.action, one.actor) for one in entries] == [("login", "jan"), ("refuse", "unknown")]
    assert entries[1].changes == {"login": [None, "jan"]}


def test_output_and_artifacts_are_served_whole_and_inert(
    rest: httpx.Client, everything: dict[str, int], ledger: Ledger
) -> None:
    from jobauto_prefect.ledger import leases

    now = datetime.now(UTC)
    with ledger.writing(SERVICE) as session:
        lines = [
            {"seq": n, "stream": "stdout", "text": f"line {n}", "at": now} for n in range(1, 6002)
        ]
        for start in range(0, 6001, 1000):
            leases.add_lines(session, everything["job"], lines[start : start + 1000])
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
