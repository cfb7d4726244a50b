"""`POST /apply`: a plan by its digest, all of it or nothing, and every fault at once."""

import json
from typing import Any
from uuid import uuid4

import httpx

from jobauto_prefect.definitions import schema
from jobauto_prefect.definitions.validation.record_files import record_schema
from jobauto_prefect.ledger.store import Ledger
from scripts.key_pages import example_of, keys
from tests.support import contract_check
from tests.support.definitions import PROBE
from tests.support.records import ok
from tests.support.servers import client, manager_token, user_token

ACME = "kind: company\nslug: acme\nname: Acme\n"
NIGHTLY = "kind: runtemplate\ncompany: acme\napp: Probe\nname: Nightly\n"


def files(**texts: Any) -> list[dict[str, str]]:
    """Files by name; `_` stands for the dot."""
    return [
        {
            "name": name.replace("_", "."),
            "text": content if isinstance(content, str) else json.dumps(content),
        }
        for name, content in texts.items()
    ]


def planned(rest: httpx.Client, status: int = 200, **asked: Any) -> Any:
    return ok(rest.post("/apply.json", json=asked), status)


def counts(plan: Any) -> dict[str, int]:
    return {action: number for action, number in plan["counts"].items() if number}


def people_of(rest: httpx.Client) -> list[tuple[str, str, str]]:
    entries = rest.get("/auditlog.json", params={"order": "id"}).json().values()
    return [(one["actor"], one["entity_type"], one["action"]) for one in entries]


def test_a_plan_writes_nothing_and_its_digest_carries_it_out(rest: httpx.Client) -> None:
    before = people_of(rest)
    asked: dict[str, Any] = {"files": files(probe_json=PROBE, acme_yaml=f"{ACME}---\n{NIGHTLY}")}

    plan = planned(rest, **asked)
    untouched = people_of(rest), rest.get("/companies.json").json()
    done = planned(rest, **asked, digest=plan["digest"])
    written = people_of(rest)[len(before) :]
    again = planned(rest, **asked)

    assert untouched == (before, {})
    assert counts(plan) == counts(done) == {"create": 3}
    assert (plan["applied"], done["applied"]) == (False, True)
    assert sorted(written) == [
        ("root", "App", "create"), ("root", "Company", "create"), ("root", "RunTemplate", "create"),
    ]  # fmt: skip
    assert counts(again) == {"unchanged": 3}
    assert again["prefect_away"] is not None
    assert rest.get("/app/Probe/definition.json").json() == PROBE


def test_what_is_approved_before_is_carried_out_by_the_request_that_plans_it(
    rest: httpx.Client,
) -> None:
    before = people_of(rest)
    asked: dict[str, Any] = {"files": files(probe_json=PROBE, acme_yaml=f"{ACME}---\n{NIGHTLY}")}

    done = planned(rest, **asked, auto_approve=True)
    written = people_of(rest)
    again = planned(rest, **asked, auto_approve=True)

    assert (done["applied"], counts(done)) == (True, {"create": 3})
    assert len(written) == len(before) + 3
    assert (again["applied"], counts(again)) == (False, {"unchanged": 3})
    assert people_of(rest) == written


def test_approval_is_for_what_is_right_and_permitted(
    rest: httpx.Client, facade_url: str, ledger: Ledger
) -> None:
    wrong: dict[str, Any] = {"files": files(acme_yaml=ACME, other_yaml=NIGHTLY)}
    refused = planned(rest, 400, **wrong, auto_approve=True)
    with client(f"{facade_url}/api/v1", manager_token(ledger, "eve", "elsewhere")) as eve:
        eve.event_hooks["response"].append(contract_check.check)
        plan = planned(eve, files=files(acme_yaml=ACME), auto_approve=True)

    assert [(error["file"], error["rule"]) for error in refused["details"]] == [
        ("other.yaml", "reference")
    ]
    assert plan["applied"] is False
    assert [(error["file"], error["rule"]) for error in plan["forbidden"]] == [
        ("acme.yaml", "forbidden")
    ]
    companies = rest.get("/companies.json").json().values()
    assert [company["slug"] for company in companies] == ["elsewhere"]


def test_a_definition_stays_byte_for_byte(rest: httpx.Client) -> None:
    text = "\ufeff" + json.dumps(PROBE, indent=5, ensure_ascii=False)
    asked = {"files": files(probe_json=text)}
    planned(rest, **asked, digest=planned(rest, **asked)["digest"])

    assert rest.get("/app/Probe/definition.json").content == text.encode()


