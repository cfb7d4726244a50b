"""Applications, credential types and topics of two companies, and an editor in each.

Every way to the other company's records is tried, in each dialect.
"""

import contextlib
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

import httpx
import pytest

from jobauto_prefect.facade.compat.translation import PREFIXES
from jobauto_prefect.facade.http.addresses import CONTRACT
from jobauto_prefect.ledger.access.ownership import lock_for_use
from jobauto_prefect.ledger.access.tokens import issue_user_token
from jobauto_prefect.ledger.audit.trail import SERVICE
from jobauto_prefect.ledger.records import App, CompanyUser, Job, RunTemplate, User, UserRole
from jobauto_prefect.ledger.states import JobState
from jobauto_prefect.ledger.store import Ledger
from tests.support import contract_check
from tests.support.claims import claim_of, granted, refused
from tests.support.definitions import PROBE
from tests.support.servers import client

UUIDS = {
    "app": "6a2c6d4e-30e4-4f6b-9d6e-7c8ad9f2b0{:02x}",
    "credential_type": "7b3d7e5f-41f5-4a7c-8e7f-8d9be0a3c1{:02x}",
}
COLLECTIONS = {"app": "apps", "credential_type": "credential_types", "topic": "topics"}
KINDS = tuple(COLLECTIONS)
ADDRESSES = (CONTRACT, *PREFIXES)


def ok(answer: httpx.Response, status: int = 201) -> dict[str, Any]:
    assert answer.status_code == status, answer.text
    body: dict[str, Any] = answer.json()
    return body


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
class World:
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
        said = {"company": company, "app_id": app_id, "name": name, **more}
        return ok(self.rest.post("/runtemplate/", json=said))


@pytest.fixture
def world(facade_url: str, rest: httpx.Client, ledger: Ledger) -> World:
    """Each of the two companies has one record of each kind, and one of each is shared."""
    companies = {
        slug: ok(rest.post("/company/", json={"slug": slug, "name": slug.title()}))["id"]
        for slug in ("here", "there")
    }
    records: dict[str, dict[str, dict[str, Any]]] = {}
    for kind in KINDS:
        records[kind] = {}
        for number, whose in enumerate(("here", "there", "shared"), start=1):
            owner = {"company_id": companies[whose]} if whose in companies else {}
            body = body_of(kind, f"{whose}-{kind}".replace("_", "-"), number)
            records[kind][whose] = ok(rest.post(f"/{kind}/", json=body | owner))
    tokens = {slug: _token(ledger, slug, company) for slug, company in companies.items()}
    return World(facade_url, ledger, rest, companies, records, tokens)


def _token(ledger: Ledger, login: str, company_id: int) -> str:
    with ledger.writing(SERVICE) as session:
        user = User(login=login)
        user.role_assignments = [UserRole(role="editor", assigned_at=ledger.clock())]
        session.add(user)
        session.flush()
        session.add(CompanyUser(company_id=company_id, user_id=user.id, role="admin"))
        return issue_user_token(session, user, None)[0]


def part_of(kind: str) -> dict[str, Any]:
    """What an editor may change."""
    return {"version": "9"} if kind == "app" else {"description": "changed"}


def renamed(kind: str, record: Mapping[str, Any]) -> list[dict[str, Any]]:
    """What would make a record known as another."""
    said: list[dict[str, Any]] = [{"name": record["name"]}]
    if kind != "topic":
        said.append({"uuid": record["uuid"]})
    if kind == "credential_type":
        said.append({"code": record["code"]})
    return said


def test_a_record_says_whose_it_is(world: World) -> None:
    for kind in KINDS:
        for whose, record in world.records[kind].items():
            path = f"/{kind}/{record['id']}.json"
            read = ok(world.rest.get(path), 200)
            assert read["company_id"] == record["company_id"] == world.companies.get(whose)
            entries = world.rest.get("/auditlog.json", params={"entity_id": record["id"]}).json()
            mine = [one for one in entries.values() if "name" in one["changes"]]
            assert record["company_id"] in {one["company_id"] for one in mine}


