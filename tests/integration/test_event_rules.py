"""What a rule may say."""

from typing import Any

import httpx
import pytest

from tests.integration.test_claims import template

__all__ = ["template"]


@pytest.fixture
def source(rest: httpx.Client) -> int:
    answer = rest.post("/eventsource/", json={"name": "erp", "db_database": "adapter"})
    number: int = answer.json()["id"]
    return number


def faults(answer: httpx.Response) -> dict[str, str]:
    assert answer.status_code == 400, answer.text
    return {one["pointer"]: one["message"] for one in answer.json()["details"]}


def test_a_mapping_that_can_not_work_is_refused_with_every_fault(
    rest: httpx.Client, template: dict[str, Any], source: int
) -> None:
    mapping = {
        "GREETING": "nosuchfield",
        "NO_SUCH_KEY": "recordid",
        "COUNT": "a..b",
        "LOUD": "$.any.path[0]",
        "PASSWORD": "=constant",
    }
    body = {
        "event_source_id": source,
        "runtemplate_id": template["id"],
        "env_mapping": mapping,
    }
    said = faults(rest.post("/eventrule/", json=body))
    assert set(said) == {"/env_mapping/GREETING", "/env_mapping/NO_SUCH_KEY", "/env_mapping/COUNT"}
    assert "recordid" in said["/env_mapping/GREETING"]
    assert "GREETING" in said["/env_mapping/NO_SUCH_KEY"]
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

    assert "/runtemplate_id" in faults(chain(first, first))
    assert chain(first, second).status_code == 201
    rule = chain(second, third, enabled=False).json()
    said = faults(chain(third, first))["/runtemplate_id"]
    assert "acme/third → acme/daily → acme/second → acme/third" in said
    rest.delete(f"/eventrule/{rule['id']}.json")
    assert chain(third, first).status_code == 201
