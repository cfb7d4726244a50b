"""Every operation by every kind of person on own and foreign companies, from one table.

The table says in words what `facade/auth/permissions.py` says in sets; it names every route, and a
route without a row fails. Each row is tried at every address of the contract, each time by
another person. `make test` tries a fixed part of it, `make soak` all.
"""

import itertools
from typing import Any

import httpx
import pytest
from fastapi.routing import APIRoute

from jobauto_prefect.console_addresses import CONTRACT
from jobauto_prefect.facade.compat.translation import PREFIXES
from jobauto_prefect.facade.console.pages import PAGES
from jobauto_prefect.facade.resources.crud import build_contract_router
from jobauto_prefect.kinds import KINDS
from jobauto_prefect.ledger.access.tokens import issue_user_token
from jobauto_prefect.ledger.audit.trail import SERVICE
from jobauto_prefect.ledger.records import (
    Company,
    CompanyUser,
    User,
    UserRole,
)
from jobauto_prefect.ledger.store import Ledger
from tests.support.console_permissions import CONSOLE, console_address
from tests.support.databases import on_sqlite
from tests.support.permission_table import (
    ELSEWHERE,
    OPEN,
    PEOPLE,
    READERS,
    SIGNED_IN,
    TABLE,
    Row,
    fill_in,
)
from tests.support.secrets import secret
from tests.support.servers import client


def test_every_route_has_a_row_or_is_open() -> None:
    routes = {
        (method, route.path.removeprefix(CONTRACT))
        for route in build_contract_router().routes
        if isinstance(route, APIRoute) and route.include_in_schema
        for method in route.methods or ()
    }
    documented = {(row.method, _shape(row.path)) for row in TABLE}
    every = {(method, _shape(path)) for method, path in routes - OPEN}
    assert every == documented, "rows of tests/support/permission_table.py"


def test_every_route_of_the_console_has_a_row_and_none_is_in_the_document() -> None:
    routes = [
        route for module in PAGES for route in module.router.routes if isinstance(route, APIRoute)
    ]
    every = {(method, route.path) for route in routes for method in route.methods}
    assert every == set(CONSOLE), "rows of tests/support/console_permissions.py"
    assert not any(route.include_in_schema for route in routes)


@pytest.mark.parametrize("person", PEOPLE)
def test_a_person_may_what_the_table_of_the_console_says(
    person: str, record_ids: dict[str, int], facade_url: str, ledger: Ledger
) -> None:
    token = _token(ledger, person, record_ids["company"])
    with client(facade_url, token) as signed_in:
        _try_console(signed_in, person, record_ids)


def _try_console(signed_in: httpx.Client, person: str, record_ids: dict[str, int]) -> None:
    for (method, path), may in CONSOLE.items():
        answer = signed_in.request(method, console_address(path, record_ids))
        # A form that lacks a field, or that its record is not in the state for, is shown again.
        expected = {200, 303, 400, 409} if person in may else {403, 404}
        if (method, path) == ("POST", "/login.html"):
            expected = {401}  # without a login and a password in its form
        assert answer.status_code in expected, (method, path)


def _shape(path: str) -> str:
    """A path without the names of its parts: `/app/*`."""
    parts = path.replace(".{suffix}", "").replace(".json", "").split("/")
    return "/".join("*" if "{" in part or part.isdigit() else part for part in parts)


def _token(ledger: Ledger, person: str, company_id: int) -> str:
    """A bearer token of such a person; those who are not members here are members elsewhere."""
    roles, membership = PEOPLE[person]
    with ledger.writing(SERVICE) as session:
        user = User(login=person.replace(" ", "-"))
        now = ledger.clock()
        user.role_assignments = [UserRole(role=role, assigned_at=now) for role in roles]
        session.add(user)
        session.flush()
        if membership:
            session.add(CompanyUser(company_id=company_id, user_id=user.id, role=membership))
        elif person != "nobody":
            elsewhere = Company(slug=f"elsewhere-{user.id}", name="Elsewhere")
            session.add(elsewhere)
            session.flush()
            role = ELSEWHERE.get(person, "viewer")
            session.add(CompanyUser(company_id=elsewhere.id, user_id=user.id, role=role))
        return issue_user_token(session, user, None)[0]


