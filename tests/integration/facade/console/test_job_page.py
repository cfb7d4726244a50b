"""A job's page: what it tells, its log, its files, and what can be done about it."""

import html
import re
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import httpx
import pytest

from jobauto_prefect.facade.console.jobs import job_page
from jobauto_prefect.facade.console.jobs.artifact_previews import MAX_MARKDOWN, MAX_PREVIEWED
from jobauto_prefect.facade.console.jobs.log import (
    MAX_LIVE_LINES,
    PAGE_LINES,
    LogSection,
    read_log,
)
from jobauto_prefect.ledger.audit.trail import SERVICE
from jobauto_prefect.ledger.jobs.leases import add_notice
from jobauto_prefect.ledger.records import Job
from jobauto_prefect.ledger.store import Ledger
from tests.support.console import add_user, links, post, submit, visitor
from tests.support.job_records import HOSTILE, JobRecords, make_job_template

PNG = b"\x89PNG\r\n\x1a\n"


def _page(browser: httpx.Client, job_id: int, **query: str | int) -> str:
    answer = browser.get(f"/console/jobs/{job_id}", params=query)
    assert answer.status_code == 200, answer.text
    return answer.text


def _numbers(page: str) -> list[int]:
    return [int(number) for number in re.findall(r'id="L(\d+)"', page)]


def test_it_tells_what_a_job_is_with_names_and_its_state_once(
    operator: httpx.Client, jobs: JobRecords
) -> None:
    job = jobs.job(env={"COUNT": "4", "PASSWORD": "********"}, worker="vm1", note="by hand")
    page = _page(operator, job)
    for text in (
        "<h1>Invoices</h1>",
        "acme Ltd.",
        '<span class="badge worst">failed, critical</span>',
        "no rows",
        "2 min 0 s",
        "probe --greeting hello",
        "COUNT",
        "********",
        "vm1",
        "by hand",
        "somebody, over REST",
        "No output.",
    ):
        assert text in page, text
    assert re.search(r"\b[12] min ago", page)
    assert page.count("failed") == 1
    assert "htmx.js" not in page
    assert {f"/console/runtemplates/{jobs.template}", f"/api/v1/job/{job}.html"} <= links(page)


def test_it_is_in_the_language_of_the_visitor(operator: httpx.Client, jobs: JobRecords) -> None:
    page = operator.get(f"/console/jobs/{jobs.job()}", headers={"Accept-Language": "cs"}).text
    for text in (
        "selhání, kritická chyba",
        "Spustit znovu",
        "Příkaz a hodnoty",
        "před 60 s",
        "Výstup",
    ):
        assert text in page or text == "před 60 s", text
    assert "Run again" not in page


def test_names_and_output_are_texts_and_nothing_else(
    rest: httpx.Client, ledger: Ledger, operator: httpx.Client
) -> None:
    records = JobRecords(ledger, *make_job_template(rest, "evil", HOSTILE))
    job = records.job(message=HOSTILE, command=HOSTILE, note=HOSTILE, env={"COUNT": HOSTILE})
    records.lines(job, HOSTILE, f"\x1b[31m{HOSTILE}", "\x1b]8;;javascript:alert(1)\x07link")
    records.artifact(job, "notes.md", f"# {HOSTILE}\n[x](javascript:alert(1))".encode(), "text/x")
    records.artifact(job, "values.json", b'{"<b>": "<i>"}', "application/json")
    page = _page(operator, job, find="alert")
    assert page.count(html.escape('<script>alert("x")').replace("&#x27;", "'")[:14]) >= 5
    assert "<script" not in page
    assert 'href="javascript' not in page
    assert "<i>" not in page