def test_an_editor_sees_own_and_shared_records_and_no_others(world: World) -> None:
    for kind in KINDS:
        records = world.records[kind]
        seen = {records["here"]["id"], records["shared"]["id"]}
        hidden = records["there"]
        paths = [f"/{kind}/{hidden['id']}.{suffix}" for suffix in ("json", "html", "yaml", "csv")]
        if kind == "app":
            paths += [f"/app/{hidden['id']}/{name}.json" for name in ("definition", "versions")]
            paths.append(f"/app/{records['here']['id']}/mapping.json?source_app_id={hidden['id']}")
            paths.append(f"/app/{hidden['id']}/mapping.json?source_app_id={records['here']['id']}")
        for _address, http in world.everywhere("here"):
            for suffix in ("json", "html", "xml", "csv", "yaml"):
                listed = http.get(f"/{COLLECTIONS[kind]}.{suffix}")
                assert listed.headers.get("x-total-count", "2") == "2"
                assert "there-" not in listed.text
            listed = http.get(f"/{COLLECTIONS[kind]}.json").json()
            found = listed.values() if isinstance(listed, dict) else listed
            assert {one["id"] for one in found} == seen
            assert http.get(f"/{COLLECTIONS[kind]}.json?limit=1").headers["x-total-count"] == "2"
            theirs = http.get(f"/{COLLECTIONS[kind]}.json?company_id={world.companies['there']}")
            assert theirs.json() in ({}, [])
            for path in paths:
                answer = http.get(path)
                assert answer.status_code in (404, 406), path
                assert "there-" not in answer.text


def test_an_editor_changes_what_is_the_companys_own(world: World) -> None:
    for kind in KINDS:
        records = world.records[kind]
        for _address, http in world.everywhere("here"):
            path = f"/{kind}/{records['here']['id']}.json"
            ok(http.post(path, json=part_of(kind)))
            ok(http.post(path, json={"company_id": world.companies["here"]}))
            assert (
                http.post(f"/{kind}/{records['shared']['id']}.json", json=part_of(kind)).status_code
                == 403
            )
            answer = http.post(f"/{kind}/{records['there']['id']}.json", json=part_of(kind))
            assert answer.status_code == 404
            for whose, status in (("here", 403), ("shared", 403), ("there", 404)):
                answer = http.delete(f"/{kind}/{records[whose]['id']}.json")
                assert answer.status_code == status, answer.text


def test_an_editor_can_not_make_a_record_another(world: World) -> None:
    """Not by a new name, code or uuid, whether it is free, shared, or another company's."""
    for kind in KINDS:
        records = world.records[kind]
        path = f"/{kind}/{records['here']['id']}.json"
        before = ok(world.rest.get(path), 200)
        free = {"name": "free", "uuid": UUIDS["app"].format(99), "code": "free"}
        answers: dict[str, set[str]] = {}
        for address, http in world.everywhere("here"):
            for other in (free, records["shared"], records["there"]):
                for change in renamed(kind, other):
                    answer = http.post(path, json=change)
                    assert answer.status_code == 403, (change, answer.text)
                    answers.setdefault(str([*change]), set()).add(answer.json()["message"])
            for company_id in (None, world.companies["there"], 999):
                status = http.post(path, json={"company_id": company_id}).status_code
                # In the published dialect a flat application says null for what it does not say.
                same = kind == "app" and company_id is None and address != CONTRACT
                assert status in ({201} if same else {400, 403}), company_id
        assert all(len(messages) == 1 for messages in answers.values())
        after = ok(world.rest.get(path), 200)
        assert {**after, "updated_at": None} == {**before, "updated_at": None}


def test_what_one_may_not_see_answers_as_what_is_not_there(world: World) -> None:
    """By uuid, name or code: an import is the creation of a new one, which editors may not do."""
    for kind in KINDS:
        hidden, unknown = world.records[kind]["there"], body_of(kind, "nowhere", 77)
        for _address, http in world.everywhere("here"):
            for name in unknown:
                if name not in ("uuid", "name", "code"):
                    continue
                theirs, nobodys = (
                    http.post(f"/{kind}/", json={**body_of(kind, "nowhere", 77), name: value})
                    for value in (hidden[name], unknown[name])
                )
                assert theirs.status_code == nobodys.status_code == 403, theirs.text
                assert theirs.json()["message"] == nobodys.json()["message"]
        after = ok(world.rest.get(f"/{kind}/{hidden['id']}.json"), 200)
        assert after["updated_at"] == hidden["updated_at"]


