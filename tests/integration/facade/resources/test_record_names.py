"""REST takes names wherever it takes ids: in paths, in queries and in bodies."""

import json
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import httpx
import pytest

from jobauto_prefect.console_addresses import CONTRACT
from jobauto_prefect.definitions.records.actions import Action
from jobauto_prefect.definitions.records.names import code_of
from jobauto_prefect.facade.compat.translation import PREFIXES
from tests.support.company_pair import CompanyPair
from tests.support.databases import both_databases
from tests.support.definitions import PROBE
from tests.support.records import ok, pointers

UUID = "6a2c6d4e-30e4-4f6b-9d6e-7c8ad9f2b0aa"
ADDRESSES = (CONTRACT, *PREFIXES)


@pytest.fixture
def made(rest: httpx.Client) -> dict[str, tuple[str, int]]:
    """A record of each kind that has names, all in the company acme."""
    records: dict[str, tuple[str, int]] = {}

    def make(item: str, called: str, **body: Any) -> None:
        records[item] = called, ok(rest.post(f"/{item}/", json=body), 201)["id"]

    make("company", "acme", slug="acme", name="Acme")
    make("app", "Disk / probe", **{**PROBE, "name": "Disk / probe", "uuid": UUID})
    app, acme = records["app"][0], "acme"
    make("runtemplate", "acme/Nightly v1.2", app_id=app, company_id=acme, name="Nightly v1.2")
    make("credential_type", "bank", code="bank", name="Bank", fields=[{"keyword": "USER"}])
    make("credential", "acme/Main", name="Main", company_id=acme, credential_type_id="bank")
    make("topic", "money", name="money")
    make("user", "anna", login="anna", password="Correct horse 7 battery")
    make("eventsource", "Books", name="Books", db_database="/tmp/books", db_connection="sqlite")
    return records


@pytest.fixture(params=ADDRESSES)
def http(
    request: pytest.FixtureRequest, facade_url: str, rest: httpx.Client
) -> Iterator[httpx.Client]:
    """The contract at one of its addresses."""
    with httpx.Client(base_url=f"{facade_url}{request.param}", headers=rest.headers) as signed_in:
        yield signed_in


@both_databases
def test_each_kind_is_read_written_and_deleted_by_name(
    http: httpx.Client, made: dict[str, tuple[str, int]]
) -> None:
    for item, (name, record_id) in made.items():
        path = f"/{item}/{quote(name, safe='')}.json"
        assert ok(http.get(path))["id"] == record_id, item
        assert ok(http.post(path, json={}), 201)["id"] == record_id, item
        nothing = http.get(f"/{item}/{quote(name, safe='')}x.json")
        assert nothing.status_code == 404, nothing.text
    for item in ("credential", "runtemplate", "topic", "user"):
        name, record_id = made[item]
        assert ok(http.delete(f"/{item}/{quote(name, safe='')}.json"))["id"] == record_id
        assert http.get(f"/{item}/{record_id}.json").status_code == 404


def test_the_slash_of_a_companys_name_may_be_plain(
    http: httpx.Client, made: dict[str, tuple[str, int]]
) -> None:
    number = made["runtemplate"][1]
    assert ok(http.get("/runtemplate/acme/Nightly%20v1.2.json"))["id"] == number
    assert "suggestions" in ok(http.get("/runtemplate/acme/Nightly%20v1.2/suggestions.json"))
    assert "suggestions" in ok(http.get(f"/runtemplate/{number}/suggestions.json"))
    assert ok(http.get("/credential/acme/Main.json"))["id"] == made["credential"][1]
    page = http.get("/runtemplate/acme/Nightly%20v1.2.html")
    assert page.status_code == 200


@both_databases
def test_other_names_of_the_same_records(
    rest: httpx.Client, http: httpx.Client, made: dict[str, tuple[str, int]]
) -> None:
    assert ok(http.get(f"/app/{UUID.upper()}.json"))["id"] == made["app"][1]
    assert ok(http.get(f"/app/{UUID}/definition.json"))["name"] == "Disk / probe"
    longer = ok(rest.post("/company/", json={"slug": "a-long-company", "name": "Long"}), 201)["id"]
    for slug in ("a-long-company", code_of("a-long-company", longer)):
        assert ok(http.get(f"/company/{slug}.json"))["id"] == longer


