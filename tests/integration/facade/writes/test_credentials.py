"""Credentials: their types and values, who has them, and what jobs are given of them."""

import json
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

import httpx
import pytest

from jobauto_prefect.ledger.audit.trail import SERVICE
from jobauto_prefect.ledger.records import Credential, Job, RunTemplate
from jobauto_prefect.ledger.store import Ledger
from tests.support.claims import DEPLOYMENT, claim_of, granted, refused
from tests.support.definitions import PROBE
from tests.support.ledger_rows import entries, fetch
from tests.support.records import BANK_PIN, BANK_TYPE, make_template, post


@pytest.fixture
def bank(rest: httpx.Client) -> dict[str, Any]:
    return post(rest, "/credential_type/", **BANK_TYPE)


@pytest.fixture
def requiring_template(rest: httpx.Client, ledger: Ledger) -> dict[str, Any]:
    """A template of an application that requires a bank and something nobody knows."""
    made = make_template(rest, name="credentialed")
    app = rest.get(f"/app/{made['app_id']}.json").json()
    definition = {key: app[key] for key in PROBE} | {"requirements": ["bank", "Unheard"]}
    definition["environment"] |= {"BANK_USER": {}, "BANK_MODE": {}}
    rest.post("/app/", json={**definition, "uuid": app.get("uuid")})
    with ledger.writing(SERVICE) as session:
        session.get_one(RunTemplate, made["id"]).deployment_id = DEPLOYMENT
    return made


@pytest.fixture
def credential(
    rest: httpx.Client, bank: dict[str, Any], requiring_template: dict[str, Any]
) -> dict[str, Any]:
    values = {"BANK_USER": "anna", "BANK_PIN": BANK_PIN}
    members = {"company": "acme", "credential_type": "BANK", "name": "Main", "values": values}
    return post(rest, "/credential/", **members)


def test_the_fields_become_environment_over_the_company_and_under_the_template(
    rest: httpx.Client,
    claims: httpx.Client,
    requiring_template: dict[str, Any],
    credential: dict[str, Any],
) -> None:
    company = requiring_template["company_id"]
    post(rest, f"/company/{company}.json", env={"BANK_USER": "company", "BANK_PORT": "1"})
    post(rest, f"/runtemplate/{requiring_template['id']}.json", credentials=["Main"])
    launch = granted(claims, claim_of())
    environment = launch["environment"]
    assert environment["BANK_USER"] == "anna"
    assert environment["BANK_PIN"] == BANK_PIN
    assert environment["BANK_PORT"] == "443"
    assert BANK_PIN in launch["secrets"]
    shown = rest.get(f"/job/{launch['job_id']}.json")
    assert shown.json()["env"]["BANK_PIN"] == "********"
    assert BANK_PIN not in shown.text
    post(rest, f"/runtemplate/{requiring_template['id']}.json", env={"BANK_USER": "template"})
    assert granted(claims, claim_of())["environment"]["BANK_USER"] == "template"


def test_of_two_credentials_the_later_one_counts(
    rest: httpx.Client,
    claims: httpx.Client,
    requiring_template: dict[str, Any],
    credential: dict[str, Any],
) -> None:
    values = {"BANK_USER": "eva", "BANK_PIN": "0ther-pin"}
    other = post(
        rest, "/credential/", company="acme", credential_type="Bank", name="Other", values=values
    )
    at = f"/runtemplate/{requiring_template['id']}.json"
    shown = post(rest, at, credentials=[other["id"], "Main"])
    assert shown["credentials"] == [other["id"], credential["id"]]
    assert granted(claims, claim_of())["environment"]["BANK_PIN"] == BANK_PIN
    assert post(rest, at, credentials=["Main", "Other"])["credentials"] == [
        credential["id"],
        other["id"],
    ]
    assert granted(claims, claim_of())["environment"]["BANK_PIN"] == "0ther-pin"


def test_a_launch_without_a_required_credential_is_refused_with_the_names(
    rest: httpx.Client,
    claims: httpx.Client,
    requiring_template: dict[str, Any],
    bank: dict[str, Any],
) -> None:
    reason, state, message = refused(claims, claim_of())
    assert (reason, state) == ("unmet_requirement", "FAILED")
    assert "bank" in message
    assert "Unheard" not in message
    assert rest.get("/jobs.json?state=blocked").json()


