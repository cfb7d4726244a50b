"""Hostile JSON and text, by every way that writes: refused or kept, and never an error of ours."""

import json
from collections.abc import Callable
from typing import Any

import httpx

from jobauto_prefect.ledger.store import Ledger
from tests.support.claims import claim_of, deploy_template, granted, report_of
from tests.support.databases import both_databases
from tests.support.definitions import PROBE
from tests.support.records import make_template

pytestmark = both_databases

VALUES: dict[str, str] = {
    "NUL": r'"a\u0000b"',
    "half a surrogate pair": r'"\ud83d"',
    "the other half": r'"\udc00x"',
    "a key with NUL": r'{"a\u0000": 1}',
    "a key with half a pair": r'{"\ud83d": 1}',
    "a number beyond all": "1e400",
    "a whole number beyond all": "9" * 400,
    "very many digits": "9" * 5000,
    "NaN": "NaN",
    "Infinity": "-Infinity",
    "depth": '{"a":' * 100 + "1" + "}" * 100,
    "great depth": "[" * 1100 + "]" * 1100,
    "greater depth": "[" * 50_000 + "]" * 50_000,
    "depth beyond all": "[" * 100_000,
}
"""JSON of which some database, or Prefect, can't keep the value."""

PLACE = "@@"
FIELDS: dict[str, list[dict[str, Any]]] = {
    "company": [{"slug": "b", "name": PLACE}, {"slug": PLACE, "name": "B"}],
    "app": [PROBE | {"name": PLACE}, PROBE | {"description": PLACE}, PROBE | {"produces": PLACE}],
    "runtemplate": [
        {"app_uuid": PROBE["uuid"], "company": "acme", "name": "n", "env": {"COUNT": PLACE}},
        {"app_uuid": PROBE["uuid"], "company": "acme", "name": PLACE},
        {"app_uuid": PROBE["uuid"], "company": "acme", "name": "n", "executor_settings": PLACE},
    ],
    "job": [{"runtemplate_id": 1, "env": {"COUNT": PLACE}}],
    "credential": [{"name": "c", "company": "acme", "type": "t", "values": {"TOKEN": PLACE}}],
    "eventsource": [{"name": PLACE, "db_database": "d"}, {"name": "s", "db_password": PLACE}],
    "eventrule": [{"runtemplate_id": 1, "event_source_id": 1, "env_mapping": {"COUNT": PLACE}}],
    "user": [{"login": PLACE, "password": "x"}, {"login": "eva", "password": PLACE}],
    "topic": [{"name": PLACE}],
}
"""By record: bodies with a place for the value."""


def with_value(body: Any, value: str) -> str:
    return json.dumps(body).replace(json.dumps(PLACE), value)


def test_a_value_that_cannot_be_kept_is_refused_by_every_record(rest: httpx.Client) -> None:
    make_template(rest)
    for value, written in VALUES.items():
        for kind, bodies in FIELDS.items():
            for body in bodies:
                answer = rest.post(f"/{kind}/", content=with_value(body, written))
                assert answer.status_code == 400, (value, kind, body, answer.text)
        file = with_value({"kind": "company", "slug": "b", "name": PLACE}, written)
        for name in ("b.json", "b.yaml"):
            answer = rest.post("/apply.json", json={"files": [{"name": name, "content": file}]})
            assert answer.status_code in (400, 422), (value, name, answer.text)


LINES = {"seq": 1, "stream": "stdout", "at": "2030-01-01T00:00:00Z", "texts": [PLACE]}
WORKER_WAYS: dict[str, tuple[str, Callable[[str], dict[str, Any]]]] = {
    "parameters": ("/claims", lambda _: claim_of(parameters={"COUNT": PLACE, "GREETING": PLACE})),
    "references": ("/claims", lambda _: claim_of(parameters={"jobauto": PLACE})),
    "a reference": ("/claims", lambda _: claim_of(parameters={"jobauto": {"event": PLACE}})),
    "labels": ("/claims", lambda _: claim_of(labels={"a": PLACE})),
    "tags": ("/claims", lambda _: claim_of(tags=[PLACE])),
    "the key of a run": ("/claims", lambda _: claim_of(idempotency_key=PLACE)),
    "the worker": ("/claims", lambda _: claim_of(worker=PLACE)),
    "output": ("/jobs/{}/output", lambda claim: {"claim_id": claim, "output": [LINES]}),
    "the message of an end": (
        "/jobs/{}/report",
        lambda claim: report_of({"claim_id": claim}, message=PLACE),
    ),
}


def test_a_value_that_cannot_be_kept_is_no_error_of_the_claims_api(
    claims: httpx.Client, rest: httpx.Client, ledger: Ledger
) -> None:
    deploy_template(rest, ledger)
    launch = granted(claims, claim_of())
    for way, (path, body_of) in WORKER_WAYS.items():
        for value, written in VALUES.items():
            answer = claims.post(
                path.format(launch["job_id"]),
                content=with_value(body_of(launch["claim_id"]), written),
                headers={"Content-Type": "application/json"},
            )
            assert answer.status_code < 500, (way, value, answer.text)
