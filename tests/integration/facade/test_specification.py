"""Each address of the specification, as it is written there; what more there is has other tests."""

from datetime import timedelta
from typing import Any

import httpx
import pytest

from jobauto_prefect.ledger.access.tokens import issue_user_token
from jobauto_prefect.ledger.audit.trail import SERVICE
from jobauto_prefect.ledger.jobs.attempts import new_job
from jobauto_prefect.ledger.records import RunTemplate, Task, User
from jobauto_prefect.ledger.states import TaskState
from jobauto_prefect.ledger.store import Ledger
from tests.support.definitions import PROBE
from tests.support.records import ok

COLLECTIONS = (
    *("apps", "companies", "runtemplates", "jobs", "tasks", "users", "credentials"),
    *("credential_types", "topics", "eventrules", "eventsources", "auditlog"),
)


def read_and_listed(
    rest: httpx.Client, item: str, collection: str, record_id: int
) -> dict[str, Any]:
    """The record, which its list has under its id."""
    record = ok(rest.get(f"/{item}/{record_id}.json"))
    assert record["id"] == record_id
    listed = ok(rest.get(f"/{collection}.json"))
    assert listed[str(record_id)]["id"] == record_id
    return record


def upserted(
    rest: httpx.Client, item: str, body: dict[str, Any], member: str, value: Any
) -> dict[str, Any]:
    """A record that a POST to the path of its kind creates, and a second one updates."""
    made = ok(rest.post(f"/{item}/", json=body), 201)
    assert made["created"] is True
    again = ok(rest.post(f"/{item}/", json={"id": made["id"], member: value}), 201)
    assert (again["id"], again["created"], again[member]) == (made["id"], False, value)
    return again


@pytest.mark.spec("4.1", "4.2", "4.3", "4.4", "4.6", "4.7", "4.8", "1.3", "1.14", "1.15")
def test_applications(rest: httpx.Client) -> None:
    body = PROBE | {"environment": {}, "exitCodes": {}, "cmdparamsTemplate": "", "artifacts": []}
    assert ok(rest.get("/apps.json")) == {}
    app = upserted(rest, "app", body, "image", "icon.svg")
    read = read_and_listed(rest, "app", "apps", app["id"])
    assert (read["environment"], read["exitCodes"], read["executable"]) == ({}, {}, "probe")
    assert '"environment":{}' in rest.get(f"/app/{app['id']}.json").text.replace(" ", "")
    assert '"exitCodes":{}' in rest.get("/apps.json").text.replace(" ", "")
    for path in ("/apps.json", f"/app/{app['id']}.json"):
        assert rest.get(path).headers["content-type"].startswith("application/json")
        assert isinstance(rest.get(path).json(), dict)


@pytest.mark.spec("4.4", "4.9", "4.10", "4.11")
def test_companies(rest: httpx.Client) -> None:
    company = upserted(rest, "company", {"slug": "acme", "name": "Acme"}, "name", "Acme Ltd.")
    assert read_and_listed(rest, "company", "companies", company["id"])["name"] == "Acme Ltd."


@pytest.mark.spec("1.4", "4.4", "4.12", "4.13", "4.14")
def test_run_templates(rest: httpx.Client, everything: dict[str, int]) -> None:
    body = {"app_id": everything["app"], "company_id": everything["company"], "name": "hourly"}
    template = upserted(rest, "runtemplate", body | {"interv": "h"}, "env", {"GREETING": "hi"})
    read = read_and_listed(rest, "runtemplate", "runtemplates", template["id"])
    assert (read["interv"], read["env"], read["app_id"]) == (
        "h",
        {"GREETING": "hi"},
        everything["app"],
    )


@pytest.mark.spec("4.4", "4.15", "4.16", "4.17")
def test_jobs(rest: httpx.Client, everything: dict[str, int]) -> None:
    body = {"runtemplate_id": everything["runtemplate"], "scheduled": "2030-01-01 00:00:00"}
    job = upserted(rest, "job", body, "note", "later")
    read = read_and_listed(rest, "job", "jobs", job["id"])
    assert (read["runtemplate_id"], read["state"]) == (everything["runtemplate"], "scheduled")


@pytest.mark.spec("1.11", "4.4", "4.18", "4.19", "4.20", "4.43", "4.44")
def test_users_and_their_roles(rest: httpx.Client) -> None:
    user = upserted(rest, "user", {"login": "jan"}, "firstname", "Jan")
    assert read_and_listed(rest, "user", "users", user["id"])["login"] == "jan"
    path = f"/user/{user['id']}/roles"

    def roles() -> set[str]:
        return {role["name"] for role in ok(rest.get(f"{path}.json")).values()}

    ok(rest.post(f"{path}/", json={"roles": ["viewer"]}))
    ok(rest.post(f"{path}/?replace=false", json={"roles": ["editor"]}))
    assert roles() == {"viewer", "editor"}
    ok(rest.post(f"{path}/?replace=true", json={"roles": ["user"]}))
    assert roles() == {"user"}


