"""What an event starts, at the claim: the right job, once, with the right values."""

from concurrent.futures import ThreadPoolExecutor
from typing import Any
from uuid import uuid4

import httpx
import pytest
from sqlalchemy import select

from jobauto_prefect.ledger import deliveries, starting
from jobauto_prefect.ledger.audit import SERVICE
from jobauto_prefect.ledger.events import SourceChange, store_changes
from jobauto_prefect.ledger.records import (
    AuditEntry,
    Delivery,
    Event,
    EventSource,
    Job,
    RunTemplate,
)
from jobauto_prefect.ledger.store import Ledger
from tests.definitions import PROBE
from tests.integration.test_claims import claim_of, granted, refused, report, template

__all__ = ["template"]

CONTEXT = {"customer": {"name": "Novák"}, "lines": [{"price": 12.5}], "secret": "s3cret-w0rd"}
MAPPING = {
    "GREETING": "$.customer.name",
    "COUNT": "recordid",
    "PASSWORD": "context.secret",
    "LOUD": "=true",
}


@pytest.fixture
def source(rest: httpx.Client) -> int:
    answer = rest.post("/eventsource/", json={"name": "erp", "db_database": "adapter"})
    number: int = answer.json()["id"]
    return number


@pytest.fixture
def rule(rest: httpx.Client, template: dict[str, Any], source: int) -> dict[str, Any]:
    return make_rule(rest, template, source, evidence="invoice", env_mapping=MAPPING)


def make_rule(
    rest: httpx.Client, template: dict[str, Any], source: int, **members: Any
) -> dict[str, Any]:
    body = {"event_source_id": source, "runtemplate_id": template["id"], **members}
    answer = rest.post("/eventrule/", json=body)
    assert answer.status_code == 201, answer.text
    made: dict[str, Any] = answer.json()
    return made


def happened(ledger: Ledger, source: int, inversion: int = 7, **members: Any) -> int:
    """A change of the source is stored; the event's id."""
    row = {"inversion": inversion, "recordid": 42, "evidence": "invoice", "operation": "create",
           "externalids": "code:X", "context": CONTEXT} | members  # fmt: skip
    with ledger.writing(SERVICE) as session:
        store_changes(session, session.get_one(EventSource, source), [SourceChange(inversion, row)])
        return session.scalars(select(Event.id).order_by(Event.id.desc()).limit(1)).one()


def run_of(event: int, rule: dict[str, Any], **members: Any) -> dict[str, Any]:
    """The claim of a flow run that the rule's automation made."""
    return claim_of(parameters={"jobauto": {"event": event, "rule": rule["id"]}}, **members)


def delivery(ledger: Ledger, event: int, rule: dict[str, Any]) -> Delivery:
    with ledger.reading() as session:
        found = select(Delivery).where(Delivery.event_id == event, Delivery.rule_id == rule["id"])
        return session.scalars(found).one()


def test_an_event_starts_its_rule_with_values_from_it(
    claims: httpx.Client, rest: httpx.Client, rule: dict[str, Any], ledger: Ledger, source: int
) -> None:
    event = happened(ledger, source, document_uri="https://erp.example/42")
    launch = granted(claims, run_of(event, rule))
    environment = launch["environment"]
    assert environment["GREETING"] == "Novák"
    assert (environment["COUNT"], environment["LOUD"]) == ("42", "true")
    assert environment["PASSWORD"] == "s3cret-w0rd"
    assert "s3cret-w0rd" in launch["secrets"]
    assert environment["EVENT_INVERSION"] == "7"
    assert environment["EVENT_EVIDENCE"] == "invoice"
    assert environment["EVENT_OPERATION"] == "create"
    assert environment["EVENT_RECORD_ID"] == "42"
    assert environment["EVENT_DOCUMENT_URI"] == "https://erp.example/42"
    shown = rest.get(f"/job/{launch['job_id']}.json")
    assert shown.json()["schedule_type"] == "event"
    assert "s3cret-w0rd" not in shown.text
    assert delivery(ledger, event, rule).state == "started"


def test_of_fifty_deliveries_of_one_event_one_starts_a_job(
    claims: httpx.Client, rule: dict[str, Any], ledger: Ledger, source: int
) -> None:
    event = happened(ledger, source)

    def ask(number: int) -> str:
        claim = run_of(event, rule, worker=f"w{number}")
        answer = claims.post("/claims", json=claim).json()
        return "launch" if answer["launch"] else str(answer["refusal"]["story"]["state"])

    with ThreadPoolExecutor(10) as pool:
        outcomes = sorted(pool.map(ask, range(50)))
    assert outcomes == ["CANCELLED"] * 49 + ["launch"]
    with ledger.reading() as session:
        assert len(session.scalars(select(Job)).all()) == 1