def test_what_belongs_to_a_record_is_reached_by_its_name(
    rest: httpx.Client, made: dict[str, tuple[str, int]]
) -> None:
    assigned = ok(rest.post("/company/acme/user/", json={"user_id": "anna"}), 201)
    assert assigned["user_id"] == made["user"][1]
    assert [*ok(rest.get("/company/acme/users.json"))] == [str(made["user"][1])]
    ok(rest.post("/user/anna/roles/", json={"roles": ["viewer"]}))
    assert [role["name"] for role in ok(rest.get("/user/anna/roles.json")).values()] == ["viewer"]
    ok(rest.delete("/company/acme/user/anna"))
    assert ok(rest.get("/company/acme/users.json")) == {}
    assert ok(rest.post("/credential/acme%2FMain/reveal.json"))["name"] == "Main"
    assert ok(rest.post("/eventsource/Books/test.json"))["reachable"] is False
    mapping = f"/app/{UUID}/mapping.json"
    assert "selectors" in ok(rest.get(mapping, params={"source_app_id": UUID}))


@both_databases
def test_filters_take_names(http: httpx.Client, made: dict[str, tuple[str, int]]) -> None:
    template = made["runtemplate"][1]

    def ids(path: str, **query: Any) -> list[int]:
        listed = ok(http.get(path, params=query))
        records = listed.values() if isinstance(listed, dict) else listed
        return [record["id"] for record in records]

    for query in (
        {"company_id": "acme"}, {"app_id": "Disk / probe"}, {"app_id": UUID},
        {"company_id": "acme", "app_id": str(made["app"][1])},
    ):  # fmt: skip
        assert ids("/runtemplates.json", **query) == [template]
    assert ids("/runtemplates.json", company_id="nobody") == []
    assert ids("/credentials.json", credential_type_id="bank") == [made["credential"][1]]
    job = ok(http.post("/job/", json={"runtemplate_id": "acme/Nightly v1.2"}), 201)["id"]
    assert ids("/jobs.json", runtemplate_id="acme/Nightly v1.2") == [job]
    assert ids("/jobs.json", runtemplate_id="acme/nightly v1.2") == []
    tried = http.delete("/jobs.json", params={"runtemplate_id": "acme/other", "dry_run": "1"})
    assert ok(tried)["matched"] == 0
    tried = http.delete(
        "/jobs.json",
        params={"runtemplate_id": "acme/Nightly v1.2", "state": "scheduled", "dry_run": "1"},
    )
    assert ok(tried)["job_ids"] == [job]


def test_bodies_take_names_and_name_those_that_are_not_there(
    rest: httpx.Client, made: dict[str, tuple[str, int]]
) -> None:
    template = made["runtemplate"]
    body = {"company_id": "acme", "app_id": UUID, "name": "first"}
    after = {"success": {Action.CHAIN: {"runtemplate_id": template[0]}}}
    first = ok(rest.post("/runtemplate/", json=body | after), 201)
    assert first["success"] == {Action.CHAIN: {"runtemplate_id": template[1]}}
    wrong = {"success": {Action.CHAIN: {"runtemplate_id": "acme/Never"}}}
    refused = rest.post("/runtemplate/acme%2Ffirst.json", json=wrong)
    pointers = [fault["pointer"] for fault in refused.json()["details"]]
    assert pointers == [f"/success/{Action.CHAIN}/runtemplate_id"]
    rule = {"event_source_id": "Books", "runtemplate_id": template[0], "evidence": "invoice"}
    written = ok(rest.post("/eventrule/", json=rule), 201)
    assert (written["event_source_id"], written["runtemplate_id"]) == (
        made["eventsource"][1],
        template[1],
    )
    again = ok(rest.post("/runtemplate/", params={"runTemplateId": template[0]}, json={}), 201)
    assert again["id"] == template[1]
    refused = rest.post("/eventrule/", json=rule | {"event_source_id": "None such"})
    assert refused.status_code == 400
    assert refused.json()["details"][0]["pointer"] == "/event_source_id"
    assert rest.post("/job/", json={"runtemplate_id": "acme/Never"}).status_code == 404
    assert rest.post("/runtemplate/", json={"id": "acme/Never"}).status_code == 404
    path = f"/runtemplate/{template[1]}.json"
    assert rest.post(path, json={"id": "acme/Never"}).status_code == 404
    assert ok(rest.post(path, json={"id": template[0]}), 201)["id"] == template[1]
    other = ok(rest.post("/company/", json={"slug": "other", "name": "Other"}), 201)["id"]
    assert rest.post("/company/acme.json", json={"id": other}).status_code == 400
    windows = rest.get("/forecast.json", params={"runtemplate_id": f"{template[0]},9999"})
    assert ok(windows)["windows"] == []


