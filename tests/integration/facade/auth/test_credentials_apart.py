"""Each credential opens what it is for: cookies the console, tokens the contract, and no other."""

import base64
from collections.abc import Mapping

import httpx
import pytest
from sqlalchemy import select

from jobauto_prefect.ledger.access.tokens import TokenKind, digest_of
from jobauto_prefect.ledger.audit.trail import SERVICE
from jobauto_prefect.ledger.records import Token
from jobauto_prefect.ledger.store import Ledger
from jobauto_prefect.settings import Settings
from tests.support.console import PASSWORD, add_user, cookie_name, post, submit, visitor
from tests.support.databases import on_sqlite
from tests.support.records import ok
from tests.support.servers import facade, user_token, worker_token

pytestmark = on_sqlite

CONTRACT = [
    ("GET", "/api/v1/apps.json"),
    ("GET", "/api/v1/apps.html"),
    ("GET", "/apps.json"),
    ("GET", "/api/v1/users.json"),
    ("POST", "/api/v1/company/"),
    ("POST", "/api/v1/logout.json"),
    ("POST", "/internal/v1/claims"),
    ("GET", "/"),
    ("GET", "/console/users"),
]


def _headers(text: str, login: str = "eva") -> list[dict[str, str]]:
    """The ways to send a text as a token or as a password."""
    basic = base64.b64encode(f"{login}:{text}".encode()).decode()
    worker = base64.b64encode(f"worker:{text}".encode()).decode()
    return [
        {"Authorization": value}
        for value in (f"Bearer {text}", f"bearer {text}", f"Basic {basic}", f"Basic {worker}")
    ]


def _statuses(url: str, headers: Mapping[str, str]) -> set[int]:
    with httpx.Client(base_url=url, headers=headers) as http:
        return {http.request(method, path, json={}).status_code for method, path in CONTRACT}


def test_what_the_cookie_holds_is_no_token_and_no_password(facade_url: str, ledger: Ledger) -> None:
    add_user(ledger)
    browser = visitor(facade_url)
    submit(browser)
    (stolen,) = browser.cookies.values()
    for header in _headers(stolen):
        assert _statuses(facade_url, header) <= {401, 429}, header
    named = {"login": "eva", "password": stolen}
    assert httpx.post(f"{facade_url}/api/v1/login.json", json=named).status_code == 401
    assert browser.get("/").status_code == 200


@pytest.mark.parametrize("kind", ["user", "sign-in", "worker"])
def test_a_token_is_no_session(facade_url: str, ledger: Ledger, kind: str) -> None:
    add_user(ledger)
    if kind == "sign-in":
        named = {"login": "eva", "password": PASSWORD}
        text = ok(httpx.post(f"{facade_url}/api/v1/login.json", json=named))["token"]
    else:
        text = user_token(ledger) if kind == "user" else worker_token(ledger, "jobauto")
    cookie = {"Cookie": f"{cookie_name(facade_url)}={text}"}
    assert _statuses(facade_url, cookie) == {401}
    with visitor(facade_url) as browser:
        browser.headers.update(cookie)
        assert post(browser, "/logout").status_code == 401


def test_a_cookie_from_before_is_asked_to_sign_in_again(facade_url: str, ledger: Ledger) -> None:
    """Former versions kept a token of `/login` in it."""
    add_user(ledger)
    browser = visitor(facade_url)
    submit(browser)
    (text,) = browser.cookies.values()
    _change_token(ledger, text, kind=TokenKind.SIGN_IN)
    page = browser.get("/console/jobs")
    assert page.status_code == 401
    assert 'name="next" value="/console/jobs"' in page.text


def test_behind_a_proxy_with_https_the_cookie_is_of_this_host_alone(
    facade_settings: Settings, ledger: Ledger
) -> None:
    add_user(ledger)
    trusted = Settings(trusted_proxies="127.0.0.1").trusted_proxies  # type: ignore[arg-type]
    proxied = facade_settings.model_copy(update={"trusted_proxies": trusted})
    headers = {"X-Forwarded-Proto": "https", "Host": "jobs.example.org"}
    with facade(proxied, ledger) as url, httpx.Client(base_url=url, headers=headers) as browser:
        fields = {"login": "eva", "password": PASSWORD}
        own = {"Origin": "https://jobs.example.org", "Sec-Fetch-Site": "same-origin"}
        answer = browser.post("/login.html", data=fields, headers=own)
        cookie = answer.headers["set-cookie"]
        assert cookie.startswith("__Host-jobauto_session=")
        assert {"Secure", "HttpOnly", "Path=/"} <= set(cookie.split("; "))
        assert "domain" not in cookie.lower()


@pytest.mark.parametrize("kind", ["", "admin", "User", "user ", "WORKER", "worker2", "service"])
@pytest.mark.parametrize("is_users", [True, False])
def test_a_token_of_a_kind_that_nobody_knows_is_nobodys(
    facade_url: str, ledger: Ledger, kind: str, is_users: bool
) -> None:
    text = user_token(ledger, "eva") if is_users else worker_token(ledger, "jobauto")
    _change_token(ledger, text, kind=kind)
    for header in _headers(text):
        assert _statuses(facade_url, header) <= {401, 429}, header


@pytest.mark.parametrize("kind", ["user", "sign-in", "session", "worker"])
def test_a_token_whose_owner_does_not_go_with_its_kind_is_nobodys(
    facade_url: str, ledger: Ledger, kind: str
) -> None:
    text = user_token(ledger, "eva") if kind == "worker" else worker_token(ledger, "jobauto")
    _change_token(ledger, text, kind=kind)
    for header in _headers(text):
        assert _statuses(facade_url, header) <= {401, 429}, header


def _change_token(ledger: Ledger, text: str, **values: str) -> None:
    with ledger.writing(SERVICE) as session:
        token = session.scalars(select(Token).where(Token.hash == digest_of(text))).one()
        for name, value in values.items():
            setattr(token, name, value)
