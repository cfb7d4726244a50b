"""The list of jobs: its filters, the searches that are kept, and what is done to several."""

import html
import re
from collections.abc import Callable
from datetime import timedelta

import httpx
import pytest

from jobauto_prefect.facade.console.jobs.job_list_page import PAGE
from jobauto_prefect.facade.console.jobs.saved_searches import MAX_SEARCHES
from jobauto_prefect.ledger.store import Ledger
from tests.support.console import links, post, submit, visitor
from tests.support.job_records import HOSTILE, JobRecords, make_job_template


def _page(browser: httpx.Client, query: str = "") -> str:
    answer = browser.get(f"/console/jobs{query}")
    assert answer.status_code == 200, answer.text
    return answer.text


def _listed(page: str) -> list[int]:
    return [int(number) for number in re.findall(r'name="job" value="(\d+)"', page)]


def _post_all(browser: httpx.Client, jobs: list[int], action: str, **fields: str) -> httpx.Response:
    origin = str(browser.base_url).rstrip("/")
    sent = {"job": [str(job) for job in jobs], "action": action, "key": "k", **fields}
    headers = {"Origin": origin, "Sec-Fetch-Site": "same-origin"}
    return browser.post("/console/jobs/selected", data=sent, headers=headers)


def test_jobs_are_narrowed_by_what_the_address_says(
    operator: httpx.Client, rest: httpx.Client, ledger: Ledger, jobs: JobRecords
) -> None:
    globex = JobRecords(ledger, *make_job_template(rest, "globex", "Statements"))
    failed = jobs.job()
    old = jobs.job(end=jobs.now - timedelta(days=3))
    lost = globex.job(state="lost", severity=None, message="worker fell silent")
    running = globex.job(state="running")

    assert _listed(_page(operator)) == [running, lost, old, failed]
    assert _listed(_page(operator, "?state=failed&state=lost&order=id")) == [failed, old, lost]
    assert _listed(_page(operator, "?state=failed,lost&since=yesterday&order=-end")) == [
        lost,
        failed,
    ]
    assert _listed(_page(operator, f"?company_id={globex.company}")) == [running, lost]
    assert _listed(_page(operator, f"?runtemplate_id={jobs.template}")) == [old, failed]
    assert _listed(_page(operator, "?runtemplate=STATE")) == [running, lost]
    assert _listed(_page(operator, "?runtemplate=e")) == [running, lost, old, failed]
    assert _listed(_page(operator, "?message=SILENT")) == [lost]
    assert "No job matches." in _page(operator, "?message=nothing+of+it")
    page = _page(operator, "?state=failed,lost")
    assert 'value="failed" checked' in page
    assert 'value="running" checked' not in page
    for text in ("Statements", "globex Ltd.", "worker fell silent"):
        assert text in page
    assert re.search(r"\b[12] min ago", page)
    assert operator.get("/console/jobs?state=broken").status_code == 400


def test_one_run_template_is_told_by_its_name_and_can_be_let_go(
    operator: httpx.Client, jobs: JobRecords
) -> None:
    job = jobs.job()
    page = _page(operator, f"?runtemplate_id={jobs.template}")
    chosen = re.findall(r'<select name="runtemplate_id">.*?</select>', page, re.DOTALL)
    assert f'<option value="{jobs.template}" selected>Invoices</option>' in chosen[0]
    assert _listed(_page(operator, "?runtemplate_id=acme/Invoices")) == [job]
    assert 'name="runtemplate_id"' not in _page(operator)


def test_a_long_list_has_pages_and_orders_that_keep_the_filters(
    operator: httpx.Client, jobs: JobRecords
) -> None:
    ended = [jobs.job() for _ in range(PAGE + 2)]
    jobs.job(state="running")
    page = _page(operator, "?state=failed,lost&order=-end")
    (following,) = re.findall(r'href="([^"]+)" rel="next"', page)
    rest_of_them = _listed(operator.get(html.unescape(following)).text)
    assert sorted([*_listed(page), *rest_of_them]) == sorted(ended)
    (order,) = re.findall(r'aria-sort="descending"><a href="([^"]+)"', page)
    assert "state=failed,lost" in html.unescape(order)
    assert "order=end" in order


def test_searches_of_ones_own_are_kept_and_forgotten(
    operator: httpx.Client, jobs: JobRecords
) -> None:
    page = _page(operator, "?state=lost&order=id")
    assert 'name="query" value="state=lost&amp;order=id"' in page
    fields = {"name": HOSTILE, "query": "state=lost&order=id"}
    answer = post(operator, "/console/jobs/searches/add", fields)
    assert answer.headers["Location"] == "/console/jobs?state=lost&order=id"
    page = operator.get(answer.headers["Location"]).text
    assert "&lt;script&gt;alert" in page
    assert "<script" not in page
    assert "Save this search as" not in page
    for number in range(MAX_SEARCHES + 3):
        post(operator, "/console/jobs/searches/add", {"name": f"n{number}", "query": "state=lost"})
    assert _page(operator).count('class="own"') == MAX_SEARCHES
    post(operator, "/console/jobs/searches/remove", {"name": HOSTILE})
    assert "alert" not in _page(operator)


