"""Every operation by every kind of person on own and foreign companies, from one table.

The table says in words what `facade/auth/permissions.py` says in sets; it names every route, and a
route without a row fails. Each row is tried at every address of the contract, each time by
another person. `make test` tries a fixed part of it, `make soak` all.
"""

import itertools
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any
from uuid import uuid4

import httpx
import pytest
from fastapi.routing import APIRoute

from jobauto_prefect.facade.compat.translation import PREFIXES
from jobauto_prefect.facade.http.addresses import CONTRACT
from jobauto_prefect.facade.resources.crud import build_contract_router
from jobauto_prefect.ledger.access.tokens import issue_user_token
from jobauto_prefect.ledger.audit.trail import SERVICE
from jobauto_prefect.ledger.records import (
    Artifact,
    Company,
    CompanyUser,
    Event,
    Task,
    User,
    UserRole,
    WorkerRecord,
)
from jobauto_prefect.ledger.store import Ledger
from tests.support.definitions import PROBE
from tests.support.records import MAIL_TYPE
from tests.support.secrets import secret
from tests.support.servers import client

# What a person is: roles, and the membership of the company the records belong to.
PEOPLE: dict[str, tuple[tuple[str, ...], str | None]] = {
    "super_admin": (("super_admin",), None),
    "admin": (("admin",), None),
    "editor here": (("editor",), "viewer"),
    "user here": (("user",), "viewer"),
    "viewer here": (("viewer",), "viewer"),
    "viewing member": ((), "viewer"),
    "managing member": ((), "manager"),
    "member admin": ((), "admin"),
    "editor elsewhere": (("editor",), None),
    "user elsewhere": (("user",), None),
    "viewer elsewhere": (("viewer",), None),
    "managing member elsewhere": ((), None),
    "member admin elsewhere": ((), None),
    "nobody": ((), None),
}
ELSEWHERE = {"managing member elsewhere": "manager", "member admin elsewhere": "admin"}
"""Memberships of a foreign company; of the others without one here, it is `viewer`."""
WIDE = {"super_admin", "admin"}
HERE = {person for person, (_, membership) in PEOPLE.items() if membership}
SIGNED_IN = set(PEOPLE) - {"nobody"}
READERS = WIDE | HERE
CREATORS = WIDE | {"editor here", "user here", "managing member", "member admin"}
EDITORS = WIDE | {"editor here", "managing member", "member admin"}
OWNERS = WIDE | {"member admin"}
WRITERS_OF_APPS = WIDE  # what is shared; of a company: test_ownership


@dataclass(frozen=True)
class Row:
    """One operation: who may, and who of the others may at least see that there is something.

    `of_prefect`: it asks Prefect, which is away in these tests.
    """

    method: str
    path: str
    may: set[str]
    see: set[str]
    body: Any = None
    query: dict[str, str] = field(default_factory=dict)
    of_prefect: bool = False


