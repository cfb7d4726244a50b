"""What one company's events tell another: as long as who set it up belongs to both."""

import asyncio
import itertools
from collections.abc import Callable
from typing import Any
from uuid import UUID

import httpx
import pytest
from sqlalchemy import select

from jobauto_prefect.facade.auth.identity import current_rights
from jobauto_prefect.facade.auth.permissions import Membership, Role
from jobauto_prefect.jobs.actions import run_due_actions
from jobauto_prefect.ledger.access import vouchers
from jobauto_prefect.ledger.audit.trail import SERVICE
from jobauto_prefect.ledger.events.deliveries import start_delivery
from jobauto_prefect.ledger.records import Company, CompanyUser, Job, RunTemplate, User, UserRole
from jobauto_prefect.ledger.store import Ledger
from jobauto_prefect.settings import Settings
from tests.support.claims import claim_of, granted, own_run_of, refused, report
from tests.support.company_pair import CompanyPair, member_token
from tests.support.ledger_rows import fetch
from tests.support.records import ok
from tests.support.servers import client

DEPLOYMENTS = {"here": UUID(int=21), "there": UUID(int=22)}


class Chain:
    """A run template of `here`, whose ends start one of `there`, set up by Eva of both."""

    def __init__(self, pair: CompanyPair, claims: httpx.Client) -> None:
        self.pair, self.claims = pair, claims
        app = pair.records["app"]["shared"]["id"]
        self.templates = {slug: pair.template(slug, app)["id"] for slug in pair.companies}
        with pair.ledger.writing(SERVICE) as session:
            for slug, number in self.templates.items():
                session.get_one(RunTemplate, number).deployment_id = DEPLOYMENTS[slug]
        roles = dict.fromkeys(pair.companies.values(), "manager")
        self.token = member_token(pair.ledger, "eva", roles)

    def post(self, path: str, **body: Any) -> dict[str, Any]:
        with client(f"{self.pair.url}/api/v1", self.token) as http:
            return ok(http.post(path, json=body), 201)

    def rule(self) -> int:
        body = {"runtemplate_source_id": self.templates["here"], "on": "any",
                "runtemplate_id": self.templates["there"],
                "env_mapping": {"GREETING": "message"}}  # fmt: skip
        return int(self.post("/eventrule/", **body)["id"])

    def end(self) -> dict[str, Any]:
        """A job of `here` ends; the event."""
        launch = granted(self.claims, claim_of(deployment_id=str(DEPLOYMENTS["here"])))
        report(self.claims, launch)
        newest = max(map(int, self.pair.rest.get("/events.json").json()))
        event: dict[str, Any] = self.pair.rest.get(f"/event/{newest}.json").json()
        return event

    def run_of(self, event: dict[str, Any], rule: int) -> dict[str, Any]:
        """The claim of a run that the rule's automation made in `there`."""
        named = {"jobauto": {"event": event["id"], "rule": rule}}
        return claim_of(deployment_id=str(DEPLOYMENTS["there"]), parameters=named)

    def change(self, slug: str, role: str | None) -> None:
        """Eva has another role in a company; None: she has left it."""
        with self.pair.ledger.writing(SERVICE) as session:
            member = session.scalars(
                select(CompanyUser)
                .join(User, User.id == CompanyUser.user_id)
                .where(User.login == "eva", CompanyUser.company_id == self.pair.companies[slug])
            ).one()
            if role is None:
                session.delete(member)
            else:
                member.role = role


@pytest.fixture
def chain(pair: CompanyPair, claims: httpx.Client) -> Chain:
    return Chain(pair, claims)


def deliveries(chain: Chain, event: dict[str, Any]) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = chain.pair.rest.get(f"/event/{event['id']}.json").json()[
        "deliveries"
    ]
    return found


def test_a_rule_tells_nothing_more_once_its_writer_has_left(chain: Chain) -> None:
    rule = chain.rule()
    launch = granted(chain.claims, chain.run_of(chain.end(), rule))
    assert "exit code 0" in launch["environment"]["GREETING"]
    chain.change("here", None)
    event = chain.end()
    reason, state, message = refused(chain.claims, chain.run_of(event, rule))
    assert (reason, state) == ("no_voucher", "FAILED")
    assert "belongs to both companies" in message
    assert [one["state"] for one in deliveries(chain, event)] == ["dead"]
    job = max(chain.pair.rest.get("/jobs.json").json().values(), key=lambda one: one["id"])
    assert "exit code" not in str({**job, "message": ""})
    # Who belongs to both saves it: it goes on, and what was missed is started again.
    ok(chain.pair.rest.post(f"/eventrule/{rule}.json", json={"on": "any"}), 201)
    ok(chain.pair.rest.post(f"/event/{event['id']}/replay.json", json={"eventrule_id": rule}))
    (again,) = deliveries(chain, event)
    launch = granted(
        chain.claims,
        own_run_of(chain.pair.ledger, again["job_id"], deployment_id=str(DEPLOYMENTS["there"])),
    )
    assert "exit code 0" in launch["environment"]["GREETING"]


def test_a_job_that_waits_is_told_nothing_more(chain: Chain, ledger: Ledger) -> None:
    rule, event = chain.rule(), chain.end()
    with ledger.writing(SERVICE) as session:
        start_delivery(session, event["id"], rule)
    (waiting,) = deliveries(chain, event)
    chain.change("here", None)
    claim = own_run_of(ledger, waiting["job_id"], deployment_id=str(DEPLOYMENTS["there"]))
    assert refused(chain.claims, claim)[0] == "no_voucher"
    job = fetch(ledger, Job, waiting["job_id"])
    assert (job.overrides, job.override_secrets) == ({}, {})


