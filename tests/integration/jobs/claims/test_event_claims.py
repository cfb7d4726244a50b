"""What an event starts, at the claim: the right job, once, with the right values."""

import json
import os
import signal
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any
from uuid import uuid4

import httpx
import pytest
from sqlalchemy import select

from jobauto_prefect.ledger.audit.trail import SERVICE
from jobauto_prefect.ledger.events import deliveries
from jobauto_prefect.ledger.events.event_store import (
    LONGEST_CIRCLE,
    SourceChange,
    store_changes,
    store_completion,
)
from jobauto_prefect.ledger.jobs.attempts import new_job
from jobauto_prefect.ledger.opening import open_ledger
from jobauto_prefect.ledger.records import (
    Artifact,
    AuditEntry,
    Delivery,
    Event,
    EventRule,
    EventSource,
    Job,
    RunTemplate,
)
from jobauto_prefect.ledger.store import Ledger
from jobauto_prefect.settings import Settings
from tests.support.claims import claim_of, granted, own_run_of, refused, report
from tests.support.databases import both_databases
from tests.support.definitions import PROBE
from tests.support.event_chains import Chain, make_rule, run_of
from tests.support.ledger_rows import count_rows, fetch_one
from tests.support.processes import forked
from tests.support.secrets import SECRET

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


def happened(ledger: Ledger, source: int, inversion: int = 7, **members: Any) -> int:
    """A change of the source is stored; the event's id."""
    row = {"inversion": inversion, "recordid": 42, "evidence": "invoice", "operation": "create",
           "externalids": "code:X", "context": CONTEXT} | members  # fmt: skip
    with ledger.writing(SERVICE) as session:
        store_changes(session, session.get_one(EventSource, source), [SourceChange(inversion, row)])
        return session.scalars(select(Event.id).order_by(Event.id.desc()).limit(1)).one()


def delivery(ledger: Ledger, event: int, rule: dict[str, Any]) -> Delivery:
    found = select(Delivery).where(Delivery.event_id == event, Delivery.rule_id == rule["id"])
    return fetch_one(ledger, found)


@both_databases
@pytest.mark.spec("1.8", "6.8")
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


@both_databases
def test_of_fifty_deliveries_of_one_event_one_starts_a_job(
    claims: httpx.Client, rule: dict[str, Any], ledger: Ledger, source: int
) -> None:
    event = happened(ledger, source)

    def ask(number: int) -> str:
        claim = run_of(event, rule, worker=f"w{number % 10}")
        answer = claims.post("/claims", json=claim).json()
        return "launch" if answer["launch"] else str(answer["refusal"]["story"]["state"])

    with ThreadPoolExecutor(10) as pool:
        outcomes = sorted(pool.map(ask, range(50)))
    assert outcomes == ["CANCELLED"] * 49 + ["launch"]
    assert count_rows(ledger, Job) == 1


@both_databases
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
        before = count_rows(ledger, AuditEntry)
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


@both_databases
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
    launch = granted(claims, own_run_of(ledger, again.job_id))
    assert launch["environment"]["COUNT"] == "42"


def test_what_this_service_started_itself_has_the_values_too(
    claims: httpx.Client, rule: dict[str, Any], ledger: Ledger, source: int
) -> None:
    event = happened(ledger, source)
    with ledger.writing(SERVICE) as session:
        deliveries.start_delivery(session, event, rule["id"])
    job_id = delivery(ledger, event, rule).job_id
    assert refused(claims, run_of(event, rule))[:2] == ("duplicate_event", "CANCELLED")
    launch = granted(claims, own_run_of(ledger, job_id))
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
        assert [one.rule_id for one in deliveries.deliveries_of_event(session, event)] == concerned


@both_databases
def test_what_a_job_produced_is_given_to_the_next(
    claims: httpx.Client, rest: httpx.Client, ledger: Ledger, template: dict[str, Any]
) -> None:
    produces = {"stock": {"format": "json", "patterns": ["stock-.*"], "fields": {
        "items": {"type": "integer", "path": "$.count"}}}}  # fmt: skip
    rest.post("/app/", json=PROBE | {"produces": produces, "version": "99.0"}).raise_for_status()
    body = {"app_id": template["app_id"], "company": "acme", "name": "after",
            "env": {"PASSWORD": SECRET, "COUNT": 4}}  # fmt: skip
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


