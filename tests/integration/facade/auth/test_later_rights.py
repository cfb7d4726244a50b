"""Rights that are asked for where they are used: later, elsewhere, and again."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import httpx
import pytest

from jobauto_prefect.facade.http.idempotency import REPLAYED
from jobauto_prefect.ledger.records import EventRule
from jobauto_prefect.ledger.store import Ledger
from tests.support.company_pair import CompanyPair, member_token
from tests.support.ledger_rows import fetch, user_id_of
from tests.support.records import ok
from tests.support.secrets import secret
from tests.support.servers import client

SECRET = secret("bank-p1n-of-here")
SECRET_TYPE: dict[str, Any] = {
    "code": "pin",
    "name": "PIN",
    "fields": [{"keyword": "BANK_PIN", "type": "password"}],
}


class Person:
    """Somebody who belongs to companies of the pair, as the roles say."""

    def __init__(self, pair: CompanyPair, http: httpx.Client, login: str) -> None:
        self.pair, self.http, self.login = pair, http, login

    def change(self, slug: str, role: str | None) -> None:
        """The role in a company is another one from now on; None: they leave it."""
        user_id = user_id_of(self.pair.ledger, self.login)
        path = f"/company/{self.pair.companies[slug]}/user"
        if role is None:
            ok(self.pair.rest.delete(f"{path}/{user_id}"))
        else:
            ok(self.pair.rest.post(f"{path}/", json={"user_id": user_id, "role": role}), 201)


@contextmanager
def a_person(pair: CompanyPair, login: str, **roles: str) -> Iterator[Person]:
    token = member_token(
        pair.ledger, login, {pair.companies[slug]: role for slug, role in roles.items()}
    )
    with client(f"{pair.url}/api/v1", token) as http:
        yield Person(pair, http, login)


@pytest.fixture
def eva(pair: CompanyPair) -> Iterator[Person]:
    """A manager of both companies."""
    with a_person(pair, "eva", here="manager", there="manager") as person:
        yield person


@pytest.fixture
def records(pair: CompanyPair) -> dict[str, dict[str, Any]]:
    """What a company has that holds secrets: kind -> record."""
    company = {"company": "here"}
    kind = ok(pair.rest.post("/credential_type/", json=SECRET_TYPE), 201)
    bodies: dict[str, dict[str, Any]] = {
        "credential": {
            "name": "pin",
            "credential_type_id": kind["id"],
            "values": {"BANK_PIN": SECRET},
        },
        "runtemplate": {
            "name": "nightly",
            "app_id": pair.records["app"]["shared"]["id"],
            "env": {"PASSWORD": SECRET},
        },
        "eventsource": {
            "name": "erp",
            "db_database": "adapter",
            "db_host": "db.example.com",
            "db_password": SECRET,
        },
    }
    return {
        item: ok(pair.rest.post(f"/{item}/", json=company | body), 201)
        for item, body in bodies.items()
    }


@pytest.mark.parametrize("item", ["job", "credential"])
def test_an_answer_given_again_asks_for_rights_of_now(
    pair: CompanyPair, eva: Person, records: dict[str, dict[str, Any]], item: str
) -> None:
    template, key = records["runtemplate"]["id"], {"Idempotency-Key": "k1"}
    bodies: dict[str, dict[str, Any]] = {
        "job": {"runtemplate_id": template},
        "credential": {"company": "here", "name": "mine", "credential_type": "pin"},
    }
    if item == "credential":
        eva.change("here", "admin")

    def asked() -> httpx.Response:
        return eva.http.post(f"/{item}/", json=bodies[item], headers=key)

    first = ok(asked(), 201)
    again = asked()
    assert (again.status_code, again.json(), REPLAYED in again.headers) == (201, first, True)
    eva.change("here", "viewer")
    assert asked().status_code == 403
    eva.change("here", None)
    assert set(ok(asked(), 404)) == {"error", "message", "request_id"}
    eva.change("here", "manager")
    assert REPLAYED in asked().headers


def test_the_answer_about_oneself_is_given_again(pair: CompanyPair, eva: Person) -> None:
    body, key = {"login": "eva", "firstname": "Eva"}, {"Idempotency-Key": "k1"}
    eva.change("here", "manager")
    ok(pair.rest.post(f"/user/{user_id_of(pair.ledger)}/roles/", json={"roles": ["user"]}))
    assert REPLAYED not in eva.http.post("/user/", json=body, headers=key).headers
    assert REPLAYED in eva.http.post("/user/", json=body, headers=key).headers


@pytest.mark.parametrize("item", ["credential", "runtemplate", "eventsource"])
def test_secrets_leave_a_company_with_who_may_reveal_them_there(
    pair: CompanyPair, eva: Person, records: dict[str, dict[str, Any]], item: str
) -> None:
    eva.change("there", "admin")
    path, moved = f"/{item}/{records[item]['id']}.json", {"company": "there"}
    refused = ok(eva.http.post(path, json=moved), 403)
    assert "credentials.reveal in its current company" in refused["message"]
    assert pair.rest.get(path).json()["company_id"] == pair.companies["here"]
    ok(eva.http.post(path, json={"company": "here"}), 201)  # it stays where it is
    eva.change("here", "admin")
    assert ok(eva.http.post(path, json=moved), 201)["company_id"] == pair.companies["there"]


def test_a_source_of_nobody_is_taken_by_administrators_alone(
    pair: CompanyPair, eva: Person
) -> None:
    body = {"name": "shared", "db_database": "adapter"}
    path = f"/eventsource/{ok(pair.rest.post('/eventsource/', json=body), 201)['id']}.json"
    eva.change("here", "admin")
    assert eva.http.post(path, json={"company": "here"}).status_code == 404
    ok(pair.rest.post(path, json={"company": "here"}), 201)


def test_bounds_of_what_is_kept_are_set_by_who_may_delete(
    pair: CompanyPair, eva: Person, records: dict[str, dict[str, Any]]
) -> None:
    app, company = pair.records["app"]["shared"]["id"], pair.companies["here"]
    template = records["runtemplate"]["id"]
    short = {"retention": {"jobs_days": 1}}
    new = {"company": "here", "app_id": app, "name": "brief"}
    asked: list[tuple[str, dict[str, Any]]] = [
        (f"/company/{company}.json", short),
        (f"/company/{company}.json", {"retention": {"events_days": 1}}),
        (f"/runtemplate/{template}.json", short),
        (f"/runtemplate/{template}.json", {"retention": {"jobs_count": 1}}),
        ("/runtemplate/", new | short),
    ]
    for path, body in asked:
        refused = eva.http.post(path, json=body)
        assert (refused.status_code, "jobs.delete" in refused.text) == (403, True), refused.text
    eva.change("here", "admin")
    for path, body in asked:
        ok(eva.http.post(path, json=body), 201)
    eva.change("here", "manager")
    unchanged = {"retention": {"jobs_count": 1}, "note": "as it was"}
    ok(eva.http.post(f"/runtemplate/{template}.json", json=unchanged), 201)
    taken_away = eva.http.post(f"/runtemplate/{template}.json", json={"retention": {}})
    assert taken_away.status_code == 403


@pytest.fixture
def rule(pair: CompanyPair, eva: Person) -> dict[str, Any]:
    """Eva's rule by which an end in `here` starts a run template in `there`."""
    app = pair.records["app"]["shared"]["id"]
    ends, starts = (pair.template(slug, app)["id"] for slug in ("here", "there"))
    body = {
        "runtemplate_source_id": ends,
        "runtemplate_id": starts,
        "env_mapping": {"GREETING": "message"},
    }
    return ok(eva.http.post("/eventrule/", json=body), 201)


