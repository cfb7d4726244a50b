"""From a record of the facade to Prefect's pages and back, in a real browser."""

from urllib.parse import quote

import pytest
from selenium import webdriver
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

from tests.support.browser import PAGE_WITHIN, shows, sign_in_to_prefect
from tests.support.service import Service
from tests.support.waits import eventually


@pytest.fixture(scope="module")
def job_id(service: Service) -> int:
    """A job with a warning, standard error, an artifact and produced values."""
    templates = service.rest().get("/api/v1/runtemplates.json").json().values()
    (template,) = [one for one in templates if one["name"] == "Root file system"]
    body = {"runtemplate_id": template["id"], "env": {"WARN_PERCENT": 0}}
    number: int = service.rest().post("/api/v1/job/", json=body).raise_for_status().json()["id"]
    service.job_in(number, "warning")
    return number


def test_a_record_leads_to_its_flow_run_with_the_log_and_the_page_leads_back(
    service: Service, browser: webdriver.Chrome, job_id: int
) -> None:
    name, password = service.admin()
    sign_in_to_prefect(browser, service.prefect, f"{name}:{password}")
    login = f"{name}:{quote(password, safe='')}@"
    # The browser sends the password only where it is asked for one, as it asks people.
    browser.get(f"{service.url.replace('//', '//' + login)}/api/v1/job/{job_id}.html")
    browser.find_element(By.LINK_TEXT, "Show in Prefect").click()
    title = f"Acme Ltd. / Root file system #{job_id}"
    eventually(shows(browser, title, "used", "WARNING", "that is 0 % or more"), PAGE_WITHIN)

    page = eventually(lambda: artifact_of(service, job_id), PAGE_WITHIN)
    browser.get(f"{service.prefect}/artifacts/artifact/{page}")
    told = (title, "It is filling up", "disk.json", "used_percent", "How full it is, in percent")
    eventually(shows(browser, *told), PAGE_WITHIN)
    browser.get(str(browser.find_element(By.LINK_TEXT, f"job {job_id}").get_attribute("href")))
    # Whoever is not signed in to the console signs in first.
    browser.find_element(By.ID, "login").send_keys(name)
    browser.find_element(By.ID, "password").send_keys(password, Keys.ENTER)
    eventually(shows(browser, f"job {job_id}", "It is filling up"), PAGE_WITHIN)
    assert browser.current_url == f"{service.url}/console/jobs/{job_id}"


def artifact_of(service: Service, job_id: int) -> str | None:
    flow_run_id = service.job(job_id)["flow_run_id"]
    body = {"artifacts": {"flow_run_id": {"any_": [flow_run_id]}}}
    answer = service.prefect_api().post("/artifacts/filter", json=body)
    found = answer.raise_for_status().json()
    return found[0]["id"] if found else None
