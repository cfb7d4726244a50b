"""Filters of jobs, tasks and lines of output: what the contract lets one choose."""

from datetime import timedelta

import httpx

from jobauto_prefect.ledger.store import Ledger
from tests.support.company_pair import editor_token
from tests.support.databases import both_databases
from tests.support.job_records import JobRecords, make_job_template
from tests.support.records import ok
from tests.support.servers import client

pytestmark = both_databases


def _ids(rest: httpx.Client, path: str, **query: str | int) -> list[int]:
    return sorted(map(int, ok(rest.get(path, params=query))))


def test_jobs_are_listed_by_several_states_by_their_end_and_by_words_of_their_message(
    rest: httpx.Client, jobs: JobRecords
) -> None:
    failed = jobs.job(message="No Rows at 100%")
    lost = jobs.job(state="lost", message="worker fell silent")
    old = jobs.job(end=jobs.now - timedelta(days=3))
    again = jobs.job(state="scheduled", retry_of=failed, attempt=2)

    assert _ids(rest, "/jobs.json", state="failed,lost") == [failed, lost, old]
    assert _ids(rest, "/jobs.json", state="lost") == [lost]
    day_ago = (jobs.now - timedelta(days=1)).isoformat()
    assert _ids(rest, "/jobs.json", ended_from=day_ago) == [failed, lost]
    assert _ids(rest, "/jobs.json", ended_to=day_ago) == [old]
    assert _ids(rest, "/jobs.json", message="rows AT 100%") == [failed]
    assert _ids(rest, "/jobs.json", message="%") == [failed]
    assert _ids(rest, "/jobs.json", retry_of=failed) == [again]


def test_the_total_counts_what_somebody_of_one_company_may_see(
    rest: httpx.Client, ledger: Ledger, facade_url: str
) -> None:
    acme, globex = (
        JobRecords(ledger, *make_job_template(rest, slug)) for slug in ("acme", "globex")
    )
    gone, *_ = (acme.job() for _ in range(3))
    for state in ("failed", "succeeded", "scheduled"):
        globex.job(state=state)
    assert rest.delete(f"/job/{gone}.json").is_success
    token = editor_token(ledger, "eva", globex.company)
    with client(f"{facade_url}/api/v1", token) as of_globex:
        for who, path, total in (
            (rest, "/jobs.json?limit=1", 5),
            (rest, "/jobs.json?limit=1&state=failed,scheduled", 4),
            (rest, "/jobs.json?limit=1&company_id=acme", 2),
            (of_globex, "/jobs.json?limit=1", 3),
            (of_globex, "/jobs.json?limit=1&state=failed,scheduled", 2),
            (of_globex, "/jobs.json?limit=2&offset=2", 3),
            (of_globex, "/jobs.json?limit=2&offset=9", 3),
            (of_globex, f"/jobs.json?limit=1&company_id={acme.company}", 0),
            (of_globex, "/auditlog.json?limit=1", 0),
        ):
            answer = who.get(path)
            assert (answer.status_code, answer.headers["x-total-count"]) == (200, str(total)), path


def test_jobs_and_tasks_are_listed_by_a_part_of_their_run_templates_name(
    rest: httpx.Client, ledger: Ledger
) -> None:
    nightly = JobRecords(ledger, *make_job_template(rest, "acme", "Nightly 100%"))
    daily = JobRecords(ledger, *make_job_template(rest, "globex", "Daily"))
    for collection, first, second in (
        ("jobs", nightly.job(), daily.job()),
        ("tasks", nightly.task(), daily.task()),
    ):
        assert _ids(rest, f"/{collection}.json", runtemplate="LY") == [first, second]
        assert _ids(rest, f"/{collection}.json", runtemplate="0%") == [first]
        narrowed = {"runtemplate": "LY", "company_id": "globex"}
        assert _ids(rest, f"/{collection}.json", **narrowed) == [second]


def test_a_list_of_states_names_the_one_that_there_is_not(
    rest: httpx.Client, jobs: JobRecords
) -> None:
    answer = rest.get("/jobs.json", params={"state": "failed,broken"})
    assert answer.status_code == 400
    assert answer.json()["details"][0]["pointer"] == "/state"


def test_deleting_cancels_waiting_jobs_only_where_they_alone_are_asked_for(
    rest: httpx.Client, jobs: JobRecords
) -> None:
    failed, waiting = jobs.job(), jobs.job(state="scheduled")
    answer = rest.delete("/jobs.json", params={"state": "failed,scheduled"}).json()
    assert answer["job_ids"] == [failed]
    assert [kept["job_id"] for kept in answer["kept"]] == [waiting]


def test_tasks_have_their_company_and_are_listed_by_it(rest: httpx.Client, ledger: Ledger) -> None:
    acme, globex = (
        JobRecords(ledger, *make_job_template(rest, slug)) for slug in ("acme", "globex")
    )
    first, second = acme.task(), globex.task(state="missed")

    assert rest.get(f"/task/{second}.json").json()["company_id"] == globex.company
    assert _ids(rest, "/tasks.json", company_id="acme") == [first]
    assert _ids(rest, "/tasks.json", company_id=globex.company) == [second]
    assert _ids(rest, "/tasks.json", state="failed,missed") == [first, second]


def test_of_an_output_the_end_a_part_or_lines_with_a_text_are_read(
    rest: httpx.Client, jobs: JobRecords
) -> None:
    job = jobs.job()
    jobs.lines(job, *(f"Line {number} of 100%" for number in range(1, 31)))

    def numbers(**query: str | int) -> list[int]:
        answer = rest.get(f"/job/{job}/output.json", params=query).json()
        return [line["seq"] for line in answer["lines"]]

    assert numbers(tail=3) == [28, 29, 30]
    assert numbers(tail=3, before=10) == [7, 8, 9]
    assert numbers(tail=2, after=28) == [29, 30]
    assert numbers(find="LINE 2") == [2, *range(20, 30)]
    assert numbers(find="0%", tail=1) == [30]
    assert numbers(find="_") == []
    assert rest.get(f"/job/{job}/output.txt", params={"tail": 1}).text == "Line 30 of 100%\n"


def test_a_tail_goes_on_to_the_end(rest: httpx.Client, jobs: JobRecords) -> None:
    job = jobs.job()
    jobs.lines(job, *(f"line {number}" for number in range(1, 31)))
    answer = rest.get(f"/job/{job}/output.json", params={"tail": 3, "follow": "true"}).json()
    assert [line["seq"] for line in answer["lines"]] == [28, 29, 30]
    assert answer["last"] == 30
