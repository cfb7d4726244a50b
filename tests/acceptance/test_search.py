"""The search of the site has the right page among its first three for the words of newcomers."""

import functools
import importlib.util
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer

import pytest
from selenium import webdriver
from selenium.webdriver.common.by import By

from tests.support.browser import chromium
from tests.support.container_engines import require
from tests.support.paths import ROOT
from tests.support.waits import eventually

HAVE_TO = 45
FIRST = 3
PAGES = {
    "airflow": "comparison",
    "api": "rest",
    "artifact": "environment",
    "audit": "security",
    "backfill": "how-to/backfill",
    "backup": "how-to/check-a-backup",
    "cancel": "console",
    "certificate": "how-to/behind-nginx",
    "cron": "scheduling",
    "csv": "rest",
    "curl": "how-to/call-it-from-a-program",
    "docker": "how-to/run-in-a-container",
    "DST": "scheduling",
    "email": "how-to/mail-and-chat-on-failure",
    "file": "how-to/hand-on-files-and-values",
    "firewall": "how-to/worker-on-another-machine",
    "helm": "how-to/run-in-a-pod-with-helm",
    "holiday": "how-to/pause-for-a-bank-holiday",
    "https": "how-to/behind-nginx",
    "install": "install",
    "kill": "operation",
    "kubernetes": "how-to/run-in-a-pod-with-helm",
    "log": "operation",
    "metrics": "operation",
    "migrate": "migration",
    "nginx": "how-to/behind-nginx",
    "output": "environment",
    "password": "how-to/leaked-token-lost-password",
    "permission": "rest",
    "postgres": "how-to/sqlite-to-postgresql",
    "prometheus": "operation",
    "proxy": "how-to/behind-nginx",
    "python": "how-to/python-program",
    "redis": "operation",
    "rerun": "how-to/backfill",
    "restore": "how-to/check-a-backup",
    "retry": "how-to/retry-on-an-exit-code",
    "role": "how-to/let-a-colleague-run",
    "secret": "credentials",
    "slack": "how-to/mail-and-chat-on-failure",
    "spaces": "definition-format",
    "sqlite": "how-to/sqlite-to-postgresql",
    "timeout": "run-templates",
    "timezone": "scheduling",
    "token": "how-to/leaked-token-lost-password",
    "uninstall": "how-to/remove-it",
    "upgrade": "how-to/upgrade",
    "vault": "how-to/secrets-from-vault",
    "virtualenv": "how-to/python-program",
    "webhook": "events",
}
"""What a newcomer types, and the page that answers it."""

TYPE = """
const field = document.querySelector(".md-search__input");
field.value = arguments[0];
field.dispatchEvent(new Event("keyup", {bubbles: true}));
field.dispatchEvent(new Event("input", {bubbles: true}));
"""
SAYS = "return document.querySelector('.md-search-result__meta').textContent"
LINKS = """
const first = document.querySelectorAll(".md-search-result__item > a:first-child");
return [...first].map(link => link.href);
"""


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_arguments: object) -> None:
        """Say nothing."""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of the site as `make docs` builds it."""
    require(importlib.util.find_spec("mkdocs"), "mkdocs (make docs installs it)")
    folder = tmp_path_factory.mktemp("site")
    build = [sys.executable, "-m", "mkdocs", "build", "--quiet", "--site-dir", str(folder)]
    subprocess.run(build, cwd=ROOT, check=True, capture_output=True)
    with ThreadingHTTPServer(
        ("127.0.0.1", 0), functools.partial(Quiet, directory=folder)
    ) as server:
        threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def found(browser: webdriver.Chrome, site: str, word: str) -> list[str]:
    """The pages that the search lists, the best first."""
    for typed, says in (("", "Type to start"), (word, "matching document")):
        browser.execute_script(TYPE, typed)
        eventually(lambda says=says: says in browser.execute_script(SAYS), 20)
    links = browser.execute_script(LINKS)
    return [link.removeprefix(f"{site}/").partition(".html")[0] for link in links]


def test_newcomers_find_the_right_page_among_the_first_three(site: str) -> None:
    assert len(PAGES) == 50
    with chromium() as browser:
        browser.get(f"{site}/index.html")
        field = browser.find_element(By.CSS_SELECTOR, ".md-search__input")
        browser.execute_script("arguments[0].focus()", field)
        first = {word: found(browser, site, word)[:FIRST] for word in PAGES}
    missed = {word: first[word] for word, page in PAGES.items() if page not in first[word]}
    assert len(PAGES) - len(missed) >= HAVE_TO, missed