def test_a_digest_is_stale_once_a_record_is_another(rest: httpx.Client) -> None:
    asked: dict[str, Any] = {"files": files(acme_yaml=ACME)}
    rest.post("/company/", json={"slug": "acme", "name": "Old"}).raise_for_status()
    plan = planned(rest, **asked)
    rest.post("/company/", json={"slug": "acme", "email": "a@example.org"}).raise_for_status()

    stale = planned(rest, 409, **asked, digest=plan["digest"])

    assert rest.get("/company/acme.json").json()["name"] == "Old"
    new = stale["details"]
    assert new["changes"] == plan["changes"], "what the files change is as it was"
    assert new["digest"] != plan["digest"], "the record is not"
    assert counts(planned(rest, **asked, digest=new["digest"])) == {"update": 1}
    assert rest.get("/company/acme.json").json()["name"] == "Acme"
    planned(rest, 409, **asked, digest=new["digest"])


def test_times_are_judged_in_the_zone_of_the_company(rest: httpx.Client) -> None:
    """A week in which the clock goes forward is an hour shorter; UTC has none."""
    late = f"{NIGHTLY}interv: w\ndelay: {7 * 86_400 - 1800}\ncredentials: [none]\n"

    def rules(company: str) -> list[str]:
        asked = files(probe_json=PROBE, acme_yaml=f"{company}---\n{late}")
        return [error["rule"] for error in planned(rest, 400, files=asked)["details"]]

    assert rules(ACME) == ["reference"]
    assert rules(f"{ACME}timezone: Europe/Prague\n") == ["deadline", "reference"]


def test_a_digest_is_of_the_files_too(rest: httpx.Client) -> None:
    plan = planned(rest, files=files(acme_yaml=ACME))

    planned(
        rest, 409, files=files(acme_yaml=f"{ACME}email: a@example.org\n"), digest=plan["digest"]
    )

    assert rest.get("/companies.json").json() == {}


def test_every_error_of_all_files_is_told_at_once(rest: httpx.Client) -> None:
    """Of each file, of files together, and what only writing finds."""
    invalid = {
        **PROBE,
        "uuid": "6a2c6d4e-30e4-4f6b-9d6e-7c8ad9f2b00f",
        "name": "Bad",
        "version": "x",
    }
    source = "kind: eventsource\nname: Ours\ndb_connection: sqlite\ndb_database: relative.db\n"
    asked = files(
        a_json=invalid,
        b_yaml=f"{ACME}---\n{NIGHTLY}interv: fortnightly\n",
        c_yaml="kind: runtemplate\ncompany: acme\napp: Bad\nname: Waits for another file\n---\n"
        "kind: runtemplate\ncompany: nobody\napp: None\nname: Lost\n",
        d_yaml=source,
        e_yaml="kind: company\nslug: other\nname: 7\n",
    )

    refused = planned(rest, 400, files=asked)

    told = [(one.get("file"), one.get("line"), one["pointer"]) for one in refused["details"]]
    assert told == [
        ("a.json", 1, "/version"),
        ("b.yaml", 9, "/interv"),
        ("c.yaml", 7, "/company"),
        ("c.yaml", 8, "/app"),
        ("d.yaml", 4, "/db_database"),
        ("e.yaml", 3, "/name"),
    ]
    assert refused["message"] == "6 errors in 5 files; nothing was changed"
    assert rest.get("/companies.json").json() == {}


def test_what_is_in_a_file_that_nobody_can_read_is_not_missed_elsewhere(rest: httpx.Client) -> None:
    refused = planned(rest, 400, files=files(apps_yaml="a: [", acme_yaml=f"{ACME}---\n{NIGHTLY}"))

    assert [(error["file"], error["rule"]) for error in refused["details"]] == [
        ("apps.yaml", "syntax")
    ]


def test_an_error_that_only_writing_finds_leaves_nothing_behind(rest: httpx.Client) -> None:
    source = "kind: eventsource\nname: Ours\ndb_connection: sqlite\ndb_database: relative.db\n"
    asked = {"files": files(a_yaml=f"{ACME}---\n{source}")}

    for how in ({"digest": "0" * 64}, {"auto_approve": True}):
        refused = planned(rest, 400, **asked, **how)
        assert [error["pointer"] for error in refused["details"]] == ["/db_database"]

    assert rest.get("/companies.json").json() == {}


