"""Applications, credential types and topics of two companies, and an editor in each.

Every way to the other company's records is tried, in each dialect.
"""

import threading
from collections.abc import Mapping
from typing import Any
from uuid import uuid4

import httpx

from jobauto_prefect.console_addresses import CONTRACT
from jobauto_prefect.ledger.access.ownership import lock_for_use
from jobauto_prefect.ledger.audit.trail import SERVICE
from jobauto_prefect.ledger.records import App, CompanyUser, Job, RunTemplate, User
from jobauto_prefect.ledger.states import JobState
from tests.support.claims import claim_of, granted, refused
from tests.support.company_pair import COLLECTIONS, KINDS, UUIDS, CompanyPair, body_of
from tests.support.ledger_rows import fetch


def ok(answer: httpx.Response, status: int = 201) -> dict[str, Any]:
    assert answer.status_code == status, answer.text
    body: dict[str, Any] = answer.json()
    return body


def part_of(kind: str) -> dict[str, Any]:
    """What an editor may change."""
    return {"version": "9"} if kind == "app" else {"description": "changed"}


def renamed(kind: str, record: Mapping[str, Any]) -> list[dict[str, Any]]:
    """What would make a record known as another."""
    keys: list[dict[str, Any]] = [{"name": record["name"]}]
    if kind != "topic":
        keys.append({"uuid": record["uuid"]})
    if kind == "credential_type":
        keys.append({"code": record["code"]})
    return keys


def test_a_record_says_whose_it_is(pair: CompanyPair) -> None:
    for kind in KINDS:
        for whose, record in pair.records[kind].items():
            path = f"/{kind}/{record['id']}.json"
            read = ok(pair.rest.get(path), 200)
            assert read["company_id"] == record["company_id"] == pair.companies.get(whose)
            entries = pair.rest.get("/auditlog.json", params={"entity_id": record["id"]}).json()
            mine = [one for one in entries.values() if "name" in one["changes"]]
            assert record["company_id"] in {one["company_id"] for one in mine}


def test_an_editor_sees_own_and_shared_records_and_no_others(pair: CompanyPair) -> None:
    for kind in KINDS:
        records = pair.records[kind]
        seen = {records["here"]["id"], records["shared"]["id"]}
        hidden = records["there"]
        paths = [f"/{kind}/{hidden['id']}.{suffix}" for suffix in ("json", "html", "yaml", "csv")]
        if kind == "app":
            paths += [f"/app/{hidden['id']}/{name}.json" for name in ("definition", "versions")]
            paths.append(f"/app/{records['here']['id']}/mapping.json?source_app_id={hidden['id']}")
            paths.append(f"/app/{hidden['id']}/mapping.json?source_app_id={records['here']['id']}")
        for _address, http in pair.everywhere("here"):
            for suffix in ("json", "html", "xml", "csv", "yaml"):
                listed = http.get(f"/{COLLECTIONS[kind]}.{suffix}")
                assert listed.headers.get("x-total-count", "2") == "2"
                assert "there-" not in listed.text
            listed = http.get(f"/{COLLECTIONS[kind]}.json").json()
            found = listed.values() if isinstance(listed, dict) else listed
            assert {one["id"] for one in found} == seen
            assert http.get(f"/{COLLECTIONS[kind]}.json?limit=1").headers["x-total-count"] == "2"
            theirs = http.get(f"/{COLLECTIONS[kind]}.json?company_id={pair.companies['there']}")
            assert theirs.json() in ({}, [])
            for path in paths:
                answer = http.get(path)
                assert answer.status_code in (404, 406), path
                assert "there-" not in answer.text


def test_an_editor_changes_what_is_the_companys_own(pair: CompanyPair) -> None:
    for kind in KINDS:
        records = pair.records[kind]
        for _address, http in pair.everywhere("here"):
            path = f"/{kind}/{records['here']['id']}.json"
            ok(http.post(path, json=part_of(kind)))
            ok(http.post(path, json={"company_id": pair.companies["here"]}))
            assert (
                http.post(f"/{kind}/{records['shared']['id']}.json", json=part_of(kind)).status_code
                == 403
            )
            answer = http.post(f"/{kind}/{records['there']['id']}.json", json=part_of(kind))
            assert answer.status_code == 404
            for whose, status in (("here", 403), ("shared", 403), ("there", 404)):
                answer = http.delete(f"/{kind}/{records[whose]['id']}.json")
                assert answer.status_code == status, answer.text