def test_a_forged_event_starts_nothing_and_is_written_down_once(
    claims: httpx.Client, rule: dict[str, Any], ledger: Ledger, source: int
) -> None:
    event = happened(ledger, source)
    for named in (
        {"event": 999, "rule": rule["id"]},
        {"event": event, "rule": 999},
        {"event": str(event), "rule": "1; DROP TABLE job"},
        {"event": 2**70, "rule": 2**70},
        {"event": True, "rule": True},
        {"event": None},
    ):
        with ledger.reading() as session:
            before = len(session.scalars(select(AuditEntry)).all())
        claim = claim_of(parameters={"jobauto": named})
        assert refused(claims, claim)[:2] == ("unknown_event", "FAILED")
        with ledger.reading() as session:
            assert session.scalars(select(Job)).all() == []
            entries = session.scalars(select(AuditEntry).order_by(AuditEntry.id)).all()[before:]
        assert [entry.action for entry in entries] == ["refuse"]
    assert delivery(ledger, event, rule).state == "owed"


def test_an_event_can_only_start_the_run_template_of_its_rule(
    claims: httpx.Client, rest: httpx.Client, template: dict[str, Any], ledger: Ledger, source: int
) -> None:
    app = template["app_id"]
    other = rest.post("/runtemplate/", json={"app_id": app, "company": "acme", "name": "other"})
    rule = make_rule(rest, other.json(), source)
    event = happened(ledger, source)
    assert refused(claims, run_of(event, rule))[:2] == ("unknown_event", "FAILED")


def test_a_value_that_is_not_there_blocks_the_job_and_can_be_replayed(
    claims: httpx.Client, rest: httpx.Client, rule: dict[str, Any], ledger: Ledger, source: int
) -> None:
    event = happened(ledger, source, context={"customer": None})
    reason, state, message = refused(claims, run_of(event, rule))
    assert (reason, state) == ("unresolved_mapping", "FAILED")
    assert "GREETING ($.customer.name)" in message
    assert "PASSWORD" in message
    (job,) = rest.get("/jobs.json").json().values()
    assert job["message"] == message
    dead = delivery(ledger, event, rule)
    assert (dead.state, dead.error) == ("dead", message)
    assert refused(claims, run_of(event, rule))[:2] == ("duplicate_event", "CANCELLED")
    rest.post("/eventrule/", json={"id": rule["id"], "env_mapping": {"COUNT": "recordid"}})
    (listed,) = rest.get("/events.json", params={"state": "dead"}).json().values()
    assert (listed["id"], listed["record_id"]) == (event, "42")
    replayed = rest.post(f"/event/{event}/replay.json").json()
    assert (replayed["state"], replayed["deliveries"][0]["state"]) == ("done", "started")
    again = delivery(ledger, event, rule)
    assert again.job_id == replayed["deliveries"][0]["job_id"]
    assert rest.post(f"/event/{event}/replay.json").status_code == 409
    body = {"eventrule_id": rule["id"]}
    assert rest.post(f"/event/{event}/replay.json", json=body).status_code == 409
    launch = granted(claims, claim_of(parameters={"jobauto": {"job": again.job_id}}))
    assert launch["environment"]["COUNT"] == "42"


def test_what_this_service_started_itself_has_the_values_too(
    claims: httpx.Client, rule: dict[str, Any], ledger: Ledger, source: int
) -> None:
    event = happened(ledger, source)
    with ledger.writing(SERVICE) as session:
        starting.start(session, event, rule["id"])
    job_id = delivery(ledger, event, rule).job_id
    assert refused(claims, run_of(event, rule))[:2] == ("duplicate_event", "CANCELLED")
    launch = granted(claims, claim_of(parameters={"jobauto": {"job": job_id}}))
    assert launch["environment"]["GREETING"] == "Novák"
    assert launch["environment"]["EVENT_RECORD_ID"] == "42"


def test_a_rule_says_which_changes_concern_it(
    rest: httpx.Client, template: dict[str, Any], ledger: Ledger, source: int
) -> None:
    matching: list[dict[str, Any]] = [
        {},
        {"evidence": "invoice"},
        {"evidence": ""},
        {"operation": "create"},
        {"evidence": "invoice", "operation": "create"},
    ]
    others: list[dict[str, Any]] = [
        {"evidence": "Invoice"},
        {"operation": "delete"},
        {"evidence": "invoice", "operation": "update"},
        {"enabled": False},
    ]
    concerned = [make_rule(rest, template, source, **one)["id"] for one in matching]
    for one in others:
        make_rule(rest, template, source, **one)
    event = happened(ledger, source)
    with ledger.reading() as session:
        assert [one.rule_id for one in deliveries.of_event(session, event)] == concerned


