"""The console of a running service, in a real browser."""

from selenium import webdriver
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

from tests.support.browser import PAGE_WITHIN, prefer, see, text_of
from tests.support.service import Service
from tests.support.waits import eventually


def _refused_by_policy(browser: webdriver.Chrome) -> list[str]:
    messages = [str(entry["message"]) for entry in browser.get_log("browser")]
    return [message for message in messages if "Content Security Policy" in message]


def test_an_operator_signs_in_looks_and_signs_out_by_keyboard_in_two_languages(
    service: Service, browser: webdriver.Chrome
) -> None:
    login, password = service.admin()
    name = "Root file system"
    templates = service.rest().get("/api/v1/runtemplates.json").json().values()
    (template,) = [template for template in templates if template["name"] == name]
    body = {"runtemplate_id": template["id"], "env": {"WARN_PERCENT": 0}}
    answer = service.rest().post("/api/v1/job/", json=body).raise_for_status()
    service.job_in(answer.json()["id"], "warning")

    prefer(browser, "cs")
    browser.get(f"{service.url}/")
    see(browser, "Přihlásit se")
    # The form has the focus, and asks nobody by the browser's own window.
    browser.switch_to.active_element.send_keys(login, Keys.TAB, "wrong", Keys.ENTER)
    eventually(
        lambda: "Přihlašovací jméno nebo heslo není správné." in text_of(browser), PAGE_WITHIN
    )
    browser.switch_to.active_element.send_keys(password, Keys.ENTER)
    eventually(lambda: browser.title.startswith("Přehled"), PAGE_WITHIN)
    assert browser.current_url == f"{service.url}/"
    see(browser, "Běží", "Čeká", "Úspěšnost za dva týdny", "Odhlásit", name, login)
    assert browser.execute_script("return document.cookie") == ""

    prefer(browser, "en")
    browser.refresh()
    see(browser, "Running", "Waiting", "Success rate over two weeks", "Sign out", name)
    browser.find_element(By.LINK_TEXT, name).click()
    eventually(lambda: "· job " in browser.title, PAGE_WITHIN)
    browser.find_element(By.LINK_TEXT, "Start").click()
    eventually(lambda: browser.title.startswith("Start"), PAGE_WITHIN)
    assert _refused_by_policy(browser) == []

    button = browser.find_element(By.CSS_SELECTOR, ".visitor button")
    button.send_keys(Keys.ENTER)
    eventually(lambda: browser.current_url == f"{service.url}/login.html", PAGE_WITHIN)
    assert browser.get_cookies() == []
    browser.get(f"{service.url}/")
    see(browser, "Sign in")
    assert name not in text_of(browser)


def test_a_link_of_another_site_leads_to_the_page_for_whoever_is_signed_in(
    service: Service, browser: webdriver.Chrome
) -> None:
    login, password = service.admin()
    prefer(browser, "en")
    browser.get(f"{service.url}/login.html")
    browser.find_element(By.ID, "login").send_keys(login)
    browser.find_element(By.ID, "password").send_keys(password, Keys.ENTER)
    eventually(lambda: browser.title.startswith("Start"), PAGE_WITHIN)

    browser.get(f"data:text/html,<a href='{service.url}/console/runtemplates'>from a mail</a>")
    browser.find_element(By.LINK_TEXT, "from a mail").click()
    eventually(lambda: browser.title.startswith("Run templates"), PAGE_WITHIN)

    browser.delete_all_cookies()
    browser.get(f"data:text/html,<a href='{service.url}/console/runtemplates'>from a mail</a>")
    browser.find_element(By.LINK_TEXT, "from a mail").click()
    eventually(lambda: browser.title.startswith("Sign in"), PAGE_WITHIN)
    browser.find_element(By.ID, "login").send_keys(login)
    browser.find_element(By.ID, "password").send_keys(password, Keys.ENTER)
    eventually(lambda: browser.title.startswith("Run templates"), PAGE_WITHIN)
