"""What a claim opens of its job once that has ended; and numbers that no column holds."""

from datetime import UTC, datetime
from typing import Any
from uuid import uuid4

import httpx
import pytest

from jobauto_prefect.ledger.audit.trail import SERVICE
from jobauto_prefect.ledger.records import Job, Lease
from jobauto_prefect.ledger.store import Ledger
from tests.support.claims import claim_of, granted, renewal_of, report, report_of
from tests.support.databases import both_databases
from tests.support.ledger_rows import fetch

pytestmark = both_databases


def lines(launch: dict[str, Any], seq: int, *texts: str) -> dict[str, Any]:
    at = datetime.now(UTC).isoformat()
    output = [{"seq": seq, "stream": "stdout", "at": at, "texts": [*texts]}]
    return {"claim_id": launch["claim_id"], "output": output}


def send(claims: httpx.Client, launch: dict[str, Any], content: bytes) -> list[int]:
    """The statuses of a line of output, of an artifact, and of an input file that is none."""
    job, claim = f"/jobs/{launch['job_id']}", {"claim_id": launch["claim_id"]}
    return [
        claims.post(f"{job}/output", json=lines(launch, 9, content.decode())).status_code,
        claims.put(
            f"{job}/artifacts", params={**claim, "path": "result.json"}, content=content
        ).status_code,
        claims.get(f"{job}/inputs/1", params=claim).status_code,
    ]


def left(rest: httpx.Client, launch: dict[str, Any]) -> tuple[str, bytes]:
    job = rest.get(f"/job/{launch['job_id']}.json").json()
    (artifact,) = job["artifacts"]
    return job["stdout"], rest.get(f"/artifact/{artifact['id']}").content


@pytest.mark.parametrize("end", ["exited", "cancelled", "lost"])
def test_nothing_is_added_to_a_job_that_has_ended(
    claims: httpx.Client, rest: httpx.Client, template: dict[str, Any], end: str
) -> None:
    launch = granted(claims, claim_of())
    assert send(claims, launch, b"true")[:2] == [204, 204]
    unable = {"worker_unable": True} if end == "lost" else {}  # no report of it counts any more
    report(claims, launch, ending=end, exit_code=0 if end == "exited" else None, **unable)
    before = left(rest, launch)
    assert send(claims, launch, b"false") == [409, 409, 409]
    assert left(rest, launch) == before == ("true\n", b"true")
    report(claims, launch, ending=end, **unable)  # a repeated report does no harm


def test_a_lost_job_whose_report_still_counts_tells_what_it_has(
    claims: httpx.Client, rest: httpx.Client, template: dict[str, Any], ledger: Ledger
) -> None:
    launch = granted(claims, claim_of())
    report(claims, launch, ending="lost", exit_code=None)
    assert send(claims, launch, b"true")[:2] == [204, 204]
    with ledger.writing(SERVICE) as session:  # another attempt is granted
        session.delete(session.get_one(Lease, launch["job_id"]))
    assert send(claims, launch, b"late")[:2] == [409, 409]
    assert left(rest, launch) == ("true\n", b"true")


HUGE = {"2^31": 2**31, "2^63": 2**63, "2^64": 2**64, "-2^64": -(2**64), "10^400": 10**400}


