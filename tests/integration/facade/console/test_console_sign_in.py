"""Signing in to the console: the form, the cookie, and where it counts."""

import base64
import hashlib
import html
import re
from datetime import timedelta

import httpx
import pytest
from sqlalchemy import select

from jobauto_prefect.facade.app import create_app
from jobauto_prefect.ledger.audit.trail import SERVICE
from jobauto_prefect.ledger.records import AuditEntry, Token, User
from jobauto_prefect.ledger.store import Ledger
from jobauto_prefect.settings import Settings
from tests.support.console import (
    COOKIE,
    PASSWORD,
    add_user,
    cookie_name,
    form_fields,
    post,
    submit,
    visitor,
)
from tests.support.ledger_rows import fetch_all
from tests.support.servers import facade, user_token, worker_token

FORM = '<form class="sign-in" method="post" action="/login.html">'


@pytest.fixture
def browser(facade_url: str, ledger: Ledger) -> httpx.Client:
    """Somebody who has an account and is not signed in yet."""
    add_user(ledger)
    return visitor(facade_url)


def _entries(ledger: Ledger) -> list[tuple[str, str, str]]:
    entries = fetch_all(ledger, AuditEntry)
    return [(entry.actor, entry.entity_type, entry.action) for entry in entries]


def _name(browser: httpx.Client) -> str:
    return cookie_name(str(browser.base_url))


def test_a_cookie_of_another_port_is_no_session(browser: httpx.Client) -> None:
    token = submit(browser).cookies[_name(browser)]
    browser.cookies.clear()
    for name in (COOKIE, f"{COOKIE}_1"):
        assert browser.get("/", headers={"Cookie": f"{name}={token}"}).status_code == 401
    assert browser.get("/", headers={"Cookie": f"{_name(browser)}={token}"}).status_code == 200


@pytest.mark.parametrize("path", ["/console", "/console/"])
def test_the_beginning_of_all_addresses_leads_to_start(browser: httpx.Client, path: str) -> None:
    unknown = browser.get(path)
    assert (unknown.status_code, FORM in unknown.text) == (401, True)
    assert f'name="next" value="{path}"' in unknown.text
    submit(browser)
    answer = browser.get(path)
    assert (answer.status_code, answer.headers["location"]) == (303, "/")


@pytest.mark.parametrize("path", ["/login.html", "/api/v1/login.html", "/api/login.html"])
def test_the_page_is_open_and_needs_nothing_beside_it(browser: httpx.Client, path: str) -> None:
    answer = browser.get(path)

    assert answer.status_code == 200
    assert FORM in answer.text
    assert "www-authenticate" not in answer.headers
    assert answer.headers["referrer-policy"] == "same-origin"
    policy = answer.headers["content-security-policy"]
    (style,) = re.findall(r"<style>(.*?)</style>", answer.text, re.DOTALL)
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    assert f"style-src 'sha256-{digest}'" in policy
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert "<script" not in answer.text
    assert not re.findall(r'(?:src|href)="(?!/|#|data:)', answer.text)


def test_the_page_is_in_the_language_of_the_visitor_else_of_the_service(
    facade_settings: Settings, ledger: Ledger
) -> None:
    czech = facade_settings.model_copy(update={"language": "cs"})
    with facade(czech, ledger) as url, visitor(url) as browser:
        assert '<html lang="en">' in browser.get("/login.html").text
        for asked, shown in (("cs-CZ,en;q=0.5", "cs"), ("de", "cs"), ("", "cs"), ("de,en", "en")):
            page = browser.get("/login.html", headers={"Accept-Language": asked}).text
            assert f'<html lang="{shown}">' in page, asked
            assert ("Přihlásit se" if shown == "cs" else "Sign in") in page