def test_a_launch_whose_credential_lacks_its_secret_is_refused(
    rest: httpx.Client,
    claims: httpx.Client,
    requiring_template: dict[str, Any],
    bank: dict[str, Any],
) -> None:
    made = post(
        rest, "/credential/", company="acme", credential_type="Bank", name="Main",
        values={"BANK_USER": "anna"},
    )  # fmt: skip
    assert [one["pointer"] for one in made["warnings"]] == ["/values/BANK_PIN"]
    changed = post(rest, f"/runtemplate/{requiring_template['id']}.json", credentials=["Main"])
    assert "Main: BANK_PIN" in changed["warnings"][0]["message"]
    reason, _, message = refused(claims, claim_of())
    assert (reason, "Main: BANK_PIN" in message) == ("missing_credential", True)


def test_requirements_nobody_can_meet_and_those_nobody_has_met_are_warnings(
    rest: httpx.Client, requiring_template: dict[str, Any], bank: dict[str, Any]
) -> None:
    app = post(rest, f"/app/{requiring_template['app_id']}.json", version="9")
    assert [one["pointer"] for one in app["warnings"]] == ["/requirements/1"]
    changed = post(rest, f"/runtemplate/{requiring_template['id']}.json", note="x")
    assert [one["rule"] for one in changed["warnings"]] == ["unmet_requirement"]


def test_credentials_of_other_companies_and_strangers_are_no_credentials(
    rest: httpx.Client, requiring_template: dict[str, Any], credential: dict[str, Any]
) -> None:
    post(rest, "/company/", slug="other", name="Other")
    foreign = post(
        rest, "/credential/", company="other", credential_type="Bank", name="Theirs",
        values={"BANK_USER": "x"},
    )  # fmt: skip
    at = f"/runtemplate/{requiring_template['id']}.json"
    given = [foreign["id"], "Theirs", 999, "Main", credential["id"]]
    refused_ = post(rest, at, 400, credentials=given)
    pointers = [one["pointer"] for one in refused_["details"]]
    assert pointers == [f"/credentials/{place}" for place in (0, 1, 2, 4)]
    post(rest, at, credentials=["Main"])
    assert post(rest, at, 400, company="other")["details"][0]["pointer"] == "/credentials"
    post(rest, at, company="other", credentials=[])


def test_assignments_are_audited_and_keep_a_credential_from_going(
    rest: httpx.Client,
    ledger: Ledger,
    requiring_template: dict[str, Any],
    credential: dict[str, Any],
) -> None:
    at, own = (
        f"/runtemplate/{requiring_template['id']}.json",
        f"/credential/{credential['id']}.json",
    )
    post(rest, at, credentials=["Main"])
    post(rest, at, credentials=["Main"])
    gone = rest.delete(own)
    assert gone.status_code == 409
    assert f"run template {requiring_template['id']}" in gone.json()["message"]
    post(rest, at, credentials=[])
    assert rest.delete(own).status_code == 200
    assert [one.action for one in entries(ledger, "RunTemplateCredential")] == ["create", "delete"]
    assert (
        entries(ledger, "RunTemplateCredential")[0].company_id == requiring_template["company_id"]
    )


def test_values_are_held_to_the_fields_of_the_type_all_errors_at_once(
    rest: httpx.Client, requiring_template: dict[str, Any], bank: dict[str, Any]
) -> None:
    values = {"BANK_PORT": "many", "BANK_MODE": "dead", "NOBODY": 1, "BANK_PIN": "fine-enough"}
    details = post(
        rest, "/credential/", 400, company="acme", credential_type="Bank", name="Bad", values=values
    )["details"]
    assert {one["pointer"]: one["rule"] for one in details} == {
        "/values/BANK_PORT": "type",
        "/values/BANK_MODE": "enum",
        "/values/NOBODY": "unknown",
        "/values/BANK_USER": "required",
    }


def test_a_credential_is_made_empty_and_filled_then_and_keeps_what_is_required(
    rest: httpx.Client, requiring_template: dict[str, Any], bank: dict[str, Any]
) -> None:
    made = post(rest, "/credential/", company="acme", credential_type="Bank", name="Later")
    assert len(made["warnings"]) == 2
    own = f"/credential/{made['id']}.json"
    assert len(post(rest, own, values={"BANK_PIN": BANK_PIN})["warnings"]) == 1
    assert "warnings" not in post(rest, own, values={"BANK_USER": "anna"})
    details = post(rest, own, 400, values={"BANK_USER": None, "BANK_PIN": None})["details"]
    assert {one["pointer"] for one in details} == {"/values/BANK_USER", "/values/BANK_PIN"}