def test_the_log_has_colours_and_tells_standard_error(
    operator: httpx.Client, jobs: JobRecords
) -> None:
    job = jobs.job()
    jobs.lines(job, "all is \x1b[1;32mwell\x1b[0m", "50 %\r100 %", "bell\x07 and \x1b[2Knull")
    jobs.lines(job, "not \x1b[41mhere", stream="stderr", first=4)
    page = _page(operator, job)
    assert '<span class="f2 bold">well</span>' in page
    assert ">100 %</span>" in page
    assert "50 %" not in page
    assert ">bell and null</span>" in page
    assert '<div class="line err" id="L4">' in page
    assert '<span class="b1">here</span>' in page
    assert "\x1b" not in page
    assert "style=" not in page


def test_lines_of_the_service_s_own_stand_among_the_others(
    operator: httpx.Client, jobs: JobRecords
) -> None:
    job = jobs.job()
    jobs.lines(job, "theirs")
    with jobs.ledger.writing(SERVICE) as session:
        add_notice(session, job, "its flow run is gone from Prefect")
    page = _page(operator, job)
    assert _numbers(page) == [1, 2]
    assert "its flow run is gone from Prefect" in page
    assert operator.get(f"/api/v1/job/{job}.html").status_code == 200


def test_of_a_long_log_the_end_is_shown_and_earlier_lines_are_a_link_away(
    operator: httpx.Client, jobs: JobRecords
) -> None:
    job = jobs.job()
    last = 2 * PAGE_LINES + 5
    jobs.lines(job, *(f"line {number}" for number in range(1, last + 1)))
    page = _page(operator, job)
    assert _numbers(page) == list(range(last - PAGE_LINES + 1, last + 1))
    (earlier,) = re.findall(r'href="([^"]+)">Earlier lines', page)
    page = operator.get(html.unescape(earlier)).text
    assert _numbers(page) == list(range(6, PAGE_LINES + 6))
    assert "Latest lines" in page
    (earlier,) = re.findall(r'href="([^"]+)">Earlier lines', page)
    page = operator.get(html.unescape(earlier)).text
    assert _numbers(page) == [1, 2, 3, 4, 5]
    assert "Earlier lines" not in page
    whole = operator.get(f"/console/jobs/{job}/log.txt")
    assert whole.text.splitlines() == [f"line {number}" for number in range(1, last + 1)]
    assert whole.headers["Content-Disposition"] == f'attachment; filename="job-{job}.txt"'


def test_lines_with_a_text_are_looked_for_in_the_whole_log(
    operator: httpx.Client, jobs: JobRecords
) -> None:
    job = jobs.job()
    jobs.lines(job, *("Disk FULL" if number == 7 else "fine" for number in range(1, 2000)))
    page = _page(operator, job, find="disk full")
    assert _numbers(page) == [7]
    assert "<mark>Disk FULL</mark>" in page
    (context,) = re.findall(r'class="number" href="([^"]+)"', page)
    assert 7 in _numbers(operator.get(html.unescape(context)).text)
    assert "No line contains this text." in _page(operator, job, find="nothing of it")


def test_a_log_shows_hidden_characters_as_codes_and_its_download_keeps_them(
    operator: httpx.Client, jobs: JobRecords
) -> None:
    job = jobs.job(state="running")
    jobs.lines(job, "open in\u202eseciov", "\x1b[32m\u2066ok\x1b[0m\u200b")
    for page in (
        _page(operator, job),
        _page(operator, job, find="in\u202es"),
        operator.get(f"/console/jobs/{job}/log?after=0").text,
    ):
        assert r"in\u202es" in page
        assert "\u202e" not in re.sub('value="[^"]*"', "", page)
    assert r"<mark>in\u202es</mark>eciov" in _page(operator, job, find="in\u202es")
    assert r'<span class="f2">\u2066ok</span>\u200b' in _page(operator, job)
    assert "in\u202eseciov" in operator.get(f"/console/jobs/{job}/log.txt").text


def _next_address(page: str) -> str:
    (address,) = re.findall(r'hx-get="([^"]+)"', page)
    return html.unescape(address)


