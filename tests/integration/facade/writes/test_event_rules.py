"""What a rule may say."""

from typing import Any

import httpx
import pytest

from tests.support.definitions import PROBE
from tests.support.records import errors


@pytest.fixture
def source(rest: httpx.Client) -> int:
    answer = rest.post("/eventsource/", json={"name": "erp", "db_database": "adapter"})
    number: int = answer.json()["id"]
    return number


def test_a_mapping_that_can_not_work_is_refused_with_every_error(
    rest: httpx.Client, template: dict[str, Any], source: int
) -> None:
    mapping = {
        "GREETING": "nosuchfield",
        "NO_SUCH_KEY": "recordid",
        "COUNT": "a..b",
        "LOUD": "$.any.path[0]",
        "PASSWORD": "=constant",
        "TARGET": "$.items[",
    }
    body = {
        "event_source_id": source,
        "runtemplate_id": template["id"],
        "env_mapping": mapping,
    }
    refusals = errors(rest.post("/eventrule/", json=body))
    wrong = ("GREETING", "NO_SUCH_KEY", "COUNT", "TARGET")
    assert set(refusals) == {f"/env_mapping/{key}" for key in wrong}
    assert "RFC 9535" in refusals["/env_mapping/TARGET"]
    assert "recordid" in refusals["/env_mapping/GREETING"]
    assert "GREETING" in refusals["/env_mapping/NO_SUCH_KEY"]
    assert rest.get("/eventrules.json").json() == {}


def test_rules_that_go_round_are_refused_with_the_way(
    rest: httpx.Client, template: dict[str, Any]
) -> None:
    numbers = [template["id"]]
    for name in ("second", "third"):
        body = {"app_id": template["app_id"], "company": "acme", "name": name}
        numbers.append(rest.post("/runtemplate/", json=body).json()["id"])
    first, second, third = numbers

    def chain(source: int, target: int, **members: Any) -> httpx.Response:
        body = {"runtemplate_source_id": source, "runtemplate_id": target, **members}
        return rest.post("/eventrule/", json=body)

    assert "/runtemplate_id" in errors(chain(first, first))
    assert chain(first, second).status_code == 201
    rule = chain(second, third, enabled=False).json()
    refusal = errors(chain(third, first))["/runtemplate_id"]
    assert "acme/third → acme/daily → acme/second → acme/third" in refusal
    rest.delete(f"/eventrule/{rule['id']}.json")
    assert chain(third, first).status_code == 201


EXPORT = PROBE | {
    "produces": {
        "bills": {"format": "json", "fields": {"greeting": {"type": "string"}}},
    },
    "events": {"emits": {"bill.written": {"evidence": "bill"}}},
}
PROCESS = PROBE | {
    "uuid": "6a2c6d4e-30e4-4f6b-9d6e-7c8ad9f2b002",
    "name": "Process",
    "events": {
        "consumes": {
            "bill.written": {"description": {"en": "A bill is there"}},
            "customer.created": {},
            "never.heard.of": {},
        }
    },
}


def test_rules_and_mappings_are_offered_and_not_made(
    rest: httpx.Client, template: dict[str, Any], source: int
) -> None:
    rest.post("/app/", json=EXPORT | {"version": "99.0"}).raise_for_status()
    process = rest.post("/app/", json=PROCESS).raise_for_status().json()["id"]
    body = {"app_id": process, "company": "acme", "name": "process"}
    target = rest.post("/runtemplate/", json=body).raise_for_status().json()["id"]
    export = template["app_id"]

    asked = {"source_app_id": export}
    found = rest.get(f"/app/{process}/mapping.json", params=asked).raise_for_status().json()
    assert found["env_mapping"] == {"GREETING": "bills.greeting"}
    assert found["flows"] == {}
    assert "exitcode" in found["selectors"]["COUNT"]
    assert rest.get(f"/app/{process}/mapping.json").status_code == 400
    assert rest.get("/app/999/mapping.json", params=asked).status_code == 404
    selectors = rest.get(f"/app/{export}.json").json()["rule_selectors"]
    assert {"selector": "@file:bills", "type": "file", "description": ""} in selectors
    # What was read can be written back.
    record = rest.get(f"/app/{export}.json").json()
    written = rest.post("/app/", json=record).raise_for_status().json()
    assert "rule_selectors" not in rest.get(f"/app/{written['id']}/definition.json").json()

    path = f"/runtemplate/{target}/suggestions.json"
    after, change = rest.get(path).raise_for_status().json()["suggestions"]
    assert after == {
        "event": "bill.written",
        "description": "A bill is there",
        "rule": {
            "runtemplate_source_id": template["id"],
            "runtemplate_id": target,
            "env_mapping": {"GREETING": "bills.greeting"},
        },
    }
    assert change["rule"] == {
        "event_source_id": source,
        "runtemplate_id": target,
        "evidence": "customer",
        "operation": "create",
        "env_mapping": {"TARGET": "target"},
    }
    assert rest.get("/eventrules.json").json() == {}
    for one in (after, change):
        assert rest.post("/eventrule/", json=one["rule"]).status_code == 201
    assert rest.get(path).json() == {"suggestions": []}


def test_a_path_that_is_no_json_path_is_refused_with_its_definition(rest: httpx.Client) -> None:
    def written(path: str) -> httpx.Response:
        fields = {"ids": {"type": "integer", "path": path}}
        produces = {"bills": {"format": "json", "fields": fields}}
        return rest.post("/app/", json=PROBE | {"produces": produces})

    assert set(errors(written("$.items["))) == {"/produces/bills/fields/ids/path"}
    assert "begins with $" in errors(written("items"))["/produces/bills/fields/ids/path"]
    assert written("$.items[*].id").status_code == 201