@pytest.mark.parametrize(
    "query", ["javascript:alert(1)//\n", "state=lost\r\nX-A: b", "x" * 300, "a b", "ž"]
)
def test_a_search_is_a_query_and_nothing_else(
    operator: httpx.Client, jobs: JobRecords, query: str
) -> None:
    answer = post(operator, "/console/jobs/searches/add", {"name": "mine", "query": query})
    assert answer.headers["Location"] == "/console/jobs"
    assert 'class="own"' not in _page(operator)


@pytest.mark.parametrize("cookie", ["", "!!!", "W1tdXQ", "WzFd", "bnVsbA", "W1siYSIsIjxiPiJdXQ"])
def test_a_broken_cookie_is_none(operator: httpx.Client, jobs: JobRecords, cookie: str) -> None:
    operator.cookies.set("jobauto_searches", cookie)
    assert 'class="own"' not in _page(operator)


def test_several_jobs_are_cancelled_and_each_result_is_told(
    operator: httpx.Client, jobs: JobRecords, rest: httpx.Client
) -> None:
    waiting = [jobs.job(state="scheduled") for _ in range(2)]
    over = jobs.job()
    answer = _post_all(
        operator, [*waiting, over, 999], "cancel", reason="a storm", back="state=scheduled"
    )
    assert "Cancelled: 2 of 4" in answer.text
    assert answer.text.count("refused") == 2
    assert "/console/jobs?state=scheduled" in links(answer.text)
    for job in waiting:
        record = rest.get(f"/job/{job}.json").json()
        assert (record["state"], record["message"]) == ("cancelled", "a storm")


def test_several_jobs_are_retried_once_and_their_windows_excused(
    operator: httpx.Client, jobs: JobRecords, rest: httpx.Client
) -> None:
    task = jobs.task()
    listed = [jobs.job(task_id=task), jobs.job(), jobs.job(state="running")]
    excused = _post_all(operator, listed, "excuse", why="the bank was closed")
    assert "Excused: 1 of 3" in excused.text
    assert rest.get(f"/task/{task}.json").json()["excuse"] == "the bank was closed"
    assert "Retried: 2 of 3" in _post_all(operator, listed, "retry").text
    # Sent again: the window has an attempt already, of the other the same job is told.
    assert "Retried: 1 of 3" in _post_all(operator, listed, "retry").text
    assert len(rest.get("/jobs.json").json()) == 5
    assert _post_all(operator, [], "retry").status_code == 400
    assert _post_all(operator, listed, "delete").status_code == 400


def test_a_viewer_has_nothing_to_select(facade_url: str, ledger: Ledger, jobs: JobRecords) -> None:
    jobs.add_member("vera", "viewer")
    waiting = jobs.job(state="scheduled")
    with visitor(facade_url) as browser:
        submit(browser, "vera")
        page = _page(browser)
        assert "Invoices" in page
        assert 'name="job"' not in page
        assert 'name="action"' not in page
        refused = _post_all(browser, [waiting], "cancel")
        assert "Cancelled: 0 of 1" in refused.text


def test_it_is_in_the_language_of_the_visitor(operator: httpx.Client, jobs: JobRecords) -> None:
    jobs.job(message=HOSTILE)
    page = operator.get("/console/jobs", headers={"Accept-Language": "cs"}).text
    for text in (
        "Selhání od včerejška",
        "Vybrané úlohy",
        "selhání, kritická chyba",
        "Uložená hledání",
    ):
        assert text in page
    assert "<script" not in page


def test_the_start_page_leads_to_these_lists(operator: httpx.Client, jobs: JobRecords) -> None:
    job = jobs.job()
    lost = jobs.job(state="lost", severity=None)
    jobs.job(state="warning", severity="warning", end=jobs.now - timedelta(days=4))
    addresses = links(operator.get("/").text)
    assert f"/console/jobs/{job}" in addresses
    address = "/console/jobs?state=failed,lost,blocked&since=yesterday&order=-end"
    assert address in addresses
    assert sorted(_listed(operator.get(address).text)) == [job, lost]


def test_neither_many_fields_nor_long_ones_stop_the_event_loop(
    operator: httpx.Client, slow_callbacks: Callable[[], list[str]]
) -> None:
    origin = str(operator.base_url).rstrip("/")
    headers = {"Origin": origin, "Sec-Fetch-Site": "same-origin"}
    headers["Content-Type"] = "application/x-www-form-urlencoded"
    for body, status in ((b"a&" * 2_000_000, 400), (b"name=" + b"%41" * 1_300_000, 400)):
        answer = operator.post("/console/jobs/searches/add", content=body, headers=headers)
        assert answer.status_code == status, answer.text
    assert slow_callbacks() == []