def test_a_page_of_a_running_job_follows_its_log(
    operator: httpx.Client, jobs: JobRecords, rest: httpx.Client
) -> None:
    job = jobs.job(state="running")
    jobs.lines(job, "one", "two")
    page = _page(operator, job)
    assert "/console/static/htmx.js" in page
    address = _next_address(page)
    jobs.lines(job, "three", first=3)
    answer = operator.get(address)
    assert _numbers(answer.text) == [3]
    assert "<html" not in answer.text
    assert "HX-Refresh" not in answer.headers
    assert _numbers(operator.get(_next_address(answer.text)).text) == []


def test_a_page_that_follows_loads_anew_once_its_job_is_in_another_state(
    operator: httpx.Client, jobs: JobRecords
) -> None:
    job = jobs.job(state="running")
    address = _next_address(_page(operator, job)).replace("state=running", "state=scheduled")
    assert operator.get(address).headers["HX-Refresh"] == "true"


@pytest.mark.parametrize("later", ["running", "cancelled"])
def test_a_page_reloads_if_its_job_changed_while_it_was_read(
    operator: httpx.Client,
    jobs: JobRecords,
    ledger: Ledger,
    monkeypatch: pytest.MonkeyPatch,
    later: str,
) -> None:
    job = jobs.job(state="scheduled")

    async def read_log_of_a_changed_job(*asked: Any, **options: Any) -> LogSection:
        with ledger.writing(SERVICE) as session:
            session.get_one(Job, job).state = later
        return await read_log(*asked, **options)

    monkeypatch.setattr(job_page, "read_log", read_log_of_a_changed_job)
    page = _page(operator, job)
    assert ">scheduled</span>" in page
    assert operator.get(_next_address(page)).headers["HX-Refresh"] == "true"


def test_a_page_that_follows_never_grows_without_end(
    operator: httpx.Client, jobs: JobRecords
) -> None:
    job = jobs.job(state="running")
    jobs.lines(job, "one")
    address = _next_address(_page(operator, job))
    jobs.lines(job, *(f"line {number}" for number in range(PAGE_LINES + 1)), first=2)
    answer = operator.get(address)
    assert len(_numbers(answer.text)) == PAGE_LINES
    assert (answer.headers["HX-Retarget"], answer.headers["HX-Reswap"]) == ("#lines", "innerHTML")
    long = operator.get(f"/console/jobs/{job}/log?after={PAGE_LINES}&first=1&state=running")
    assert "HX-Retarget" not in long.headers
    grown = {"after": MAX_LIVE_LINES + 1, "first": 1, "state": "running"}
    assert operator.get(f"/console/jobs/{job}/log", params=grown).headers["HX-Retarget"]


def test_files_are_previewed_and_saved_and_never_run(
    operator: httpx.Client, jobs: JobRecords
) -> None:
    job = jobs.job()
    result = jobs.artifact(job, "out/result.json", b'{"rows": 7, "file": "a.csv"}', "text/x")
    jobs.artifact(job, "notes.md", b"# Title\n\nsome **strong** words ![x](https://e.x/y)", "x")
    jobs.artifact(job, "deep.json", b'{"a": {"b": 1}}', "application/json")
    picture = jobs.artifact(job, "chart.png", PNG, "image/png")
    drawing = jobs.artifact(job, "logo.svg", b"<svg onload='alert(1)'/>", "image/svg+xml")
    page = _page(operator, job)
    assert '<th scope="row">rows</th><td>7</td>' in page
    assert "<strong>strong</strong>" in page
    assert '<img src="https://e.x' not in page
    assert html.escape('"b": 1', quote=True).replace("&quot;", "&#34;") in page
    assert f'<img src="/console/artifacts/{picture}"' in page
    assert f'<img src="/console/artifacts/{drawing}"' not in page
    for artifact, kind in (
        (result, "application/json"),
        (picture, "image/png"),
        (drawing, "application/octet-stream"),
    ):
        answer = operator.get(f"/console/artifacts/{artifact}")
        assert answer.headers["Content-Type"] == kind
        assert answer.headers["Content-Disposition"].startswith("attachment;")
        assert answer.headers["Content-Security-Policy"] == "default-src 'none'; sandbox"
        assert answer.headers["X-Content-Type-Options"] == "nosniff"


