"""Prefect's pages in a real browser: viewer, manager and administrator, both versions."""

import contextlib
import math
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from selenium import webdriver
from selenium.common.exceptions import WebDriverException
from selenium.webdriver.common.by import By

from tests.support.browser import (
    CLICK_AGAIN,
    PAGE_WITHIN,
    chromium,
    shows,
    sign_in_to_prefect,
    text_of,
)
from tests.support.gateway import OURS, PASSWORD, Gateway
from tests.support.waits import eventually

VERSIONS = {"older": "", "newer": "/v2"}


@pytest.fixture
def browser() -> Iterator[webdriver.Chrome]:
    with chromium() as browser:
        yield browser


def sign_in(browser: webdriver.Chrome, gate: Gateway, version: str, login: str) -> None:
    """By the form that the pages show."""
    sign_in_to_prefect(browser, f"{gate.pages}{version}", f"{login}:{PASSWORD}")


def click_until_told(
    browser: webdriver.Chrome, gate: Gateway, button: str, login: str, action: str
) -> None:
    """Click a button until the trail tells of it: a click may miss what moves."""
    wanted = {"actor": login, "action": action, "door": "ui"}
    before = len(gate.trail(**wanted))
    clicked = -math.inf

    def told() -> bool:
        nonlocal clicked
        if time.monotonic() - clicked > CLICK_AGAIN:
            with contextlib.suppress(WebDriverException, IndexError):
                browser.find_elements(By.XPATH, f"//button[{button}]")[-1].click()
                clicked = time.monotonic()
        return len(gate.trail(**wanted)) > before

    eventually(told, 2 * PAGE_WITHIN)


@pytest.mark.parametrize("version", VERSIONS.values(), ids=VERSIONS)
def test_each_sees_the_right_deployments(
    gate: Gateway, browser: webdriver.Chrome, version: str, tmp_path: Path
) -> None:
    gate.run(OURS)
    for login, seen, unseen in (
        ("viewer", ["Ours daily"], ["Planted"]),
        ("manager", ["Ours daily"], ["Planted"]),
        ("root", ["Ours daily", "Planted daily"], []),
    ):
        sign_in(browser, gate, version, login)
        browser.get(f"{gate.pages}{version}/dashboard")  # anew: the form leaves a notice behind
        eventually(shows(browser, "Flow Runs"), PAGE_WITHIN)
        browser.save_screenshot(str(tmp_path / f"{login}-dashboard.png"))
        assert "Oops" not in text_of(browser)
        browser.get(f"{gate.pages}{version}/deployments")
        eventually(shows(browser, *seen), PAGE_WITHIN)
        assert not [text for text in unseen if text in text_of(browser)]
        browser.get(f"{gate.pages}{version}/deployments/deployment/{gate.deployment(OURS)}")
        eventually(shows(browser, "Ours daily", "Run"), PAGE_WITHIN)
        browser.save_screenshot(str(tmp_path / f"{login}-deployment.png"))
        browser.execute_script("localStorage.clear()")


def test_a_viewers_click_on_run_is_refused_and_a_managers_makes_a_run(
    gate: Gateway, browser: webdriver.Chrome, tmp_path: Path
) -> None:
    """The newer pages say why; the request is theirs, word for word."""
    for login, action in (("viewer", "refuse"), ("manager", "create")):
        sign_in(browser, gate, "/v2", login)
        browser.get(f"{gate.pages}/v2/deployments/deployment/{gate.deployment(OURS)}/run")
        click_until_told(browser, gate, "@type='submit'", login, action)
        browser.save_screenshot(str(tmp_path / f"{login}-run.png"))
        browser.execute_script("localStorage.clear()")


def test_a_managers_click_on_run_in_the_older_pages_makes_a_run(
    gate: Gateway, browser: webdriver.Chrome, tmp_path: Path
) -> None:
    """Their values are checked by a schema that is not word for word the deployment's."""
    sign_in(browser, gate, "", "manager")
    browser.get(f"{gate.pages}/deployments/deployment/{gate.deployment(OURS)}/run")
    click_until_told(browser, gate, "contains(., 'Submit')", "manager", "create")
    browser.save_screenshot(str(tmp_path / "older-run.png"))
