"""An operator sets up a company and mends a run template in the console, without a command line."""

import pytest
from selenium import webdriver
from selenium.webdriver.common.by import By
from selenium.webdriver.remote.webelement import WebElement
from selenium.webdriver.support.select import Select

from tests.support.browser import PAGE_WITHIN, text_of
from tests.support.secrets import secret
from tests.support.service import Service
from tests.support.waits import eventually

PASSWORD = secret("m4il & p4ssword")


class Visitor:
    """Somebody at a browser: clicks what they read, and types into what is labelled."""

    def __init__(self, browser: webdriver.Chrome, url: str) -> None:
        self.browser, self.url = browser, url

    def open(self, path: str) -> None:
        self.browser.get(f"{self.url}{path}")

    def prefer(self, language: str) -> None:
        headers = {"headers": {"Accept-Language": language}}
        self.browser.execute_cdp_cmd("Network.setExtraHTTPHeaders", headers)

    def field(self, label: str) -> WebElement:
        # A label may go on with the technical name of its field.
        starts = f"starts-with(normalize-space(), '{label}')"
        named = self.browser.find_element(By.XPATH, f"//main//label[{starts}]")
        return self.browser.find_element(By.ID, named.get_attribute("for") or "")

    def fill_in(self, label: str, text: str) -> None:
        field = self.field(label)
        field.clear()
        field.send_keys(text)

    def choose(self, label: str, text: str) -> None:
        Select(self.field(label)).select_by_visible_text(text)

    def tick(self, label: str) -> None:
        self.browser.find_element(By.XPATH, f"//main//label[normalize-space()='{label}']").click()

    def unfold(self, title: str) -> None:
        starts = f"starts-with(normalize-space(), '{title}')"
        self.browser.find_element(By.XPATH, f"//main//summary[{starts}]").click()

    def press(self, label: str) -> None:
        """Press a button or follow a link, and wait for the page it leads to."""
        same = f"normalize-space()='{label}'"
        self._leave(By.XPATH, f"//main//*[self::a or self::button][{same}]")

    def press_menu(self, label: str) -> None:
        self._leave(By.XPATH, f"//nav//a[normalize-space()='{label}']")

    def _leave(self, how: str, what: str) -> None:
        page = self.browser.find_element(By.TAG_NAME, "html").id
        self.browser.find_element(how, what).click()
        eventually(lambda: self._is_another(page), PAGE_WITHIN)

    def _is_another(self, page: str) -> bool:
        state = self.browser.execute_script("return document.readyState")
        # Between two pages the browser has none.
        pages = self.browser.find_elements(By.TAG_NAME, "html")
        return state == "complete" and any(found.id != page for found in pages)

    @property
    def text(self) -> str:
        return text_of(self.browser)


@pytest.fixture
def visitor(browser: webdriver.Chrome, service: Service) -> Visitor:
    visitor = Visitor(browser, service.url)
    login, password = service.admin()
    visitor.prefer("en")
    visitor.open("/")
    browser.switch_to.active_element.send_keys(login)
    browser.find_element(By.ID, "password").send_keys(password)
    browser.find_element(By.CSS_SELECTOR, ".sign-in button").click()
    eventually(lambda: browser.title.startswith("Start"), PAGE_WITHIN)
    return visitor


def test_an_operator_sets_up_a_company_and_mends_a_run_template_in_two_languages(
    service: Service, visitor: Visitor
) -> None:
    kind = {
        "code": "relay",
        "name": {"en": "Relay", "cs": "Relé"},
        "fields": [
            {"keyword": "RELAY_HOST", "name": {"en": "Host", "cs": "Počítač"}, "required": True},
            {"keyword": "RELAY_PASSWORD", "type": "password", "required": True},
        ],
    }
    service.rest().post("/api/v1/credential_type/", json=kind).raise_for_status()
    visitor.prefer("cs")
    visitor.open("/")
    visitor.press_menu("Společnosti")
    visitor.press("Nová společnost")
    visitor.fill_in("Název", "Wayne Enterprises")
    visitor.press("Uložit")
    assert "Uloženo." in visitor.text

    visitor.press("Nové přístupové údaje")
    visitor.choose("Typ", "Relé")
    visitor.press("Pokračovat")
    visitor.fill_in("Název", "Wayne relay")
    visitor.fill_in("Počítač", "mail.example.com")
    visitor.fill_in("Relay password", PASSWORD)
    visitor.press("Uložit")
    assert "mail.example.com" in visitor.text
    assert PASSWORD not in visitor.browser.page_source

    visitor.prefer("en")
    visitor.press_menu("Šablony spuštění")
    visitor.press("New run template")
    visitor.choose("Company", "Wayne Enterprises")
    visitor.choose("Application", "Disk report")
    visitor.press("Continue")
    visitor.fill_in("Name", "Wayne disks")
    visitor.tick("Wayne relay")
    visitor.press("Save")
    assert "Wayne relay" in visitor.text

    visitor.press("Edit")
    visitor.fill_in("Warn from this percentage on", "71")
    visitor.press("Save")
    templates = service.rest().get("/api/v1/runtemplates.json?name=wayne").json().values()
    (template,) = templates
    assert template["env"] == {"WARN_PERCENT": "71"}

    visitor.press("Edit")
    visitor.unfold("After a success")
    visitor.fill_in("Run template to start", "wayne/None such")
    visitor.unfold("Notifications")
    visitor.tick("a job failed and will not be retried")
    visitor.fill_in("Mail addresses", "bruce@example.com")
    visitor.unfold("Retention")
    visitor.fill_in("Ended jobs (days)", "90")
    visitor.press("Save")
    assert "Nothing was saved. Correct the following:" in visitor.text
    assert "there is no run template 'wayne/None such'" in visitor.text  # its part is unfolded
    visitor.fill_in("Run template to start", "acme/Probe")
    visitor.press("Save")
    assert "Saved." in visitor.text
    template = service.rest().get(f"/api/v1/runtemplate/{template['id']}.json").json()
    assert list(template["success"]) == ["ChainRuntemplate"]
    assert template["notices"] == {"mail": {"on": ["failure"], "to": ["bruce@example.com"]}}
    assert template["retention"] == {"jobs_days": 90}
    visitor.press("Run")
    visitor.press("Run")
    number = visitor.browser.current_url.partition("/jobs/")[2].partition("?")[0]
    service.job_in(int(number), "succeeded", "warning")
    visitor.open(f"/console/runtemplates/{template['id']}")
    assert visitor.browser.find_elements(By.CSS_SELECTOR, ".strip .mark")
    visitor.press("Pause")
    assert "The run template was paused: no jobs start until it is resumed." in visitor.text
    template = service.rest().get(f"/api/v1/runtemplate/{template['id']}.json").json()
    assert template["active"] is False
    messages = [str(entry["message"]) for entry in visitor.browser.get_log("browser")]
    assert not [message for message in messages if "Content Security Policy" in message]