def test_with_credentials_the_contract_answers_as_ever(browser: httpx.Client) -> None:
    basic = browser.get("/api/v1/login.html", auth=("eva", PASSWORD))
    asked = browser.get("/api/v1/login.html", params={"login": "eva", "password": PASSWORD})
    posted = browser.post("/api/v1/login.html", data={"login": "eva", "password": PASSWORD})
    for answer in (basic, asked, posted):
        assert answer.status_code == 200
        assert "jobauto_" in answer.text
        assert "set-cookie" not in answer.headers
    assert browser.get("/api/v1/login.html", params={"login": "eva"}).status_code == 400
    assert browser.get("/api/v1/login.json").status_code == 400
    wrong = browser.get("/api/v1/login.html", auth=("eva", "wrong"))
    assert wrong.status_code == 401
    assert any("Basic" in value for value in wrong.headers.get_list("www-authenticate"))


def test_signing_in_sets_a_cookie_and_leads_to_the_page_that_was_wanted(
    browser: httpx.Client, ledger: Ledger
) -> None:
    answer = submit(browser, wanted="/api/v1/jobs.html?state=failed&order=-end")

    assert answer.status_code == 303
    assert answer.headers["location"] == "/api/v1/jobs.html?state=failed&order=-end"
    name, *rest = answer.headers["set-cookie"].split("; ")
    assert name.startswith(f"{_name(browser)}=jobauto_")
    attributes = {attribute.lower() for attribute in rest}
    assert {"httponly", "samesite=strict", "path=/", "max-age=43200"} <= attributes
    assert not any(attribute.startswith("domain") for attribute in attributes)
    assert "secure" not in attributes  # this machine alone is answered over plain HTTP
    assert PASSWORD not in answer.text
    assert browser.get("/").status_code == 200
    assert ("eva", "Login", "login") in _entries(ledger)
    with ledger.reading() as session:
        token = session.scalars(select(Token).order_by(Token.id.desc())).first()
        assert token is not None
        assert token.expires_at is not None
        left = token.expires_at - ledger.clock()
        assert timedelta(hours=11) < left <= timedelta(hours=12)


@pytest.mark.parametrize(
    "elsewhere",
    ["https://evil.example/", "//evil.example/", "/\\evil.example", "\\\\evil.example", "/a\nb",
     "javascript:alert(1)", "/\t/evil.example", "evil", "", "/" + "x" * 3000],
)  # fmt: skip
def test_nobody_is_led_elsewhere(browser: httpx.Client, elsewhere: str) -> None:
    assert submit(browser, wanted=elsewhere).headers["location"] == "/"


async def test_over_https_the_cookie_is_for_https_alone(
    facade_settings: Settings, ledger: Ledger
) -> None:
    add_user(ledger)
    transport = httpx.ASGITransport(create_app(facade_settings, ledger))
    url = "https://jobauto.example"
    async with httpx.AsyncClient(transport=transport, base_url=url) as browser:
        fields = {"login": "eva", "password": PASSWORD}
        answer = await browser.post("/login.html", data=fields, headers={"Origin": url})
        assert answer.status_code == 303
        name, *rest = answer.headers["set-cookie"].split("; ")
        assert name.startswith(f"__Host-{COOKIE}=")
        assert "Secure" in rest
        assert (await browser.get("/")).status_code == 200
        token = name.partition("=")[2]
        browser.cookies.clear()
        plain = await browser.get("/", headers={"Cookie": f"{COOKIE}={token}"})
        assert plain.status_code == 401


def test_a_wrong_password_shows_the_form_again_and_is_written_down(
    browser: httpx.Client, ledger: Ledger
) -> None:
    answer = submit(browser, password="wrong", wanted="/api/v1/apps.html")

    assert answer.status_code == 401
    assert "Login or password is wrong." in answer.text
    assert 'value="eva"' in answer.text
    assert 'name="next" value="/api/v1/apps.html"' in answer.text
    assert not any("Basic" in value for value in answer.headers.get_list("www-authenticate"))
    assert "set-cookie" not in answer.headers
    assert ("unknown", "Login", "refuse") in _entries(ledger)
    assert submit(browser, '"><script>', "x").text.count("<script") == 0