def test_one_may_apply_what_one_may_write(
    rest: httpx.Client, facade_url: str, ledger: Ledger
) -> None:
    base: dict[str, Any] = {"files": files(probe_json=PROBE, acme_yaml=f"{ACME}---\n{NIGHTLY}")}
    planned(rest, **base, digest=planned(rest, **base)["digest"])
    token = user_token(ledger, "mia", ())
    number = rest.get("/users.json", params={"login": "mia"}).json().popitem()[1]["id"]
    member = {"user_id": number, "role": "manager"}
    rest.post("/company/acme/user/", json=member).raise_for_status()
    mine = {"files": files(acme_yaml=f"{NIGHTLY}note: Mine\n")}
    more = {"files": files(acme_yaml=f"{NIGHTLY}note: More\n---\n{ACME}email: a@example.org\n",
                           other_yaml="kind: company\nslug: other\nname: Other\n")}  # fmt: skip
    with client(f"{facade_url}/api/v1", token) as mia:
        mia.event_hooks["response"].append(contract_check.check)

        plan = planned(mia, **more)
        refused = planned(mia, 400, **more, digest=plan["digest"])
        note = rest.get("/runtemplate/acme%2FNightly.json").json()["note"]
        done = planned(mia, **mine, digest=planned(mia, **mine)["digest"])

    forbidden = [(error["file"], error["rule"]) for error in plan["forbidden"]]
    assert forbidden == [("other.yaml", "forbidden")]
    assert [(error["file"], error["rule"]) for error in refused["details"]] == forbidden
    assert note is None
    assert counts(done) == {"update": 1}
    assert people_of(rest)[-1] == ("mia", "RunTemplate", "update")


def test_a_person_sees_no_records_of_others_in_a_plan(
    rest: httpx.Client, facade_url: str, ledger: Ledger
) -> None:
    base: dict[str, Any] = {"files": files(acme_yaml=f"{ACME}email: secret@example.org\n")}
    planned(rest, **base, digest=planned(rest, **base)["digest"])

    with client(f"{facade_url}/api/v1", manager_token(ledger, "eve", "elsewhere")) as eve:
        answer = eve.post("/apply.json", json={"files": files(acme_yaml=ACME)})

    assert "secret@example.org" not in answer.text


def test_files_together_may_be_larger_than_other_bodies(
    rest: httpx.Client, facade_settings: Any
) -> None:
    company = json.dumps({"kind": "company", "slug": "acme", "name": "Acme"})
    room = " " * facade_settings.body_limit_bytes

    assert counts(planned(rest, files=files(acme_json=room + company))) == {"create": 1}


def test_what_waits_for_a_companys_topics_is_tried_too(rest: httpx.Client) -> None:
    """A title of another company's topic is one that there is, and none that it may bear."""
    rest.post("/company/", json={"slug": "beta", "name": "Beta"}).raise_for_status()
    money = {"name": "money", "company_id": "beta"}
    rest.post("/topic/", json=money).raise_for_status()
    asked: dict[str, Any] = {"files": files(acme_yaml=f"{ACME}topics: [beta/money]\n")}

    refused = planned(rest, 400, **asked)

    assert [(error["file"], error["line"]) for error in refused["details"]] == [("acme.yaml", 4)]
    assert [one["slug"] for one in rest.get("/companies.json").json().values()] == ["beta"]


def test_every_example_of_a_key_of_run_templates_is_applied(rest: httpx.Client) -> None:
    definition = example_of(schema())
    records: list[dict[str, Any]] = [
        {"kind": "calendar", "name": "Holidays"},
        {"kind": "topic", "name": "money"},
        {"kind": "company", "slug": "acme", "name": "Acme"},
        {
            "kind": "credential_type",
            "code": "FioBank",
            "name": "Fio",
            "fields": [{"keyword": "FIO_TOKEN", "type": "password"}],
        },
        {"kind": "credential", "company": "acme", "name": "Fio", "credential_type": "FioBank"},
        {"kind": "runtemplate", "company": "acme", "app": "Report", "name": "Report"},
    ]
    report = definition | {"name": "Report", "uuid": str(uuid4())}
    examples = [
        (key.path[0], value)
        for key in keys(record_schema("runtemplate"))
        if len(key.path) == 1
        for value in key.rules["examples"]
    ]
    for number, (name, value) in enumerate(examples):
        named = {"kind": "runtemplate", "company": "acme", "name": f"{number} {name}"}
        app = {} if name == "app_uuid" else {"app": definition["name"]}
        needed = {"interv": "c", "cron": "@daily"} if name in ("interv", "cron") else {}
        records.append({**named, **app, **needed, name: value})

    asked: dict[str, Any] = {
        "files": files(app_json=definition, report_json=report, acme_json=records)
    }
    done = planned(rest, **asked, auto_approve=True)

    assert counts(done) == {"create": len(records) + 2}
