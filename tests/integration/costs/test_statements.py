"""Statements and commits of an operation, on PostgreSQL."""

from datetime import timedelta
from typing import Any

import pytest

from jobauto_prefect.definitions.validation import report
from jobauto_prefect.jobs.windows import due_windows
from jobauto_prefect.ledger.audit.trail import SERVICE
from jobauto_prefect.ledger.jobs.flow_runs import run_key
from jobauto_prefect.ledger.records import Job, RunTemplate
from tests.support.claims import DEPLOYMENT, renewal_of
from tests.support.counted_facade import CountedFacade
from tests.support.documents import smallest
from tests.support.ledger_rows import fetch, fetch_all

HOUR = timedelta(hours=1)


def _require(counted: CountedFacade, most: int, commits: int = 1) -> None:
    asked = counted.asked
    assert len(asked.counted) <= most, asked.shown()
    assert asked.commits == commits, asked.shown()


async def _apply(counted: CountedFacade, **members: Any) -> int:
    template = await counted.template(**members)
    with counted.ledger.writing(SERVICE) as session:
        record = session.get_one(RunTemplate, template)
        record.deployment_id, record.applied_parameters = DEPLOYMENT, {}
    return template


def _own_run(counted: CountedFacade, job_id: int) -> dict[str, Any]:
    key = run_key(fetch(counted.ledger, Job, job_id))
    return {"parameters": {"jobauto": {"job": job_id}}, "idempotency_key": key}


async def test_a_posted_job(counted: CountedFacade) -> None:
    template = await _apply(counted)
    await counted.made("/job/", {"runtemplate_id": template})
    with counted.asked.during():
        await counted.made("/job/", {"runtemplate_id": template})
    _require(counted, 6)


@pytest.mark.parametrize("query", ["", "?definition=true"])
async def test_a_definition_is_validated_once(
    counted: CountedFacade, monkeypatch: pytest.MonkeyPatch, query: str
) -> None:
    validated, path_faults = list[Any](), report.json_path_faults

    def count(document: Any) -> Any:
        validated.append(document)
        return path_faults(document)

    monkeypatch.setattr(report, "json_path_faults", count)
    await counted.made(f"/app/{query}", smallest())
    assert len(validated) == 1


async def test_a_claim(counted: CountedFacade) -> None:
    template = await _apply(counted)
    for _ in range(2):
        job = await counted.made("/job/", {"runtemplate_id": template})
        run = _own_run(counted, job["id"])
        with counted.asked.during():
            await counted.claimed(**run)
    _require(counted, 7)


async def test_a_report(counted: CountedFacade) -> None:
    template = await _apply(counted)
    for _ in range(2):
        job = await counted.made("/job/", {"runtemplate_id": template})
        launch = await counted.claimed(**_own_run(counted, job["id"]))
        with counted.asked.during():
            await counted.reported(launch)
    _require(counted, 8)


@pytest.mark.parametrize("jobs", [1, 5])
async def test_a_renewal(counted: CountedFacade, jobs: int) -> None:
    template = await _apply(counted)
    claims = {}
    for _ in range(jobs):
        job = await counted.made("/job/", {"runtemplate_id": template})
        launch = await counted.claimed(**_own_run(counted, job["id"]))
        claims[str(job["id"])] = launch["claim_id"]
    with counted.asked.during():
        answer = await counted.claims.post("/renewals", json=renewal_of(1, jobs=claims))
    assert answer.json()["stop"] == {}
    _require(counted, 7)


LISTS = {"jobs": 6, "tasks": 2, "runtemplates": 11, "apps": 7, "auditlog": 2}
"""Those that come whole are read by a cursor: 4 for each that is open."""


@pytest.mark.parametrize("path", LISTS)
async def test_a_list(counted: CountedFacade, path: str) -> None:
    template = await _apply(counted)
    for _ in range(3):
        await counted.made("/job/", {"runtemplate_id": template})
    await counted.rest.get(f"/{path}.json")
    with counted.asked.during():
        answer = await counted.rest.get(f"/{path}.json")
    assert answer.is_success
    _require(counted, LISTS[path], commits=0)