def test_an_import_by_uuid_keeps_the_owner(world: World) -> None:
    for kind in ("app", "credential_type"):
        record = world.records[kind]["here"]
        whole = body_of(kind, f"here-{kind}".replace("_", "-"), 1)
        whole |= part_of(kind)
        written = ok(world.rest.post(f"/{kind}/", json=whole))
        assert (written["id"], written["created"]) == (record["id"], False)
        assert written["company_id"] == world.companies["here"]
        ok(world.rest.post(f"/{kind}/", json=whole | {"company_id": world.companies["here"]}))
        for other in (world.companies["there"], None):
            refused = world.rest.post(f"/{kind}/", json=whole | {"company_id": other})
            assert refused.status_code == 409, refused.text
        with world.as_("here") as http:
            ok(http.post(f"/{kind}/", json=whole))


def test_names_and_codes_mean_the_companys_own_first_then_the_shared_one(world: World) -> None:
    for kind in KINDS:
        key = "code" if kind == "credential_type" else "name"
        shared = world.records[kind]["shared"][key]
        body = {name: one for name, one in body_of(kind, shared).items() if name != "uuid"}
        own, theirs = (
            ok(world.rest.post(f"/{kind}/", json=body | {"company": slug, "company_id": company}))
            if kind != "app"
            else ok(world.rest.post("/app/", json=body | {"company_id": company}))
            for slug, company in world.companies.items()
        )
        assert own["created"]
        assert theirs["created"]
        assert len({own["id"], theirs["id"], world.records[kind]["shared"]["id"]}) == 3
        with world.as_("here") as http:
            assert ok(http.post(f"/{kind}/", json=body | part_of(kind)))["id"] == own["id"]
        nobodys = {**part_of(kind), **body}
        assert ok(world.rest.post(f"/{kind}/", json=nobodys))["company_id"] is None


def test_a_write_without_a_company_changes_no_companys_record(world: World) -> None:
    written = ok(
        world.rest.post("/credential_type/", json={"code": "here-credential-type", "name": "N"})
    )
    assert written["created"]
    assert written["company_id"] is None
    assert [one["rule"] for one in written["warnings"]] == ["namesake"]


def test_a_member_of_two_companies_says_which_one_is_meant(world: World) -> None:
    with world.ledger.writing(SERVICE) as session:
        user = session.query(User).filter_by(login="here").one()
        session.add(
            CompanyUser(company_id=world.companies["there"], user_id=user.id, role="manager")
        )
    for company in world.companies.values():
        ok(world.rest.post("/topic/", json={"name": "both", "company_id": company}))
    with world.as_("here") as http:
        assert http.post("/topic/", json={"name": "both"}).status_code == 409
        said = {"name": "both", "company": "there", "color": "112233"}
        assert ok(http.post("/topic/", json=said))["company_id"] == world.companies["there"]


REFERENCES = ("app_id", "app_uuid", "app")


def test_a_run_template_uses_own_and_shared_applications_only(world: World) -> None:
    apps = world.records["app"]
    members = {"app_id": "id", "app_uuid": "uuid", "app": "name"}
    theirs = world.template("there", apps["there"]["id"], "theirs")
    for _address, http in world.everywhere("here"):
        for whose in ("here", "shared"):
            for reference in REFERENCES:
                said = {"company": "here", "name": f"{whose} {reference}"}
                said[reference] = apps[whose][members[reference]]
                mine = ok(http.post("/runtemplate/", json=said))
                assert mine["app_id"] == apps[whose]["id"]
        for reference in REFERENCES:
            hidden = apps["there"][members[reference]]
            missing = {"app_id": 999, "app_uuid": UUIDS["app"].format(99), "app": "none"}[reference]
            for said in ({"company": "here", "name": "n"}, {"id": mine["id"]}):
                answers = [
                    http.post("/runtemplate/", json=said | {reference: value})
                    for value in (hidden, missing)
                ]
                assert {one.status_code for one in answers} == {404}, answers[0].text
                texts = [
                    one.json()["message"].replace(str(value), "X")
                    for one, value in zip(answers, (hidden, missing), strict=True)
                ]
                assert texts[0] == texts[1]
                assert answers[0].json()["details"][0]["pointer"] == f"/{reference}"
    for said in ({"company": "there", "name": "n"}, {"id": theirs["id"]}):
        # Who sees everything can't lend it either.
        foreign = world.rest.post("/runtemplate/", json=said | {"app_id": apps["here"]["id"]})
        assert foreign.status_code == 404
    moved = world.rest.post("/runtemplate/", json={"id": theirs["id"], "company": "here"})
    assert moved.status_code == 404