@both_databases
def test_names_of_others_are_not_there_as_their_ids_are_not(pair: CompanyPair) -> None:
    theirs = pair.template("there", pair.records["app"]["there"]["id"])
    both = (f"/runtemplate/{theirs['id']}.json", "/runtemplate/there%2Ft.json")
    for address, http in pair.everywhere("here"):
        for path in (*both, "/company/there.json", "/app/there-app.json"):
            assert http.get(path).status_code == 404, (address, path)
        assert "there is no run template there/t" in http.get(both[1]).text
        for filter_ in ({"company_id": "there"}, {"company_id": pair.companies["there"]}):
            listed = http.get("/runtemplates.json", params=filter_)
            assert len(ok(listed, 200)) == 0
        body = {"company_id": "here", "app_id": "there-app", "name": "n"}
        assert http.post("/runtemplate/", json=body).status_code == 400
        shared = http.post("/app/shared-app.json", json={"license": "MIT"})
        assert shared.status_code == 403, shared.text


ENDS = (" x", "x ", "x\n", "\tx", "\u00a0x", "x\u3000", "x\u2028", " ")
NAMED: dict[str, dict[str, Any]] = {
    "company": {"slug": "other"},
    "calendar": {},
    "topic": {},
    "credential_type": {"code": "other", "fields": []},
    "app": {**PROBE, "uuid": UUID[:-1] + "b"},
    "credential": {"company": "acme", "credential_type": "bank"},
    "runtemplate": {"company": "acme", "app": "Disk / probe"},
    "eventsource": {"db_database": "/tmp/books", "db_connection": "sqlite"},
}


@pytest.mark.parametrize("item", NAMED)
def test_a_name_with_a_blank_at_an_end_is_refused_whichever_way_it_comes(
    rest: httpx.Client, made: dict[str, tuple[str, int]], item: str
) -> None:
    said = {} if item == "app" else {"kind": item}

    def planned(name: Any) -> httpx.Response:
        text = json.dumps({**said, **NAMED[item], "name": name})
        return rest.post("/apply.json", json={"files": [{"name": "a.json", "text": text}]})

    for name in ENDS:
        answer = rest.post(f"/{item}/", json={**NAMED[item], "name": name})
        in_any_form = {pointer.partition("/")[2].partition("/")[0] for pointer in pointers(answer)}
        assert in_any_form == {"name"}, repr(name)
        assert set(pointers(planned(name))) == {"/name"}, repr(name)
    if item in ("app", "credential_type"):
        assert set(pointers(planned({"en": "x", "cs": "x "}))) == {"/name/cs"}
        answer = rest.post(f"/{item}/", json={**NAMED[item], "name": {"en": "x", "cs": "x "}})
        assert answer.status_code == 400, answer.text
    for name in ("x\u200b", "x  y"):
        assert planned(name).status_code == 200, planned(name).text
        ok(rest.post(f"/{item}/", json={**NAMED[item], "name": name}), 201)


def test_a_login_has_no_blank(rest: httpx.Client) -> None:
    for login in ENDS:
        answer = rest.post("/user/", json={"login": login, "password": "Correct horse 7 battery"})
        assert set(pointers(answer)) == {"/login"}, repr(login)


@pytest.mark.parametrize(
    ("item", "field", "value", "is_taken"),
    [
        ("topic", "color", "#00AA00", True),
        ("topic", "color", "00aa00", True),
        *(("topic", "color", value, False) for value in ("00AA0", "red", "##00AA0", "00AA00\n")),
        ("topic", "color", "\u0661" * 6, False),
        ("credential_type", "code", "a_b-1", True),
        *(("credential_type", "code", value, False) for value in ("a", "a b", "ab\n", "\u00e9t")),
        *(("credential_type", "uuid", value, False) for value in ("-" * 36, f"{UUID}\n")),
        ("company", "slug", "a_b-1", True),
        *(
            ("company", "slug", value, False)
            for value in ("-a", "a b", "ab\n", "\u00e9t", "a" * 65)
        ),
    ],
)
def test_codes_and_colours_are_judged_alike_by_rest_and_files(
    rest: httpx.Client, item: str, field: str, value: str, is_taken: bool
) -> None:
    record = {**NAMED[item], "name": "x", field: value}
    text = json.dumps({"kind": item, **record})
    plan = {"files": [{"name": "a.json", "text": text}]}
    answers = rest.post("/apply.json", json=plan), rest.post(f"/{item}/", json=record)
    if is_taken:
        ok(answers[1], 201)
        assert ok(rest.post("/apply.json", json=plan))["counts"]["unchanged"] == 1
    else:
        assert [set(pointers(answer)) for answer in answers] == [{f"/{field}"}] * 2
