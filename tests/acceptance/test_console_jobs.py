"""An operator finds a failed job, reads its log, retries, cancels and excuses, in a browser."""

import os
import signal
from collections.abc import Iterator
from datetime import timedelta

import pytest
from selenium import webdriver
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

from jobauto_prefect.ledger.audit.trail import SERVICE
from jobauto_prefect.ledger.opening import open_ledger
from jobauto_prefect.ledger.records import Task
from jobauto_prefect.settings import Settings
from tests.support.browser import PAGE_WITHIN, prefer, see
from tests.support.service import Service
from tests.support.waits import eventually

HASTEN = """
const wait = window.setTimeout;
window.setTimeout = (work, delay, ...rest) =>
    wait(work, delay > 10000 ? delay / 60 : delay, ...rest);
"""
"""Lets what a page does once a minute happen each second."""


@pytest.fixture
def browser(browser: webdriver.Chrome, service: Service) -> Iterator[webdriver.Chrome]:
    login, password = service.admin()
    browser.get(f"{service.url}/")
    browser.switch_to.active_element.send_keys(login, Keys.TAB, password, Keys.ENTER)
    eventually(lambda: browser.current_url == f"{service.url}/", PAGE_WITHIN)
    yield browser
    messages = [str(entry["message"]) for entry in browser.get_log("browser")]
    assert not [text for text in messages if "Content Security Policy" in text]


def _press(browser: webdriver.Chrome, label: str) -> None:
    browser.find_element(By.XPATH, f"//button[normalize-space()='{label}']").click()


def _failures(browser: webdriver.Chrome) -> int:
    """How many failures Start shows."""
    find = "return document.evaluate(\"//a[span='Failed']/b\", document).iterateNext().textContent"
    return int(browser.execute_script(find))


def _template_id(service: Service, name: str) -> int:
    templates = service.rest().get("/api/v1/runtemplates.json").json().values()
    (template,) = [template for template in templates if template["name"] == name]
    template_id: int = template["id"]
    return template_id


def _open_new_job(service: Service, browser: webdriver.Chrome, sleeps: int) -> int:
    """Open the page of a new job that sleeps so many seconds; its id."""
    body = {"runtemplate_id": _template_id(service, "Probe"), "env": {"PROBE_SLEEP": sleeps}}
    job: int = service.rest().post("/api/v1/job/", json=body).raise_for_status().json()["id"]
    browser.get(f"{service.url}/console/jobs/{job}")
    return job


def test_a_failed_job_is_found_read_and_run_again_and_that_is_cancelled(
    service: Service, browser: webdriver.Chrome
) -> None:
    prefer(browser, "en")
    browser.execute_cdp_cmd("Page.addScriptToEvaluateOnNewDocument", {"source": HASTEN})
    browser.get(f"{service.url}/")
    browser.execute_script("window.isTheFirst = true")
    before = _failures(browser)
    service.jobauto("run", "acme/Probe that fails", "--wait")
    eventually(lambda: _failures(browser) == before + 1, PAGE_WITHIN)
    assert browser.execute_script("return window.isTheFirst"), "the page was loaded again"
    browser.find_element(By.XPATH, "//a[b][span='Failed']").click()
    eventually(lambda: "/console/jobs?" in browser.current_url, PAGE_WITHIN)
    browser.find_element(By.LINK_TEXT, "Probe that fails").click()
    see(browser, "failed", "Acme Ltd.", "exit code 42 (error)", "somebody, at the command line")
    browser.find_element(By.ID, "find").send_keys("a", Keys.ENTER)
    eventually(lambda: browser.find_elements(By.TAG_NAME, "mark"), PAGE_WITHIN)

    job = _open_new_job(service, browser, 4713)
    # The page follows by itself: from waiting to running, and its log line by line.
    see(browser, "running", "waiting 4713 s")
    browser.find_element(By.XPATH, "//summary[normalize-space()='Cancel…']").click()
    browser.find_element(By.ID, "reason").send_keys("it sleeps", Keys.ENTER)
    see(browser, "cancelled", "it sleeps", "Run again")
    _press(browser, "Run again")
    see(browser, "This job was created as a retry.", "attempt 2")
    again = int(browser.current_url.rpartition("/")[2].partition("?")[0])
    assert again != job
    service.rest().post(f"/api/v1/job/{again}", json={"state": "cancelled"})


def test_a_page_follows_its_job_after_the_facade_was_away(
    service: Service, browser: webdriver.Chrome
) -> None:
    prefer(browser, "en")
    job = _open_new_job(service, browser, 4714)
    see(browser, "running", "waiting 4714 s")
    started = service.said("started", part="facade")
    assert started is not None

    os.kill(started["pid"], signal.SIGKILL)

    eventually(lambda: service.said("started", part="facade") != started)
    assert service.jobauto("job", "cancel", str(job)).returncode == 0
    see(browser, "cancelled")


def test_a_page_that_follows_its_job_asks_who_comes_back_to_sign_in(
    service: Service, browser: webdriver.Chrome
) -> None:
    prefer(browser, "en")
    job = _open_new_job(service, browser, 4715)
    see(browser, "running", "waiting 4715 s")

    browser.delete_all_cookies()

    see(browser, "Sign in")
    assert service.jobauto("job", "cancel", str(job)).returncode == 0


def test_yesterdays_missed_window_is_excused_in_czech(
    service: Service, browser: webdriver.Chrome
) -> None:
    ledger = open_ledger(Settings(home=service.home))
    start = ledger.clock() - timedelta(days=1, minutes=10)
    with ledger.writing(SERVICE) as session:
        task = Task(
            runtemplate_id=_template_id(service, "Probe"),
            window_start=start,
            window_end=start + timedelta(minutes=1),
            deadline=start + timedelta(minutes=1),
            state="missed",
            message="no worker was there",
        )
        session.add(task)
        session.flush()
        task_id = task.id
    ledger.close()
    prefer(browser, "cs")
    browser.get(f"{service.url}/console/tasks/calendar?month={start:%Y-%m}")
    see(browser, "Kalendář oken")
    browser.find_element(By.PARTIAL_LINK_TEXT, "zmeškáno").click()
    see(browser, "no worker was there")
    browser.get(f"{service.url}/console/tasks/{task_id}")
    browser.find_element(By.XPATH, "//summary[normalize-space()='Omluvit…']").click()
    browser.find_element(By.ID, "why").send_keys("byl svátek", Keys.ENTER)
    see(browser, "Okno bylo omluveno.", "zmeškáno, omluveno", "byl svátek")