def test_actions_launch_no_application_of_another_company(world: World) -> None:
    mine = world.template("here", world.records["app"]["shared"]["id"])
    world.template("there", world.records["app"]["there"]["id"])
    with world.as_("here") as http:
        messages = set()
        for app_id in (world.records["app"]["there"]["id"], 999):
            said = {"success": {"LaunchJob": {"app_id": app_id}}}
            answer = ok(http.post(f"/runtemplate/{mine['id']}.json", json=said), 400)
            messages.add(answer["details"][0]["message"].replace(str(app_id), "X"))
        assert messages == {"there is no app X"}


def test_a_credential_is_of_an_own_or_shared_type_only(world: World) -> None:
    types = world.records["credential_type"]
    members = {"credential_type_id": "id", "credential_type": "code"}
    for _address, http in world.everywhere("here"):
        for whose in ("here", "shared"):
            for reference, member in members.items():
                said = {"company": "here", "name": f"{whose} {reference}"}
                mine = ok(http.post("/credential/", json=said | {reference: types[whose][member]}))
        for reference, member in members.items():
            missing = 999 if reference.endswith("_id") else "none"
            for said in ({"company": "here", "name": "n"}, {"id": mine["id"]}):
                answers = [
                    http.post("/credential/", json=said | {reference: value})
                    for value in (types["there"][member], missing)
                ]
                assert {one.status_code for one in answers} == {404}, answers[0].text
    foreign = {"company": "there", "name": "n", "credential_type_id": types["here"]["id"]}
    assert world.rest.post("/credential/", json=foreign).status_code == 404
    own = ok(
        world.rest.post(
            "/credential/",
            json={"company": "here", "name": "o", "credential_type_id": types["here"]["id"]},
        )
    )
    moved = world.rest.post(f"/credential/{own['id']}.json", json={"company": "there"})
    assert moved.status_code == 404


def test_a_requirement_asks_for_own_and_shared_types_only(
    world: World, claims: httpx.Client
) -> None:
    """Another company's credential type of that code neither blocks a job nor is told of."""
    required = {"requirements": ["there-credential-type"], "company_id": None}
    app = world.records["app"]["shared"]["id"]
    written = ok(world.rest.post(f"/app/{app}.json", json=required))
    assert [one["rule"] for one in written["warnings"]] == ["unknown_requirement"]
    mine, theirs = (world.template(slug, app) for slug in ("here", "there"))
    assert "warnings" not in mine
    assert [one["rule"] for one in theirs["warnings"]] == ["unmet_requirement"]
    deployments = {slug: uuid4() for slug in world.companies}
    with world.ledger.writing(SERVICE) as session:
        for slug, template in (("here", mine), ("there", theirs)):
            session.get_one(RunTemplate, template["id"]).deployment_id = deployments[slug]
    granted(claims, claim_of(deployment_id=str(deployments["here"])))
    reason, _, _ = refused(claims, claim_of(deployment_id=str(deployments["there"])))
    assert reason == "unmet_requirement"


def use_of(world: World, kind: str, slug: str, record_id: int) -> str:
    """The path of a new record of a company that uses a definition."""
    if kind == "app":
        return f"/runtemplate/{world.template(slug, record_id, 'used')['id']}.json"
    said = {"company": slug, "name": "used", "credential_type_id": record_id}
    return f"/credential/{ok(world.rest.post('/credential/', json=said))['id']}.json"


def test_an_owner_is_given_only_where_nobody_else_uses_it(world: World) -> None:
    for kind in ("app", "credential_type"):
        record = world.records[kind]["shared"]
        path, here = f"/{kind}/{record['id']}.json", world.companies["here"]

        use_of(world, kind, "here", record["id"])
        assert ok(world.rest.post(path, json={"company_id": here}))["company_id"] == here
        assert ok(world.rest.post(path, json={"company_id": None}))["company_id"] is None
        theirs = use_of(world, kind, "there", record["id"])
        assert world.rest.post(path, json={"company_id": here}).status_code == 409
        ok(world.rest.delete(theirs), 200)
        refused = ok(
            world.rest.post(path, json={"company_id": here}), 409
        )  # retired ones count, too
        assert str(world.companies["there"]) in refused["message"]
        with world.as_("here") as http:
            assert http.post(path, json={"company_id": here}).status_code == 403