@pytest.mark.parametrize("again", ["", "********"])
def test_a_blank_or_masked_secret_keeps_the_old_one(
    rest: httpx.Client, ledger: Ledger, credential: dict[str, Any], again: str
) -> None:
    own = f"/credential/{credential['id']}.json"
    shown = post(rest, own, values={"BANK_PIN": again, "BANK_USER": "eva"})
    assert shown["values"] == {"BANK_PIN": "********", "BANK_USER": "eva"}
    stored = fetch(ledger, Credential, credential["id"])
    assert ledger.box.open(stored.secrets) == {"BANK_PIN": BANK_PIN}


def test_a_field_that_becomes_secret_has_its_values_sealed(
    rest: httpx.Client, ledger: Ledger, bank: dict[str, Any], credential: dict[str, Any]
) -> None:
    fields = [
        {**one, "type": "secret"} if one["keyword"] == "BANK_USER" else one
        for one in BANK_TYPE["fields"]
    ]
    post(rest, f"/credential_type/{bank['id']}.json", fields=fields)
    stored = fetch(ledger, Credential, credential["id"])
    assert "anna" not in json.dumps([stored.values, stored.secrets])
    assert ledger.box.open(stored.secrets)["BANK_USER"] == "anna"


def test_secrets_are_revealed_with_an_audit_entry(
    rest: httpx.Client, ledger: Ledger, credential: dict[str, Any]
) -> None:
    shown = post(rest, f"/credential/{credential['id']}/reveal.json", 200)
    assert shown["values"] == {"BANK_PIN": BANK_PIN, "BANK_USER": "anna"}
    entry = entries(ledger, "Credential")[-1]
    assert (entry.action, entry.actor, entry.entity_id) == ("reveal", "root", credential["id"])
    assert BANK_PIN not in json.dumps(entry.changes)


def test_types_have_names_in_several_languages_and_bad_ones_are_refused(
    rest: httpx.Client, bank: dict[str, Any]
) -> None:
    assert (bank["name"], bank["translations"]) == ("Bank", {"name": BANK_TYPE["name"]})
    faults = post(
        rest, "/credential_type/", 400, code="Bad", name="Bad",
        fields=[{"keyword": "A"}, {"keyword": "A"}, {"keyword": "LD_PRELOAD"},
                {"keyword": "P", "type": "password"}],
        availability={"url": "http://{P}/"},
    )["details"]  # fmt: skip
    assert [(one["pointer"], one["rule"]) for one in faults] == [
        ("/fields/1/keyword", "duplicate"),
        ("/fields/2/keyword", "name"),
        ("/availability/url", "placeholder"),
    ]
    command = {"command": ["/bin/sh", "-c", "id"]}
    refused_ = post(rest, f"/credential_type/{bank['id']}.json", 400, availability=command)
    assert "JOBAUTO_AVAILABILITY_COMMANDS" in refused_["details"][0]["message"]


def test_a_launch_waits_until_what_its_credential_opens_is_there(
    rest: httpx.Client,
    claims: httpx.Client,
    ledger: Ledger,
    requiring_template: dict[str, Any],
    bank: dict[str, Any],
    credential: dict[str, Any],
    facade_url: str,
) -> None:
    check = {
        "url": f"{facade_url}/api/v1/{{BANK_USER}}",
        "retry_seconds": 90,
        "timeout_seconds": 10,
    }
    post(rest, f"/credential_type/{bank['id']}.json", availability=check)
    post(rest, f"/runtemplate/{requiring_template['id']}.json", credentials=["Main"])
    claim = claim_of()
    before = datetime.now(UTC)
    answer = claims.post("/claims", json=claim).json()["refusal"]
    assert (answer["reason"], answer["story"]["state"]) == ("not_available", "SCHEDULED")
    assert "Main is not available yet: 127.0.0.1 answers 401" in answer["story"]["message"]
    again = datetime.fromisoformat(answer["story"]["at"])
    assert timedelta(seconds=89) < again - before < timedelta(seconds=120)
    post(rest, f"/credential/{credential['id']}.json", values={"BANK_USER": "ping"})
    assert granted(claims, claim)["environment"]["BANK_USER"] == "ping"


