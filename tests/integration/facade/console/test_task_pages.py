"""Tasks: their list, a task's page, and the calendar of windows."""

import html
import re
from datetime import UTC, datetime, timedelta

import httpx

from jobauto_prefect.ledger.store import Ledger
from tests.support.console import links, post, submit, visitor
from tests.support.job_records import HOSTILE, JobRecords, make_job_template


def _page(browser: httpx.Client, path: str) -> str:
    answer = browser.get(f"/console/tasks{path}")
    assert answer.status_code == 200, answer.text
    return answer.text


def _listed(page: str) -> set[str]:
    return {address for address in links(page) if re.fullmatch(r"/console/tasks/\d+", address)}


def test_tasks_are_listed_with_their_company_and_narrowed(
    operator: httpx.Client, rest: httpx.Client, ledger: Ledger, jobs: JobRecords
) -> None:
    globex = JobRecords(ledger, *make_job_template(rest, "globex", HOSTILE))
    failed = f"/console/tasks/{jobs.task()}"
    missed = f"/console/tasks/{globex.task(state='missed', message=HOSTILE)}"
    early = datetime(2026, 3, 1, 1, tzinfo=UTC)
    done = f"/console/tasks/{jobs.task(state='fulfilled', window_start=early)}"

    page = _page(operator, "")
    assert _listed(page) == {failed, missed, done}
    for text in ("acme Ltd.", "globex Ltd.", "1 Mar 2026 01:00 \N{EN DASH} 02:00"):
        assert text in page
    assert "<script" not in page
    assert _listed(_page(operator, "?state=failed,missed")) == {failed, missed}
    assert _listed(_page(operator, f"?company_id={globex.company}")) == {missed}
    assert _listed(_page(operator, f"?runtemplate_id={jobs.template}")) == {failed, done}
    assert _listed(_page(operator, "?runtemplate=INVO")) == {failed, done}
    assert 'name="runtemplate_id"' in _page(operator, f"?runtemplate_id={jobs.template}")
    assert _listed(_page(operator, "?from=2026-03-01&to=2026-03-02")) == {done}
    czech = operator.get("/console/tasks", headers={"Accept-Language": "cs"}).text
    assert "1. 3. 2026 01:00 \N{EN DASH} 02:00" in czech
    assert "Kalendář oken" in czech


def test_a_task_is_retried_and_excused_from_its_page(
    operator: httpx.Client, jobs: JobRecords, rest: httpx.Client
) -> None:
    task = jobs.task()
    job = jobs.job(task_id=task, message=HOSTILE)
    page = _page(operator, f"/{task}")
    assert {f"/console/jobs/{job}", f"/console/runtemplates/{jobs.template}"} <= links(page)
    assert '<span class="badge bad">failed</span>' in page
    assert "<script" not in page
    refused = post(operator, f"/console/tasks/{task}/excuse", {"why": ""})
    assert refused.status_code == 400
    assert 'role="alert"' in refused.text
    answer = post(operator, f"/console/tasks/{task}/excuse", {"why": "a holiday"})
    page = operator.get(answer.headers["Location"]).text
    assert "failed, excused" in page
    assert "Excused by eva: a holiday" in html.unescape(page)
    answer = post(operator, f"/console/tasks/{task}/retry")
    assert answer.status_code == 303
    assert rest.get(f"/task/{task}.json").json()["state"] == "open"
    assert post(operator, f"/console/tasks/{task}/retry").status_code == 409


def test_a_viewer_sees_no_button_of_a_task(
    facade_url: str, ledger: Ledger, jobs: JobRecords
) -> None:
    jobs.add_member("vera", "viewer")
    task = jobs.task()
    with visitor(facade_url) as browser:
        submit(browser, "vera")
        page = _page(browser, f"/{task}")
        assert "Invoices" in page
        assert f"/console/tasks/{task}/" not in page
        assert post(browser, f"/console/tasks/{task}/retry").status_code == 403


