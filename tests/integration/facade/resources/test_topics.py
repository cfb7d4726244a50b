"""Topics of companies, applications and run templates: over REST, and in Prefect's tags."""

from typing import Any
from uuid import uuid4

import httpx
import pytest

from jobauto_prefect.ledger.records import RunTemplate
from jobauto_prefect.ledger.store import Ledger
from jobauto_prefect.settings import Settings
from tests.support.definitions import PROBE
from tests.support.ledger_rows import has_no_messages
from tests.support.records import ok, pointers
from tests.support.servers import reach_prefect
from tests.support.waits import eventually


@pytest.fixture
def facade_settings(facade_settings: Settings, prefect_server: str) -> Settings:
    return reach_prefect(facade_settings, prefect_server)


@pytest.fixture
def made(rest: httpx.Client) -> dict[str, int]:
    """A company with an application and a run template, and topics."""
    company = ok(rest.post("/company/", json={"slug": "acme", "name": "Acme"}), 201)["id"]
    name = f"Topical {uuid4().hex[:8]}"  # Prefect is shared with other tests
    document = {**PROBE, "name": name, "requirements": ["mail", "disk"]}
    app = ok(rest.post("/app/", json=document), 201)["id"]
    for topic in ("money", "night", "bank"):
        ok(rest.post("/topic/", json={"name": topic}), 201)
    own = ok(rest.post("/topic/", json={"name": "inner", "company_id": company}), 201)["id"]
    body = {"app_id": app, "company_id": company, "name": "t"}
    template = ok(rest.post("/runtemplate/", json=body), 201)["id"]
    return {"company": company, "app": app, "runtemplate": template, "inner": own}


def attached(rest: httpx.Client, made: dict[str, int], kind: str, topics: list[Any]) -> list[str]:
    written = ok(rest.post(f"/{kind}/{made[kind]}.json", json={"topics": topics}), 201)
    read = ok(rest.get(f"/{kind}/{made[kind]}.json"))
    assert written.get("topics", []) == read.get("topics", [])
    named: list[str] = read.get("topics", [])
    return named


def test_a_template_has_its_own_topics_its_applications_and_its_companys_without_doubles(
    rest: httpx.Client, made: dict[str, int]
) -> None:
    assert attached(rest, made, "runtemplate", ["night", "night"]) == ["night"]
    assert attached(rest, made, "app", ["bank", "night"]) == ["bank", "night"]
    assert attached(rest, made, "company", ["money", made["inner"], "bank"]) == [
        *("money", "inner", "bank")
    ]
    template = ok(rest.get(f"/runtemplate/{made['runtemplate']}.json"))
    assert template["all_topics"] == ["night", "bank", "inner", "money"]
    assert ok(rest.get(f"/app/{made['app']}.json"))["requirements"] == ["mail", "disk"]


def tags(ledger: Ledger, prefect: httpx.Client, made: dict[str, int]) -> list[list[str]]:
    """Those of the flow and of the deployment that are about topics."""
    eventually(lambda: has_no_messages(ledger))
    with ledger.reading() as session:
        template = session.get_one(RunTemplate, made["runtemplate"])
        ids = template.app.flow_id, template.deployment_id
    found = prefect.get(f"/flows/{ids[0]}"), prefect.get(f"/deployments/{ids[1]}")
    return [
        [tag.removeprefix("topic:") for tag in each.json()["tags"] if tag.startswith("topic:")]
        for each in found
    ]


def test_the_tags_in_prefect_are_the_topics_and_requirements_are_none(
    rest: httpx.Client, made: dict[str, int], ledger: Ledger, prefect: httpx.Client
) -> None:
    assert tags(ledger, prefect, made) == [[], []]
    attached(rest, made, "runtemplate", ["night"])
    attached(rest, made, "app", ["bank"])
    attached(rest, made, "company", ["money", "bank"])
    found = tags(ledger, prefect, made)
    assert found == [["bank"], ["night", "bank", "money"]]
    topics = ok(rest.get("/topics.json")).values()
    bank = next(topic for topic in topics if topic["name"] == "bank")
    ok(rest.post(f"/topic/{bank['id']}.json", json={"name": "banking"}), 201)
    assert ok(rest.get(f"/company/{made['company']}.json"))["topics"] == ["money", "banking"]
    found = tags(ledger, prefect, made)
    assert found == [["banking"], ["night", "banking", "money"]]
    attached(rest, made, "app", [])
    attached(rest, made, "company", [])
    assert tags(ledger, prefect, made) == [[], ["night"]]


def test_the_first_three_topics_are_tags_the_templates_own_first_each_by_name(
    rest: httpx.Client, made: dict[str, int], ledger: Ledger, prefect: httpx.Client
) -> None:
    attached(rest, made, "runtemplate", ["night"])
    attached(rest, made, "app", ["money", "bank"])
    attached(rest, made, "company", ["inner"])
    assert tags(ledger, prefect, made) == [["bank", "money"], ["night", "bank", "money"]]


def test_what_is_no_topic_there_is_refused_and_what_is_borne_stays(
    rest: httpx.Client, made: dict[str, int]
) -> None:
    for kind, given in (
        ("runtemplate", ["nothing"]), ("company", [9999]), ("app", ["nothing"]),
        ("app", ["inner"]),  # a shared application bears shared topics
    ):  # fmt: skip
        refused = rest.post(f"/{kind}/{made[kind]}.json", json={"topics": given})
        assert pointers(refused)[0] == "/topics/0"
    attached(rest, made, "company", ["inner"])
    gone = rest.delete(f"/topic/{made['inner']}.json")
    assert gone.status_code == 409
    assert f"company {made['company']}" in gone.text
    attached(rest, made, "company", [])
    ok(rest.delete(f"/topic/{made['inner']}.json"))


def test_topics_that_a_definition_lists_are_kept_and_those_there_are_attached(
    rest: httpx.Client, made: dict[str, int]
) -> None:
    document = {**PROBE, "uuid": None, "name": "Lists", "topics": ["bank", "unheard"]}
    del document["uuid"]
    app = ok(rest.post("/app/", json=document, params={"definition": "1"}), 201)
    assert app["topics"] == ["bank"]
    assert [one["pointer"] for one in app["warnings"] if one["rule"] == "reference"] == ["/topics"]
    kept = rest.get(f"/app/{app['id']}/definition.json").json()
    assert kept["topics"] == ["bank", "unheard"]
    ok(rest.post(f"/app/{app['id']}.json", json={"topics": "money, night"}), 201)
    read = ok(rest.get(f"/app/{app['id']}.json"))
    assert read["topics"] == ["money", "night"]
    sent_back = {name: value for name, value in read.items() if name != "rule_selectors"}
    assert ok(rest.post("/app/", json=sent_back), 201)["topics"] == ["money", "night"]
    kept = rest.get(f"/app/{app['id']}/definition.json").json()
    assert kept == document
    text = {**document, "name": "Text", "topics": "bank,unheard"}
    bare = ok(rest.post("/app/", json=text), 201)
    assert "topics" not in bare
    assert "topics" not in ok(rest.get(f"/app/{bare['id']}.json"))
    sent_back = {name: value for name, value in bare.items() if name not in ("created", "warnings")}
    assert "topics" not in ok(rest.post("/app/", json=sent_back), 201)
    assert rest.get(f"/app/{bare['id']}/definition.json").json() == text
    told = {**document, "name": "Told"}
    told.pop("topics")
    assert ok(rest.post("/app/", json=told, params={"topics": "bank"}), 201)["topics"] == ["bank"]