TOTALS = (
    "/jobs.json?limit=2",
    "/jobs.json?state=failed,scheduled&limit=2",
    "/jobs.json?company_id=1&limit=2",
    "/auditlog.json?limit=2",
    "/auditlog.json?entity_type=Job&limit=2",
)


@pytest.mark.parametrize("path", TOTALS)
async def test_the_total_of_a_list_is_not_counted_row_by_row(
    counted: CountedFacade, path: str
) -> None:
    template = await _apply(counted)
    asked = []
    for jobs in (3, 20):
        for _ in range(jobs):
            await counted.made("/job/", {"runtemplate_id": template})
        await counted.rest.get(path)
        with counted.asked.during():
            answer = await counted.rest.get(path)
        assert int(answer.headers["x-total-count"]) >= jobs
        asked.append(len(counted.asked.counted))
        assert not [text for text in counted.asked.executed if "count(*)" in text]
        assert len([text for text in counted.asked.executed if "_tally" in text]) == 1
    assert asked[0] == asked[1]


async def test_the_last_page_of_a_list_tells_its_total(counted: CountedFacade) -> None:
    template = await _apply(counted)
    for _ in range(3):
        await counted.made("/job/", {"runtemplate_id": template})
    path = f"/jobs.json?runtemplate_id={template}&limit=2"
    for last, statements in ((f"{path}&offset=2", 0), (path, 1)):
        with counted.asked.during():
            answer = await counted.rest.get(last)
        assert answer.headers["x-total-count"] == "3"
        counts = [text for text in counted.asked.executed if "count(*)" in text]
        assert len(counts) == statements


@pytest.mark.parametrize("jobs", [1, 8])
async def test_the_start_page(counted: CountedFacade, jobs: int) -> None:
    template = await _apply(counted)
    for _ in range(jobs):
        await counted.made("/job/", {"runtemplate_id": template})
    address = "http://127.0.0.1/"
    await counted.rest.get(address)
    with counted.asked.during():
        answer = await counted.rest.get(address)
    assert answer.is_success
    _require(counted, 22, commits=0)


@pytest.mark.parametrize("more", [0, 20])
async def test_the_list_of_run_templates_with_their_last_jobs(
    counted: CountedFacade, more: int
) -> None:
    template = await counted.template(interv="d")
    for number in range(more):
        body = {"app_id": 1, "company": "acme", "name": f"{number}", "interv": "h"}
        other = await counted.made("/runtemplate/", body)
        await counted.made("/job/", {"runtemplate_id": other["id"]})
    await counted.made("/job/", {"runtemplate_id": template})
    await counted.rest.get("http://127.0.0.1/console/runtemplates")
    with counted.asked.during():
        answer = await counted.rest.get("http://127.0.0.1/console/runtemplates")
        assert answer.status_code == 200
    assert answer.text.count('class="mark') == more + 1
    assert answer.text.count('data-label="Next start"') == more + 1
    _require(counted, 20, commits=0)


async def test_a_read_begins_no_transaction(counted: CountedFacade) -> None:
    await counted.template()
    with counted.asked.during():
        assert (await counted.rest.get("/app/1.json")).is_success
    assert not [text for text in counted.asked.executed if text.startswith(("BEGIN", "ROLLBACK"))]


async def test_an_attempt_at_a_task(counted: CountedFacade) -> None:
    """Template and task are locked, and the task is written."""
    template = await _apply(counted, interv="h")
    with counted.ledger.writing(SERVICE) as session:
        due_windows.open_until(
            session, session.get_one(RunTemplate, template), session.clock() + HOUR
        )
    jobs = fetch_all(counted.ledger, Job)
    assert jobs
    run = _own_run(counted, jobs[0].id)
    with counted.asked.during():
        launch = await counted.claimed(**run)
    _require(counted, 13)
    with counted.asked.during():
        await counted.reported(launch)
    _require(counted, 14)  # two of them are entries of the trail, which go together