def test_who_fails_too_often_is_told_to_wait(browser: httpx.Client) -> None:
    for number in range(5):
        assert submit(browser, password=f"wrong {number}").status_code == 401
    answer = submit(browser)
    assert answer.status_code == 429
    assert int(answer.headers["retry-after"]) > 0
    assert FORM in answer.text
    assert "Too many failed attempts" in answer.text


def test_the_console_asks_strangers_with_its_form_and_not_by_the_browser(
    browser: httpx.Client,
) -> None:
    answer = browser.get("/")
    assert answer.status_code == 401
    assert FORM in answer.text
    assert answer.headers.get_list("www-authenticate") == ['Bearer realm="jobauto"']
    assert post(browser, "/logout").status_code == 401
    # A page of the contract asks as ever.
    page = browser.get("/api/v1/jobs.html")
    assert page.status_code == 401
    assert any("Basic" in value for value in page.headers.get_list("www-authenticate"))
    assert FORM not in page.text


PAGES = ("/", "/api/v1/jobs.html", "/api/jobs.html", "/api/v1/status.html")
IGNORING = [
    ("GET", "/api/v1/jobs.json"),
    ("GET", "/api/v1/jobs"),
    ("GET", "/api/v1/jobs.csv"),
    ("GET", "/api/v1/"),
    ("GET", "/api/v1/openapi.json"),
    ("GET", "/docs"),
    ("GET", "/metrics"),
    ("GET", "/nothing.html"),
    ("POST", "/"),
    ("POST", "/api/v1/company/"),
    ("POST", "/api/v1/runtemplate/1.html"),
    ("POST", "/api/v1/reconcile.html"),
    ("POST", "/api/v1/logout"),
    ("PUT", "/api/v1/maintenance.html"),
    ("PUT", "/api/v1/maintenance.json"),
    ("DELETE", "/api/v1/maintenance.json"),
    ("DELETE", "/api/v1/job/1.html"),
    ("POST", "/internal/v1/claims"),
]


def test_the_cookie_opens_pages_and_no_other_address(browser: httpx.Client) -> None:
    submit(browser)
    for path in PAGES:
        answer = browser.get(path)
        assert answer.status_code == 200, path
        assert '<form method="post" action="/logout">' in answer.text, path
        assert answer.headers["referrer-policy"] == "same-origin"
        assert browser.head(path).status_code == 200, path
    own = {"Origin": str(browser.base_url).rstrip("/"), "Sec-Fetch-Site": "same-origin"}
    for method, path in IGNORING:
        expected = 405 if (method, path) == ("POST", "/") else 401
        answer = browser.request(method, path, headers=own)
        assert answer.status_code == expected, (method, path)


def test_credentials_in_the_header_come_before_the_cookie(
    browser: httpx.Client, ledger: Ledger
) -> None:
    submit(browser)
    bad = browser.get("/api/v1/jobs.html", headers={"Authorization": "Bearer bad"})
    assert bad.status_code == 401
    assert any("Basic" in value for value in bad.headers.get_list("www-authenticate"))
    assert browser.get("/", headers={"Authorization": "Bearer bad"}).status_code == 401
    other = user_token(ledger, "tom")
    page = browser.get("/", headers={"Authorization": f"Bearer {other}"})
    assert "<b>tom</b>" in page.text
    assert "/logout" not in page.text


def test_a_workers_token_is_no_session(browser: httpx.Client, ledger: Ledger) -> None:
    cookie = {"Cookie": f"{_name(browser)}={worker_token(ledger, 'jobauto')}"}
    assert browser.get("/", headers=cookie).status_code == 401
    assert browser.get("/api/v1/jobs.html", headers=cookie).status_code == 401


def test_signing_out_ends_the_session(browser: httpx.Client, ledger: Ledger) -> None:
    token = submit(browser).cookies[_name(browser)]
    answer = post(browser, "/logout")

    assert (answer.status_code, answer.headers["location"]) == (303, "/login.html")
    assert _name(browser) not in browser.cookies
    assert ("eva", "Token", "update") in _entries(ledger)
    again = {"Cookie": f"{_name(browser)}={token}"}
    assert browser.get("/", headers=again).status_code == 401