def test_a_rule_is_seen_by_the_company_whose_ends_it_tells_of(
    pair: CompanyPair, rule: dict[str, Any]
) -> None:
    path = f"/eventrule/{rule['id']}.json"
    third = ok(pair.rest.post("/company/", json={"slug": "third", "name": "Third"}), 201)["id"]
    outsider = member_token(pair.ledger, "otto", {third: "admin"})
    with ExitStack() as stack:
        people = {
            slug: stack.enter_context(a_person(pair, f"reads-{slug}", **{slug: "viewer"}))
            for slug in pair.companies
        }
        for person in people.values():
            assert list(person.http.get("/eventrules.json").json()) == [str(rule["id"])]
            assert person.http.get(path).status_code == 200
            assert person.http.delete(path).status_code == 403
        http = stack.enter_context(client(f"{pair.url}/api/v1", outsider))
        assert http.get("/eventrules.json").json() == {}
        assert (http.get(path).status_code, http.delete(path).status_code) == (404, 404)
        people["here"].change("here", "admin")
        ok(people["here"].http.delete(path))
    assert pair.rest.get("/eventrules.json").json() == {}


def test_who_may_not_read_a_company_changes_nothing_of_what_its_ends_tell(
    pair: CompanyPair, rule: dict[str, Any]
) -> None:
    path = f"/eventrule/{rule['id']}.json"
    with pair.as_("there") as http:
        for more in ({"env_mapping": {"GREETING": "$.message"}}, {"on": "any"}, {"fan_out": True}):
            refused = http.post(path, json=more)
            assert (refused.status_code, *more) == (403, *more), refused.text
        ok(http.post(path, json={"enabled": False, "priority": 3, "labels": ["x"]}), 201)


def test_the_word_for_a_rule_is_of_who_wrote_what_it_tells(
    pair: CompanyPair, eva: Person, rule: dict[str, Any], ledger: Ledger
) -> None:
    with pair.as_("there") as http:
        ok(http.post(f"/eventrule/{rule['id']}.json", json={"priority": 3}), 201)
    assert fetch(ledger, EventRule, rule["id"]).written_by == user_id_of(ledger)


def test_files_of_a_company_hold_no_rules_of_others(
    pair: CompanyPair, eva: Person, rule: dict[str, Any]
) -> None:
    ok(pair.rest.post(f"/eventrule/{rule['id']}.json", json={"labels": ["all"]}), 201)
    kept = {"files": [{"name": "t.json", "text": '{"kind": "topic", "name": "x"}'}]}
    with pair.as_("here") as http:
        planned = ok(http.post("/apply.json", json=kept | {"labels": ["all"], "prune": True}))
    assert [change["action"] for change in planned["changes"]] == ["create"]