@pytest.mark.parametrize("number", HUGE.values(), ids=HUGE)
def test_numbers_that_no_column_holds_are_bad_requests(
    claims: httpx.Client, template: dict[str, Any], ledger: Ledger, number: int
) -> None:
    launch = granted(claims, claim_of())
    job = f"/jobs/{launch['job_id']}"
    hello = {"worker": "w1", "pool": "jobauto", "host": "h", "instance": str(uuid4())}
    asked: list[tuple[str, dict[str, Any]]] = [
        (f"{job}/output", lines(launch, number, "x")),
        (f"{job}/output", lines(launch, 2**31 - 2, "x", "y", "z")),
        (f"{job}/report", report_of(launch, exit_code=number)),
        (f"{job}/report", report_of(launch, pid=number)),
        ("/claims", claim_of(run_number=number)),
        ("/renewals", renewal_of(number)),
        ("/workers", {**hello, "limit": number}),
    ]
    if not 0 < number < 2**63:
        asked += [
            (f"/jobs/{number}/output", lines(launch, 1, "x")),
            (f"/jobs/{number}/report", report_of(launch)),
            ("/renewals", renewal_of(1, jobs={str(number): str(uuid4())})),
            ("/renewals", renewal_of(1, unknown={str(number): str(uuid4())})),
        ]
    for path, body in asked:
        refused = claims.post(path, json=body)
        assert refused.status_code == 400, (path[:40], refused.text[:300])
        assert refused.json()["details"], path
    for path in (f"/applications/{number}", f"{job}/inputs/{number}?claim_id={uuid4()}"):
        assert 400 <= claims.get(path).status_code < 500, path
    assert fetch(ledger, Job, launch["job_id"]).state == "running"


def test_the_highest_number_of_a_line_leaves_room_for_the_ledgers_own(
    claims: httpx.Client, rest: httpx.Client, template: dict[str, Any]
) -> None:
    launch = granted(claims, claim_of())
    path = f"/jobs/{launch['job_id']}"
    last = lines(launch, 2_000_000_000, "the last")
    assert claims.post(f"{path}/output", json=last).status_code == 204
    report(claims, launch, ending="timeout", exit_code=None, notices=["it took too long"])
    assert rest.get(f"{path.replace('jobs', 'job')}.json").json()["stdout"] == "the last\n"


@pytest.mark.parametrize("moment", ["0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-14:00"])
def test_times_that_no_zone_shows_hide_nothing(
    claims: httpx.Client, rest: httpx.Client, template: dict[str, Any], moment: str
) -> None:
    run = {"scheduled_for": moment, "changed_at": moment}
    launch = granted(claims, claim_of(**run, due="0001-01-01T00:00:00+14:00"))
    path = f"/jobs/{launch['job_id']}"
    line = lines(launch, 1, "x")
    line["output"][0]["at"] = moment
    assert claims.post(f"{path}/output", json=line).status_code == 204
    report(claims, launch, started_at=moment, ended_at=moment)
    shown = rest.get(f"/job/{launch['job_id']}.json")
    assert shown.json()["stdout"] == "x\n"
    assert rest.get(f"/job/{launch['job_id']}/output.json").json()
    assert rest.get("/jobs.json").status_code == 200


def test_text_that_can_not_be_kept_is_shown_without_it(
    claims: httpx.Client, rest: httpx.Client, template: dict[str, Any]
) -> None:
    hello = {"worker": "w9x", "pool": "jobauto", "host": "h\0", "instance": str(uuid4())}
    welcomed = claims.post("/workers", json={**hello, "run_as": {"\0": "\0"}})
    assert welcomed.status_code == 200, welcomed.text
    assert rest.get("/workers.json").json()["w9x"]["host"] == "h\ufffd"
    claim = claim_of(idempotency_key="k\0", work_directory="/tmp/\0")
    launch = granted(claims, claim)
    at, claimed = f"/jobs/{launch['job_id']}/artifacts", {"claim_id": launch["claim_id"]}
    for path in ("a\0b", "".join(map(str, range(1000)))):
        refused = claims.put(at, params={**claimed, "path": path}, content=b"x")
        assert refused.status_code == 400, refused.text
    kept = claims.put(
        at, params={**claimed, "path": "a", "name": "n\0", "type": "t\0"}, content=b"x"
    )
    assert kept.status_code == 204, kept.text
    notices, produced = ["n\0"], {"p\0": {"a\0": "\0"}}
    report(claims, launch, message="m\0", notices=notices, produced=produced)
    (artifact,) = rest.get(f"/job/{launch['job_id']}.json").json()["artifacts"]
    assert artifact["name"] == "n\ufffd"
    refused = claims.post("/claims", json=claim_of(template_id=10**30))
    assert refused.status_code == 400
