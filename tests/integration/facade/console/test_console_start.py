"""The start page: it tells what an operator wants to know, of what its visitor may see."""

import logging
from datetime import timedelta
from typing import Any
from uuid import uuid4

import httpx
import pytest
from sqlalchemy import select

from jobauto_prefect.ledger.audit.trail import SERVICE
from jobauto_prefect.ledger.records import CompanyUser, Job, Task, User, WorkerRecord
from jobauto_prefect.ledger.store import Ledger
from tests.support.console import add_user, links, submit, visitor
from tests.support.definitions import PROBE
from tests.support.waits import eventually

HOSTILE = '<script>alert("x")</script> & Co.'


@pytest.fixture
def companies(rest: httpx.Client, ledger: Ledger) -> dict[str, dict[str, Any]]:
    """Two companies with jobs and windows of each kind; and their workers."""
    app = rest.post("/app/", json=PROBE).json()["id"]
    made = {}
    for slug, template in (("acme", "Invoices"), ("globex", HOSTILE)):
        company = rest.post("/company/", json={"slug": slug, "name": f"{slug} Ltd."}).json()["id"]
        body = {"app_id": app, "company_id": company, "name": template}
        made[slug] = {"company": company, "template": rest.post("/runtemplate/", json=body).json()}
    now = ledger.clock()
    with ledger.writing(SERVICE) as session:
        for slug, ids in made.items():
            of = {
                "app_id": app,
                "company_id": ids["company"],
                "runtemplate_id": ids["template"]["id"],
                "schedule_type": "adhoc",
                "executor": "Native",
                "schedule": now - timedelta(minutes=9),
            }
            ended = {"begin": now - timedelta(minutes=8), "end": now}
            long_ago = {"begin": now - timedelta(days=5), "end": now - timedelta(days=5)}
            session.add_all(
                [
                    Job(**of, state="running", begin=now - timedelta(minutes=8)),
                    Job(**of, state="scheduled"),
                    Job(**of, **ended, state="failed", exitcode=5, message=f"no rows at {slug}"),
                    Job(**of, **ended, state="warning", message=f"some rows at {slug}"),
                    Job(**of, **ended, state="succeeded"),
                    Job(**of, **long_ago, state="failed", message=f"long ago at {slug}"),
                ]
            )
            window = {
                "runtemplate_id": ids["template"]["id"],
                "window_end": now,
                "deadline": now,
                "state": "missed",
            }
            hour = timedelta(hours=1)
            session.add(Task(**window, window_start=now - hour, message=f"nobody was at {slug}"))
            excused = {"message": f"a holiday at {slug}", "excuse": "closed", "excused_by": "x"}
            session.add(Task(**window, window_start=now - 2 * hour, **excused))
        silent = now - timedelta(days=1)
        worker = {"host": "vm1", "instance": uuid4(), "pool": "jobauto"}
        session.add(WorkerRecord(name="vm1-jobauto", seen_at=silent, limit=4, **worker))
    return made


@pytest.fixture
def browser(facade_url: str, companies: dict[str, Any], ledger: Ledger) -> httpx.Client:
    """Somebody who sees everything and is signed in."""
    add_user(ledger)
    browser = visitor(facade_url)
    assert submit(browser).status_code == 303
    return browser


def test_it_tells_what_runs_waits_failed_and_was_missed(browser: httpx.Client) -> None:
    page = browser.get("/").text

    for text in (
        "Invoices",
        "acme Ltd.",
        "no rows at acme",
        "some rows at acme",
        "nobody was at acme",
        "exit code 5",
        "no worker is alive in work pool jobauto",
        "vm1-jobauto",
        "0 of 4",
        "silent",
        "Success rate over two weeks",
    ):
        assert text in page, text
    for text in ("long ago at", "a holiday at"):
        assert text not in page, text
    figures = dict(_figures(page))
    assert figures == {
        "Running": "2",
        "Waiting": "2",
        "Failed": "2",
        "Warnings": "2",
        "Missed windows": "2",
        "Workers": "0/1",
    }


def test_a_page_is_one_request_in_the_log(
    browser: httpx.Client, caplog: pytest.LogCaptureFixture
) -> None:
    """What it reads of the contract is read below the log, the limits and the sign-in."""
    caplog.set_level(logging.INFO, "jobauto_prefect.access")
    assert browser.get("/console/jobs").status_code == 200

    def logged() -> list[str]:
        """The reads: the line of the sign-in before may come late."""
        lines = [each.getMessage() for each in caplog.records if each.name.endswith(".access")]
        return [line for line in lines if line.startswith("GET ")]

    eventually(lambda: "/console/jobs 200" in " ".join(logged()))
    assert len(logged()) == 1, logged()


