"""Who may do what on own and foreign companies: each operation is a row.

The table says in words what `facade/auth/permissions.py` says in sets.
"""

from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any
from uuid import uuid4

import httpx

from jobauto_prefect.ledger.access.tokens import issue_user_token
from jobauto_prefect.ledger.audit.trail import SERVICE
from jobauto_prefect.ledger.records import (
    Artifact,
    Event,
    Task,
    User,
    WorkerRecord,
)
from jobauto_prefect.ledger.store import Ledger
from tests.support.definitions import PROBE
from tests.support.records import MAIL_TYPE, ok

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
VIEWERS = {"viewer here", "viewing member", "viewer elsewhere"}
READERS = WIDE | HERE
CREATORS = WIDE | {"editor here", "user here", "managing member", "member admin"}
EDITORS = WIDE | {"editor here", "managing member", "member admin"}
OWNERS = WIDE | {"member admin"}
WRITERS_OF_APPS = WIDE  # what is shared; of a company: see `company_pair`


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
        Row("GET", "/user/{user}/tokens.json", WIDE, WIDE),
        Row("POST", "/user/{user}/tokens/", {"super_admin"}, WIDE, {"days": 1}),
        Row("DELETE", "/user/{user}/token/{token}", WIDE, WIDE),
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
        Row("POST", "/apply.json", SIGNED_IN - VIEWERS, SIGNED_IN, {"files": []}),
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


def fill_in(value: Any, ids: dict[str, int]) -> Any:
    """A body with ids in the place of kinds: `{app}`."""
    if isinstance(value, dict):
        return {name: fill_in(member, ids) for name, member in value.items()}
    if isinstance(value, str) and value.startswith("{") and value[1:-1] in ids:
        return ids[value[1:-1]]
    return value


def make_company_records(rest: httpx.Client, ledger: Ledger) -> dict[str, int]:
    """One record of each kind, all of one company; nothing depends on any of them."""
    ids: dict[str, int] = {}

    def make(item: str, body: dict[str, Any], key: str | None = None) -> None:
        ids[key or item] = ok(rest.post(f"/{item}/", json=fill_in(body, ids)), 201)["id"]

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
        token = issue_user_token(session, session.get_one(User, ids["user"]), None)[1]
        ids |= {"token": token.id}
        ids |= {"task": task.id, "artifact": artifact.id, "entry": 1, "event": event.id}
        ids["worker"] = 7
    return ids