def test_attempts_for_a_window_and_runs_of_the_same_job_are_told(
    operator: httpx.Client, jobs: JobRecords
) -> None:
    task = jobs.task()
    first = jobs.job(task_id=task)
    second = jobs.job(task_id=task, attempt=2, state="lost", severity=None, message="silent")
    page = _page(operator, second)
    assert f"/console/jobs/{first}" in links(page)
    assert f"/console/tasks/{task}" in links(page)
    assert "attempt 2" in page
    alone = jobs.job()
    again = jobs.job(retry_of=alone, attempt=2)
    assert f"/console/jobs/{alone}" in links(_page(operator, again))
    assert f"/console/jobs/{again}" in links(_page(operator, alone))


def test_a_waiting_job_is_cancelled_with_a_reason(
    operator: httpx.Client, jobs: JobRecords, rest: httpx.Client
) -> None:
    job = jobs.job(state="scheduled")
    assert "Cancel the job" in _page(operator, job)
    answer = post(operator, f"/console/jobs/{job}/cancel", {"reason": "a wrong day"})
    assert (answer.status_code, answer.headers["Location"]) == (
        303,
        f"/console/jobs/{job}",
    )
    page = operator.get(answer.headers["Location"]).text
    assert "The job is being stopped." in page
    assert "a wrong day" in page
    assert rest.get(f"/job/{job}.json").json()["state"] == "cancelled"
    refused = post(operator, f"/console/jobs/{job}/cancel", {"reason": "again"})
    assert refused.status_code == 409
    assert 'role="alert"' in refused.text


def test_a_job_is_run_again_once_however_often_the_form_is_sent(
    operator: httpx.Client, jobs: JobRecords, rest: httpx.Client
) -> None:
    job = jobs.job()
    (key,) = re.findall(r'name="key" value="(\w+)"', _page(operator, job))
    sent = [post(operator, f"/console/jobs/{job}/retry", {"key": key}) for _ in range(2)]
    assert {answer.status_code for answer in sent} == {303}
    assert len({answer.headers["Location"] for answer in sent}) == 1
    assert len(rest.get("/jobs.json", params={"retry_of": job}).json()) == 1
    assert "This job was created as a retry." in operator.get(sent[0].headers["Location"]).text


def test_the_window_of_a_job_is_retried_and_excused(
    operator: httpx.Client, jobs: JobRecords, rest: httpx.Client
) -> None:
    task = jobs.task()
    job = jobs.job(task_id=task)
    page = _page(operator, job)
    assert "Retry" in page
    assert "Run again" not in page
    refused = post(operator, f"/console/jobs/{job}/excuse", {"why": " "})
    assert refused.status_code == 400
    assert 'aria-describedby="why-fault"' in refused.text
    answer = post(operator, f"/console/jobs/{job}/excuse", {"why": "the bank was closed"})
    page = operator.get(answer.headers["Location"]).text
    assert "The window was excused." in page
    assert "Excused by eva: the bank was closed" in html.unescape(page)
    answer = post(operator, f"/console/jobs/{job}/retry", {"key": "k1"})
    assert answer.status_code == 303, answer.text
    new_job = int(re.findall(r"\d+", answer.headers["Location"])[0])
    assert rest.get(f"/job/{new_job}.json").json()["task_id"] == task


