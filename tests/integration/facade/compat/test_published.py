"""What programs written for the reference service send and expect: a test for each demand.

The numbers are those of the list in `docs/migration.md`.
"""

import base64
import json
import re
from collections.abc import Callable, Iterator
from typing import Any

import httpx
import pytest

from jobauto_prefect.facade.compat.translation import PREFIXES
from jobauto_prefect.ledger.audit.trail import SERVICE
from jobauto_prefect.ledger.records import Job, Task
from jobauto_prefect.ledger.states import TaskState
from jobauto_prefect.ledger.store import Ledger
from tests.support.definitions import PROBE
from tests.support.paths import ROOT
from tests.support.secrets import SECRET, secret
from tests.support.servers import client, user_token

BY_ID = ("apps", "jobs", "runtemplates")
ARRAYS = (
    "companies", "users", "credentials", "credential_types", "topics", "eventsources",
    "eventrules", "tasks", "auditlog",
)  # fmt: skip
PASSWORD = secret("kůň: heslo 17")


@pytest.fixture(scope="session")
def migrated(migrate_once: Callable[[str], str]) -> tuple[str, str]:
    """One kind of database: what is tested here comes before any."""
    return "sqlite", migrate_once("sqlite")


@pytest.fixture
def old(facade_url: str, ledger: Ledger) -> Iterator[httpx.Client]:
    """The published dialect, signed in as a super_admin."""
    with client(f"{facade_url}{PREFIXES[0]}", user_token(ledger, "old")) as signed_in:
        yield signed_in


def ok(answer: httpx.Response, status: int = 200) -> Any:
    assert answer.status_code == status, answer.text
    return answer.json()


def test_01_three_collections_are_objects_and_all_others_arrays(
    old: httpx.Client,
    rest: httpx.Client,
    everything: dict[str, int],
) -> None:
    for name in BY_ID:
        listed = ok(old.get(f"/{name}.json"))
        assert listed == {str(one["id"]): one for one in listed.values()}
        assert ok(old.get(f"/{name}.json?limit=1")) != []
    for name in ARRAYS:
        for query in ("", "?limit=2"):
            listed = ok(old.get(f"/{name}.json{query}"))
            assert isinstance(listed, list), name
            assert all(isinstance(one["id"], int) for one in listed)
    assert len(ok(old.get("/users.json"))) == len(ok(rest.get("/users.json")))
    users = ok(old.get(f"/company/{everything['company']}/users.json"))
    assert users == []
    company, user = everything["company"], everything["user"]
    ok(old.post(f"/company/{company}/user/", json={"user_id": user}), 201)
    (member,) = ok(old.get(f"/company/{company}/users.json"))
    assert (member["role"], member["user"]["login"]) == ("viewer", "eva")
    ok(old.post(f"/user/{user}/roles/", json={"roles": ["viewer"], "assigned_by": 1}))
    (role,) = ok(old.get(f"/user/{user}/roles.json"))
    assert (role["name"], role["is_active"]) == ("viewer", True)


def test_01_other_formats_have_the_same_records(
    old: httpx.Client,
    everything: dict[str, int],
) -> None:
    assert "DatCreate" in old.get("/companies.csv").text.partition("\n")[0]
    assert old.get("/companies.yaml").text.startswith("- id: ")
    assert "<DatCreate>" in old.get("/companies.xml").text
    page = old.get("/companies.html")
    assert page.headers["content-type"].startswith("text/html")
    assert f"{PREFIXES[0]}/company/{everything['company']}.html" in page.text


def test_02_all_but_ping_and_login_takes_credentials(facade_url: str) -> None:
    base = f"{facade_url}{PREFIXES[0]}"
    for path in ("topics.json", "status.json", "index.json", "jobs/status.json", "apps.json", ""):
        refused = httpx.get(f"{base}/{path}")
        assert (refused.status_code, refused.json()["success"]) == (401, False), path
    assert ok(httpx.get(f"{base}/ping.json")) == {"ping": "pong"}


def test_03_the_second_base_path_is_the_same(
    facade_url: str, ledger: Ledger, old: httpx.Client
) -> None:
    ok(old.post("/user/", json={"login": "editor", "password": PASSWORD, "roles": ["viewer"]}), 201)
    address = f"{facade_url}/VitexSoftware/MultiFlexi/1.0.0/apps.json"
    assert httpx.get(address).status_code == 401
    assert ok(httpx.get(address, auth=("editor", PASSWORD))) == {}
    there = f"{facade_url}/VitexSoftware/MultiFlexi/1.0.0/nothing.json"
    assert httpx.get(there).status_code == 401
    nothing = httpx.get(there, auth=("editor", PASSWORD))
    assert nothing.status_code == 404
    assert "/VitexSoftware/MultiFlexi/1.0.0/nothing.json" in nothing.json()["message"]