def test_who_comes_back_after_the_session_is_led_to_the_page_again(
    browser: httpx.Client, ledger: Ledger
) -> None:
    submit(browser)
    with ledger.writing(SERVICE) as session:
        for token in session.scalars(select(Token)):
            token.revoked_at = session.clock()
    answer = browser.get("/api/jobs.html?state=failed")

    assert answer.status_code == 401
    assert 'name="next" value="/api/jobs.html?state=failed"' in answer.text
    assert not any("Basic" in value for value in answer.headers.get_list("www-authenticate"))


@pytest.mark.parametrize(
    "sent",
    [
        {},
        {"Origin": "https://evil.example"},
        {"Origin": "null"},
        {"Origin": "http://127.0.0.1:1"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
        {"Sec-Fetch-Site": "none"},
    ],
)
def test_only_pages_of_the_console_send_its_forms(
    browser: httpx.Client, sent: dict[str, str]
) -> None:
    submit(browser)
    assert browser.post("/logout", headers=sent).status_code == 403
    assert browser.get("/").status_code == 200


def test_somebody_without_a_role_sees_nothing(browser: httpx.Client, ledger: Ledger) -> None:
    add_user(ledger, "nobody")
    with ledger.writing(SERVICE) as session:
        user = session.scalars(select(User).where(User.login == "nobody")).one()
        user.role_assignments = []
    assert submit(browser, "nobody").status_code == 303
    answer = browser.get("/")
    assert answer.status_code == 403
    assert '<form method="post" action="/logout">' in answer.text
    assert post(browser, "/logout").status_code == 303
    assert _name(browser) not in browser.cookies


@pytest.fixture(params=["urlencoded", "multipart"])
def sent_late(browser: httpx.Client, request: pytest.FixtureRequest) -> httpx.Response:
    """The answer to a form of the console that came after its session had ended."""
    submit(browser)
    page = "/console/companies/new"
    fields = form_fields(browser.get(page).text) | {"/name": "Wayne & sons", "/slug": "wayne"}
    browser.cookies.clear()
    origin = str(browser.base_url).rstrip("/")
    headers = {"Origin": origin, "Sec-Fetch-Site": "same-origin", "Referer": f"{origin}{page}"}
    if request.param == "multipart":
        parts = {name: (None, text) for name, text in fields.items()}
        return browser.post(page, files=parts, headers=headers)
    return browser.post(page, data=fields, headers=headers)


def test_a_form_outlives_its_session(
    browser: httpx.Client, sent_late: httpx.Response, rest: httpx.Client
) -> None:
    assert sent_late.status_code == 401
    hidden = dict(re.findall(r'type="hidden" name="(\w+)" value="([^"]*)"', sent_late.text))
    fields = {name: html.unescape(text) for name, text in hidden.items()}
    fields |= {"login": "eva", "password": "wrong"}
    wrong = post(browser, "/login.html", fields)
    assert wrong.status_code == 401
    assert hidden["form"] in wrong.text
    back = post(browser, "/login.html", {**fields, "password": PASSWORD})
    assert back.status_code == 200
    assert "Your session had ended, so nothing was saved." in back.text
    again = form_fields(back.text)
    assert (again["/name"], again["/slug"]) == ("Wayne & sons", "wayne")
    assert not rest.get("/companies.json", params={"name": "Wayne"}).json()
    assert post(browser, "/console/companies/new", again).status_code == 303
    assert rest.get("/companies.json", params={"name": "Wayne"}).json()


def test_a_form_of_another_site_is_not_kept(browser: httpx.Client) -> None:
    for headers in ({}, {"Sec-Fetch-Site": "cross-site"}):
        answer = browser.post("/console/companies/new", data={"/name": "x"}, headers=headers)
        assert 'name="form"' not in answer.text
