"""Credentials as Prefect's blocks: a real facade and a real Prefect."""

import asyncio
import json
from typing import Any
from uuid import uuid4

import httpx
import pytest

from jobauto_prefect.engine.api import PrefectApi
from jobauto_prefect.engine.context import EngineContext
from jobauto_prefect.engine.outbox_worker import OutboxWorker
from jobauto_prefect.engine.sync.credentials import BlockComparison
from jobauto_prefect.engine.sync.drift_monitor import correct_all
from jobauto_prefect.ledger.records import Credential, CredentialType, RunTemplate
from jobauto_prefect.ledger.store import Ledger
from jobauto_prefect.settings import Settings
from tests.support.claims import claim_of, granted, refused, start_workers
from tests.support.ledger_rows import entries, fetch, has_no_messages
from tests.support.records import BANK_PIN, BANK_TYPE, make_template, post
from tests.support.secrets import secret
from tests.support.servers import client, reach_prefect, worker_token
from tests.support.waits import eventually

SECRET_OF_OTHERS = secret("s3cret-of-others")


@pytest.fixture
def facade_settings(facade_settings: Settings, prefect_server: str) -> Settings:
    return reach_prefect(facade_settings, prefect_server)


@pytest.fixture
def company(rest: httpx.Client) -> str:
    """Another one for each test: the tests share a Prefect."""
    slug = f"acme-{uuid4().hex[:6]}"
    post(rest, "/company/", slug=slug, name="Acme")
    return slug