def rows() -> list[Row]:
    """The table."""
    table: list[Row] = []

    def record(item: str, collection: str, see: set[str], update: set[str], delete: set[str],
               create: set[str], body: dict[str, Any], part: dict[str, Any]) -> None:  # fmt: skip
        path = f"/{item}/{{{item}}}.json"
        table.extend(
            [
                Row("GET", path, see, see),
                Row("GET", f"/{collection}.json", SIGNED_IN, SIGNED_IN),
                Row("POST", path, update, see, part),
                Row("POST", f"/{item}/", create, SIGNED_IN, body),
                Row("DELETE", path, delete, see),
            ]
        )

    record("app", "apps", SIGNED_IN, WRITERS_OF_APPS, WIDE, WIDE,
           {**PROBE, "uuid": "9d1d0b1e-33a8-4d44-9a5c-0f6c7a3f0001", "name": "New"},
           {"version": "9"})  # fmt: skip
    record("company", "companies", READERS, EDITORS, OWNERS, WIDE,
           {"slug": "new", "name": "New"}, {"email": "x@example.com"})  # fmt: skip
    template = {"app_id": "{app}", "company_id": "{company}", "name": "new"}
    record("runtemplate", "runtemplates", READERS, CREATORS, OWNERS, EDITORS, template,
           {"note": "x"})  # fmt: skip
    changed = "/runtemplate/{runtemplate}.json"
    table.append(Row("POST", changed, CREATORS, READERS, {"note": "y", "interv": "n"}))
    table += [
        Row("POST", changed, EDITORS, READERS, part)
        for part in ({"interv": "d"}, {"env": {"COUNT": 7}}, {"labels": ["x"]}, {"delay": 9})
    ]
    record("job", "jobs", READERS, CREATORS, OWNERS, CREATORS, {"runtemplate_id": "{runtemplate}"},
           {"note": "x"})  # fmt: skip
    record("user", "users", WIDE, WIDE, WIDE, WIDE, {"login": "new"}, {"firstname": "x"})
    credential = {
        "name": "new",
        "company_id": "{company}",
        "credential_type_id": "{credential_type}",
    }
    record("credential", "credentials", READERS, EDITORS, OWNERS, OWNERS, credential, {"name": "x"})
    record("credential_type", "credential_types", SIGNED_IN, WRITERS_OF_APPS, WIDE, WIDE,
           {"code": "new", "name": "New"}, {"name": "x"})  # fmt: skip
    record(
        "topic", "topics", SIGNED_IN, WRITERS_OF_APPS, WIDE, WIDE, {"name": "new"}, {"name": "x"}
    )
    changed_zone = {"timezone": "UTC"}
    record("calendar", "calendars", SIGNED_IN, WIDE, WIDE, WIDE, {"name": "new"}, changed_zone)
    source = {"name": "new", "db_database": "d", "company_id": "{company}"}
    record("eventsource", "eventsources", READERS, EDITORS, OWNERS, OWNERS, source, {"name": "x"})
    rule = {"event_source_id": "{eventsource}", "runtemplate_id": "{runtemplate}"}
    record("eventrule", "eventrules", READERS, CREATORS, OWNERS, CREATORS, rule, {"priority": 3})
    table += [
        Row("POST", "/job/", EDITORS, READERS, {"id": "{job}", "state": "cancelled"}),
        # Who may delete jobs elsewhere deletes none here: those of a foreign company do not match.
        Row(
            "DELETE",
            "/jobs.json",
            OWNERS | {"member admin elsewhere"},
            SIGNED_IN,
            query={"state": "cancelled"},
        ),
        Row("GET", "/task/{task}.json", READERS, READERS),
        Row("GET", "/tasks.json", SIGNED_IN, SIGNED_IN),
        Row("POST", "/task/{task}/excuse.json", CREATORS, READERS, {"why": "closed"}),
        Row("POST", "/task/{task}/retry.json", EDITORS, READERS),
        Row("POST", "/eventsource/{eventsource}/test.json", EDITORS, READERS),
        Row("POST", "/credential/{credential}/reveal.json", OWNERS, READERS),
        Row("GET", "/event/{event}.json", READERS, READERS),
        Row("GET", "/events.json", SIGNED_IN, SIGNED_IN),
        Row(
            "POST", "/event/{event}/replay.json", EDITORS, READERS, {"eventrule_id": "{eventrule}"}
        ),
        Row("GET", "/auditlog/{entry}.json", WIDE, WIDE),
        Row("GET", "/auditlog.json", SIGNED_IN, SIGNED_IN),
        Row("GET", "/job/{job}/output.json", READERS, READERS),
        Row("GET", "/artifact/{artifact}", READERS, READERS),
        Row("GET", "/app/{app}/definition.json", SIGNED_IN, SIGNED_IN),
        Row("GET", "/app/{app}/versions.json", SIGNED_IN, SIGNED_IN),
        Row("GET", "/app/{app}/mapping.json", SIGNED_IN, SIGNED_IN, query={"source_app_id": "1"}),
        Row("GET", "/runtemplate/{runtemplate}/suggestions.json", READERS, READERS),
        Row("GET", "/user/{user}/roles.json", WIDE, WIDE),
        Row("POST", "/user/{user}/roles/", WIDE, WIDE, {"roles": ["viewer"]}),
        Row("GET", "/company/{company}/users.json", READERS, READERS),
        Row("POST", "/company/{company}/user/", OWNERS, READERS, {"user_id": "{user}"}),
        Row("DELETE", "/company/{company}/user/{member}", OWNERS, READERS),
        Row("GET", "/status", SIGNED_IN, SIGNED_IN),
        Row("GET", "/index.json", SIGNED_IN, SIGNED_IN),
        Row("GET", "/jobs/status.json", SIGNED_IN, SIGNED_IN),
        Row("GET", "/forecast.json", SIGNED_IN, SIGNED_IN),
        Row("GET", "/drift.json", SIGNED_IN, SIGNED_IN, of_prefect=True),
        Row("POST", "/reconcile.json", WIDE, SIGNED_IN, of_prefect=True),
        Row("POST", "/prune.json", WIDE, SIGNED_IN, of_prefect=True),
        Row("POST", "/apply.json", SIGNED_IN, SIGNED_IN, {"files": []}),
        Row("GET", "/pools.json", SIGNED_IN, SIGNED_IN, of_prefect=True),
        Row("GET", "/workers.json", SIGNED_IN, SIGNED_IN),
        Row("GET", "/maintenance.json", SIGNED_IN, SIGNED_IN),
        Row("PUT", "/maintenance.json", WIDE, WIDE, {"reason": "disk"}),
        Row("DELETE", "/maintenance.json", WIDE, WIDE),
        Row("POST", "/worker/{worker}/lost.json", WIDE, SIGNED_IN),
        Row("POST", "/eventsource/{eventsource}/test.json", EDITORS, READERS),
        Row("GET", "/data-export", SIGNED_IN, SIGNED_IN),
        Row("POST", "/data-export", SIGNED_IN, SIGNED_IN),
        Row("POST", "/logout", SIGNED_IN, SIGNED_IN),
    ]
    return table