def test_what_a_job_produced_is_given_to_the_next(
    claims: httpx.Client, rest: httpx.Client, ledger: Ledger, template: dict[str, Any]
) -> None:
    produces = {"stock": {"format": "json", "patterns": ["stock-.*"], "fields": {
        "items": {"type": "integer", "path": "$.count"}}}}  # fmt: skip
    rest.post("/app/", json=PROBE | {"produces": produces, "version": "99.0"}).raise_for_status()
    body = {"app_id": template["app_id"], "company": "acme", "name": "after",
            "env": {"PASSWORD": "s3cret-word", "COUNT": 4}}  # fmt: skip
    after = rest.post("/runtemplate/", json=body).json()
    deployment = uuid4()
    with ledger.writing(SERVICE) as session:
        session.get_one(RunTemplate, after["id"]).deployment_id = deployment
    chain = {"runtemplate_source_id": template["id"], "runtemplate_id": after["id"],
             "env_mapping": {"COUNT": "items", "GREETING": "stock.place"}}  # fmt: skip
    unknown = rest.post("/eventrule/", json=chain | {"env_mapping": {"COUNT": "bills.total"}})
    assert unknown.json()["details"][0]["pointer"] == "/env_mapping/COUNT"
    rule = rest.post("/eventrule/", json=chain).json()
    launch = granted(claims, claim_of())
    assert ("stock", "stock-.*") in [(one["name"], one["path"]) for one in launch["artifacts"]]
    where = {"claim_id": launch["claim_id"], "path": "stock-1.json", "name": "stock"}
    content = b'{"count": "17", "place": "Brno"}'
    path = f"/jobs/{launch['job_id']}/artifacts"
    assert claims.put(path, params=where, content=content).status_code == 204
    report(claims, launch)
    (event,) = rest.get("/events.json").json().values()
    assert (event["kind"], event["operation"], event["job_id"]) == (
        "completion", "success", launch["job_id"])  # fmt: skip
    claim = run_of(event["id"], rule, deployment_id=str(deployment))
    environment = granted(claims, claim)["environment"]
    assert (environment["COUNT"], environment["GREETING"]) == ("17", "Brno")


def test_only_the_ends_a_rule_is_about_concern_it(
    claims: httpx.Client, rest: httpx.Client, template: dict[str, Any]
) -> None:
    body = {"app_id": template["app_id"], "company": "acme", "name": "after"}
    after = rest.post("/runtemplate/", json=body).json()["id"]
    rules = {}
    for on in ("success", "warning", "failure", "any"):
        chain = {"runtemplate_source_id": template["id"], "runtemplate_id": after, "on": on}
        rules[rest.post("/eventrule/", json=chain).json()["id"]] = on
    for exit_code, concerned in ((0, "success"), (2, "warning"), (5, "failure")):
        report(claims, granted(claims, claim_of()), exit_code=exit_code)
        newest = max(map(int, rest.get("/events.json").json()))
        owed = rest.get(f"/event/{newest}.json").json()["deliveries"]
        assert {rules[one["eventrule_id"]] for one in owed} == {concerned, "any"}
    launch = granted(claims, claim_of())
    rest.post("/job/", json={"id": launch["job_id"], "state": "cancelled"})
    report(claims, launch, ending="cancelled", exit_code=143)
    assert max(map(int, rest.get("/events.json").json())) == newest


def test_a_rule_does_not_see_what_is_older_than_it_unless_asked(
    claims: httpx.Client, rest: httpx.Client, template: dict[str, Any], ledger: Ledger, source: int
) -> None:
    event = happened(ledger, source)
    rule = make_rule(rest, template, source)
    assert refused(claims, run_of(event, rule))[:2] == ("unknown_event", "FAILED")
    asked = rest.post(f"/event/{event}/replay.json", json={"eventrule_id": rule["id"]})
    assert asked.status_code == 200
    assert delivery(ledger, event, rule).state == "started"
    shown = rest.get(f"/event/{event}.json").json()
    assert shown["data"]["externalids"] == "code:X"
    job = rest.get(f"/job/{shown['deliveries'][0]['job_id']}.json").json()
    assert job["event_id"] == event