def _expected(row: Row, person: str) -> set[int]:
    """The statuses that are right; what is allowed may meet a state that is another (409)."""
    if person in row.may:
        stateful = row.method == "DELETE" or row.path.startswith("/task/")
        away = {503} if row.of_prefect else set()
        return {200, 201} | away | ({409} if stateful else set())
    refused = {403} if person == "nobody" or person in row.see or "{" not in row.path else {404}
    if person not in READERS:
        refused |= _by_the_body(row.body or {})
    return refused


def _by_the_body(body: dict[str, Any]) -> set[int]:
    """What a body refers to is not there for those who may not see it."""
    if {"id", "runtemplate_id"} & set(body):
        return {400, 404}
    return {400} if "_id" in str(body) else set()


PART = 3
"""Of so many who may, and of so many who may not, one tries a row in `make test`."""


def _sample(row: Row) -> set[str]:
    number = TABLE.index(row)
    groups = ([person for person in PEOPLE if (person in row.may) is may] for may in (True, False))
    return {
        person
        for group in groups
        if group
        for person in group[number % min(PART, len(group)) :: PART]
    }


@pytest.mark.spec("1.11")
@pytest.mark.parametrize("person", PEOPLE)
@pytest.mark.parametrize("whole", [False, pytest.param(True, marks=pytest.mark.soak)])
def test_a_person_may_what_the_table_says_and_nothing_else(
    facade_url: str,
    ledger: Ledger,
    record_ids: dict[str, int],
    person: str,
    *,
    whole: bool,
) -> None:
    rows = [row for row in _in_harmless_order() if whole or person in _sample(row)]
    with client(facade_url, _token(ledger, person, record_ids["company"])) as http:
        assert _disagreements(http, rows, person, record_ids) == []


@on_sqlite
def test_every_route_answers_on_sqlite(
    facade_url: str, ledger: Ledger, record_ids: dict[str, int]
) -> None:
    with client(facade_url, _token(ledger, "super_admin", record_ids["company"])) as http:
        assert _disagreements(http, _in_harmless_order(), "super_admin", record_ids) == []


@on_sqlite
def test_every_page_answers_on_sqlite(
    facade_url: str, ledger: Ledger, record_ids: dict[str, int]
) -> None:
    with client(facade_url, _token(ledger, "super_admin", record_ids["company"])) as http:
        _try_console(http, "super_admin", record_ids)


def _disagreements(
    http: httpx.Client, rows: list[Row], person: str, record_ids: dict[str, int]
) -> list[tuple[str, str, int, str]]:
    """What is answered otherwise than the table says."""
    wrong = []
    for row in rows:
        path = f"{_address(row, person)}{row.path.format(**record_ids)}"
        body = fill_in(row.body, record_ids)
        answer = http.request(row.method, path, params=row.query, json=body)
        if answer.status_code not in _expected(row, person):
            wrong.append((row.method, path, answer.status_code, answer.text[:120]))
    return wrong


ADDRESSES = (CONTRACT, *PREFIXES)


def _address(row: Row, person: str) -> str:
    """Where this person tries this row: another one for the next person, and for the next row."""
    return ADDRESSES[(TABLE.index(row) + list(PEOPLE).index(person)) % len(ADDRESSES)]


def test_every_row_is_tried_at_every_address() -> None:
    for row in TABLE:
        assert {_address(row, person) for person in PEOPLE} == set(ADDRESSES)
        for people in (row.may, set(PEOPLE) - row.may):
            assert len(people) < 2 or len({_address(row, person) for person in people}) > 1


def _in_harmless_order() -> list[Row]:
    """Reading first, then writing, then what takes things away: parts before the whole."""

    def weight(row: Row) -> tuple[int, int]:
        ends = row.method == "DELETE" or row.path == "/logout" or "cancelled" in str(row.body)
        turn = 3 if row.path == "/logout" else 2 if ends else 0 if row.method == "GET" else 1
        return turn, -row.path.count("/") if ends else 0

    return sorted(TABLE, key=weight)