def test_04_writes_answer_201_and_the_published_exceptions_200(
    old: httpx.Client,
    everything: dict[str, int],
) -> None:
    for item in ("app", "company", "runtemplate", "user"):
        again = old.post(f"/{item}/", json={"id": everything[item]})
        assert ok(again, 201)["id"] == everything[item]
        assert again.headers["location"] == f"{PREFIXES[0]}/{item}/{everything[item]}.json"
    for item in ("credential", "credential_type", "topic", "runtemplate"):
        path = f"/{item}/{everything[item]}.json"
        assert ok(old.post(path, json={"id": everything[item]}), 201)["id"] == everything[item]
    ok(old.post(f"/user/{everything['user']}/roles/", json={"roles": ["viewer"]}), 200)
    ok(old.delete(f"/eventrule/{everything['eventrule']}.json"), 200)
    ok(old.delete(f"/eventsource/{everything['eventsource']}.json"), 200)


def test_05_scheduling_a_job_answers_id_and_job_id_or_says_why_not(
    old: httpx.Client,
    everything: dict[str, int],
) -> None:
    template = everything["runtemplate"]
    body = {"runtemplate_id": template, "scheduled": "now", "env": {"COUNT": 3, "LOUD": True}}
    job = ok(old.post("/job/", json=body), 201)
    assert isinstance(job["id"], int)
    assert job["job_id"] == job["id"]
    later = {"runtemplate_id": str(template), "scheduled": "2031-01-02 03:04:05"}
    assert ok(old.post("/job/", json=later), 201)["schedule"].startswith("2031-01-02T03:04:05")
    assert old.post("/job/", json={}).status_code == 400
    assert old.post("/job/", json={"runtemplate_id": 99999}).status_code == 404
    ok(old.post(f"/runtemplate/{template}.json", json={"id": template, "active": 0}), 201)
    assert old.post("/job/", json=body).status_code == 409


def test_06_the_id_of_an_upsert_comes_three_ways(
    old: httpx.Client,
    everything: dict[str, int],
) -> None:
    for item, parameter in {
        "app": "appId", "company": "companyId", "user": "userId", "runtemplate": "runTemplateId",
        "job": "jobId", "eventrule": "eventRuleId", "eventsource": "eventSourceId",
    }.items():  # fmt: skip
        known = everything[item]
        for query, body in (
            ({parameter: known}, {}),
            ({}, {"id": str(known)}),
            ({}, {f"{item}_id": known}),
        ):
            if item == "eventrule" and not query and "id" not in body:
                continue  # no published client says it so
            answer = ok(old.post(f"/{item}/", params=query, json=body), 201)
            assert answer["id"] == known, (item, query, body)
    referring = ok(old.post("/job/", json={"runtemplate_id": everything["runtemplate"]}), 201)
    assert referring["created"]
    disabled = ok(old.post("/user/", json={"login": "eva", "enabled": False}), 201)
    assert (disabled["id"], disabled["enabled"]) == (everything["user"], False)


def test_07_with_and_without_the_slash_and_no_redirect(
    old: httpx.Client,
    everything: dict[str, int],
) -> None:
    for path in ("/runtemplate", "/runtemplate/"):
        answer = old.post(path, json={"id": everything["runtemplate"]})
        assert ok(answer, 201)["id"] == everything["runtemplate"]
    assert old.get("/").status_code == 200


def test_08_a_body_is_json_whatever_its_type_is_said_to_be(
    old: httpx.Client,
    everything: dict[str, int],
) -> None:
    headers = {"Content-Type": "application/x-www-form-urlencoded"}
    body = json.dumps({"runtemplate_id": everything["runtemplate"]})
    ok(old.post("/job/", content=body, headers=headers), 201)


def test_09_an_empty_body_with_an_id_in_the_query_changes_nothing(
    old: httpx.Client,
    everything: dict[str, int],
) -> None:
    for item, parameter in {"app": "appId", "company": "companyId", "user": "userId",
                            "runtemplate": "runTemplateId"}.items():  # fmt: skip
        before = ok(old.get(f"/{item}/{everything[item]}.json"))
        answer = old.post(f"/{item}/", params={parameter: everything[item], "limit": 20})
        assert ok(answer, 201) == before | {"created": False}
        assert "warning" not in answer.headers
        assert old.post(f"/{item}/", params={"limit": 20}).status_code == 400