def test_an_editor_can_not_make_a_record_another(pair: CompanyPair) -> None:
    """Not by a new name, code or uuid, whether it is free, shared, or another company's."""
    for kind in KINDS:
        records = pair.records[kind]
        path = f"/{kind}/{records['here']['id']}.json"
        before = ok(pair.rest.get(path), 200)
        free = {"name": "free", "uuid": UUIDS["app"].format(99), "code": "free"}
        answers: dict[str, set[str]] = {}
        for address, http in pair.everywhere("here"):
            for other in (free, records["shared"], records["there"]):
                for change in renamed(kind, other):
                    answer = http.post(path, json=change)
                    assert answer.status_code == 403, (change, answer.text)
                    answers.setdefault(str([*change]), set()).add(answer.json()["message"])
            for company_id in (None, pair.companies["there"], 999):
                status = http.post(path, json={"company_id": company_id}).status_code
                # In the published dialect a flat application says null for what it does not say.
                same = kind == "app" and company_id is None and address != CONTRACT
                assert status in ({201} if same else {400, 403}), company_id
        assert all(len(messages) == 1 for messages in answers.values())
        after = ok(pair.rest.get(path), 200)
        assert {**after, "updated_at": None} == {**before, "updated_at": None}


def test_what_one_may_not_see_answers_as_what_is_not_there(pair: CompanyPair) -> None:
    """By uuid, name or code: an import is the creation of a new one, which editors may not do."""
    for kind in KINDS:
        hidden, unknown = pair.records[kind]["there"], body_of(kind, "nowhere", 77)
        for _address, http in pair.everywhere("here"):
            for name in unknown:
                if name not in ("uuid", "name", "code"):
                    continue
                theirs, nobodys = (
                    http.post(f"/{kind}/", json={**body_of(kind, "nowhere", 77), name: value})
                    for value in (hidden[name], unknown[name])
                )
                assert theirs.status_code == nobodys.status_code == 403, theirs.text
                assert theirs.json()["message"] == nobodys.json()["message"]
        after = ok(pair.rest.get(f"/{kind}/{hidden['id']}.json"), 200)
        assert after["updated_at"] == hidden["updated_at"]


def test_an_import_by_uuid_keeps_the_owner(pair: CompanyPair) -> None:
    for kind in ("app", "credential_type"):
        record = pair.records[kind]["here"]
        whole = body_of(kind, f"here-{kind}".replace("_", "-"), 1)
        whole |= part_of(kind)
        written = ok(pair.rest.post(f"/{kind}/", json=whole))
        assert (written["id"], written["created"]) == (record["id"], False)
        assert written["company_id"] == pair.companies["here"]
        ok(pair.rest.post(f"/{kind}/", json=whole | {"company_id": pair.companies["here"]}))
        for other in (pair.companies["there"], None):
            refused = pair.rest.post(f"/{kind}/", json=whole | {"company_id": other})
            assert refused.status_code == 409, refused.text
        with pair.as_("here") as http:
            ok(http.post(f"/{kind}/", json=whole))


def test_names_and_codes_mean_the_companys_own_first_then_the_shared_one(
    pair: CompanyPair,
) -> None:
    for kind in KINDS:
        key = "code" if kind == "credential_type" else "name"
        shared = pair.records[kind]["shared"][key]
        body = {name: one for name, one in body_of(kind, shared).items() if name != "uuid"}
        own, theirs = (
            ok(pair.rest.post(f"/{kind}/", json=body | {"company": slug, "company_id": company}))
            if kind != "app"
            else ok(pair.rest.post("/app/", json=body | {"company_id": company}))
            for slug, company in pair.companies.items()
        )
        assert own["created"]
        assert theirs["created"]
        assert len({own["id"], theirs["id"], pair.records[kind]["shared"]["id"]}) == 3
        with pair.as_("here") as http:
            assert ok(http.post(f"/{kind}/", json=body | part_of(kind)))["id"] == own["id"]
        nobodys = {**part_of(kind), **body}
        assert ok(pair.rest.post(f"/{kind}/", json=nobodys))["company_id"] is None


