"""Which names of values are taken, from whom, and what becomes of those that are there already."""

from typing import Any

import httpx
import pytest

from jobauto_prefect.console_addresses import CONTRACT
from jobauto_prefect.facade.compat.translation import PREFIXES
from jobauto_prefect.ledger.audit.trail import SERVICE
from jobauto_prefect.ledger.records import Company, CredentialType, Job, RunTemplate
from jobauto_prefect.ledger.store import Ledger
from jobauto_prefect.settings import Settings
from tests.support.claims import DEPLOYMENT, claim_of, granted, own_run_of, report
from tests.support.definitions import PROBE
from tests.support.ledger_rows import fetch_all
from tests.support.records import errors, ok
from tests.support.secrets import secret
from tests.support.servers import client, user_token

FAMILIES = ["BASH_ENV", "BASH_FUNC_x%%", "PERL5OPT", "NODE_OPTIONS", "GCONV_PATH", "http_proxy"]
BANK = {
    "code": "Bank",
    "name": "Bank",
    "fields": [{"keyword": "BANK_USER"}, {"keyword": "BANK_PIN", "type": "password"}],
}


@pytest.fixture
def facade_settings(facade_settings: Settings) -> Settings:
    """Settings of a service whose administrator adds names."""
    return facade_settings.model_copy(update={"extra_env": ("TRACE_ID", "LD_PRELOAD")})


@pytest.fixture
def bare_template(rest: httpx.Client, ledger: Ledger) -> dict[str, Any]:
    """A template that Prefect knows by a deployment."""
    rest.post("/app/", json=PROBE).raise_for_status()
    rest.post("/company/", json={"slug": "acme", "name": "Acme"}).raise_for_status()
    body = {"company": "acme", "app_uuid": PROBE["uuid"], "name": "One"}
    made: dict[str, Any] = rest.post("/runtemplate/", json=body).raise_for_status().json()
    with ledger.writing(SERVICE) as session:
        session.get_one(RunTemplate, made["id"]).deployment_id = DEPLOYMENT
    return made


@pytest.mark.parametrize("address", [CONTRACT, PREFIXES[0]])
def test_jobs_retries_and_templates_give_declared_names_only(
    facade_url: str, rest: httpx.Client, ledger: Ledger, bare_template: dict[str, Any], address: str
) -> None:
    job = rest.post("/job/", json={"runtemplate_id": bare_template["id"]}).json()
    rest.post("/job/", json={"id": job["id"], "state": "cancelled"}).raise_for_status()
    env = {"GREETNG": "hi", "COUNT": 4, **dict.fromkeys(FAMILIES, "$(touch /tmp/x)")}
    with client(f"{facade_url}{address}", user_token(ledger, "chief")) as http:
        for path, body in (
            ("/job/", {"runtemplate_id": bare_template["id"]}),
            ("/job/", {"retry_of": job["id"]}),
            (f"/runtemplate/{bare_template['id']}.json", {}),
            (
                "/runtemplate/",
                {"app_id": bare_template["app_id"], "company": "acme", "name": "Two"},
            ),
        ):
            found = errors(http.post(path, json=body | {"env": env}))
            assert {*found} == {f"/env/{name}" for name in env if name != "COUNT"}
            assert "did you mean 'GREETING'?" in found["/env/GREETNG"]
            assert all("only a definition" in found[f"/env/{name}"] for name in FAMILIES)


def test_values_have_a_length_and_so_have_all_of_a_record(
    rest: httpx.Client, bare_template: dict[str, Any]
) -> None:
    many = dict.fromkeys(["GREETING", "TARGET", "COMPANY_TOWN"], "x" * 90_000)
    for path, body in (
        ("/job/", {"runtemplate_id": bare_template["id"]}),
        (f"/runtemplate/{bare_template['id']}.json", {}),
        ("/company/", {"slug": "acme"}),
    ):
        for env, place in (({"GREETING": "x" * 100_001}, "/env/GREETING"), (many, "/env")):
            assert [*errors(rest.post(path, json=body | {"env": env}))] == [place], path


def test_a_rule_maps_declared_names_only(rest: httpx.Client, bare_template: dict[str, Any]) -> None:
    body = {"runtemplate_source_id": bare_template["id"], "runtemplate_id": bare_template["id"]}
    mapping = {"GREETNG": "=x", "BASH_ENV": "=x", "TRACE_ID": "=x"}
    found = errors(rest.post("/eventrule/", json=body | {"env_mapping": mapping}))
    assert {*found} == {"/env_mapping/GREETNG", "/env_mapping/BASH_ENV"}
    assert "did you mean 'GREETING'?" in found["/env_mapping/GREETNG"]