def test_10_an_id_in_the_body_must_be_the_paths(
    old: httpx.Client,
    everything: dict[str, int],
) -> None:
    template = everything["runtemplate"]
    path = f"/runtemplate/{template}.json"
    assert ok(old.post(path, json={"id": template, "active": 0}), 201)["active"] is False
    refusal = ok(old.post(path, json={"id": 4711, "active": 1}), 400)
    assert (refusal["error"], refusal["expected"], refusal["received"]) == (
        "ID mismatch",
        template,
        4711,
    )
    assert ok(old.post(path, json={"id": None}), 400)["received"] is None
    assert ok(old.get(path))["active"] is False


def test_10_what_no_document_has_and_clients_call(
    old: httpx.Client,
    everything: dict[str, int],
    ledger: Ledger,
) -> None:
    assert ok(old.get("/"))["index"] == ok(old.get("/index.json"))["index"]
    (states,) = ok(old.get("/jobs/status.json"))
    assert states["incomplete_jobs"] == 1
    (template,) = ok(old.get("/runtemplate/"))
    assert (template["id"], template["app_id"]) == (everything["runtemplate"], everything["app"])
    listed = ok(old.get("/users.json?limit=1&offset=1&order=-DatCreate"))
    assert len(listed) == 1
    assert old.get("/users.json?order=nonsense").status_code == 400
    following = old.get("/users.json?limit=1").headers["link"]
    assert following.startswith(f"<{PREFIXES[0]}/users.json?limit=1&cursor=")
    next_page = following.removeprefix("<").partition(">")[0]
    assert len(ok(old.get(str(old.base_url.copy_with(raw_path=next_page.encode()))))) == 1

    rule = f"/eventrule/{everything['eventrule']}.json"
    assert ok(old.put(rule, json={"priority": "7"}), 201)["priority"] == 7

    job = everything["job"]
    assert old.delete(f"/job/{job}.json").status_code == 409
    ok(old.post("/job/", json={"id": job, "state": "cancelled"}), 201)
    assert old.delete("/jobs.json").status_code == 400
    chosen = {"runtemplate_id": everything["runtemplate"]}
    tried = ok(old.delete("/jobs.json", params={**chosen, "dry_run": "true"}))
    assert tried == {"dry_run": True, "matched": 1, "deleted": 0, "job_ids": [job], "kept": []}
    done = ok(old.delete("/jobs.json", params=chosen))
    assert done == {"dry_run": False, "matched": 1, "deleted": 1, "job_ids": [job], "kept": []}
    assert old.get(f"/job/{job}.json").status_code == 404

    export = ok(old.get("/data-export?action=export"))
    assert (export["success"], export["format"]) == (True, "json")
    assert ok(old.post("/data-export", json={"action": "status"})) == {
        "success": True,
        "exports": [],
    }
    base = str(old.base_url).removesuffix(f"{PREFIXES[0]}/")
    data = ok(old.get(f"{base}{export['download_url']}?token=any"))
    assert data["user_profile"]["username"] == "old"
    signed = ok(old.post("/user/", json={"login": "eva", "password": PASSWORD}), 201)
    assert signed["created"] is False
    with httpx.Client(base_url=old.base_url, auth=("eva", PASSWORD)) as eva:
        ok(old.post(f"/user/{everything['user']}/roles/", json={"roles": ["viewer"]}))
        token = ok(eva.get("/login.json"))["token"]
        assert ok(eva.post("/logout", json={"token": token}))["status"] == "success"
        assert eva.post("/logout", json={"token": token}).status_code == 400


def test_11_status_has_its_numbers_unwrapped_at_both_paths(
    old: httpx.Client,
    everything: dict[str, int],
) -> None:
    for path in ("/status", "/status.json"):
        status = ok(old.get(path))
        assert status["timestamp"]
        for name in ("companies", "apps", "runtemplates", "topics", "credentials",
                     "credentialtypes", "eventsources", "eventrules"):  # fmt: skip
            assert status[name] == 1, name