@pytest.mark.parametrize("person", sorted(SIGNED_IN - READERS))
def test_foreign_records_are_in_no_list_filter_or_count(
    facade_url: str, ledger: Ledger, record_ids: dict[str, int], person: str
) -> None:
    with client(f"{facade_url}/api/v1", _token(ledger, person, record_ids["company"])) as http:
        owned = [kind.collection for kind in KINDS.values() if kind.is_owned]
        for collection in (*owned, "jobs", "eventrules", "eventsources", "tasks", "auditlog"):
            answer = http.get(f"/{collection}.json")
            assert (answer.json(), answer.headers["x-total-count"]) == ({}, "0"), collection
        assert str(record_ids["company"]) not in http.get("/companies.json").json()
        assert http.get("/jobs/status.json").json()["total_jobs"] == 0
        assert (
            http.get("/jobs.json", params={"runtemplate_id": record_ids["runtemplate"]}).json()
            == {}
        )
        (myself,) = http.get("/users.json").json().values()
        assert myself["login"] == person.replace(" ", "-")


def test_nobody_without_credentials_and_no_worker_gets_in(
    facade_url: str, claims: httpx.Client, record_ids: dict[str, int]
) -> None:
    with httpx.Client() as stranger:
        for number, row in enumerate(TABLE):
            address = ADDRESSES[number % len(ADDRESSES)]
            path = f"{facade_url}{address}{row.path.format(**record_ids)}"
            body = fill_in(row.body, record_ids)
            assert stranger.request(row.method, path, json=body).status_code == 401, row
            assert claims.request(row.method, path, json=body).status_code == 403, row


def test_nobody_raises_anybody_above_themselves(
    facade_url: str, ledger: Ledger, record_ids: dict[str, int], rest: httpx.Client
) -> None:
    root = next(iter(rest.get("/users.json?login=root").json()))
    with client(f"{facade_url}/api/v1", _token(ledger, "admin", record_ids["company"])) as admin:
        me = next(iter(admin.get("/users.json?login=admin").json()))
        attempts = [
            admin.post(f"/user/{me}/roles/", json={"roles": ["super_admin"]}),
            admin.post(f"/user/{record_ids['user']}/roles/", json={"roles": ["super_admin"]}),
            admin.post("/user/", json={"login": "new", "roles": ["super_admin"]}),
            admin.post(f"/user/{root}/roles/", json={"roles": ["viewer"]}),
            admin.post("/user/", json={"id": int(root), "password": "taken-over-1"}),
            admin.delete(f"/user/{root}.json"),
        ]
        assert [answer.status_code for answer in attempts] == [403] * 6
        assert admin.post(
            f"/user/{record_ids['user']}/roles/", json={"roles": ["admin"]}
        ).is_success


def test_everybody_changes_their_own_profile_and_nothing_more(
    facade_url: str, ledger: Ledger, record_ids: dict[str, int]
) -> None:
    with client(f"{facade_url}/api/v1", _token(ledger, "user here", record_ids["company"])) as http:
        (me,) = http.get("/users.json").json().values()
        assert http.post("/user/", json={"id": me["id"], "email": "me@example.com"}).is_success
        for body in (
            {"enabled": True},
            {"login": "root2"},
            {"roles": ["admin"]},
            {"password": secret("nove-heslo-7")},  # with the present one: test_own_password
        ):
            answer = http.post("/user/", json={"id": me["id"], **body})
            assert answer.status_code == 403, body


def test_the_people_of_the_table_cover_all_roles_and_memberships() -> None:
    from jobauto_prefect.facade.auth.permissions import Membership, Role

    assert set(itertools.chain(*(roles for roles, _ in PEOPLE.values()))) == set(Role)
    assert {membership for _, membership in PEOPLE.values() if membership} == set(Membership)


def test_a_disabled_user_is_refused_at_the_next_request(
    facade_url: str, ledger: Ledger, record_ids: dict[str, int]
) -> None:
    with client(f"{facade_url}/api/v1", _token(ledger, "admin", record_ids["company"])) as http:
        assert http.get("/apps.json").is_success
        with ledger.writing(SERVICE) as session:
            for user in session.query(User).filter_by(login="admin"):
                user.enabled = False
        assert http.get("/apps.json").status_code == 401


def test_an_expired_role_counts_for_nothing(
    facade_url: str, ledger: Ledger, record_ids: dict[str, int]
) -> None:
    with client(f"{facade_url}/api/v1", _token(ledger, "admin", record_ids["company"])) as http:
        assert http.get("/auditlog/1.json").is_success
        with ledger.writing(SERVICE) as session:
            for one in session.query(UserRole).filter_by(role="admin"):
                one.expires_at = ledger.clock()
        assert http.get("/auditlog/1.json").status_code == 404