@pytest.fixture
def chain(
    claims: httpx.Client, rest: httpx.Client, ledger: Ledger, template: dict[str, Any]
) -> Chain:
    return Chain(claims, rest, ledger, template)


STOCK = {"stock": {"format": "json", "patterns": ["stock.json"]}}
READER = {
    "cmdparamsTemplate": "--input ${INPUT_FILE} --least ${LEAST}",
    "environment": {
        "INPUT_FILE": {"type": "file-path", "required": True},
        "LEAST": {"type": "float"},
    },
}


@both_databases
def test_a_file_is_handed_to_the_next_job_and_to_its_later_attempts(chain: Chain) -> None:
    chain.between(STOCK, READER, env_mapping={"INPUT_FILE": "@file:stock", "LEAST": "stock.least"})
    event = chain.end(stock_json=b'{"least": 1500}', other_txt=b"x" * 200_000)
    launch = granted(chain.claims, chain.claim(event))
    (given,) = launch["inputs"]
    path = f"{launch['directory']}/{given['path']}"
    assert path.endswith("/tmp/inputs/INPUT_FILE/stock.json")
    assert launch["environment"]["INPUT_FILE"] == path
    assert launch["argv"] == ["probe", "--input", path, "--least", "1500"]
    where = f"/jobs/{launch['job_id']}/inputs/{given['artifact_id']}"
    content = chain.claims.get(where, params={"claim_id": launch["claim_id"]})
    assert content.content == b'{"least": 1500}'
    assert chain.claims.get(where, params={"claim_id": str(uuid4())}).status_code == 403
    another = f"/jobs/{launch['job_id']}/inputs/{given['artifact_id'] + 1}"
    asked = {"claim_id": launch["claim_id"]}
    assert chain.claims.get(another, params=asked).status_code == 404
    assert (
        chain.rest.get(f"/job/{launch['job_id']}.json").json()["eventrule_id"] == chain.rule["id"]
    )
    report(chain.claims, launch, exit_code=5)
    again = chain.rest.post("/job/", json={"retry_of": launch["job_id"]}).json()
    assert (again["event_id"], again["eventrule_id"]) == (event, chain.rule["id"])
    second = granted(chain.claims, chain.claim_job(again["id"]))
    assert second["inputs"] == launch["inputs"]
    assert second["environment"]["INPUT_FILE"] == f"{second['directory']}/{given['path']}"
    assert second["environment"]["LEAST"] == "1500"
    report(chain.claims, second, exit_code=5)
    other = {"retry_of": second["job_id"], "env": {"INPUT_FILE": "/data/mine.json"}}
    mine = chain.rest.post("/job/", json=other).json()["id"]
    third = granted(chain.claims, chain.claim_job(mine))
    assert (third["inputs"], third["environment"]["INPUT_FILE"]) == ([], "/data/mine.json")
    report(chain.claims, third, exit_code=5)
    with chain.ledger.writing(SERVICE) as session:
        session.delete(session.get_one(Artifact, given["artifact_id"]))
    last = chain.rest.post("/job/", json={"retry_of": second["job_id"]}).json()["id"]
    assert refused(chain.claims, chain.claim_job(last)) == (
        "input_gone", "FAILED", "the files for INPUT_FILE are no longer kept")  # fmt: skip


def test_a_file_that_is_not_there_blocks_the_job(chain: Chain) -> None:
    chain.between(STOCK, READER, env_mapping={"INPUT_FILE": "@file:stock"})
    reason, _, message = refused(chain.claims, chain.claim(chain.end(other_txt=b"")))
    assert (reason, message) == (
        "unresolved_mapping",
        "the event has no value for INPUT_FILE (@file:stock)",
    )


def test_a_value_too_large_for_a_variable_is_to_go_as_a_file(chain: Chain) -> None:
    chain.between(STOCK, READER, env_mapping={"INPUT_FILE": "stock"})
    event = chain.end(stock_json=json.dumps({"a": "x" * 100_000}).encode())
    assert "@file:NAME" in refused(chain.claims, chain.claim(event))[2]


