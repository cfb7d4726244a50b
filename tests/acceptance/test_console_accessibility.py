"""All pages of the console by the rules of axe, in a real browser: light, dark, wide, narrow.

By turns here, half of the pages in each look; `make soak` has all of them in both.

And by a few of our own: no page scrolls sideways, no time in a list wraps, no dangerous button has
the primary colour, and failures and warnings differ in shape.
"""

import importlib.resources
import itertools
import json
import re
from collections.abc import Sequence
from urllib.parse import quote

import pytest
from fastapi.routing import APIRoute
from selenium import webdriver
from selenium.webdriver.common.by import By

from jobauto_prefect.facade.console.pages import PAGES
from tests.support.browser import PAGE_WITHIN
from tests.support.service import Service
from tests.support.waits import eventually

AXE = (importlib.resources.files("axe_core_python") / "axe.min.js").read_text("utf-8")
RULES = ("wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "best-practice")
RUN = f"""
const done = arguments[arguments.length - 1];
axe.run({{runOnly: {json.dumps(RULES)}}}).then(
    (result) => done(result.violations.map((violation) => [
        violation.id, violation.help, violation.nodes.slice(0, 3).map((node) => node.html)])),
    (error) => done([["axe", String(error), []]]));
"""
OWN_RULES = """
const broken = [];
const page = document.documentElement;
if (page.scrollWidth > window.innerWidth)
    broken.push(["sideways", `${page.scrollWidth} of ${window.innerWidth} pixels`]);
for (const time of document.querySelectorAll("td time"))
    if (time.getClientRects().length > 1) broken.push(["a time wraps", time.outerHTML]);
const probe = document.body.appendChild(document.createElement("i"));
probe.style.backgroundColor = "var(--accent)";
const accent = getComputedStyle(probe).backgroundColor;
probe.remove();
for (const button of document.querySelectorAll("main .danger"))
    if (getComputedStyle(button).backgroundColor === accent)
        broken.push(["dangerous, and as the primary button", button.outerHTML]);
const shape = (mark) => {
    const style = getComputedStyle(mark);
    return style.height + style.backgroundImage.split("(")[0];
};
const shapes = ["warn", "bad"].map((tone) => document.querySelector(`.strip .mark.${tone}`));
if (shapes.every(Boolean) && shape(shapes[0]) === shape(shapes[1]))
    broken.push(["failure and warning differ by their hue alone", shape(shapes[0])]);
return broken;
"""
UNFOLD = "for (const folded of document.querySelectorAll('details')) folded.open = true;"
SIGN_IN = "/login.html"
PARTS = ("/static/", "/log", "/artifacts/")
"""In the addresses of what pages load."""

LOOKS = {"light, wide": ("light", 1280), "dark, narrow": ("dark", 390)}


def _paths(ids: dict[str, int | str]) -> list[str]:
    """The addresses of all pages; of those of one record, of one that is there."""
    routes = [route for page in PAGES for route in page.router.routes]
    paths = [
        route.path
        for route in routes
        if isinstance(route, APIRoute)
        and "GET" in route.methods
        and not any(part in route.path for part in PARTS)
    ]
    bare = [re.sub(":(int|path)}", "}", path) for path in paths if path != SIGN_IN]
    return [path.format(**ids) for path in bare]


def _sign_in(browser: webdriver.Chrome, service: Service) -> None:
    login, password = service.admin()
    browser.get(f"{service.url}{SIGN_IN}")
    browser.find_element(By.ID, "login").send_keys(login)
    browser.find_element(By.ID, "password").send_keys(password)
    browser.find_element(By.CSS_SELECTOR, ".sign-in button").click()
    eventually(lambda: browser.title.startswith("Start"), PAGE_WITHIN)


def _violations(browser: webdriver.Chrome, looks: Sequence[str]) -> dict[str, list[object]]:
    """What breaks our own rules in any look, and those of axe in these; in what is folded, too."""
    found: dict[str, list[object]] = {}
    for look in LOOKS:
        _look(browser, look)
        found[look] = list(browser.execute_script(OWN_RULES))
    browser.execute_script(UNFOLD)
    browser.execute_script(AXE)
    for look in looks:
        _look(browser, look)
        found[look] += browser.execute_async_script(RUN)
    return found


def _look(browser: webdriver.Chrome, look: str) -> None:
    colours, width = LOOKS[look]
    scheme = {"name": "prefers-color-scheme", "value": colours}
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [scheme]})
    size = {"width": width, "height": 1000, "deviceScaleFactor": 1, "mobile": False}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)