def test_the_service_starts_no_job_for_a_rule_without_a_word(chain: Chain, ledger: Ledger) -> None:
    rule, event = chain.rule(), chain.end()
    chain.change("here", None)
    with ledger.writing(SERVICE) as session:
        start_delivery(session, event["id"], rule)
    (dead,) = deliveries(chain, event)
    assert (dead["state"], dead["job_id"]) == ("dead", None)
    assert "belongs to both companies" in dead["error"]


def test_a_disabled_writer_has_no_word(chain: Chain) -> None:
    rule = chain.rule()
    ok(chain.pair.rest.post("/user/", json={"login": "eva", "enabled": False}), 201)
    assert refused(chain.claims, chain.run_of(chain.end(), rule))[0] == "no_voucher"


def test_rules_within_a_company_need_no_word(chain: Chain) -> None:
    app = chain.pair.records["app"]["shared"]["id"]
    other = chain.pair.template("here", app, "other")["id"]
    with chain.pair.ledger.writing(SERVICE) as session:
        session.get_one(RunTemplate, other).deployment_id = DEPLOYMENTS["there"]
        session.get_one(RunTemplate, chain.templates["there"]).deployment_id = None
    body = {"runtemplate_source_id": chain.templates["here"], "runtemplate_id": other}
    rule = int(chain.post("/eventrule/", **body)["id"])
    chain.change("here", None)
    granted(chain.claims, chain.run_of(chain.end(), rule))


@pytest.mark.parametrize(
    ("slug", "role", "state"),
    [
        ("here", "viewer", "done"),
        ("here", None, "dead"),
        ("there", "viewer", "dead"),
        ("there", None, "dead"),
    ],
)
def test_a_chain_starts_nothing_more_once_its_writer_has_left(
    chain: Chain, facade_settings: Settings, ledger: Ledger, slug: str, role: str, state: str
) -> None:
    action = {"ChainRuntemplate": {"runtemplate_id": chain.templates["there"]}}
    chain.post(f"/runtemplate/{chain.templates['here']}.json", success=action)

    def ended() -> dict[str, Any]:
        event = chain.end()
        asyncio.run(run_due_actions(ledger, facade_settings, lambda: None))
        found: list[dict[str, Any]] = chain.pair.rest.get(f"/event/{event['id']}.json").json()[
            "actions"
        ]
        return found[0]

    assert ended()["state"] == "done"
    chain.change(slug, role)
    # Somebody of one company writes the other mode: the word for this one stays Eva's.
    with chain.pair.as_("here") as http:
        path = f"/runtemplate/{chain.templates['here']}.json"
        ok(http.post(path, json={"fail": {"Stop": True}}), 201)
    after = ended()
    assert after["state"] == state
    assert state == "done" or "belongs to both companies" in after["error"]


@pytest.mark.parametrize("moved", ["here", "there"])
@pytest.mark.parametrize("by", ["rule", "chain"])
def test_who_moves_a_run_template_gives_the_word_for_what_another_wrote(
    chain: Chain, facade_settings: Settings, ledger: Ledger, moved: str, by: str
) -> None:
    """An administrator writes it within one company; Eva takes one end of it to another."""
    root, companies, templates = chain.pair.rest, chain.pair.companies, chain.templates
    stays = "there" if moved == "here" else "here"
    for slug in companies:
        chain.change(slug, "admin")
    path = f"/runtemplate/{templates[moved]}.json"
    ok(root.post(path, json={"company": stays, "name": "moved"}), 201)
    ends, target = templates["here"], templates["there"]
    if by == "rule":
        body = {"runtemplate_source_id": ends, "runtemplate_id": target, "on": "any"}
        rule = int(ok(root.post("/eventrule/", json=body), 201)["id"])
    else:
        action = {"success": {"ChainRuntemplate": {"runtemplate_id": target}}}
        ok(root.post(f"/runtemplate/{ends}.json", json=action), 201)

    def is_started() -> bool:
        event = chain.end()
        if by == "rule":
            answer = ok(chain.claims.post("/claims", json=chain.run_of(event, rule)))
            return answer["launch"] is not None
        asyncio.run(run_due_actions(ledger, facade_settings, lambda: None))
        (action,) = root.get(f"/event/{event['id']}.json").json()["actions"]
        return bool(action["state"] == "done")

    assert is_started()
    chain.post(path, company=moved)
    assert is_started()
    chain.change("here", None)
    assert not is_started()


def test_words_are_given_as_the_table_of_permissions_says(ledger: Ledger) -> None:
    with ledger.writing(SERVICE) as session:
        company = Company(slug="acme", name="Acme")
        session.add(company)
        session.flush()
        roles, memberships = [*Role, None], [*Membership, None]
        for number, (role, member) in enumerate(itertools.product(roles, memberships)):
            user = User(login=f"user{number}")
            user.role_assignments = (
                [UserRole(role=role, assigned_at=session.clock())] if role else []
            )
            user.memberships = [CompanyUser(company_id=company.id, role=member)] if member else []
            session.add(user)
            session.flush()
            rights = current_rights(user, session.clock())
            words: dict[str, Callable[..., bool]] = {
                "jobs.read": vouchers.may_read,
                "companies.read": vouchers.may_read,
                "jobs.create": vouchers.may_start,
            }
            for permission, word in words.items():
                said = word(session, user.id, company.id)
                assert said is rights.may(permission, company.id), (role, member, permission)