def test_a_write_without_a_company_changes_no_companys_record(pair: CompanyPair) -> None:
    written = ok(
        pair.rest.post("/credential_type/", json={"code": "here-credential-type", "name": "N"})
    )
    assert written["created"]
    assert written["company_id"] is None
    assert [one["rule"] for one in written["warnings"]] == ["namesake"]


def test_a_member_of_two_companies_says_which_one_is_meant(pair: CompanyPair) -> None:
    with pair.ledger.writing(SERVICE) as session:
        user = session.query(User).filter_by(login="here").one()
        session.add(
            CompanyUser(company_id=pair.companies["there"], user_id=user.id, role="manager")
        )
    for company in pair.companies.values():
        ok(pair.rest.post("/topic/", json={"name": "both", "company_id": company}))
    with pair.as_("here") as http:
        assert http.post("/topic/", json={"name": "both"}).status_code == 409
        body = {"name": "both", "company": "there", "color": "112233"}
        assert ok(http.post("/topic/", json=body))["company_id"] == pair.companies["there"]


REFERENCES = ("app_id", "app_uuid", "app")


def test_a_run_template_uses_own_and_shared_applications_only(pair: CompanyPair) -> None:
    apps = pair.records["app"]
    members = {"app_id": "id", "app_uuid": "uuid", "app": "name"}
    theirs = pair.template("there", apps["there"]["id"], "theirs")
    for _address, http in pair.everywhere("here"):
        for whose in ("here", "shared"):
            for reference in REFERENCES:
                body = {"company": "here", "name": f"{whose} {reference}"}
                body[reference] = apps[whose][members[reference]]
                mine = ok(http.post("/runtemplate/", json=body))
                assert mine["app_id"] == apps[whose]["id"]
        for reference in REFERENCES:
            hidden = apps["there"][members[reference]]
            missing = {"app_id": 999, "app_uuid": UUIDS["app"].format(99), "app": "none"}[reference]
            for body in ({"company": "here", "name": "n"}, {"id": mine["id"]}):
                answers = [
                    http.post("/runtemplate/", json=body | {reference: value})
                    for value in (hidden, missing)
                ]
                assert {one.status_code for one in answers} == {400}, answers[0].text
                texts = [
                    one.json()["message"].replace(str(value), "X")
                    for one, value in zip(answers, (hidden, missing), strict=True)
                ]
                assert texts[0] == texts[1]
                assert answers[0].json()["details"][0]["pointer"] == f"/{reference}"
    for body in ({"company": "there", "name": "n"}, {"id": theirs["id"]}):
        # Who sees everything can't lend it either.
        foreign = pair.rest.post("/runtemplate/", json=body | {"app_id": apps["here"]["id"]})
        assert foreign.status_code == 400
    moved = pair.rest.post("/runtemplate/", json={"id": theirs["id"], "company": "here"})
    assert moved.status_code == 400


def test_actions_launch_no_application_of_another_company(pair: CompanyPair) -> None:
    mine = pair.template("here", pair.records["app"]["shared"]["id"])
    pair.template("there", pair.records["app"]["there"]["id"])
    with pair.as_("here") as http:
        messages = set()
        for app_id in (pair.records["app"]["there"]["id"], 999):
            body = {"success": {"LaunchJob": {"app_id": app_id}}}
            answer = ok(http.post(f"/runtemplate/{mine['id']}.json", json=body), 400)
            messages.add(answer["details"][0]["message"].replace(str(app_id), "X"))
        assert messages == {"there is no application X"}