@pytest.mark.parametrize("whole", [False, pytest.param(True, marks=pytest.mark.soak)])
def test_pages_keep_the_rules(service: Service, browser: webdriver.Chrome, whole: bool) -> None:
    ids = _records(service)
    browser.set_script_timeout(PAGE_WITHIN)
    browser.get(f"{service.url}{SIGN_IN}")
    wrong = {SIGN_IN: _violations(browser, ["light, wide"])}
    _sign_in(browser, service)
    turns = itertools.cycle([list(LOOKS)] if whole else [[look] for look in LOOKS])
    for path in _paths(ids):
        browser.get(f"{service.url}{path}")
        assert "Sign in" not in browser.title, path
        wrong[path] = _violations(browser, next(turns))
    assert {path: found for path, found in wrong.items() if any(found.values())} == {}


def _records(service: Service) -> dict[str, int | str]:
    """The ids of a record of each kind; those that the examples do not have are made."""
    rest = service.rest()
    kind = {"code": "Axe", "name": "Axe", "fields": [{"keyword": "AXE_PIN", "type": "password"}]}
    rest.post("/api/v1/credential_type/", json=kind).raise_for_status()
    credential = {"company": "acme", "credential_type": "Axe", "name": "axe", "values": {}}
    rest.post("/api/v1/credential/", json=credential).raise_for_status()
    # A warning and a failure, for the marks of a run template.
    for code, state in ((3, "warning"), (42, "failed")):
        body = {"runtemplate_id": "acme/Probe", "env": {"PROBE_EXIT_CODE": code}}
        job = rest.post("/api/v1/job/", json=body).raise_for_status().json()
        service.job_in(job["id"], state)
    rest.post("/api/v1/topic/", json={"name": "axe"}).raise_for_status()
    closed = {"name": "axe", "days": [{"date": "2026-12-24", "title": "Christmas"}]}
    rest.post("/api/v1/calendar/", json=closed).raise_for_status()
    source = {"name": "axe", "db_host": "127.0.0.1", "db_database": "axe", "enabled": False}
    source_id = rest.post("/api/v1/eventsource/", json=source).raise_for_status().json()["id"]
    rule = {
        "event_source_id": source_id,
        "evidence": "polozka-faktury-vydane-do-zahranici",
        "operation": "update",
        "runtemplate_id": "acme/Root file system",
        "env_mapping": {"WARN_PERCENT": "customer.address_of_delivery.country_code[0].value"},
        "enabled": False,
    }
    rest.post("/api/v1/eventrule/", json=rule).raise_for_status()
    eventually(lambda: rest.get("/api/v1/tasks.json").json(), PAGE_WITHIN * 2)
    eventually(lambda: rest.get("/api/v1/events.json").json(), PAGE_WITHIN)
    lists = {
        "job": "jobs",
        "task": "tasks",
        "event": "events",
        "entry": "auditlog",
        "eventrule": "eventrules",
        "eventsource": "eventsources",
        "user": "users",
        "company": "companies",
        "credential": "credentials",
        "app": "apps",
        "topic": "topics",
        "calendar": "calendars",
        "credential_type": "credential_types",
    }
    ids = {
        name: int(next(iter(rest.get(f"/api/v1/{collection}.json").json())))
        for name, collection in lists.items()
    }
    worker = next(iter(rest.get("/api/v1/workers.json").json()))
    ids |= {"runtemplate": job["runtemplate_id"], "job_id": ids["job"], "task_id": ids["task"]}
    return ids | {"worker": quote(worker)}
