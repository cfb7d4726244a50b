"""A real Chromium, and the form with which Prefect's UI asks for the parameters of a run."""

import contextlib
import math
import os
import re
import shutil
import signal
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from selenium import webdriver
from selenium.common.exceptions import WebDriverException
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.remote.webelement import WebElement

from tests.support.waits import eventually

PAGE_WITHIN = 60  # seconds
CLICK_AGAIN = 5  # seconds
OPTIONS = ("--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--window-size=1300,2400")

REFUSED = "//*[contains(text(), 'went wrong trying to create a flow run')]"


@contextlib.contextmanager
def chromium() -> Iterator[webdriver.Chrome]:
    """Chromium without a window; where it is missing the test is skipped, or fails if required.

    The build that never had a window is taken where there is one: it asks less of the processors.
    """
    program = shutil.which("chromium-headless-shell") or shutil.which("chromium")
    driver = shutil.which("chromedriver")
    if program is None or driver is None:
        assert os.environ.get("JOBAUTO_TEST_REQUIRE_SERVICES") != "1", "no chromium, chromedriver"
        pytest.skip("chromium and chromedriver are not installed")
    options = webdriver.ChromeOptions()
    options.binary_location = program
    for option in OPTIONS:
        options.add_argument(option)
    service = webdriver.ChromeService(driver, popen_kw={"start_new_session": True})
    browser = webdriver.Chrome(options, service)
    group = service.process.pid
    try:
        yield browser
    finally:
        browser.quit()
        with contextlib.suppress(ProcessLookupError):
            os.killpg(group, signal.SIGKILL)  # the build without a window outlives its driver


def sign_in_to_prefect(browser: webdriver.Chrome, pages: str, login: str) -> None:
    """Fill in the form of Prefect's pages; `login` is a name and a password with a colon.

    Again while they stay: what they draw anew may lose what was typed.
    """
    browser.get(f"{pages}/login")
    filled_in = -math.inf

    def signed_in() -> bool:
        nonlocal filled_in
        if filled_in > 0 and "/login" not in browser.current_url:
            return True
        if time.monotonic() - filled_in > CLICK_AGAIN:
            with contextlib.suppress(WebDriverException):
                field = browser.find_element(By.CSS_SELECTOR, "input[type=password]")
                filled_in = time.monotonic()
                field.send_keys(Keys.CONTROL, "a")
                field.send_keys(login, Keys.ENTER)
        return False

    eventually(signed_in, 2 * PAGE_WITHIN)


def words(text: str) -> str:
    """Letters and digits alone: Markdown changes the rest."""
    return " ".join(re.findall(r"\w+", text))


class Entry:
    """One parameter of the form."""

    def __init__(self, element: WebElement) -> None:
        self._element = element

    @property
    def label(self) -> str:
        """What it is called, with what the form adds."""
        return self._element.find_element(By.CSS_SELECTOR, ".schema-form-property__label").text

    @property
    def shapes(self) -> list[str]:
        """The buttons that choose between shapes of the value."""
        return [button.text for button in self._controls("fieldset [role=radio], fieldset button")]

    @property
    def text(self) -> str:
        """Everything of ours written at it, without punctuation."""
        return words(self._element.text.replace("(Optional)", ""))

    def _controls(self, selector: str) -> list[WebElement]:
        return self._element.find_elements(By.CSS_SELECTOR, selector)

    @property
    def choices(self) -> list[str]:
        """What can be chosen, where there is a choice."""
        options = self._controls("select:not(.p-native-select__control--placeholder) option")
        return [str(option.get_attribute("value")) for option in options]

    @property
    def value(self) -> Any:
        """What the form holds: text, true or false."""
        for switch in self._controls("[role=switch]"):
            return switch.get_attribute("aria-checked") == "true"
        (control,) = self._controls(
            "select:not(.p-native-select__control--placeholder), textarea, input"
        )
        return control.get_attribute("value")

    def type(self, value: str) -> None:
        """Replace what is there."""
        (control,) = self._controls("textarea, input")
        control.send_keys(Keys.CONTROL, "a")
        control.send_keys(value)


class RunForm:
    """The page of a deployment on which a run is made; its entries are found by their keys."""

    def __init__(self, browser: webdriver.Chrome, deployment_url: str) -> None:
        self._browser = browser
        self._address = f"{deployment_url}/run"
        browser.get(self._address)
        self.entries: dict[str, Entry] = eventually(self._look, PAGE_WITHIN)

    def _look(self) -> dict[str, Entry] | None:
        """The parameters, once all of them are there: what is asked next is below them."""
        entries = {}
        # What Vue draws anew in the middle of looking at it is looked at again.
        with contextlib.suppress(WebDriverException):
            for element in self._browser.find_elements(By.CSS_SELECTOR, ".schema-form-property"):
                keys = element.find_elements(
                    By.CSS_SELECTOR, ".schema-form-property__markdown code"
                )
                entries[keys[-1].text if keys else ""] = Entry(element)
            below = self._browser.find_elements(By.XPATH, "//*[text()='Validate parameters']")
            return entries if below and entries and "" not in entries else None
        return None

    def submit(self) -> None:
        """Click the button."""
        (button,) = self._browser.find_elements(By.XPATH, "//button[normalize-space()='Submit']")
        button.click()

    @property
    def left(self) -> bool:
        """Whether the run was made: the UI goes back to the deployment then."""
        return self._browser.current_url != self._address

    def submit_until_refused(self, key: str, reason: str) -> None:
        """Click until the entry of a key says why it is wrong: a click may miss what moves."""
        clicked = -math.inf

        def refused() -> bool:
            nonlocal clicked
            if reason in self.entries[key].text:
                return True
            if time.monotonic() - clicked > CLICK_AGAIN:
                self.submit()
                clicked = time.monotonic()
            return False

        eventually(refused, PAGE_WITHIN)

    def submit_until_taken(self) -> None:
        """Click, as people do, again where Prefect's SQLite was busy: its UI does not by itself."""

        seen = 0

        def taken() -> bool:
            nonlocal seen
            alerts = self._browser.find_elements(By.XPATH, REFUSED)
            if len(alerts) > seen and not self.left:
                self.submit()
            seen = len(alerts)
            return self.left

        self.submit()
        eventually(taken, PAGE_WITHIN)


def prefer(browser: webdriver.Chrome, language: str) -> None:
    """Ask for pages in a language from now on."""
    headers = {"headers": {"Accept-Language": language}}
    browser.execute_cdp_cmd("Network.setExtraHTTPHeaders", headers)


def text_of(browser: webdriver.Chrome) -> str:
    """What is on the page; nothing while another one comes.

    The driver's own way asks the style of each element, which takes seconds on Prefect's pages.
    """
    with contextlib.suppress(WebDriverException):
        return str(browser.execute_script("return document.body.innerText"))
    return ""


def shows(browser: webdriver.Chrome, *texts: str) -> Callable[[], bool]:
    """A look whether the page has all of these."""

    def look() -> bool:
        text = text_of(browser)
        return all(each in text for each in texts)

    return look


def see(browser: webdriver.Chrome, *texts: str) -> None:
    """Wait until the page has all of these."""

    for text in texts:
        try:
            eventually(shows(browser, text), PAGE_WITHIN)
        except AssertionError as error:
            error.add_note(f"{text!r} is not on {browser.current_url}:\n{text_of(browser)}")
            raise