def test_a_credential_is_of_an_own_or_shared_type_only(pair: CompanyPair) -> None:
    types = pair.records["credential_type"]
    members = {"credential_type_id": "id", "credential_type": "code"}
    for _address, http in pair.everywhere("here"):
        for whose in ("here", "shared"):
            for reference, member in members.items():
                body = {"company": "here", "name": f"{whose} {reference}"}
                mine = ok(http.post("/credential/", json=body | {reference: types[whose][member]}))
        for reference, member in members.items():
            missing = 999 if reference.endswith("_id") else "none"
            for body in ({"company": "here", "name": "n"}, {"id": mine["id"]}):
                answers = [
                    http.post("/credential/", json=body | {reference: value})
                    for value in (types["there"][member], missing)
                ]
                assert {one.status_code for one in answers} == {400}, answers[0].text
    foreign = {"company": "there", "name": "n", "credential_type_id": types["here"]["id"]}
    assert pair.rest.post("/credential/", json=foreign).status_code == 400
    own = ok(
        pair.rest.post(
            "/credential/",
            json={"company": "here", "name": "o", "credential_type_id": types["here"]["id"]},
        )
    )
    moved = pair.rest.post(f"/credential/{own['id']}.json", json={"company": "there"})
    assert moved.status_code == 400


def test_a_requirement_asks_for_own_and_shared_types_only(
    pair: CompanyPair, claims: httpx.Client
) -> None:
    """Another company's credential type of that code neither blocks a job nor is told of."""
    required = {"requirements": ["there-credential-type"], "company_id": None}
    app = pair.records["app"]["shared"]["id"]
    written = ok(pair.rest.post(f"/app/{app}.json", json=required))
    assert [one["rule"] for one in written["warnings"]] == ["unknown_requirement"]
    mine, theirs = (pair.template(slug, app) for slug in ("here", "there"))
    assert "warnings" not in mine
    assert [one["rule"] for one in theirs["warnings"]] == ["unmet_requirement"]
    deployments = {slug: uuid4() for slug in pair.companies}
    with pair.ledger.writing(SERVICE) as session:
        for slug, template in (("here", mine), ("there", theirs)):
            session.get_one(RunTemplate, template["id"]).deployment_id = deployments[slug]
    granted(claims, claim_of(deployment_id=str(deployments["here"])))
    reason, _, _ = refused(claims, claim_of(deployment_id=str(deployments["there"])))
    assert reason == "unmet_requirement"


def use_of(pair: CompanyPair, kind: str, slug: str, record_id: int) -> str:
    """The path of a new record of a company that uses a definition."""
    if kind == "app":
        return f"/runtemplate/{pair.template(slug, record_id, 'used')['id']}.json"
    body = {"company": slug, "name": "used", "credential_type_id": record_id}
    return f"/credential/{ok(pair.rest.post('/credential/', json=body))['id']}.json"


def test_an_owner_is_given_only_where_nobody_else_uses_it(pair: CompanyPair) -> None:
    for kind in ("app", "credential_type"):
        record = pair.records[kind]["shared"]
        path, here = f"/{kind}/{record['id']}.json", pair.companies["here"]

        use_of(pair, kind, "here", record["id"])
        assert ok(pair.rest.post(path, json={"company_id": here}))["company_id"] == here
        assert ok(pair.rest.post(path, json={"company_id": None}))["company_id"] is None
        theirs = use_of(pair, kind, "there", record["id"])
        assert pair.rest.post(path, json={"company_id": here}).status_code == 409
        ok(pair.rest.delete(theirs), 200)
        refused = ok(
            pair.rest.post(path, json={"company_id": here}), 409
        )  # retired ones count, too
        assert str(pair.companies["there"]) in refused["message"]
        with pair.as_("here") as http:
            assert http.post(path, json={"company_id": here}).status_code == 403