OPEN = {("GET", "/ping.{suffix}"), ("GET", "/login.{suffix}"), ("POST", "/login.{suffix}")}
TABLE = rows()


def test_every_route_has_a_row_or_is_open() -> None:
    routes = {
        (method, route.path.removeprefix(CONTRACT))
        for route in build_contract_router().routes
        if isinstance(route, APIRoute) and route.include_in_schema
        for method in route.methods or ()
    }
    said = {(row.method, _shape(row.path)) for row in TABLE}
    assert {(method, _shape(path)) for method, path in routes - OPEN} == said


def _shape(path: str) -> str:
    """A path without the names of its parts: `/app/*`."""
    parts = path.replace(".{suffix}", "").replace(".json", "").split("/")
    return "/".join("*" if "{" in part or part.isdigit() else part for part in parts)


@pytest.fixture
def world(rest: httpx.Client, ledger: Ledger) -> dict[str, int]:
    """One record of each kind, all of one company; nothing depends on any of them."""
    ids: dict[str, int] = {}

    def make(item: str, body: dict[str, Any], key: str | None = None) -> None:
        answer = rest.post(f"/{item}/", json=_filled(body, ids))
        assert answer.status_code == 201, answer.text
        ids[key or item] = answer.json()["id"]

    make("app", PROBE)
    make("company", {"slug": "here", "name": "Here"})
    make("runtemplate", {"app_id": "{app}", "company_id": "{company}", "name": "t"})
    make("credential_type", MAIL_TYPE)
    make("topic", {"name": "t"})
    make("calendar", {"name": "c"})
    make("eventsource", {"name": "s", "db_database": "d", "company_id": "{company}"})
    make("eventrule", {"event_source_id": "{eventsource}", "runtemplate_id": "{runtemplate}"})
    credential = {"name": "c", "company_id": "{company}"}
    make("credential", {**credential, "credential_type_id": "{credential_type}"})
    make("job", {"runtemplate_id": "{runtemplate}"})
    make("user", {"login": "somebody"})
    make("user", {"login": "member"}, "member")
    rest.post(f"/company/{ids['company']}/user/", json={"user_id": ids["member"]})
    with ledger.writing(SERVICE) as session:
        now = ledger.clock()
        task = Task(
            runtemplate_id=ids["runtemplate"],
            window_start=now,
            window_end=now,
            deadline=now,
            state="missed",
        )
        named = {"path": "a", "name": "a", "type": "file", "content_type": "text/plain"}
        artifact = Artifact(job_id=ids["job"], size=1, content=b"a", created_at=now, **named)
        event = Event(
            kind="change",
            company_id=ids["company"],
            operation="create",
            data={},
            created_at=now,
        )
        long_ago = now - timedelta(days=1)
        worker = WorkerRecord(
            name="7", pool="jobauto", host="h", instance=uuid4(), seen_at=long_ago
        )
        session.add_all([task, artifact, event, worker])
        session.flush()
        ids |= {"task": task.id, "artifact": artifact.id, "entry": 1, "event": event.id}
        ids["worker"] = 7
    return ids


def _filled(value: Any, ids: dict[str, int]) -> Any:
    if isinstance(value, dict):
        return {name: _filled(member, ids) for name, member in value.items()}
    if isinstance(value, str) and value.startswith("{") and value[1:-1] in ids:
        return ids[value[1:-1]]
    return value


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
    facade_url: str, ledger: Ledger, world: dict[str, int], person: str, *, whole: bool
) -> None:
    wrong = []
    with client(facade_url, _token(ledger, person, world["company"])) as http:
        for row in (row for row in _in_harmless_order() if whole or person in _sample(row)):
            path = f"{_address(row, person)}{row.path.format(**world)}"
            body = _filled(row.body, world)
            answer = http.request(row.method, path, params=row.query, json=body)
            if answer.status_code not in _expected(row, person):
                wrong.append((row.method, path, answer.status_code, answer.text[:120]))
    assert wrong == []


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
    """Reading first, then writing, then what takes things away."""

    def weight(row: Row) -> int:
        ends = row.method == "DELETE" or row.path == "/logout" or "cancelled" in str(row.body)
        return 3 if row.path == "/logout" else 2 if ends else 0 if row.method == "GET" else 1

    return sorted(TABLE, key=weight)


