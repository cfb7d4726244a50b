"""Two companies, what each of them owns, and what both share."""

import contextlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import httpx

from jobauto_prefect.console_addresses import CONTRACT
from jobauto_prefect.facade.compat.translation import PREFIXES
from jobauto_prefect.ledger.access.tokens import issue_user_token
from jobauto_prefect.ledger.audit.trail import SERVICE
from jobauto_prefect.ledger.records import CompanyUser, User, UserRole
from jobauto_prefect.ledger.store import Ledger
from tests.support import contract_check
from tests.support.definitions import PROBE
from tests.support.records import post
from tests.support.servers import client

UUIDS = {
    "app": "6a2c6d4e-30e4-4f6b-9d6e-7c8ad9f2b0{:02x}",
    "credential_type": "7b3d7e5f-41f5-4a7c-8e7f-8d9be0a3c1{:02x}",
}
COLLECTIONS = {"app": "apps", "credential_type": "credential_types", "topic": "topics"}
KINDS = tuple(COLLECTIONS)
ADDRESSES = (CONTRACT, *PREFIXES)


def body_of(kind: str, name: str, number: int = 0) -> dict[str, Any]:
    """A whole record of a kind; those with the same number have the same uuid."""
    if kind == "topic":
        return {"name": name}
    uuid = UUIDS[kind].format(number)
    if kind == "credential_type":
        fields = [{"keyword": "BANK_USER"}]
        return {"code": name, "name": f"{name} type", "uuid": uuid, "fields": fields}
    return {**PROBE, "name": name, "uuid": uuid}


@dataclass
class CompanyPair:
    """Two companies; `records`: kind -> whose (`here`, `there`, `shared`) -> record."""

    url: str
    ledger: Ledger
    rest: httpx.Client
    companies: Mapping[str, int]
    records: Mapping[str, Mapping[str, dict[str, Any]]]
    tokens: Mapping[str, str]

    @contextlib.contextmanager
    def as_(self, person: str, address: str = CONTRACT) -> Iterator[httpx.Client]:
        """The contract at an address, signed in as the editor of a company."""
        with client(f"{self.url}{address}", self.tokens[person]) as http:
            if address == CONTRACT:
                http.event_hooks["response"].append(contract_check.check)
            yield http

    def everywhere(self, person: str) -> Iterator[tuple[str, httpx.Client]]:
        """Each address with such a client."""
        for address in ADDRESSES:
            with self.as_(person, address) as http:
                yield address, http

    def template(self, company: str, app_id: int, name: str = "t", **more: Any) -> dict[str, Any]:
        """A new run template, written by an administrator."""
        members = {"company": company, "app_id": app_id, "name": name, **more}
        return post(self.rest, "/runtemplate/", **members)


def editor_token(ledger: Ledger, login: str, company_id: int) -> str:
    """A bearer token of a new editor who is the administrator of a company."""
    with ledger.writing(SERVICE) as session:
        user = User(login=login)
        user.role_assignments = [UserRole(role="editor", assigned_at=ledger.clock())]
        session.add(user)
        session.flush()
        session.add(CompanyUser(company_id=company_id, user_id=user.id, role="admin"))
        return issue_user_token(session, user, None)[0]


def member_token(ledger: Ledger, login: str, memberships: Mapping[int, str]) -> str:
    """A bearer token of a new viewer who has these roles in companies, by their ids."""
    with ledger.writing(SERVICE) as session:
        user = User(login=login)
        user.role_assignments = [UserRole(role="viewer", assigned_at=ledger.clock())]
        user.memberships = [
            CompanyUser(company_id=of, role=role) for of, role in memberships.items()
        ]
        session.add(user)
        session.flush()
        return issue_user_token(session, user, None)[0]


def make_company_pair(
    rest: httpx.Client, ledger: Ledger
) -> tuple[dict[str, int], dict[str, dict[str, dict[str, Any]]], dict[str, str]]:
    """Each of the two companies has one record of each kind, and one of each is shared."""
    companies = {
        slug: post(rest, "/company/", slug=slug, name=slug.title())["id"]
        for slug in ("here", "there")
    }
    records: dict[str, dict[str, dict[str, Any]]] = {}
    for kind in KINDS:
        records[kind] = {}
        for number, whose in enumerate(("here", "there", "shared"), start=1):
            owner = {"company_id": companies[whose]} if whose in companies else {}
            body = body_of(kind, f"{whose}-{kind}".replace("_", "-"), number)
            records[kind][whose] = post(rest, f"/{kind}/", **body | owner)
    tokens = {slug: editor_token(ledger, slug, company) for slug, company in companies.items()}
    return companies, records, tokens