@pytest.mark.spec("2.1.44", "2.1.45")
def test_what_both_applications_call_the_same_flows_without_a_mapping(chain: Chain) -> None:
    inputs = {"format": "json", "target": "INPUT_FILE", "fields": {
        "least": {"target": "LEAST", "format": "float"}}}  # fmt: skip
    chain.between(STOCK, READER | {"consumes": {"stock": inputs}})
    launch = granted(chain.claims, chain.claim(chain.end(stock_json=b'{"least": "12.50"}')))
    assert launch["environment"]["INPUT_FILE"].endswith("/stock.json")
    assert launch["environment"]["LEAST"] == "12.50"
    path = f"/eventrule/{chain.rule['id']}.json"
    mapping = {"env_mapping": {"INPUT_FILE": "=/data/all.json"}}
    chain.rest.post(path, json=mapping).raise_for_status()
    launch = granted(chain.claims, chain.claim(chain.end(stock_json=b'{"least": 3}')))
    assert (launch["inputs"], launch["environment"]["INPUT_FILE"]) == ([], "/data/all.json")
    assert launch["environment"]["LEAST"] == "3"
    event = chain.end(stock_json=b'{"least": "many"}')
    assert "LEAST (no float)" in refused(chain.claims, chain.claim(event))[2]


TOTALS = {
    "sums": {
        "format": "json",
        "patterns": ["sums.json"],
        "fields": {
            "total": {"type": "integer"},
            "name": {"type": "integer"},
            "ids": {"type": "integer", "path": "$.items[*].id"},
            "last": {"type": "integer", "path": "$.items[-1:].id"},
            "lost": {"type": "string", "path": "$.nowhere"},
        },
    }
}


@pytest.mark.spec("2.1.38", "2.1.40", "2.1.44")
def test_chained_values_arrive_as_produced_and_what_is_not_as_declared_is_said(
    chain: Chain, claims: httpx.Client
) -> None:
    consumes = {"sums": {"format": "json", "target": "WHOLE", "required": False}}
    names = ("WHOLE", "TOTAL", "NAME", "IDS", "LAST", "FOUND", "LOST")
    mapping = {
        "TOTAL": "sums.total",
        "NAME": "$['sums']['name']",
        "IDS": "sums.ids",
        "LAST": "last",
        "FOUND": "$.sums.items[?@.id > 1].id",
    }
    environment = {name: {"type": "string"} for name in names}
    members = {"environment": environment, "consumes": consumes, "cmdparamsTemplate": ""}
    chain.between(TOTALS, members, env_mapping=mapping)
    written = '{"total": 12.50, "name": "Zed", "items": [{"id": 1}, {"id": 2}]}'
    launch = granted(claims, chain.claim(chain.end(sums_json=written.encode())))
    given = {name: launch["environment"].get(name) for name in names}
    assert given == {
        "WHOLE": written,
        "TOTAL": "12.50",
        "NAME": "Zed",
        "IDS": "[1, 2]",
        "LAST": "2",
        "FOUND": "[2]",
        "LOST": None,
    }
    rules = [("total", "type"), ("name", "type"), ("lost", "not-produced")]
    expected = [(f"/produces/sums/fields/{name}", rule) for name, rule in rules]
    shown = chain.rest.get(f"/job/{launch['job_id']}.json").json()["warnings"]
    assert [(fault["pointer"], fault["rule"]) for fault in shown] == expected
    assert [fault["message"] for fault in shown] == launch["notices"]
    assert "total of sums was not produced as integer" in launch["notices"]
    with chain.ledger.reading() as session:
        producer = session.get_one(Job, session.get_one(Job, launch["job_id"]).id - 1)
        warnings = [(fault["pointer"], fault["rule"]) for fault in producer.warnings]
    assert warnings == expected


@pytest.mark.spec("2.1.42")
def test_a_required_input_has_a_value_from_somewhere_or_the_job_is_blocked(chain: Chain) -> None:
    environment = {"INPUT_FILE": {"type": "string"}, "LEAST": {"type": "float"}}
    consumes = {
        "source": {"format": "json", "target": "INPUT_FILE", "fields": {
            "least": {"target": "LEAST"}}},
        "more": {"format": "json", "required": False, "target": "NOWHERE"},
        "anything": {"format": "json"},
    }  # fmt: skip
    chain.between(STOCK, {"environment": environment, "consumes": consumes,
                          "cmdparamsTemplate": ""})  # fmt: skip
    event = chain.end(stock_json=b"{}")
    assert refused(chain.claims, chain.claim(event)) == (
        "invalid_launch", "FAILED",
        "the input source is missing: INPUT_FILE, LEAST has no value")  # fmt: skip
    (job,) = [one for one in chain.rest.get("/jobs.json").json().values() if one["event_id"]]
    assert (job["state"], chain.deliveries(event)[0]["state"]) == ("blocked", "dead")
    by_hand = {"runtemplate_id": chain.then["id"], "env": {"INPUT_FILE": "a", "LEAST": 1}}
    made = chain.rest.post("/job/", json=by_hand).json()["id"]
    granted(chain.claims, chain.claim_job(made))
    chain.rest.post("/runtemplate/", json={"id": chain.then["id"], "env": {"INPUT_FILE": "a"}})
    made = chain.rest.post("/job/", json={"runtemplate_id": chain.then["id"]}).json()["id"]
    assert "LEAST" in refused(chain.claims, chain.claim_job(made))[2]