def test_12_times_in_filters_and_truth_as_text(
    old: httpx.Client,
    everything: dict[str, int],
    ledger: Ledger,
) -> None:
    with ledger.writing(SERVICE) as session:
        now = ledger.clock()
        state = TaskState.MISSED
        task = Task(runtemplate_id=everything["runtemplate"], window_start=now, window_end=now,
                    deadline=now, state=state)  # fmt: skip
        session.add(task)
    for moment in ("2020-01-02T03:04:05.000000", "2020-01-02T03:04:05.000000+0000",
                   "2020-01-02 03:04:05"):  # fmt: skip
        for path in ("tasks", "auditlog", "jobs"):
            assert ok(old.get(f"/{path}.json", params={"from": moment})), path
            assert not ok(old.get(f"/{path}.json", params={"to": moment})), path
    (missed,) = ok(old.get("/tasks.json", params={"state": "missed"}))
    assert ok(old.get("/tasks.json", params={"state": "open"})) == []
    assert missed["runtemplate_id"] == everything["runtemplate"]
    path = f"/user/{everything['user']}/roles/"
    ok(old.post(path, json={"roles": ["viewer"]}))
    added = ok(old.post(path, params={"replace": "false"}, json={"roles": ["user"]}))
    assert added["roles"] == ["viewer", "user"]
    assert ok(old.post(path, params={"replace": "true"}, json={"roles": []}))["roles"] == []


def test_13_event_rules_have_two_bodies_and_one_answer(
    old: httpx.Client,
    rest: httpx.Client,
    everything: dict[str, int],
) -> None:
    template = everything["runtemplate"]
    mapping = {"TARGET": "$.recordid"}
    documented = {
        "event_source_id": everything["eventsource"], "evidence": "invoice",
        "operation": "create", "runtemplate_id": template, "priority": 1, "enabled": True,
        "env_mapping": json.dumps(mapping),
    }  # fmt: skip
    other = {"app_id": everything["app"], "company_id": everything["company"], "name": "next"}
    target = ok(old.post("/runtemplate/", json=other), 201)["id"]
    chained = {"source_runtemplate_id": str(template), "target_runtemplate_id": str(target),
               "env_mapping": mapping}  # fmt: skip
    for at in (old, rest):
        for body in (documented, chained):
            rule = ok(at.post("/eventrule/", json=body), 201)
            assert isinstance(rule["id"], int)
            shown = ok(old.get(f"/eventrule/{rule['id']}.json"))
            assert json.loads(shown["env_mapping"]) == mapping
            assert isinstance(shown["env_mapping"], str)
        path = f"/eventrule/{rule['id']}.json"
        changed = ok(at.put(path, json={**chained, "env_mapping": {}}), 201)
        assert (changed["runtemplate_source_id"], changed["runtemplate_id"]) == (template, target)
    both = {"target_runtemplate_id": target, "runtemplate_id": template}
    assert rest.post("/eventrule/", json=both).status_code == 400


def test_14_an_application_is_a_flat_record_with_its_chaining_fields(old: httpx.Client) -> None:
    whole = {
        **PROBE,
        "tags": ["bank", "daily"],
        "requirements": ["mail"],
        "version": "1.2",
        "environment": {
            **PROBE["environment"],
            "MAIL": {"type": "email", "defval": 5, "description": {"en": "Mail", "cs": "Pošta"}},
        },
        "produces": {"result": {"format": "json", "fields": {"total": {"type": "float"}}}},
        "consumes": {"input": {"format": "text", "target": "TARGET"}},
    }
    app = ok(old.post("/app/", json=whole), 201)
    (listed,) = ok(old.get("/apps.json")).values()
    assert ok(old.get(f"/app/{app['id']}.json")) == listed
    assert app == listed | {"created": True} | {
        name: app[name] for name in ("warnings",) if name in app
    }
    assert (listed["name"], listed["tags"], listed["topics"]) == ("Probe", *["bank,daily"] * 2)
    assert (listed["requirements"], listed["artifacts"]) == ("mail", "result.json")
    assert listed["cmdparams"] == PROBE["cmdparamsTemplate"]
    mail = {"type": "string", "description": "Mail", "defval": "5", "required": False}
    assert listed["environment"]["MAIL"] == mail
    assert listed["environment"]["LOUD"]["defval"] == "false"
    assert listed["exitCodes"]["5"]["severity"] == "error"
    assert listed["exitCodes"]["5"]["description"] == {"en": "Came to nothing"}
    assert listed["produces"]["result"]["fields"] == {"total": {"type": "float"}}
    assert listed["consumes"]["input"]["target"] == "TARGET"
    assert listed["status"] is None


