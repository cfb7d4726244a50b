"""Values of events that take long to find: whoever writes a path holds nobody up by it."""

import json
import threading
from pathlib import Path
from typing import Any

import httpx
import pytest

from jobauto_prefect.ledger.audit.trail import SERVICE
from jobauto_prefect.ledger.jobs import attempts
from jobauto_prefect.ledger.records import Job
from jobauto_prefect.ledger.store import Ledger
from tests.support.claims import claim_of, granted, refused, report
from tests.support.event_chains import Chain
from tests.support.waits import eventually

EXPENSIVE = "$..[?count(@..[*,*,*,*])>9999999]"
NESTED = json.dumps({"parts": [{"of": [[1, 2, 3]] * 100}] * 600}).encode()
MANY = json.dumps([{"id": number, "name": "x" * 20} for number in range(8_000)]).encode()


@pytest.fixture
def chain(
    claims: httpx.Client, rest: httpx.Client, ledger: Ledger, template: dict[str, Any]
) -> Chain:
    return Chain(claims, rest, ledger, template)


def produced(path: str, kind: str = "string") -> dict[str, Any]:
    fields = {"found": {"type": kind, "path": path}}
    return {"parts": {"format": "json", "patterns": ["parts.json"], "fields": fields}}


def looking() -> list[str]:
    """The processes of this one that look for values."""
    files = Path("/proc/self/task").glob("*/children")
    children = [pid for file in files for pid in file.read_text().split()]
    return [
        pid for pid in children if b"bounded_process" in Path(f"/proc/{pid}/cmdline").read_bytes()
    ]


def test_what_is_too_costly_to_judge_is_a_warning_and_locks_nothing_meanwhile(
    chain: Chain, claims: httpx.Client, rest: httpx.Client, ledger: Ledger
) -> None:
    chain.between(produced(EXPENSIVE), {})
    launch = granted(claims, claim_of())
    job = launch["job_id"]
    where = {"claim_id": launch["claim_id"], "path": "parts.json"}
    claims.put(f"/jobs/{job}/artifacts", params=where, content=NESTED).raise_for_status()
    reporting = threading.Thread(target=report, args=(claims, launch))
    reporting.start()
    (pid,) = eventually(looking)
    with ledger.writing(SERVICE) as session:
        attempts.lock_job(session, session.get_one(Job, job))
    assert looking() == [pid]
    reporting.join()
    (warning,) = rest.get(f"/job/{job}.json").json()["warnings"]
    assert (warning["pointer"], warning["rule"]) == ("/produces", "not-judged")
    assert "it takes more than" in warning["message"]


def test_what_is_too_costly_to_find_blocks_the_job_that_wants_it(chain: Chain) -> None:
    chain.between(produced("$.parts"), {}, env_mapping={"GREETING": EXPENSIVE})
    reason, state, message = refused(chain.claims, chain.claim(chain.end(parts_json=NESTED)))
    assert (reason, state) == ("unresolved_mapping", "FAILED")
    assert "it takes more than" in message


def test_what_takes_long_but_not_too_long_is_found(chain: Chain) -> None:
    chain.between(produced("$[?@.id > 7997].id", "integer"), {}, env_mapping={"GREETING": "found"})
    launch = granted(chain.claims, chain.claim(chain.end(parts_json=MANY)))
    assert launch["environment"]["GREETING"] == "[7998, 7999]"
    assert launch["notices"] == []


def test_what_is_missing_is_named_wherever_it_is_looked_for(chain: Chain) -> None:
    mapping = {"GREETING": "$.parts[?search(@.name, 'x+')].id", "COUNT": "$..lost"}
    chain.between(produced("$[0].id", "integer"), {}, env_mapping=mapping)
    reason, _, message = refused(chain.claims, chain.claim(chain.end(parts_json=MANY)))
    assert reason == "unresolved_mapping"
    assert "the event has no value for" in message
    assert "COUNT ($..lost)" in message


def test_patterns_that_take_long_are_matched_outside_of_the_transaction(chain: Chain) -> None:
    produces = produced("$[0].id", "integer")
    produces["parts"]["patterns"] = ["(a|aa)+b", "parts.json"]
    chain.between(produces, {}, env_mapping={"GREETING": "found"})
    files = {"a" * 60: b"", "parts_json": b'[{"id": 7}]'}
    launch = granted(chain.claims, chain.claim(chain.end(**files)))
    assert launch["environment"]["GREETING"] == "7"