def test_a_check_may_not_look_where_nobody_may(
    rest: httpx.Client,
    claims: httpx.Client,
    requiring_template: dict[str, Any],
    bank: dict[str, Any],
    credential: dict[str, Any],
) -> None:
    own = f"/credential_type/{bank['id']}.json"
    check = {"url": "http://169.254.169.254/latest/meta-data"}
    (fault,) = post(rest, own, 400, availability=check)["details"]
    assert fault["pointer"] == "/availability/url"
    post(rest, own, availability={"url": "http://{BANK_USER}/latest"})
    evil = {"BANK_USER": "169.254.169.254"}
    (fault,) = post(rest, f"/credential/{credential['id']}.json", 400, values=evil)["details"]
    assert fault["pointer"] == "/values/BANK_USER"
    # A name is judged by the address it leads to, each time it is asked.
    post(rest, f"/credential/{credential['id']}.json", values={"BANK_USER": "2852039166"})
    post(rest, f"/runtemplate/{requiring_template['id']}.json", credentials=["Main"])
    reason, state, message = refused(claims, claim_of())
    assert (reason, state) == ("not_available", "SCHEDULED")
    assert "169.254.169.254 can't be" in message


def test_a_job_that_waits_says_why_until_it_starts(
    rest: httpx.Client,
    claims: httpx.Client,
    ledger: Ledger,
    requiring_template: dict[str, Any],
    bank: dict[str, Any],
    credential: dict[str, Any],
    facade_url: str,
) -> None:
    check = {"url": f"{facade_url}/api/v1/{{BANK_USER}}", "timeout_seconds": 10}
    post(rest, f"/credential_type/{bank['id']}.json", availability=check)
    post(rest, f"/runtemplate/{requiring_template['id']}.json", credentials=["Main"])
    job = post(rest, "/job/", runtemplate_id=requiring_template["id"])
    run = uuid4()
    with ledger.writing(SERVICE) as session:
        session.get_one(Job, job["id"]).flow_run_id = run
    claim = claim_of(flow_run_id=run, auto_scheduled=False, scheduled_for=None)
    for _ in range(2):
        assert refused(claims, claim)[0] == "not_available"
    own = f"/job/{job['id']}.json"
    waiting = rest.get(own).json()
    assert (waiting["state"], waiting["message"]) == (
        "scheduled",
        "Main is not available yet: 127.0.0.1 answers 401",
    )
    written = [one for one in entries(ledger, "Job") if "message" in one.changes]
    assert len(written) == 1
    post(rest, f"/credential/{credential['id']}.json", values={"BANK_USER": "ping"})
    assert granted(claims, claim)["job_id"] == job["id"]
    assert rest.get(own).json()["message"] is None


def test_blocks_wait_for_prefect_and_only_administrators_name_them(
    rest: httpx.Client,
    claims: httpx.Client,
    requiring_template: dict[str, Any],
    credential: dict[str, Any],
) -> None:
    blocks = [{"block": "secret/api-key", "env": {"GREETING": "value"}}]
    shown = post(
        rest, f"/runtemplate/{requiring_template['id']}.json", blocks=blocks, credentials=["Main"]
    )
    assert shown["blocks"] == blocks
    reason, state, message = refused(claims, claim_of())
    assert (reason, state) == ("not_available", "SCHEDULED")
    assert "secret/api-key can't be read" in message


def test_secrets_too_short_to_be_looked_for_are_warned_of(
    rest: httpx.Client, requiring_template: dict[str, Any], credential: dict[str, Any]
) -> None:
    at = f"/runtemplate/{requiring_template['id']}.json"
    answers = [
        post(rest, at, credentials=["Main"], env={"PASSWORD": "abc"}),
        post(rest, f"/company/{requiring_template['company_id']}.json", env={"PASSWORD": "abc"}),
        post(rest, "/job/", runtemplate_id=requiring_template["id"], env={"PASSWORD": "abc"}),
        post(rest, f"/credential/{credential['id']}.json", values={"BANK_PIN": "abc"}),
    ]
    for answer in answers:
        assert [one["rule"] for one in answer["warnings"]] == ["short_secret"]
    assert "warnings" not in post(rest, at, env={"PASSWORD": "long enough"})
