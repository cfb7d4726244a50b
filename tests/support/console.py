"""The console, as a browser speaks to it, and somebody who signs in to it."""

import re

import httpx
from sqlalchemy import select

from jobauto_prefect.facade.auth.passwords import hash_password
from jobauto_prefect.ledger.audit.trail import SERVICE
from jobauto_prefect.ledger.records import User
from jobauto_prefect.ledger.store import Ledger
from tests.support.secrets import SAYS_NO_SECRET, secret
from tests.support.servers import user_token

PASSWORD = secret("kůň & heslo 1")
COOKIE = "jobauto_session"


def add_user(ledger: Ledger, login: str = "eva", *roles: str) -> None:
    """Add somebody with a password; without roles named a super_admin."""
    user_token(ledger, login, roles or ("super_admin",))
    with ledger.writing(SERVICE) as session:
        user = session.scalars(select(User).where(User.login == login)).one()
        user.password_hash = hash_password(PASSWORD)


def visitor(url: str, language: str = "en") -> httpx.Client:
    """A browser on a page of this service: it follows nothing by itself."""
    headers = {"Accept": "text/html", "Accept-Language": language}
    return httpx.Client(base_url=url, headers=headers, timeout=20, event_hooks=SAYS_NO_SECRET)


def submit(
    browser: httpx.Client,
    login: str = "eva",
    password: str = PASSWORD,
    wanted: str | None = None,
) -> httpx.Response:
    """Send the form of the sign-in page."""
    fields = {"login": login, "password": password}
    fields |= {} if wanted is None else {"next": wanted}
    return post(browser, "/login.html", fields)


def post(browser: httpx.Client, path: str, fields: dict[str, str] | None = None) -> httpx.Response:
    """Send a form of one of the console's pages, as browsers do."""
    origin = str(browser.base_url).rstrip("/")
    headers = {"Origin": origin, "Sec-Fetch-Site": "same-origin"}
    return browser.post(path, data=fields or {}, headers=headers)


def links(page: str) -> set[str]:
    """The addresses to which a page leads."""
    found = re.findall(r'href="(/[^"]*)"', page)
    return {address.replace("&amp;", "&") for address in found}
