"""Workers in the console: a list, pages, and the one that is declared lost."""

import re
from collections.abc import Callable
from datetime import timedelta
from urllib.parse import quote
from uuid import uuid4

import httpx
import pytest
from markupsafe import escape
from sqlalchemy import select

from jobauto_prefect.ledger import parts
from jobauto_prefect.ledger.audit.trail import SERVICE
from jobauto_prefect.ledger.records import Job, Lease, PartRecord, WorkerRecord
from jobauto_prefect.ledger.store import Ledger
from tests.support.console import links, post
from tests.support.console_records import HOSTILE, Records
from tests.support.ledger_rows import fetch_all

POOL = "jobauto"
AddWorker = Callable[..., str]


@pytest.fixture
def add_worker(ledger: Ledger, records: Records) -> AddWorker:
    def add(name: str, silent: bool = False, company: int | None = None, **members: object) -> str:
        """Add a worker with the running jobs of a company."""
        # Who was seen now would be silent before a slow test ends.
        seen = ledger.clock() + (timedelta(days=-1) if silent else timedelta(minutes=10))
        given = {"pool": POOL, "host": "host", "limit": 3} | members
        with ledger.writing(SERVICE) as session:
            worker = WorkerRecord(name=name, instance=uuid4(), seen_at=seen, **given)
            session.add(worker)
            running = select(Job).where(Job.company_id == company, Job.state == "running")
            for job in session.scalars(running):
                job.worker, job.claim_id = name, uuid4()
                lease = Lease(
                    job_id=job.id,
                    worker=name,
                    instance=worker.instance,
                    claim_id=job.claim_id,
                    directory="/srv/jobs/1",
                    renewed_at=seen,
                    ends_by=seen,
                )
                session.add(lease)
        return f"/console/workers/{quote(name)}"

    return add


def test_the_list_tells_how_each_is_and_the_start_page_leads_there(
    browser: httpx.Client, add_worker: AddWorker, records: Records
) -> None:
    add_worker("able", company=records.company)
    hindered = add_worker("hindered one", hindrances={"disk": f"full of {HOSTILE}"}, pool="big")
    page = browser.get("/console/workers").text
    assert re.findall(r'class="badge (\w+)">(\w+)', page) == [
        ("warn", "hindered"),
        ("good", "working"),
    ]
    assert str(escape(f"full of {HOSTILE}")) in page
    assert "1 of 3" in page
    assert page.count('data-label="Name"') == 2
    assert browser.get("/console/workers?pool=big").text.count('data-label="Name"') == 1
    assert browser.get("/console/workers?state=silent").text.count('data-label="Name"') == 0
    start = browser.get("/").text
    assert {"/console/workers", hindered} <= links(start)
    assert "/api/v1/workers.html" not in links(start)


def test_a_page_tells_what_it_runs_and_what_keeps_it_from_working(
    browser: httpx.Client, add_worker: AddWorker, records: Records
) -> None:
    path = add_worker(
        f"{HOSTILE}/1", company=records.company, hindrances={"docker": "it is gone"}, host=HOSTILE
    )
    page = browser.get(path).text
    assert HOSTILE not in page
    for text in ("it is gone", "Acme invoices", "hindered", "work-pools/work-pool/jobauto"):
        assert text in page
    for address in links(page):
        assert browser.get(address).status_code == 200, address
    (job,) = re.findall(r'href="(/console/jobs/\d+)"', page)
    assert path in links(browser.get(job).text)
    listed = browser.get(f"/console/jobs?worker={quote(f'{HOSTILE}/1', safe='')}").text
    assert listed.count('class="pick"') == 1
    assert browser.get("/console/workers/nobody").status_code == 404