def test_a_flat_record_makes_an_application_and_changes_one(
    old: httpx.Client, rest: httpx.Client
) -> None:
    flat = {"name": "Backup", "executable": "backup", "tags": ["a", "b"], "status": "available"}
    made = old.post("/app/", json=flat)
    assert made.headers["warning"] == '199 jobauto "unknown fields are ignored: status"'
    app = ok(made, 201)
    assert (app["tags"], app["environment"], app["exitCodes"]) == ("a,b", {}, {})
    body = {"app_id": app["id"], "tags": "c, d", "cmdparams": "--all"}
    assert ok(old.post("/app/", json=body), 201)["tags"] == "c,d"
    document = ok(rest.get(f"/app/{app['id']}.json"))
    assert (document["tags"], document["cmdparamsTemplate"]) == (["c", "d"], "--all")
    back = ok(old.get(f"/app/{app['id']}.json"))
    ok(old.post("/app/", json=back), 201)
    assert ok(rest.get(f"/app/{app['id']}.json"))["tags"] == ["c", "d"]


def test_unknown_fields_are_ignored_with_a_warning_here_and_refused_there(
    old: httpx.Client,
    rest: httpx.Client,
    everything: dict[str, int],
) -> None:
    template = {
        "runtemplate_id": everything["runtemplate"], "iterv": "d", "prepared": True,
        "success": "text", "fail": "text",
    }  # fmt: skip
    answer = old.post("/runtemplate", json=template)
    assert ok(answer, 201)["interv"] == "d"
    assert answer.headers["warning"].endswith(
        '"unknown fields are ignored: prepared, success, fail"'
    )
    assert ok(rest.post("/runtemplate", json=template), 400)["details"]
    ok(rest.post("/runtemplate", json={"id": everything["runtemplate"], "iterv": "h"}), 201)
    job = {
        "app_id": 1, "company_id": 1, "command": "x", "schedule": "2031-01-02 03:04:05",
        "env": '{"TARGET": "x"}', "app_version": "1", "runtemplate_id": everything["runtemplate"],
    }  # fmt: skip
    made = ok(old.post("/job/", json=job), 201)
    assert (made["env"], made["schedule"][:10]) == ({"TARGET": "x"}, "2031-01-02")
    odd = old.post("/topic/", json={"name": "x", 'zá\n"y': 1})
    assert odd.status_code == 201
    assert odd.headers["warning"] == '199 jobauto "unknown fields are ignored: z%C3%A1%0A%22y"'
    customer = old.post("/company/", json={"code": "acme", "customer": "CustomerX", "id": None})
    assert ok(customer, 201)["id"] == everything["company"]
    assert "customer" in customer.headers["warning"]


def test_the_answer_to_a_repeated_request_has_the_warning_again(old: httpx.Client) -> None:
    key = {"Idempotency-Key": "once"}
    first = old.post("/topic/", json={"name": "x", "other": 1}, headers=key)
    again = old.post("/topic/", json={"name": "x", "other": 1}, headers=key)
    assert again.headers["idempotent-replayed"] == "true"
    assert (again.json(), again.headers["warning"]) == (first.json(), first.headers["warning"])


def test_only_changes_are_in_the_audit_log_of_this_dialect(
    old: httpx.Client, rest: httpx.Client
) -> None:
    ok(old.post("/user/", json={"login": "eva", "password": PASSWORD}), 201)
    signed_in = httpx.post(f"{old.base_url}login.json", auth=("eva", PASSWORD))
    assert signed_in.status_code == 200
    entries = ok(rest.get("/auditlog.json")).values()
    (other,) = (one["id"] for one in entries if one["action"] == "login")
    listed = old.get("/auditlog.json?limit=1000")
    assert {one["action"] for one in ok(listed)} <= {"create", "update", "delete"}
    assert int(listed.headers["x-total-count"]) == len(entries) - 1
    assert old.get(f"/auditlog/{other}.json").status_code == 404
    assert old.get("/auditlog.json?action=login").json() == []
    entry = ok(listed)[0]
    assert (entry["severity"], type(entry["additional_data"])) == ("low", dict)


def test_texts_that_published_clients_cannot_hold_are_cut_and_never_come_back_cut(
    old: httpx.Client, rest: httpx.Client
) -> None:
    long = {"slug": "a-slug-of-many-letters", "name": "A name " * 9 + "A name", "ic": "1" * 33}
    company = ok(rest.post("/company/", json=long), 201)["id"]
    shown = ok(old.get(f"/company/{company}.json"))
    assert (len(shown["name"]), shown["code"], shown["ic"]) == (32, "a-slug-001", None)
    sent_back = {"id": company, "name": shown["name"], "code": shown["code"]}
    ok(old.post("/company/", json=sent_back), 201)
    kept = ok(rest.get(f"/company/{company}.json"))
    assert (kept["name"], kept["slug"]) == (long["name"], long["slug"])