BILLS = {"bills": {"format": "json", "patterns": ["bills.json"]}}
BILL = {"cmdparamsTemplate": "", "environment": {"BILL": {"type": "text"}}}


@both_databases
def test_a_rule_that_fans_out_starts_a_job_for_each_element_once(chain: Chain) -> None:
    chain.between(BILLS, BILL, env_mapping={"BILL": "bills"}, fan_out=True)
    event = chain.end(bills_json=b'[{"no": 1}, "two", 3]')
    claim = chain.claim(event)
    first = granted(chain.claims, claim)
    assert granted(chain.claims, claim) == first
    owed = chain.deliveries(event)
    assert [(one["element"], one["state"]) for one in owed] == [
        (0, "started"), (1, "started"), (2, "started")]  # fmt: skip
    assert owed[0]["job_id"] == first["job_id"]
    assert refused(chain.claims, chain.claim(event))[:2] == ("duplicate_event", "CANCELLED")
    launches = [first]
    for one in owed[1:]:
        claims = [chain.claim_job(one["job_id"]) for _ in range(4)]
        with ThreadPoolExecutor(4) as pool:
            answers = list(pool.map(lambda asked: chain.claims.post("/claims", json=asked), claims))
        (launch,) = [found for one in answers if (found := one.json().get("launch"))]
        launches.append(launch)
    assert [one["environment"]["BILL"] for one in launches] == ['{"no": 1}', "two", "3"]
    assert len(chain.deliveries(event)) == 3
    assert chain.rest.post(f"/event/{event}/replay.json").status_code == 409
    assert count_rows(chain.ledger, Job, Job.event_id == event) == 3


def _spread_and_die(settings: Settings, event: int, rule: int) -> None:
    with open_ledger(settings).writing(SERVICE) as session:
        deliveries.fan_out(session, deliveries.lock_delivery(session, event, rule), 3)
        session.flush()
        os.kill(os.getpid(), signal.SIGKILL)


@both_databases
def test_a_process_that_is_killed_while_it_spreads_leaves_nothing_half_done(
    chain: Chain, ledger_settings: Settings
) -> None:
    rule = chain.between(BILLS, BILL, env_mapping={"BILL": "bills"}, fan_out=True)
    event = chain.end(bills_json=b"[1, 2, 3]")
    with chain.ledger.writing(SERVICE) as session:
        deliveries.start_delivery(session, event, rule["id"])
    (first,) = chain.deliveries(event)

    died = forked(_spread_and_die, ledger_settings, event, rule["id"])
    died.join()
    assert died.exitcode == -signal.SIGKILL
    assert chain.deliveries(event) == [first]
    granted(chain.claims, chain.claim_job(first["job_id"]))
    jobs = [one["job_id"] for one in chain.deliveries(event)]
    assert len(set(jobs)) == 3
    for number, job in enumerate(jobs[1:], 2):
        environment = granted(chain.claims, chain.claim_job(job))["environment"]
        assert environment["BILL"] == str(number)


@both_databases
def test_an_element_that_died_is_replayed_and_starts_no_other(chain: Chain) -> None:
    chain.between(BILLS, BILL, env_mapping={"BILL": "bills"}, fan_out=True)
    large = json.dumps(["small", "x" * 100_001, "x" * 100_001]).encode()
    event = chain.end(bills_json=large)
    granted(chain.claims, chain.claim(event))
    for one in chain.deliveries(event)[1:]:
        refused(chain.claims, chain.claim_job(one["job_id"]))
    assert [one["state"] for one in chain.deliveries(event)] == ["started", "dead", "dead"]
    replayed = chain.rest.post(f"/event/{event}/replay.json").json()["deliveries"]
    assert [one["state"] for one in replayed] == ["started"] * 3
    assert count_rows(chain.ledger, Job, Job.event_id == event) == 5


