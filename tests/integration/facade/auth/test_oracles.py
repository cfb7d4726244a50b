"""What others have is told by no answer: it is the same whether there is such a thing or not."""

import json
import sqlite3
from uuid import uuid4

import httpx
import pytest

from jobauto_prefect.console_addresses import CONTRACT
from jobauto_prefect.facade.compat.translation import PREFIXES
from tests.support.company_pair import CompanyPair
from tests.support.records import ok


def answer(http: httpx.Client, path: str, word: str, body: dict[str, str]) -> tuple[int, str]:
    """Status and message, without the word that was asked for at its end."""
    given = {name: value.format(word) for name, value in body.items()}
    refused = http.post(path.format(word.replace("/", "%2F")), json=given)
    return refused.status_code, refused.json()["message"].removesuffix(word)


@pytest.mark.parametrize("address", [CONTRACT, *PREFIXES])
def test_logins_and_slugs_of_others_are_not_told(pair: CompanyPair, address: str) -> None:
    ok(pair.rest.post("/user/", json={"login": "otto"}), 201)
    with pair.as_("here", address) as http:
        for there, missing, path, body in (
            ("otto", "nobody", "/user/", {"login": "{}", "email": "a@b.example"}),
            ("otto", "nobody", "/user/", {"login": "{}", "password": "four unlikely words"}),
            ("there", "nowhere", "/company/", {"slug": "{}", "name": "N"}),
            ("There", "Nowhere", "/company/", {"name": "{}"}),
        ):
            told = {answer(http, path, word, body) for word in (there, missing)}
            assert [status for status, _ in told] == [403], (path, body, told)
        for path, there, missing in (
            ("/user/{}.json", "otto", "nobody"),
            ("/company/{}.json", "there", "nowhere"),
            ("/eventsource/{}.json", "there/erp", "there/other"),
        ):
            told = {answer(http, path, word, {"email": "x"}) for word in (there, missing)}
            assert [status for status, _ in told] == [404], (path, told)


def test_what_is_a_persons_own_is_still_theirs(pair: CompanyPair) -> None:
    with pair.as_("here") as http:
        assert (
            ok(http.post("/user/", json={"login": "here", "firstname": "H"}), 201)["created"]
            is False
        )
        named = ok(http.post("/company/", json={"slug": "here", "name": "New"}), 201)
        assert (named["created"], named["id"]) == (False, pair.companies["here"])


def test_each_company_names_its_sources_without_regard_to_others(pair: CompanyPair) -> None:
    body = {"name": "erp", "db_database": "adapter"}
    made = {}
    for slug in pair.companies:
        with pair.as_(slug) as http:
            made[slug] = ok(http.post("/eventsource/", json=body | {"company": slug}), 201)
            assert made[slug]["created"] is True
            again = ok(http.post("/eventsource/", json=body), 201)
            assert (again["created"], again["id"]) == (False, made[slug]["id"])
            assert http.get("/eventsource/erp.json").json()["id"] == made[slug]["id"]
    shared = ok(pair.rest.post("/eventsource/", json=body | {"company_id": None}), 201)
    assert shared["created"] is True
    again = ok(pair.rest.post("/eventsource/", json=body | {"company": "there"}), 201)
    assert again["id"] == made["there"]["id"]
    refused = pair.rest.post("/eventsource/", json=body)
    assert (refused.status_code, "company_id" in refused.text) == (409, True)
    for word, record in {"here/erp": made["here"], "erp": shared}.items():
        path = f"/eventsource/{word.replace('/', '%2F')}.json"
        assert pair.rest.get(path).json()["id"] == record["id"]
    taken = pair.rest.post(f"/eventsource/{shared['id']}.json", json={"company": "here"})
    assert taken.status_code == 409


def test_files_know_sources_by_company_and_name(pair: CompanyPair) -> None:
    """Two companies' sources of one name, and rules that each mean their own, then the other's."""
    app = pair.records["app"]["shared"]
    files = []
    for slug in pair.companies:
        files += [
            {"kind": "runtemplate", "company": slug, "name": "t", "app_uuid": app["uuid"]},
            {"kind": "eventsource", "company": slug, "name": "erp", "db_database": "adapter"},
            {"kind": "eventrule", "event_source": "erp", "runtemplate": f"{slug}/t"},
        ]
    files.append({"kind": "eventrule", "event_source": "there/erp", "runtemplate": "here/t"})
    sent = {"files": [{"name": f"{n}.json", "text": json.dumps(f)} for n, f in enumerate(files)]}
    for expected in ("create", "unchanged"):
        planned = ok(pair.rest.post("/apply.json", json=sent))
        assert {change["action"] for change in planned["changes"]} == {expected}
        ok(pair.rest.post("/apply.json", json=sent | {"digest": planned["digest"]}))
    sources = {
        one["id"]: one["company_id"] for one in pair.rest.get("/eventsources.json").json().values()
    }
    templates = {
        one["id"]: one["company_id"] for one in pair.rest.get("/runtemplates.json").json().values()
    }
    rules = pair.rest.get("/eventrules.json").json().values()
    here, there = pair.companies["here"], pair.companies["there"]
    assert sorted(
        (sources[rule["event_source_id"]], templates[rule["runtemplate_id"]]) for rule in rules
    ) == sorted([(here, here), (there, there), (there, here)])


def test_the_test_of_a_source_tells_no_file_from_another(
    pair: CompanyPair, tmp_path_factory: pytest.TempPathFactory
) -> None:
    tmp_path = tmp_path_factory.mktemp("elsewhere")  # not the home: its files are refused
    other = tmp_path / "other.db"
    with sqlite3.connect(other) as database:
        database.execute("CREATE TABLE people (name TEXT)")
    (tmp_path / "text").write_text("nothing to see\n" * 100)
    (tmp_path / "empty").touch()
    paths = [
        tmp_path / "missing", tmp_path / "text", tmp_path / "empty", other, tmp_path,
        tmp_path / "text" / "below", "/etc/passwd", "/dev/zero", "/nowhere/at/all",
    ]  # fmt: skip
    told = set()
    with pair.as_("here") as http:
        for path in paths:
            body = {"name": uuid4().hex, "db_connection": "sqlite", "db_database": str(path)}
            source = ok(http.post("/eventsource/", json=body | {"company": "here"}), 201)
            found = ok(http.post(f"/eventsource/{source['id']}/test.json"))
            told.add((found["reachable"], found["message"]))
    assert len(told) == 1, told