def test_one_that_is_silent_is_declared_lost_after_a_question(
    browser: httpx.Client, add_worker: AddWorker, records: Records, ledger: Ledger
) -> None:
    path = add_worker("gone", silent=True, company=records.company)
    page = browser.get(path).text
    assert f"{path}/lost" in links(page)
    question = browser.get(f"{path}/lost").text
    assert "the jobs become lost at once" in question
    answer = post(browser, f"{path}/lost")
    assert answer.status_code == 303, answer.text
    page = browser.get(answer.headers["location"]).text
    assert "The worker was declared lost; its jobs will be retried." in page
    assert f"{path}/lost" not in links(page)
    states = set(fetch_all(ledger, select(Job.state).where(Job.worker == "gone")))
    assert states == {"lost"}


def test_one_that_lives_is_not_declared_lost(browser: httpx.Client, add_worker: AddWorker) -> None:
    path = add_worker("alive")
    assert f"{path}/lost" not in links(browser.get(path).text)
    answer = post(browser, f"{path}/lost")
    assert answer.status_code == 409
    assert "gave a sign of life" in answer.text


def test_a_viewer_sees_no_button_and_only_workers_of_pools_in_use(
    viewer: httpx.Client, add_worker: AddWorker, records: Records
) -> None:
    path = add_worker("gone", silent=True, company=records.foreign["company"])
    other = add_worker("other", pool="secret")
    for page in (viewer.get("/console/workers").text, viewer.get(path).text):
        assert not re.search('class="action["\\s]', page)
        assert "other" not in links(page)
    assert viewer.get(other).status_code == 404
    for answer in (viewer.get(f"{path}/lost"), post(viewer, f"{path}/lost")):
        assert answer.status_code == 403


def test_pages_are_in_the_language_of_the_visitor(
    browser: httpx.Client, add_worker: AddWorker
) -> None:
    path = add_worker("mlčí", silent=True)
    czech = {"Accept-Language": "cs"}
    for address, text in (
        ("/console/workers", "<h1>Workery</h1>"),
        (path, "Prohlásit za ztracený…"),
        (f"{path}/lost", "Prohlásit worker mlčí za ztracený"),
    ):
        assert text in browser.get(address, headers=czech).text


@pytest.mark.parametrize("state", ["running", "lost"])
def test_the_page_of_a_silent_one_shows_the_jobs_that_hang_on_it(
    browser: httpx.Client, add_worker: AddWorker, records: Records, ledger: Ledger, state: str
) -> None:
    path = add_worker("gone", silent=True, company=records.company)
    with ledger.writing(SERVICE) as session:
        job = session.scalars(select(Job).where(Job.worker == "gone")).one()
        job.state = state
    page = browser.get(path).text
    row = page.split('aria-labelledby="jobs"')[1].split("<tbody>")[1]
    for text in (f"#{job.id}", "Acme invoices", ">Acme<", state, "ago"):
        assert text in row, text
    assert "danger" in browser.get(f"{path}/lost").text.split("<form")[-1]


def test_the_parts_of_all_machines_are_listed_with_what_differs(
    browser: httpx.Client, add_worker: AddWorker, ledger: Ledger
) -> None:
    add_worker("able", host="of the worker")
    facts = {"pid": 7, "pids": "elsewhere", "key": "a", "connections": 2, "settings": {}}
    facts |= {"files": {}, "role": "", "database": ""}
    with ledger.writing(SERVICE) as session:
        for host, prefect in (("first", "3.8.8"), ("second", "3.9.1")):
            part = PartRecord(
                instance=uuid4(),
                kind="facade",
                host=host,
                version="0.1.0",
                started_at=session.clock(),
                clock_ahead=0.5,
                facts=facts | {"prefect": prefect},
            )
            parts.report(session, part)
    page = browser.get("/console/parts").text
    assert "parts run different versions of Prefect: facade on first" in page
    assert "upgrade.md" in page
    for shown in ("of the worker", "worker (jobauto)", "0.5 s ahead of the service", "3.9.1"):
        assert shown in page
    assert '<a href="/console/parts">' in browser.get("/console/workers").text