@pytest.mark.parametrize("person", sorted(SIGNED_IN - READERS))
def test_foreign_records_are_in_no_list_filter_or_count(
    facade_url: str, ledger: Ledger, world: dict[str, int], person: str
) -> None:
    with client(f"{facade_url}/api/v1", _token(ledger, person, world["company"])) as http:
        for collection in (
            "runtemplates",
            "jobs",
            "credentials",
            "eventrules",
            "tasks",
            "auditlog",
        ):
            answer = http.get(f"/{collection}.json")
            assert (answer.json(), answer.headers["x-total-count"]) == ({}, "0"), collection
        assert str(world["company"]) not in http.get("/companies.json").json()
        assert http.get("/jobs/status.json").json()["total_jobs"] == 0
        assert http.get("/jobs.json", params={"runtemplate_id": world["runtemplate"]}).json() == {}
        (myself,) = http.get("/users.json").json().values()
        assert myself["login"] == person.replace(" ", "-")


def test_nobody_without_credentials_and_no_worker_gets_in(
    facade_url: str, claims: httpx.Client, world: dict[str, int]
) -> None:
    with httpx.Client() as stranger:
        for number, row in enumerate(TABLE):
            address = ADDRESSES[number % len(ADDRESSES)]
            path = f"{facade_url}{address}{row.path.format(**world)}"
            body = _filled(row.body, world)
            assert stranger.request(row.method, path, json=body).status_code == 401, row
            assert claims.request(row.method, path, json=body).status_code == 403, row


def test_nobody_raises_anybody_above_themselves(
    facade_url: str, ledger: Ledger, world: dict[str, int], rest: httpx.Client
) -> None:
    root = next(iter(rest.get("/users.json?login=root").json()))
    with client(f"{facade_url}/api/v1", _token(ledger, "admin", world["company"])) as admin:
        me = next(iter(admin.get("/users.json?login=admin").json()))
        attempts = [
            admin.post(f"/user/{me}/roles/", json={"roles": ["super_admin"]}),
            admin.post(f"/user/{world['user']}/roles/", json={"roles": ["super_admin"]}),
            admin.post("/user/", json={"login": "new", "roles": ["super_admin"]}),
            admin.post(f"/user/{root}/roles/", json={"roles": ["viewer"]}),
            admin.post("/user/", json={"id": int(root), "password": "taken-over-1"}),
            admin.delete(f"/user/{root}.json"),
        ]
        assert [answer.status_code for answer in attempts] == [403] * 6
        assert admin.post(f"/user/{world['user']}/roles/", json={"roles": ["admin"]}).is_success


def test_everybody_changes_their_own_profile_and_nothing_more(
    facade_url: str, ledger: Ledger, world: dict[str, int]
) -> None:
    with client(f"{facade_url}/api/v1", _token(ledger, "user here", world["company"])) as http:
        (me,) = http.get("/users.json").json().values()
        assert http.post("/user/", json={"id": me["id"], "email": "me@example.com"}).is_success
        assert http.post(
            "/user/", json={"id": me["id"], "password": secret("nove-heslo-7")}
        ).is_success
        for body in ({"enabled": True}, {"login": "root2"}, {"roles": ["admin"]}):
            answer = http.post("/user/", json={"id": me["id"], **body})
            assert answer.status_code == 403, body


def test_the_people_of_the_table_cover_all_roles_and_memberships() -> None:
    from jobauto_prefect.facade.auth.permissions import Membership, Role

    assert set(itertools.chain(*(roles for roles, _ in PEOPLE.values()))) == set(Role)
    assert {membership for _, membership in PEOPLE.values() if membership} == set(Membership)


def test_a_disabled_user_is_refused_at_the_next_request(
    facade_url: str, ledger: Ledger, world: dict[str, int]
) -> None:
    with client(f"{facade_url}/api/v1", _token(ledger, "admin", world["company"])) as http:
        assert http.get("/apps.json").is_success
        with ledger.writing(SERVICE) as session:
            for user in session.query(User).filter_by(login="admin"):
                user.enabled = False
        assert http.get("/apps.json").status_code == 401


def test_an_expired_role_counts_for_nothing(
    facade_url: str, ledger: Ledger, world: dict[str, int]
) -> None:
    with client(f"{facade_url}/api/v1", _token(ledger, "admin", world["company"])) as http:
        assert http.get("/auditlog/1.json").is_success
        with ledger.writing(SERVICE) as session:
            for one in session.query(UserRole).filter_by(role="admin"):
                one.expires_at = ledger.clock()
        assert http.get("/auditlog/1.json").status_code == 404