def test_the_names_of_the_setting_are_taken_but_for_those_that_only_a_definition_admits(
    rest: httpx.Client, claims: httpx.Client, ledger: Ledger, bare_template: dict[str, Any]
) -> None:
    assert rest.get("/status.json").json()["extra_env"] == ["TRACE_ID", "LD_PRELOAD"]
    body = {"runtemplate_id": bare_template["id"], "env": {"TRACE_ID": "7", "LD_PRELOAD": "x.so"}}
    assert {*errors(rest.post("/job/", json=body))} == {"/env/LD_PRELOAD"}
    del body["env"]["LD_PRELOAD"]
    job = rest.post("/job/", json=body).raise_for_status().json()
    launch = granted(claims, own_run_of(ledger, job["id"]))
    assert launch["environment"]["TRACE_ID"] == "7"
    assert launch["notices"] == []


def test_values_of_a_company_reach_those_who_declare_them(
    rest: httpx.Client, claims: httpx.Client, bare_template: dict[str, Any]
) -> None:
    found = errors(rest.post("/company/", json={"slug": "acme", "env": {"PS4": "$(id)"}}))
    assert {*found} == {"/env/PS4"}
    env = {"GREETING": "of the company", "OTHERS": "x"}
    rest.post("/company/", json={"slug": "acme", "env": env}).raise_for_status()
    launch = granted(claims, claim_of())
    assert launch["environment"]["GREETING"] == "of the company"
    assert "OTHERS" not in launch["environment"]
    assert launch["notices"] == []


@pytest.mark.parametrize("requirements", [["bank"], []])
def test_credentials_give_the_fields_of_a_type_that_is_required_or_what_is_declared(
    rest: httpx.Client, claims: httpx.Client, bare_template: dict[str, Any], requirements: list[str]
) -> None:
    of_greeting = {"fields": [*BANK["fields"], {"keyword": "GREETING"}]}
    rest.post("/credential_type/", json=BANK | of_greeting).raise_for_status()
    values = {"BANK_USER": "anna", "BANK_PIN": secret("pin"), "GREETING": "of the bank"}
    body = {"company": "acme", "credential_type": "Bank", "name": "Main", "values": values}
    rest.post("/credential/", json=body).raise_for_status()
    rest.post("/app/", json=PROBE | {"requirements": requirements}).raise_for_status()
    body = {"id": bare_template["id"], "credentials": ["Main"]}
    assigned = rest.post("/runtemplate/", json=body).raise_for_status().json()
    warned = [fault["message"] for fault in assigned.get("warnings", [])]
    launch = granted(claims, claim_of())
    given = {name: launch["environment"].get(name) for name in values}
    if requirements:
        assert given == values
        assert warned == []
    else:
        assert "jobs do not get BANK_USER, BANK_PIN" in warned[0]
        assert given == {"BANK_USER": None, "BANK_PIN": None, "GREETING": "of the bank"}
        assert "BANK_PIN, BANK_USER" in launch["notices"][0]


@pytest.mark.parametrize("name", ["GIT_SSH_COMMAND", "HOME", "TMPDIR", "SHELLOPTS"])
def test_a_field_of_a_credential_type_has_no_such_name(rest: httpx.Client, name: str) -> None:
    answer = rest.post("/credential_type/", json=BANK | {"fields": [{"keyword": name}]})
    assert "only a definition may declare it" in errors(answer)["/fields/0/keyword"]


def test_what_a_definition_declares_everybody_may_give(
    rest: httpx.Client, claims: httpx.Client, ledger: Ledger, bare_template: dict[str, Any]
) -> None:
    declaring = PROBE["environment"] | {"TMPDIR": {}, "HTTP_PROXY": {}}
    rest.post("/app/", json=PROBE | {"environment": declaring}).raise_for_status()
    body = {"runtemplate_id": bare_template["id"], "env": {"TMPDIR": "/big", "HTTP_PROXY": "x:1"}}
    launch = granted(claims, own_run_of(ledger, ok(rest.post("/job/", json=body), 201)["id"]))
    assert launch["environment"]["TMPDIR"] == "/big"
    assert launch["environment"]["HTTP_PROXY"] == "x:1"


def stored(ledger: Ledger, bare_template: dict[str, Any]) -> None:
    """Values as they could be stored before names were looked at."""
    with ledger.writing(SERVICE) as session:
        record = session.get_one(RunTemplate, bare_template["id"])
        record.env = {"GREETING": "hi", "LOGLEVEL": "9", "BASH_ENV": "$(id)"}
        session.get_one(Company, bare_template["company_id"]).env = {"BASH_ENV": "$(id)"}