TEXT = {"cmdparamsTemplate": "", "environment": {"TEXT": {"type": "text"}}}


@both_databases
@pytest.mark.parametrize(
    ("kind", "written", "value"),
    [
        ("text", [b"https://a.example/", b"7", b"\n"], "https://a.example/7"),
        ("url", [b"https://a.example/", b"7", b"\n"], "https://a.example/7"),
        ("text", [b" a\r\n", b"\x1b[1mb\n\n"], " a\r\n\x1b[1mb\n"),
        ("url", [b"https://a.exa", b"", b"mple/\nhttps://b.example/\n"], "https://b.example/"),
    ],
)
def test_what_was_written_is_handed_on_as_it_was(
    chain: Chain, kind: str, written: list[bytes], value: str
) -> None:
    chain.between({"it": {"format": kind}}, TEXT, env_mapping={"TEXT": "it"})
    event = chain.end(written)
    assert granted(chain.claims, chain.claim(event))["environment"]["TEXT"] == value


@pytest.mark.parametrize(
    ("kind", "written", "reason"),
    [
        ("text", b"a\0b\n", "TEXT"),
        ("text", b"a\xff\n", "bytes that are not UTF-8: TEXT"),
        ("url", b"https://a.example/\0x\n", "a NUL"),
        ("url", b"\xffhttps://a.example/\n", "not UTF-8"),
    ],
)
def test_what_no_variable_can_hold_blocks_the_next_job(
    chain: Chain, kind: str, written: bytes, reason: str
) -> None:
    chain.between({"it": {"format": kind}}, TEXT, env_mapping={"TEXT": "it"})
    kind, state, message = refused(chain.claims, chain.claim(chain.end([written])))
    assert (kind, state) == ("unresolved_mapping", "FAILED")
    assert reason in message


def test_a_text_that_was_not_kept_whole_blocks_the_next_job(chain: Chain) -> None:
    chain.between({"it": {"format": "text"}}, TEXT, env_mapping={"TEXT": "it"})
    message = refused(chain.claims, chain.claim(chain.end([b"a\n", b"", b"b\n"])))[2]
    assert message.startswith("TEXT: not all of standard output was kept")


def test_a_path_into_an_empty_list_starts_nothing(chain: Chain) -> None:
    chain.between(BILLS, BILL, env_mapping={"BILL": "$.bills.lines[*].text"}, fan_out=True)
    nothing = chain.end(bills_json=b'{"lines": []}')
    assert refused(chain.claims, chain.claim(nothing)) == (
        "nothing_to_do", "CANCELLED", "BILL is an empty list")  # fmt: skip
    missing = chain.end(bills_json=b'{"other": []}')
    assert refused(chain.claims, chain.claim(missing))[0] == "unresolved_mapping"


@pytest.mark.parametrize("content", [b"", "{}".encode("utf-16"), b"{", b"[" * 5000])
def test_a_result_that_is_no_json_is_a_warning_of_the_job_that_left_it(
    chain: Chain, content: bytes
) -> None:
    fields = {"fields": {"no": {"type": "integer"}}}
    chain.between({"bills": BILLS["bills"] | fields}, BILL, env_mapping={})
    event = chain.rest.get(f"/event/{chain.end(bills_json=content)}.json").json()
    job = chain.rest.get(f"/job/{event['job_id']}.json").json()
    assert job["state"] == "succeeded"
    assert [one["pointer"] for one in job["warnings"]] == ["/produces/bills"]


def test_lists_that_start_nothing(chain: Chain) -> None:
    two = {"cmdparamsTemplate": "", "environment": {"A": {"type": "text"}, "B": {"type": "text"}}}
    chain.between(BILLS, two, env_mapping={"A": "bills.a", "B": "bills.b"}, fan_out=True)
    nothing = chain.end(bills_json=b'{"a": [], "b": 1}')
    assert refused(chain.claims, chain.claim(nothing)) == (
        "nothing_to_do", "CANCELLED", "A is an empty list")  # fmt: skip
    (owed,) = chain.deliveries(nothing)
    assert owed["state"] == "started"
    job = chain.rest.get(f"/job/{owed['job_id']}.json").json()
    assert (job["state"], job["message"]) == ("skipped", "A is an empty list")
    both = chain.end(bills_json=b'{"a": [1], "b": [2]}')
    assert "A, B are lists" in refused(chain.claims, chain.claim(both))[2]
    many = chain.end(bills_json=json.dumps({"a": [1] * 1001, "b": 1}).encode())
    assert "1001 elements" in refused(chain.claims, chain.claim(many))[2]
    none = chain.end(bills_json=b'{"a": 1, "b": 2}')
    environment = granted(chain.claims, chain.claim(none))["environment"]
    assert (environment["A"], environment["B"]) == ("1", "2")