def _figures(page: str) -> list[tuple[str, str]]:
    tiles = page.split('<ul class="tiles">')[1].split("</ul>", maxsplit=1)[0].split("<li>")[1:]
    texts = [tile.replace("</b><span>", "|").split("<b>")[1].split("</span>")[0] for tile in tiles]
    return [(label, figure) for figure, _, label in (text.partition("|") for text in texts)]


def test_every_link_leads_somewhere(browser: httpx.Client) -> None:
    addresses = links(browser.get("/").text)
    assert len(addresses) > 20
    for address in sorted(addresses):
        assert browser.get(address).status_code == 200, address


def test_the_line_has_a_point_for_each_day_with_jobs(browser: httpx.Client) -> None:
    page = browser.get("/").text
    assert page.count("<circle") == 2
    assert ": 66 % of 6 jobs</title>" in page  # today
    assert ": 0 % of 2 jobs</title>" in page  # five days ago


def test_it_is_in_the_language_of_the_visitor(browser: httpx.Client) -> None:
    english = browser.get("/").text
    czech = browser.get("/", headers={"Accept-Language": "cs"}).text
    assert '<html lang="en">' in english
    assert '<html lang="cs">' in czech
    for english_text, czech_text in (
        ("Missed windows", "Zmeškaná okna"),
        ("Sign out", "Odhlásit"),
        ("Run templates", "Šablony spuštění"),
        ("exit code 5", "návratový kód 5"),
    ):
        assert english_text in english
        assert english_text not in czech
        assert czech_text in czech


def test_names_are_texts_and_nothing_else(browser: httpx.Client) -> None:
    page = browser.get("/").text
    assert "&lt;script&gt;alert(&#34;x&#34;)&lt;/script&gt; &amp; Co." in page
    assert page.count("<script") == page.count('<script src="/console/static/htmx.js"') == 1


@pytest.mark.parametrize("slug", ["acme", "globex"])
def test_a_member_sees_their_company_alone(
    facade_url: str, companies: dict[str, Any], ledger: Ledger, slug: str
) -> None:
    add_user(ledger, "eva", "viewer")
    with ledger.writing(SERVICE) as session:
        user = session.scalars(select(User).where(User.login == "eva")).one()
        company = companies[slug]["company"]
        session.add(CompanyUser(company_id=company, user_id=user.id, role="viewer"))
    other = "globex" if slug == "acme" else "acme"
    with visitor(facade_url) as browser:
        submit(browser)
        page = browser.get("/").text
    assert f"{slug} Ltd." in page
    assert f"no rows at {slug}" in page
    assert other not in page
    assert companies[other]["template"]["name"] not in page
    assert set(dict(_figures(page)).values()) == {"1", "0/1"}
    assert ": 66 % of 3 jobs</title>" in page


def test_a_member_of_no_company_is_told_so(
    facade_url: str, companies: dict[str, Any], ledger: Ledger
) -> None:
    add_user(ledger, "eva", "viewer")
    with visitor(facade_url) as browser:
        submit(browser)
        page = browser.get("/").text
    assert "Ltd." not in page
    assert "vm1" not in page
    assert "You do not belong to a company yet" in page
    assert "No failures and no warnings" not in page


def test_a_freeze_is_said_first(browser: httpx.Client, rest: httpx.Client) -> None:
    rest.put("/maintenance.json", json={"reason": "new disks"}).raise_for_status()
    page = browser.get("/").text
    assert 'class="banner"' in page
    assert "new disks" in page


def test_failures_are_grouped_by_run_template_and_the_page_refreshes(
    browser: httpx.Client, companies: dict[str, Any], ledger: Ledger
) -> None:
    with ledger.writing(SERVICE) as session:
        job = session.scalars(select(Job).where(Job.message == "no rows at acme")).one()
        names = ("app_id", "company_id", "runtemplate_id", "schedule_type", "executor", "schedule")
        of = {name: getattr(job, name) for name in names}
        session.add_all(
            Job(**of, state="failed", end=ledger.clock(), message="many") for _ in range(20)
        )
    page = browser.get("/").text
    failed = page.split('aria-labelledby="ended"')[1].split("</section>")[0]
    assert failed.count("<li>") == 4
    assert "21 jobs" in failed
    assert "some rows at globex" in failed
    address = next(link for link in links(failed) if "runtemplate_id=" in link)
    assert "2 jobs" not in browser.get(address).text
    assert 'hx-get="/"' in page
    assert '<noscript><meta http-equiv="refresh"' in page