def test_stored_values_under_other_names_stay_until_their_next_write(
    rest: httpx.Client, ledger: Ledger, bare_template: dict[str, Any]
) -> None:
    stored(ledger, bare_template)
    path = f"/runtemplate/{bare_template['id']}.json"
    assert rest.get(path).json()["env"]["LOGLEVEL"] == "9"
    assert rest.post(path, json={"active": False}).status_code == 201
    found = errors(rest.post(path, json={"env": {"GREETING": "ho"}}))
    assert {*found} == {"/env/LOGLEVEL", "/env/BASH_ENV"}
    env = {"GREETING": "ho", "LOGLEVEL": None, "BASH_ENV": None}
    assert ok(rest.post(path, json={"env": env}), 201)["env"] == {"GREETING": "ho"}
    assert rest.post("/company/", json={"slug": "acme", "email": "x@y.example"}).is_success
    found = errors(rest.post("/company/", json={"slug": "acme", "env": {"X": "1"}}))
    assert {*found} == {"/env/BASH_ENV"}


def test_stored_values_under_other_names_are_left_out_at_the_claim_and_the_job_says_so(
    rest: httpx.Client, claims: httpx.Client, ledger: Ledger, bare_template: dict[str, Any]
) -> None:
    stored(ledger, bare_template)
    job = rest.post("/job/", json={"runtemplate_id": bare_template["id"]}).json()
    with ledger.writing(SERVICE) as session:
        waiting = session.get_one(Job, job["id"])
        waiting.overrides = {"COUNT": "4", "PERL5OPT": "-Mevil"}
        waiting.override_secrets = ledger.box.seal({"LD_AUDIT": secret("evil.so")})
    launch = granted(claims, own_run_of(ledger, job["id"]))
    environment = launch["environment"]
    assert (environment["GREETING"], environment["COUNT"]) == ("hi", "4")
    left_out = ["BASH_ENV", "LD_AUDIT", "LOGLEVEL", "PERL5OPT"]
    assert not environment.keys() & {*left_out}
    assert ", ".join(left_out) in launch["notices"][0]
    assert secret("evil.so") not in launch["secrets"]
    shown = rest.get(f"/job/{job['id']}.json").json()
    assert shown["undeclared"] == left_out
    report(claims, launch, exit_code=8)  # which is tried again
    again = next(one for one in fetch_all(ledger, Job) if one.retry_of == job["id"])
    assert "PERL5OPT" in again.overrides
    launch = granted(claims, own_run_of(ledger, again.id))
    assert not launch["environment"].keys() & {*left_out}
    report(claims, launch)
    retried = rest.post("/job/", json={"retry_of": again.id}).raise_for_status().json()
    warned = {fault["pointer"] for fault in retried["warnings"]}
    assert warned == {"/env/LD_AUDIT", "/env/PERL5OPT"}
    assert {*retried["env"]} == {"COUNT"}


def test_stored_fields_with_such_names_are_given_to_no_job(
    rest: httpx.Client, claims: httpx.Client, ledger: Ledger, bare_template: dict[str, Any]
) -> None:
    type_ = rest.post("/credential_type/", json=BANK).raise_for_status().json()
    body = {"company": "acme", "credential_type": "Bank", "name": "Main"}
    made = rest.post("/credential/", json=body | {"values": {"BANK_USER": "a"}}).json()
    with ledger.writing(SERVICE) as session:
        session.get_one(CredentialType, type_["id"]).fields = [
            {"keyword": "BANK_USER", "type": "string", "required": False},
            {
                "keyword": "GIT_SSH_COMMAND",
                "type": "string",
                "required": False,
                "default_value": "evil",
            },
        ]
    rest.post("/app/", json=PROBE | {"requirements": ["Bank"]}).raise_for_status()
    body = {"id": bare_template["id"], "credentials": [made["id"]]}
    rest.post("/runtemplate/", json=body).raise_for_status()
    launch = granted(claims, claim_of())
    assert launch["environment"]["BANK_USER"] == "a"
    assert "GIT_SSH_COMMAND" not in launch["environment"]
    assert rest.get(f"/credential_type/{type_['id']}.json").is_success


def test_blocks_fill_declared_names_only(rest: httpx.Client, bare_template: dict[str, Any]) -> None:
    block = {"block": "secret/one", "env": {"GREETNG": "value", "PYTHONPATH": "value"}}
    found = errors(rest.post("/runtemplate/", json={"id": bare_template["id"], "blocks": [block]}))
    assert {*found} == {"/blocks/0/env/GREETNG", "/blocks/0/env/PYTHONPATH"}