def make(rest: httpx.Client, company: str, **kind: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    code = f"Bank_{uuid4().hex[:6]}"
    of_type = post(
        rest, "/credential_type/", **(BANK_TYPE | {"code": code, "name": "Prefect/Bank"} | kind)
    )
    values = {"BANK_USER": "anna", "BANK_PIN": BANK_PIN}
    members = {"company": company, "credential_type": code, "name": "Main & co", "values": values}
    return of_type, post(rest, "/credential/", **members)


def held(ledger: Ledger, kind: Any, number: int) -> Any:
    return fetch(ledger, kind, number)


def block(prefect: httpx.Client, ledger: Ledger, credential: dict[str, Any]) -> dict[str, Any]:
    known = held(ledger, Credential, credential["id"]).block_document_id
    found: dict[str, Any] = prefect.get(
        f"/block_documents/{known}", params={"include_secrets": True}
    ).json()
    return found


def test_a_credential_is_a_block_without_its_secrets_and_goes_with_its_record(
    rest: httpx.Client, prefect: httpx.Client, ledger: Ledger, company: str
) -> None:
    of_type, credential = make(rest, company, logo="https://bank.example/logo.png")
    eventually(lambda: has_no_messages(ledger))
    found = block(prefect, ledger, credential)
    assert found["name"] == f"{company}-main-co-{credential['id']}"
    assert found["data"] == {
        "BANK_USER": "anna",
        "jobauto_credential": found["data"]["jobauto_credential"],
    }
    assert found["data"]["jobauto_credential"].endswith(f"/console/credentials/{credential['id']}")
    assert BANK_PIN not in json.dumps(found)
    kind, schema = found["block_type"], found["block_schema"]["fields"]
    assert kind["name"] == f"jobauto Prefect-Bank ({of_type['code']})"
    assert kind["logo_url"] == "https://bank.example/logo.png"
    assert schema["properties"]["BANK_PORT"]["type"] == "integer"
    assert schema["properties"]["BANK_MODE"]["enum"] == ["live", "test"]
    assert "BANK_PIN" not in schema["properties"]
    post(rest, f"/credential/{credential['id']}.json", values={"BANK_USER": "eva"})
    eventually(lambda: has_no_messages(ledger))
    changed = block(prefect, ledger, credential)
    assert (changed["id"], changed["data"]["BANK_USER"]) == (found["id"], "eva")
    rest.delete(f"/credential/{credential['id']}.json")
    rest.delete(f"/credential_type/{of_type['id']}.json")
    eventually(lambda: has_no_messages(ledger))
    assert prefect.get(f"/block_documents/{found['id']}").status_code == 404
    assert prefect.get(f"/block_types/{kind['id']}").status_code == 404


def test_a_renamed_type_is_another_block_type_with_the_same_credentials(
    rest: httpx.Client, prefect: httpx.Client, ledger: Ledger, company: str
) -> None:
    of_type, credential = make(rest, company)
    eventually(lambda: has_no_messages(ledger))
    before = held(ledger, CredentialType, of_type["id"]).block_type_id
    post(rest, f"/credential_type/{of_type['id']}.json", name="Savings")
    eventually(lambda: has_no_messages(ledger))
    found = block(prefect, ledger, credential)
    assert found["block_type"]["name"] == f"Savings ({of_type['code']})"
    assert prefect.get(f"/block_types/{before}").status_code == 404


def test_types_and_credentials_that_are_renamed_to_and_fro_keep_one_block(
    rest: httpx.Client, prefect: httpx.Client, ledger: Ledger, company: str
) -> None:
    of_type, credential = make(rest, company)
    eventually(lambda: has_no_messages(ledger))
    for kind, name in [("Savings", "Other"), (of_type["name"], "Main & co")] * 8:
        post(rest, f"/credential_type/{of_type['id']}.json", name=kind)
        post(rest, f"/credential/{credential['id']}.json", name=name)
    eventually(lambda: has_no_messages(ledger))
    found = block(prefect, ledger, credential)
    assert found["name"] == f"{company}-main-co-{credential['id']}"
    code = of_type["code"]
    kinds = prefect.post("/block_types/filter", json={"block_types": {"name": {"like_": code}}})
    assert [kind["name"] for kind in kinds.json()] == [f"jobauto Prefect-Bank ({code})"]
    wanted = {"block_type_id": {"any_": [kinds.json()[0]["id"]]}}
    blocks = prefect.post("/block_documents/filter", json={"block_documents": wanted}).json()
    assert [one["id"] for one in blocks] == [found["id"]]


def test_a_block_type_that_somebody_deletes_in_prefect_is_made_again_with_its_blocks(
    rest: httpx.Client, prefect: httpx.Client, prefect_server: str, ledger: Ledger,
    facade_settings: Settings, company: str,
) -> None:  # fmt: skip
    of_type, credential = make(rest, company)
    eventually(lambda: has_no_messages(ledger))
    before = held(ledger, CredentialType, of_type["id"]).block_type_id
    prefect.delete(f"/block_types/{before}").raise_for_status()

    async def correct() -> list[tuple[str, int]]:
        async with PrefectApi(prefect_server) as api:
            context = EngineContext(ledger, api, facade_settings)
            corrections = await correct_all(context)
            await OutboxWorker(context).handle_all()
            return [(one.kind, one.id) for one in corrections]

    assert ("credtype", of_type["id"]) in asyncio.run(correct())
    found = block(prefect, ledger, credential)
    assert found["block_type"]["name"] == f"jobauto Prefect-Bank ({of_type['code']})"
    assert found["block_type_id"] == str(held(ledger, CredentialType, of_type["id"]).block_type_id)


def test_what_a_credential_provides_is_no_parameter(
    rest: httpx.Client, prefect: httpx.Client, ledger: Ledger
) -> None:
    made = make_template(rest, name=f"t-{uuid4().hex[:6]}", env={"GREETING": "hi"})
    code = f"Greeter_{uuid4().hex[:6]}"
    fields = [{"keyword": "COUNT", "type": "integer"}, {"keyword": "GREETING"}]
    post(rest, "/credential_type/", code=code, name="Greeter", fields=fields)
    values = {"COUNT": 7, "GREETING": "hello"}
    post(rest, "/credential/", company="acme", credential_type=code, name="G", values=values)
    eventually(lambda: has_no_messages(ledger))
    at = f"/runtemplate/{made['id']}.json"
    post(rest, at, credentials=["G"])
    eventually(lambda: has_no_messages(ledger))
    deployment_id = held(ledger, RunTemplate, made["id"]).deployment_id
    deployment = prefect.get(f"/deployments/{deployment_id}").json()
    assert "COUNT" not in deployment["parameters"]
    assert "COUNT" not in deployment["parameter_openapi_schema"]["properties"]
    assert deployment["parameters"]["GREETING"] == "hi"  # the run template's own goes over it


def test_what_somebody_changes_in_prefect_is_put_back_and_audited(
    rest: httpx.Client, prefect: httpx.Client, prefect_server: str, ledger: Ledger,
    facade_settings: Settings, company: str,
) -> None:  # fmt: skip
    _, changed = make(rest, company)
    other = post(rest, "/company/", slug=f"{company}-2", name="Other")
    _, deleted = make(rest, other["slug"])
    eventually(lambda: has_no_messages(ledger))
    before = block(prefect, ledger, changed)
    prefect.patch(
        f"/block_documents/{before['id']}",
        json={"data": {"BANK_USER": "mallory-9"}, "merge_existing_data": True},
    ).raise_for_status()
    prefect.delete(f"/block_documents/{held(ledger, Credential, deleted['id']).block_document_id}")

    async def look() -> tuple[list[int], list[int]]:
        async with PrefectApi(prefect_server) as api:
            context = EngineContext(ledger, api, facade_settings)
            comparison = BlockComparison(context)
            found, _ = await comparison.correct()
            await OutboxWorker(context).handle_all()
            again, _ = await comparison.correct()
            return [one.id for one in found], [one.id for one in again]

    assert asyncio.run(look()) == ([changed["id"], deleted["id"]], [])
    assert block(prefect, ledger, changed)["data"] == before["data"]
    assert block(prefect, ledger, deleted)["data"]["BANK_USER"] == "anna"
    told = [
        one for one in entries(ledger, "Credential") if "differed in Prefect" in str(one.changes)
    ]
    assert [one.entity_id for one in told] == [changed["id"], deleted["id"]]
    assert "mallory" not in str([one.changes for one in told])


def test_values_of_other_peoples_blocks_are_given_to_jobs(
    rest: httpx.Client, prefect: httpx.Client, ledger: Ledger, facade_settings: Settings
) -> None:
    made = make_template(rest, name=f"t-{uuid4().hex[:6]}")
    start_workers(ledger, facade_settings.pool)
    token = worker_token(ledger, facade_settings.pool)
    claims = client(f"{facade_settings.url}/internal/v1", token)
    name = f"key-{uuid4().hex[:6]}"
    kind = prefect.get("/block_types/slug/secret").json()
    asked = {"block_schemas": {"block_type_id": {"any_": [kind["id"]]}}}
    schema = prefect.post("/block_schemas/filter", json=asked).json()[0]
    prefect.post(
        "/block_documents/",
        json={"name": name, "block_type_id": kind["id"], "block_schema_id": schema["id"],
              "data": {"value": SECRET_OF_OTHERS}},
    ).raise_for_status()  # fmt: skip
    at = f"/runtemplate/{made['id']}.json"
    post(rest, at, blocks=[{"block": f"secret/{name}", "env": {"GREETING": "value"}}])
    eventually(lambda: held(ledger, RunTemplate, made["id"]).deployment_id)
    eventually(lambda: has_no_messages(ledger))
    deployment = str(held(ledger, RunTemplate, made["id"]).deployment_id)
    launch = granted(claims, claim_of(deployment_id=deployment))
    assert launch["environment"]["GREETING"] == SECRET_OF_OTHERS
    assert SECRET_OF_OTHERS in launch["secrets"]
    assert SECRET_OF_OTHERS not in rest.get(f"/job/{launch['job_id']}.json").text
    post(rest, at, blocks=[{"block": f"secret/{name}", "env": {"GREETING": "nothing.there"}}])
    reason, state, message = refused(claims, claim_of(deployment_id=deployment))
    assert (reason, state) == ("missing_block", "FAILED")
    assert "has no nothing.there" in message
    post(rest, at, blocks=[{"block": "secret/none-such", "env": {"GREETING": "value"}}])
    assert "no block secret/none-such" in refused(claims, claim_of(deployment_id=deployment))[2]