def test_a_job_that_waits_is_a_use(world: World) -> None:
    apps = world.records["app"]
    template = world.template("there", apps["shared"]["id"])
    job = ok(world.rest.post("/job/", json={"runtemplate_id": template["id"]}))
    other = ok(world.rest.post("/app/", json=body_of("app", "Other", 50)))
    ok(world.rest.post(f"/runtemplate/{template['id']}.json", json={"app_id": other["id"]}))
    path, owner = f"/app/{apps['shared']['id']}.json", {"company_id": world.companies["here"]}
    assert world.rest.post(path, json=owner).status_code == 409
    ok(world.rest.post(f"/job/{job['id']}.json", json={"state": "cancelled"}))
    ok(world.rest.post(path, json=owner))
    with world.ledger.reading() as session:
        assert session.get_one(Job, job["id"]).state == JobState.CANCELLED
    with world.as_("there") as http:  # the name of what was used once is not told any more
        page = http.get(f"/job/{job['id']}.html")
        assert page.status_code == 200
        assert "shared-app" not in page.text


def test_a_topic_is_given_only_where_nobody_else_bears_its_tag(world: World) -> None:
    topic, app = world.records["topic"]["shared"], world.records["app"]["shared"]
    path, owner = f"/topic/{topic['id']}.json", {"company_id": world.companies["here"]}
    world.template("here", app["id"], topics=[topic["name"]])
    ok(world.rest.post(path, json=owner))
    ok(world.rest.post(path, json={"company_id": None}))
    world.template("there", app["id"], topics=[topic["name"]])
    assert world.rest.post(path, json=owner).status_code == 409


def test_a_company_with_definitions_of_its_own_stays(world: World) -> None:
    company = ok(world.rest.post("/company/", json={"slug": "new", "name": "New"}))
    for kind in KINDS:
        body = body_of(kind, f"of-new-{kind}".replace("_", "-"), 60)
        record = ok(world.rest.post(f"/{kind}/", json=body | {"company_id": company["id"]}))
        assert world.rest.delete(f"/company/{company['id']}.json").status_code == 409
        ok(world.rest.delete(f"/{kind}/{record['id']}.json"), 200)
    ok(world.rest.delete(f"/company/{company['id']}.json"), 200)


def test_passwords_of_another_companys_application_seal_nothing_here(world: World) -> None:
    secret_here = {"environment": {"TOWN": {"type": "password", "description": "t"}}}
    ok(world.rest.post(f"/app/{world.records['app']['there']['id']}.json", json=secret_here))
    with world.as_("here") as http:
        path = f"/company/{world.companies['here']}.json"
        assert ok(http.post(path, json={"env": {"TOWN": "Prague"}}))["env"] == {"TOWN": "Prague"}
    ok(
        world.rest.post(
            f"/app/{world.records['app']['there']['id']}.json", json={"company_id": None}
        )
    )
    assert ok(world.rest.get(path), 200)["env"] == {"TOWN": "********"}


def test_a_workers_token_reads_a_companys_application_only_where_its_pool_runs_it(
    world: World, claims: httpx.Client
) -> None:
    apps = world.records["app"]
    assert claims.get(f"/applications/{apps['shared']['id']}").status_code == 200
    assert claims.get(f"/applications/{apps['here']['id']}").status_code == 404
    world.template("here", apps["here"]["id"])
    assert claims.get(f"/applications/{apps['here']['id']}").status_code == 200


def test_a_new_owner_waits_for_who_begins_to_use_a_record(world: World) -> None:
    """And is refused then: a use and a new owner can't miss each other."""
    app_id, company_id = world.records["app"]["shared"]["id"], world.companies["there"]
    answers: list[int] = []
    over = threading.Event()

    def give() -> None:
        owner = {"company_id": world.companies["here"]}
        answers.append(world.rest.post(f"/app/{app_id}.json", json=owner).status_code)
        over.set()

    with world.ledger.writing(SERVICE) as session:
        app = session.get_one(App, app_id)
        lock_for_use(session, app)
        asking = threading.Thread(target=give)
        asking.start()
        assert not over.wait(1)
        session.add(
            RunTemplate(
                app_id=app_id, company_id=company_id, name="new", env={}, secrets={},
                success={}, fail={}, action_secrets={},
            )
        )  # fmt: skip
    asking.join()
    assert answers == [409]


def test_a_new_application_has_no_former_definition(world: World) -> None:
    for whose in ("here", "shared"):
        path = f"/app/{world.records['app'][whose]['id']}/versions.json"
        assert ok(world.rest.get(path), 200) == {}