def test_a_fulfilled_window_is_left_alone_when_its_job_is_run_again(
    operator: httpx.Client, jobs: JobRecords, rest: httpx.Client
) -> None:
    task = jobs.task(state="fulfilled", window_start=jobs.now - timedelta(hours=5))
    job = jobs.job(task_id=task, state="succeeded", severity="success", exitcode=0)
    assert "Run again" in _page(operator, job)
    answer = post(operator, f"/console/jobs/{job}/retry", {"key": "k2"})
    new_job = int(re.findall(r"\d+", answer.headers["Location"])[0])
    made = rest.get(f"/job/{new_job}.json").json()
    assert (made["runtemplate_id"], made["task_id"]) == (jobs.template, None)


def test_a_viewer_sees_no_button_that_would_be_refused(
    facade_url: str, ledger: Ledger, jobs: JobRecords
) -> None:
    jobs.add_member("vera", "viewer")
    running = jobs.job(state="running")
    failed = jobs.job(task_id=jobs.task())
    with visitor(facade_url) as browser:
        submit(browser, "vera")
        for job in (running, failed):
            assert (
                "<button"
                not in _page(browser, job).split('class="actions-bar"')[1].split('class="ways"')[0]
            )
            assert "Invoices" in _page(browser, job)
        assert post(browser, f"/console/jobs/{running}/cancel").status_code == 403
        assert post(browser, f"/console/jobs/{failed}/retry").status_code == 403


def test_another_company_s_jobs_logs_and_files_are_not_there(
    facade_url: str, ledger: Ledger, rest: httpx.Client, jobs: JobRecords
) -> None:
    JobRecords(ledger, *make_job_template(rest, "globex")).add_member("gina", "admin")
    job = jobs.job()
    jobs.lines(job, "private")
    artifact = jobs.artifact(job, "a.txt", b"private", "text/plain")
    with visitor(facade_url) as browser:
        submit(browser, "gina")
        for path in (f"jobs/{job}", f"jobs/{job}/log", f"jobs/{job}/log.txt"):
            assert browser.get(f"/console/{path}").status_code == 404
        assert browser.get(f"/console/artifacts/{artifact}").status_code == 404


@pytest.mark.parametrize("before", ["x", "-1", "0", str(2**31), "9" * 30])
def test_a_number_that_no_line_has_shows_the_end(
    operator: httpx.Client, jobs: JobRecords, before: str
) -> None:
    job = jobs.job()
    jobs.lines(job, "the only line")
    assert _numbers(_page(operator, job, before=before)) == [1]


def test_nobody_is_asked_to_sign_in(facade_url: str, ledger: Ledger) -> None:
    add_user(ledger)
    with visitor(facade_url) as browser:
        assert browser.get("/console/jobs/1").status_code == 401


def test_files_that_are_costly_to_lay_out_do_not_stop_the_event_loop(
    operator: httpx.Client, jobs: JobRecords, slow_callbacks: Callable[[], list[str]]
) -> None:
    job = jobs.job()
    table, heading = b"|" * 200 + b"\n" + b"|-" * 199 + b"|\n" + b"|\n" * 50, b"# Heading\n"
    jobs.artifact(job, "0.md", b"# Laid *out*\n\na|b\n-|-\n1|2\n", "text/markdown")
    jobs.artifact(job, "1.md", table * (MAX_MARKDOWN // len(table) - 1), "text/markdown")
    for number in range(2, 5):
        content = heading * (MAX_PREVIEWED // len(heading))
        jobs.artifact(job, f"{number}.md", content, "text/markdown")
        jobs.artifact(job, f"{number}.json", b"[" + b"[]," * 20_000 + b"0]", "application/json")
    page = _page(operator, job)
    assert "<em>out</em>" in page
    assert page.count("<th>") == 2
    assert page.count("# Heading") > 1000
    assert slow_callbacks() == []


def test_a_log_of_many_colours_does_not_stop_the_event_loop(
    operator: httpx.Client, jobs: JobRecords, slow_callbacks: Callable[[], list[str]]
) -> None:
    job = jobs.job()
    jobs.lines(job, *["\x1b[31ma\x1b[32mb" * 16] * PAGE_LINES)
    assert _page(operator, job).count("<span class") > 9000
    assert slow_callbacks() == []