@pytest.mark.spec("1.11", "2.2.4", "4.45", "4.46", "4.47")
def test_people_of_a_company(rest: httpx.Client, everything: dict[str, int]) -> None:
    user, company = everything["user"], everything["company"]
    for role in ("viewer", "manager"):
        member = ok(
            rest.post(f"/company/{company}/user/", json={"user_id": user, "role": role}), 201
        )
        assert (member["user_id"], member["company_id"], member["role"]) == (user, company, role)
        listed = ok(rest.get(f"/company/{company}/users.json"))
        assert {key: member["role"] for key, member in listed.items()} == {str(user): role}
    ok(rest.delete(f"/company/{company}/user/{user}"))
    assert ok(rest.get(f"/company/{company}/users.json")) == {}


@pytest.mark.spec("4.21", "4.22", "4.23", "4.24", "4.25", "4.26", "4.27", "4.28", "4.29")
@pytest.mark.parametrize("item", ["credential", "credential_type", "topic"])
def test_credentials_their_types_and_topics(
    rest: httpx.Client,
    everything: dict[str, int],
    item: str,
) -> None:
    number = everything[item]
    changed = ok(rest.post(f"/{item}/{number}.json", json={"name": "other"}), 201)
    assert (changed["id"], changed["name"]) == (number, "other")
    assert read_and_listed(rest, item, f"{item}s", number)["name"] == "other"


@pytest.mark.spec("4.4", "4.34", "4.35", "4.36", "4.37", "4.38", "4.39", "4.40", "4.41")
@pytest.mark.parametrize(
    ("item", "member"), [("eventrule", "priority"), ("eventsource", "poll_interval")]
)
def test_event_rules_and_sources(
    rest: httpx.Client,
    everything: dict[str, int],
    item: str,
    member: str,
) -> None:
    source = ok(rest.post("/eventsource/", json={"name": "erp", "db_database": "a"}), 201)["id"]
    body = {
        "eventrule": {"event_source_id": source, "runtemplate_id": everything["runtemplate"]},
        "eventsource": {"name": "other", "db_database": "b"},
    }[item]
    record = upserted(rest, item, body, member, 7)
    assert read_and_listed(rest, item, f"{item}s", record["id"])[member] == 7
    ok(rest.delete(f"/{item}/{record['id']}.json"))
    assert rest.get(f"/{item}/{record['id']}.json").status_code == 404


@pytest.mark.spec("4.48")
@pytest.mark.parametrize("item", ["user", "job", "runtemplate", "app", "company"])
def test_records_can_be_deleted(rest: httpx.Client, item: str) -> None:
    app = ok(rest.post("/app/", json=PROBE), 201)["id"]
    company = ok(rest.post("/company/", json={"slug": "acme", "name": "Acme"}), 201)["id"]
    ids = {"app": app, "company": company}
    if item in ("job", "runtemplate"):
        body = {"app_id": app, "company_id": company, "name": "daily"}
        ids["runtemplate"] = ok(rest.post("/runtemplate/", json=body), 201)["id"]
    if item == "job":
        job = {"runtemplate_id": ids["runtemplate"], "scheduled": "2030-01-01 00:00:00"}
        ids["job"] = ok(rest.post("/job/", json=job), 201)["id"]
        ok(rest.post("/job/", json={"id": ids["job"], "state": "cancelled"}), 201)
    if item == "user":
        ids["user"] = ok(rest.post("/user/", json={"login": "jan"}), 201)["id"]
    ok(rest.delete(f"/{item}/{ids[item]}.json"))
    assert rest.get(f"/{item}/{ids[item]}.json").status_code == 404


@pytest.mark.spec("1.5", "1.6", "1.16", "2.2.2", "3.1", "4.30", "4.31")
def test_tasks_with_their_attempts(
    rest: httpx.Client,
    everything: dict[str, int],
    ledger: Ledger,
) -> None:
    start = ledger.clock().replace(microsecond=0)
    with ledger.writing(SERVICE) as session:
        template = session.get_one(RunTemplate, everything["runtemplate"])
        for hour, state in enumerate((TaskState.MISSED, TaskState.OPEN)):
            begins = start + timedelta(hours=hour)
            task = Task(
                runtemplate_id=template.id,
                window_start=begins,
                window_end=begins + timedelta(hours=1),
                deadline=begins + timedelta(hours=1),
                state=state,
            )
            session.add(task)
        session.flush()
        for _ in range(2):
            job = new_job(template, schedule=start, schedule_type="adhoc")
            job.task_id, job.env = task.id, {"GREETING": "hello"}
            session.add(job)
        number = task.id
    found = ok(rest.get(f"/task/{number}.json"))
    assert (found["id"], found["state"]) == (number, "open")
    assert found["runtemplate_id"] == everything["runtemplate"]
    assert [job["env"] for job in found["jobs"]] == [{"GREETING": "hello"}] * 2

    def listed(**asked: Any) -> list[str]:
        return [task["state"] for task in ok(rest.get("/tasks.json", params=asked)).values()]

    assert sorted(listed()) == ["missed", "open"]
    assert listed(state="missed") == ["missed"]
    assert listed(runtemplate_id=everything["runtemplate"] + 1) == []
    assert listed(to=start.isoformat()) == []
    assert sorted(listed(**{"from": start.isoformat()})) == ["missed", "open"]