def test_a_month_of_windows_is_counted_by_day(
    operator: httpx.Client, rest: httpx.Client, ledger: Ledger, jobs: JobRecords
) -> None:
    globex = JobRecords(ledger, *make_job_template(rest, "globex", "Statements"))
    begin = datetime(2026, 3, 10, tzinfo=UTC)
    for hour in range(3):
        jobs.task(state="fulfilled", window_start=begin + timedelta(hours=hour))
    missed = jobs.task(state="missed", window_start=begin + timedelta(hours=23, minutes=59))
    jobs.task(excuse="closed", excused_by="x", window_start=begin + timedelta(hours=5))
    globex.task(state="open", window_start=begin + timedelta(days=1))

    page = _page(operator, "/calendar?month=2026-03")
    counted = re.findall(r'class="badge [^"]*"[^>]*>([^<]+)<', page)
    assert counted == ["3 fulfilled", "1 missed", "1 excused", "1 owed"]
    assert "Mar 2026" in page
    day = next(a for a in links(page) if "state=missed" in a)
    assert _listed(operator.get(day).text) == {f"/console/tasks/{missed}"}
    of_globex = _page(operator, f"/calendar?month=2026-03&company={globex.company}")
    assert "1 owed" in of_globex
    assert "fulfilled" not in re.findall(r"<tbody>.*</tbody>", of_globex, re.DOTALL)[0]
    of_template = _page(operator, f"/calendar?month=2026-03&template={jobs.template}")
    assert "1 owed" not in of_template
    assert "No window begins this month." in _page(operator, "/calendar?month=2026-04")
    for month in ("", "x", "2026-13", "1999-01", "٢٠٢٦-٠٣"):
        _page(operator, f"/calendar?month={month}&template=%D9%A2&company=x")


def test_what_is_ahead_is_in_the_calendar(
    operator: httpx.Client, jobs: JobRecords, rest: httpx.Client
) -> None:
    changed = {"interv": "d", "active": True}
    assert rest.post(f"/runtemplate/{jobs.template}.json", json=changed).is_success
    following = (jobs.now.replace(day=1) + timedelta(days=32)).strftime("%Y-%m")
    page = _page(operator, f"/calendar?month={following}&template={jobs.template}")
    assert page.count("1 planned") >= 28
    czech = operator.get(
        f"/console/tasks/calendar?month={following}", headers={"Accept-Language": "cs"}
    ).text
    assert "1 naplánováno" in czech


def test_a_member_counts_the_windows_of_their_company_alone(
    facade_url: str, ledger: Ledger, rest: httpx.Client, jobs: JobRecords
) -> None:
    globex = JobRecords(ledger, *make_job_template(rest, "globex", "Statements"))
    globex.add_member("gina", "admin")
    begin = datetime(2026, 3, 10, tzinfo=UTC)
    mine, other = globex.task(window_start=begin), jobs.task(window_start=begin)
    with visitor(facade_url) as browser:
        submit(browser, "gina")
        assert "1 failed" in _page(browser, "/calendar?month=2026-03")
        assert _listed(_page(browser, "")) == {f"/console/tasks/{mine}"}
        assert browser.get(f"/console/tasks/{other}").status_code == 404


def test_all_windows_that_are_ahead_are_counted(
    operator: httpx.Client, jobs: JobRecords, rest: httpx.Client
) -> None:
    """Some 45,000 of each run template, by the clock of the service."""
    company = rest.get(f"/runtemplate/{jobs.template}.json").json()
    for name in ("one", "two"):
        body = {"app_id": company["app_id"], "company_id": company["company_id"], "name": name}
        rest.post("/runtemplate/", json={**body, "interv": "i"}).raise_for_status()
    now = datetime.now(UTC)
    later = (now.replace(day=1) + timedelta(days=64)).strftime("%Y-%m")
    page = _page(operator, f"/calendar?month={later}")
    counts = re.findall(r">(\d+) planned<", page)
    assert len(counts) >= 28
    assert set(counts) == {"2880"}