def test_a_job_that_waits_is_a_use(pair: CompanyPair) -> None:
    apps = pair.records["app"]
    template = pair.template("there", apps["shared"]["id"])
    job = ok(pair.rest.post("/job/", json={"runtemplate_id": template["id"]}))
    other = ok(pair.rest.post("/app/", json=body_of("app", "Other", 50)))
    ok(pair.rest.post(f"/runtemplate/{template['id']}.json", json={"app_id": other["id"]}))
    path, owner = f"/app/{apps['shared']['id']}.json", {"company_id": pair.companies["here"]}
    assert pair.rest.post(path, json=owner).status_code == 409
    ok(pair.rest.post(f"/job/{job['id']}.json", json={"state": "cancelled"}))
    ok(pair.rest.post(path, json=owner))
    assert fetch(pair.ledger, Job, job["id"]).state == JobState.CANCELLED
    with pair.as_("there") as http:  # the name of what was used once is not told any more
        page = http.get(f"/job/{job['id']}.html")
        assert page.status_code == 200
        assert "shared-app" not in page.text


def test_a_topic_is_given_only_where_nobody_else_bears_its_tag(pair: CompanyPair) -> None:
    topic, app = pair.records["topic"]["shared"], pair.records["app"]["shared"]
    path, owner = f"/topic/{topic['id']}.json", {"company_id": pair.companies["here"]}
    pair.template("here", app["id"], topics=[topic["name"]])
    ok(pair.rest.post(path, json=owner))
    ok(pair.rest.post(path, json={"company_id": None}))
    pair.template("there", app["id"], topics=[topic["name"]])
    assert pair.rest.post(path, json=owner).status_code == 409


def test_a_company_with_definitions_of_its_own_stays(pair: CompanyPair) -> None:
    company = ok(pair.rest.post("/company/", json={"slug": "new", "name": "New"}))
    for kind in KINDS:
        body = body_of(kind, f"of-new-{kind}".replace("_", "-"), 60)
        record = ok(pair.rest.post(f"/{kind}/", json=body | {"company_id": company["id"]}))
        assert pair.rest.delete(f"/company/{company['id']}.json").status_code == 409
        ok(pair.rest.delete(f"/{kind}/{record['id']}.json"), 200)
    ok(pair.rest.delete(f"/company/{company['id']}.json"), 200)


def test_passwords_of_another_companys_application_seal_nothing_here(pair: CompanyPair) -> None:
    secret_here = {"environment": {"TOWN": {"type": "password", "description": "t"}}}
    ok(pair.rest.post(f"/app/{pair.records['app']['there']['id']}.json", json=secret_here))
    with pair.as_("here") as http:
        path = f"/company/{pair.companies['here']}.json"
        assert ok(http.post(path, json={"env": {"TOWN": "Prague"}}))["env"] == {"TOWN": "Prague"}
    ok(pair.rest.post(f"/app/{pair.records['app']['there']['id']}.json", json={"company_id": None}))
    assert ok(pair.rest.get(path), 200)["env"] == {"TOWN": "********"}


def test_a_workers_token_reads_a_companys_application_only_where_its_pool_runs_it(
    pair: CompanyPair, claims: httpx.Client
) -> None:
    apps = pair.records["app"]
    assert claims.get(f"/applications/{apps['shared']['id']}").status_code == 200
    assert claims.get(f"/applications/{apps['here']['id']}").status_code == 404
    pair.template("here", apps["here"]["id"])
    assert claims.get(f"/applications/{apps['here']['id']}").status_code == 200


def test_a_new_owner_waits_for_who_begins_to_use_a_record(pair: CompanyPair) -> None:
    """And is refused then: a use and a new owner can't miss each other."""
    app_id, company_id = pair.records["app"]["shared"]["id"], pair.companies["there"]
    answers: list[int] = []
    over = threading.Event()

    def give() -> None:
        owner = {"company_id": pair.companies["here"]}
        answers.append(pair.rest.post(f"/app/{app_id}.json", json=owner).status_code)
        over.set()

    with pair.ledger.writing(SERVICE) as session:
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


def test_a_new_application_has_no_former_definition(pair: CompanyPair) -> None:
    for whose in ("here", "shared"):
        path = f"/app/{pair.records['app'][whose]['id']}/versions.json"
        assert ok(pair.rest.get(path), 200) == {}