def test_a_credential_of_one_value_is_written_as_the_document_says(
    old: httpx.Client, rest: httpx.Client
) -> None:
    kind = {"code": "bank", "name": "Bank", "fields": [{"keyword": "TOKEN", "type": "password"}]}
    ok(rest.post("/credential_type/", json=kind), 201)
    ok(rest.post("/company/", json={"slug": "acme", "name": "Acme"}), 201)
    body = {"company": "acme", "credential_type": "bank", "name": "c"}
    made = ok(rest.post("/credential/", json=body), 201)
    published = {"name": "c", "company_id": 1, "type": "token", "value": SECRET}
    path = f"/credential/{made['id']}.json"
    changed = ok(old.post(path, params={"token": ""}, json=published), 201)
    assert (changed["value"], changed["type"]) == ("********", "password")
    assert SECRET not in old.get(f"{path}?token=").text
    ok(old.post(path, json={"value": "********"}), 201)
    assert ok(rest.get(path))["values"] == {"TOKEN": "********"}


def test_the_published_commands_work(old: httpx.Client) -> None:
    ok(old.post("/user/", json={"login": "eva", "password": PASSWORD, "roles": ["viewer"]}), 201)
    basic = base64.b64encode(f"eva:{PASSWORD}".encode()).decode()
    for method in ("GET", "POST"):
        headers = {"Authorization": f"Basic {basic}"}
        token = ok(httpx.request(method, f"{old.base_url}login.json", headers=headers))["token"]
        with client(str(old.base_url), token) as bearer:
            assert ok(bearer.get("/apps.json")) == {}
    ok(old.post("/user/", json={"login": "eva", "enabled": False}), 201)
    assert httpx.get(f"{old.base_url}login.json", auth=("eva", PASSWORD)).status_code == 401


def test_a_job_says_how_far_it_is_by_its_times(
    old: httpx.Client,
    everything: dict[str, int],
    ledger: Ledger,
) -> None:
    path = f"/job/{everything['job']}.json"
    waiting = ok(old.get(path))
    assert (waiting["begin"], waiting["end"], waiting["exitcode"]) == (None, None, None)
    with ledger.writing(SERVICE) as session:
        job = session.get(Job, everything["job"])
        assert job is not None
        job.begin = job.end = ledger.clock()
        job.exitcode = 0
    ended = ok(old.get(path))
    assert ended["exitcode"] == 0
    assert ended["end"]
    assert isinstance(ended["env"], dict)


def test_the_core_does_not_know_the_dialect() -> None:
    package = ROOT / "jobauto_prefect"
    knowing = {
        path.relative_to(package).as_posix()
        for path in package.rglob("*.py")
        if "facade/compat/" not in path.as_posix()
    }
    importing = {name for name in knowing if "facade.compat" in (package / name).read_text()}
    assert importing == {"facade/app.py"}


def test_an_event_source_takes_the_whole_body_that_clients_send(
    old: httpx.Client,
    rest: httpx.Client,
    everything: dict[str, int],
) -> None:
    shown = ok(old.get(f"/eventsource/{everything['eventsource']}.json"))
    assert (shown["db_port"], shown["last_processed_id"]) == ("3306", 0)
    answer = old.post("/eventsource/", json=shown)
    assert ok(answer, 201) == {**shown, "modified": answer.json()["modified"]}
    assert {"created", "modified"} <= set(re.findall(r"\w+", answer.headers["warning"]))
    assert ok(rest.get(f"/eventsource/{everything['eventsource']}.json"))["db_password"]


def test_the_command_line_of_a_definition_survives(old: httpx.Client, rest: httpx.Client) -> None:
    older = {name: value for name, value in PROBE.items() if name != "cmdparamsTemplate"}
    app = ok(old.post("/app/", json=older | {"cmdparams": "--who {GREETING}"}), 201)
    document = ok(rest.get(f"/app/{app['id']}/definition.json"))
    assert document == older | {"cmdparamsTemplate": "--who {GREETING}"}
    assert ok(old.get(f"/app/{app['id']}.json"))["cmdparams"] == "--who {GREETING}"
    both = PROBE | {"cmdparams": "--old"}
    ok(old.post("/app/", json=both), 201)
    assert ok(rest.get(f"/app/{app['id']}/definition.json")) == both