@pytest.mark.spec("1.9", "2.2.3", "4.32", "4.33")
def test_the_audit_log(rest: httpx.Client, everything: dict[str, int]) -> None:
    ok(rest.delete(f"/topic/{everything['topic']}.json"))
    (entry,) = ok(
        rest.get("/auditlog.json", params={"entity_type": "Topic", "action": "delete"})
    ).values()
    read = ok(rest.get(f"/auditlog/{entry['id']}.json"))
    assert read["id"] == entry["id"]
    assert (read["entity_type"], read["entity_id"], read["action"]) == (
        "Topic",
        everything["topic"],
        "delete",
    )
    me = next(iter(ok(rest.get("/users.json?login=root")).values()))["id"]
    assert read["user_id"] == me

    def found(**asked: Any) -> bool:
        return str(entry["id"]) in ok(rest.get("/auditlog.json", params=asked))

    assert found(user_id=me)
    assert not found(user_id=everything["user"])
    assert found(entity_id=everything["topic"])
    assert not found(entity_type="App")
    assert found(**{"from": "2020-01-01 00:00:00"})
    assert not found(to="2020-01-01 00:00:00")


@pytest.mark.spec(
    "1.12", "1.13", "4.5", "4.49", "4.50", "4.51", "4.52", "4.53", "5.9", "5.10", "7.2"
)
def test_ping_and_login_are_open_status_and_index_are_not(
    rest: httpx.Client, facade_url: str
) -> None:
    password = "dlouhe-heslo-1"
    account = {"login": "jan", "password": password, "roles": ["viewer"]}
    ok(rest.post("/user/", json=account), 201)
    base = f"{facade_url}/api/v1"
    assert ok(httpx.get(f"{base}/ping.json"))["ping"] == "pong"
    for path in ("/status", "/index.json", "/apps.json", "/tasks.json", "/nowhere"):
        assert httpx.get(base + path).status_code == 401, path
    tokens = [
        ok(httpx.post(f"{base}/login.json", json={"login": "jan", "password": password}))["token"],
        ok(httpx.get(f"{base}/login.json", auth=("jan", password)))["token"],
    ]
    for token in tokens:
        headers = {"Authorization": f"Bearer {token}"}
        assert ok(httpx.get(f"{base}/status", headers=headers))
        index = httpx.get(f"{base}/index.json", headers=headers).text
        for path in ("/apps", "/runtemplate/", "/auditlog", "/eventsource/", "/ping"):
            assert path in index, path


@pytest.mark.spec("1.2", "2.2.1")
def test_every_kind_of_record_is_there(rest: httpx.Client) -> None:
    for collection in COLLECTIONS:
        assert isinstance(ok(rest.get(f"/{collection}.json")), dict), collection


@pytest.mark.spec("9.1")
def test_the_prefix_has_an_alias(rest: httpx.Client, facade_url: str) -> None:
    assert str(rest.base_url).endswith("/api/v1/")
    for prefix in ("/api/v1", "/api"):
        assert ok(rest.get(f"{facade_url}{prefix}/apps.json")) == {}


@pytest.mark.spec("5.4", "5.5", "7.1")
def test_a_token_that_has_expired_is_refused_whatever_else_would_sign_in(
    rest: httpx.Client, facade_url: str, ledger: Ledger
) -> None:
    password = "dlouhe-heslo-1"
    account = {"login": "jan", "password": password, "roles": ["viewer"]}
    number = ok(rest.post("/user/", json=account), 201)["id"]
    with ledger.writing(SERVICE) as session:
        user = session.get_one(User, number)
        expired, _ = issue_user_token(session, user, ledger.clock() - timedelta(seconds=1))
        lasting, _ = issue_user_token(session, user, ledger.clock() + timedelta(days=1))

    def asked(token: str) -> int:
        address = f"{facade_url}/api/v1/apps.json"
        return httpx.get(address, headers={"Authorization": f"Bearer {token}"}).status_code

    assert [asked(token) for token in (lasting, expired, "unknown")] == [200, 401, 401]
    assert httpx.get(f"{facade_url}/api/v1/apps.json", auth=("jan", password)).status_code == 200