@both_databases
def test_only_a_chain_that_goes_round_is_ended(chain: Chain, claims: httpx.Client) -> None:
    chain.between(STOCK, {"cmdparamsTemplate": "", "environment": {}})
    first = chain.end(stock_json=b"{}")
    with chain.ledger.writing(SERVICE) as session:
        session.get_one(Event, first).depth = 10 * LONGEST_CIRCLE
    follow = {"runtemplate_source_id": chain.then["id"], "env_mapping": {}}
    further = make_rule(chain.rest, third(chain), None, **follow)
    report(claims, granted(claims, chain.claim(first)))
    second = max(map(int, chain.rest.get("/events.json").json()))
    (owed,) = chain.deliveries(second)
    assert (owed["eventrule_id"], owed["state"]) == (further["id"], "owed")
    depth = chain.rest.get(f"/event/{second}.json").json()["depth"]
    assert depth == 10 * LONGEST_CIRCLE + 1

    rule = make_rule(chain.rest, chain.then, None, runtemplate_source_id=chain.first["id"])
    chain.rest.post(f"/event/{second}/replay.json", json={"eventrule_id": rule["id"]})
    (again,) = [one for one in chain.deliveries(second) if one["eventrule_id"] == rule["id"]]
    report(claims, granted(claims, chain.claim_job(again["job_id"])))
    last = max(map(int, chain.rest.get("/events.json").json()))
    (dead,) = chain.deliveries(last)
    assert (dead["state"], dead["job_id"]) == ("dead", None)
    assert dead["error"] == (
        f"the chain is circular and {depth + 1} jobs long; the limit is {LONGEST_CIRCLE}"
    )


STRAIGHT = 3 * LONGEST_CIRCLE


def test_a_straight_chain_runs_to_its_end_and_a_circle_stops(
    ledger: Ledger, template: dict[str, Any]
) -> None:
    now = ledger.clock()
    ledger.clock = lambda: now
    with ledger.writing(SERVICE) as session:
        first = session.get_one(RunTemplate, template["id"])
        members = {"app_id": first.app_id, "company_id": first.company_id, "env": first.env}
        others = [
            RunTemplate(name=f"link {number}", deployment_id=uuid4(), **members)
            for number in range(1, STRAIGHT)
        ]
        session.add_all(others)
        session.flush()
        links = [first, *others]
        session.add_all(
            EventRule(
                runtemplate_source_id=before.id, runtemplate_id=after.id, on="success",
                operation="any", env_mapping="{}",
            )
            for before, after in zip(links, [*others, first], strict=True)
        )  # fmt: skip
        job: Job | None = new_job(first, schedule=now, schedule_type="adhoc")
        session.add(job)
        ran: list[RunTemplate] = []
        while job is not None:
            now += timedelta(minutes=1)
            ran.append(job.runtemplate)
            job.state, job.severity, job.begin, job.end = "succeeded", "success", now, now
            session.flush()
            store_completion(session, job)
            owed = session.scalars(select(Delivery).order_by(Delivery.id.desc()).limit(1)).one()
            deliveries.start_delivery(session, owed.event_id, owed.rule_id)
            job = session.get(Job, owed.job_id) if owed.job_id else None
        assert ran == [*links, first]  # round, to where a run template comes again
        assert (owed.state, owed.error) == (
            "dead",
            f"the chain is circular and {STRAIGHT + 1} jobs long; the limit is {LONGEST_CIRCLE}",
        )


def third(chain: Chain) -> dict[str, Any]:
    """One more template."""
    body = {"app_id": chain.then["app_id"], "company": "acme", "name": "third"}
    made: dict[str, Any] = chain.rest.post("/runtemplate/", json=body).raise_for_status().json()
    return made


@both_databases
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


@both_databases
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
