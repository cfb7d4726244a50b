"""Tokens that people issue for their programs, over REST and in the console."""

import re
from datetime import timedelta

import httpx
import pytest
from sqlalchemy import select

from jobauto_prefect.ledger.records import Token
from jobauto_prefect.ledger.store import Ledger
from tests.support.console import PASSWORD, add_user, cookie_name, post, submit, visitor
from tests.support.ledger_rows import entries, fetch, fetch_all, fetch_one, user_id_of
from tests.support.records import ok
from tests.support.secrets import secret
from tests.support.servers import client, user_token


def test_a_user_issues_a_token_that_opens_the_service_until_it_is_revoked(
    facade_url: str, ledger: Ledger
) -> None:
    with client(f"{facade_url}/api/v1", user_token(ledger, "eva", ("editor",))) as rest:
        eva = user_id_of(ledger, "eva")
        issued = ok(rest.post(f"/user/{eva}/tokens/", json={"days": 30}), 201)
        text = issued["token"]
        token = fetch(ledger, Token, issued["id"])
        assert token.expires_at is not None
        assert round((token.expires_at - token.created_at) / timedelta(days=1), 3) == 30
        with client(f"{facade_url}/api/v1", text) as program:
            assert program.get("/jobs.json").status_code == 200
            listed = ok(program.get("/user/eva/tokens.json"))
            assert str(issued["id"]) in listed
            assert text not in str(listed)
            revoked = ok(program.delete(f"/user/eva/token/{issued['id']}"))
            assert revoked["revoked_at"]
            assert program.get("/jobs.json").status_code == 401
        again = ok(rest.delete(f"/user/eva/token/{issued['id']}"))
        assert again["revoked_at"] == revoked["revoked_at"]


@pytest.fixture
def issued(facade_url: str, ledger: Ledger) -> dict[str, str]:
    """What opens the service for Eva: her session, a token of `/login`, and one she issued."""
    add_user(ledger, "eva", "editor")
    browser = visitor(facade_url)
    assert submit(browser, "eva").status_code == 303
    named = {"login": "eva", "password": PASSWORD}
    sign_in = ok(httpx.post(f"{facade_url}/api/v1/login.json", json=named))["token"]
    auth = httpx.BasicAuth("eva", PASSWORD)
    issued = httpx.post(f"{facade_url}/api/v1/user/eva/tokens/", json={}, auth=auth)
    return {
        "session": next(iter(browser.cookies.values())),
        "sign-in": sign_in,
        "issued": ok(issued, 201)["token"],
    }


def _open(facade_url: str, issued: dict[str, str]) -> set[str]:
    """Which of them open the service."""
    headers = {
        name: {"Cookie": f"{cookie_name(facade_url)}={text}"}
        if name == "session"
        else {"Authorization": f"Bearer {text}"}
        for name, text in issued.items()
    }
    page = f"{facade_url}/api/v1/jobs.html"
    return {name for name, header in headers.items() if httpx.get(page, headers=header).is_success}


def test_a_new_password_ends_sessions_and_sign_ins_and_no_issued_token(
    rest: httpx.Client, facade_url: str, ledger: Ledger, issued: dict[str, str]
) -> None:
    eva = {"id": user_id_of(ledger, "eva")}
    ok(rest.post("/user/", json=eva | {"firstname": "Eva"}), 201)
    assert _open(facade_url, issued) == {"session", "sign-in", "issued"}
    ok(rest.post("/user/", json=eva | {"password": secret("another kůň 2")}), 201)
    assert _open(facade_url, issued) == {"issued"}
    browser = visitor(facade_url)
    assert submit(browser, "eva", secret("another kůň 2")).status_code == 303
    assert browser.get("/").status_code == 200


def test_tokens_of_a_disabled_user_stay_ended_when_it_is_enabled_again(
    rest: httpx.Client, facade_url: str, ledger: Ledger, issued: dict[str, str]
) -> None:
    eva = user_id_of(ledger, "eva")
    ok(rest.post("/user/", json={"id": eva, "enabled": False}), 201)
    assert rest.post(f"/user/{eva}/tokens/", json={}).status_code == 409
    ok(rest.post("/user/", json={"id": eva, "enabled": True}), 201)
    assert _open(facade_url, issued) == set()
    ok(rest.post(f"/user/{eva}/tokens/", json={}), 201)


def test_its_text_is_in_no_audit_entry(facade_url: str, ledger: Ledger) -> None:
    with client(f"{facade_url}/api/v1", user_token(ledger)) as rest:
        issued = ok(rest.post("/user/1/tokens/", json={}), 201)
    told = [str(entry.changes) for entry in entries(ledger, "Token")]
    assert any(f"'id': [None, {issued['id']}]" in changes for changes in told)
    assert not any(issued["token"] in changes for changes in told)


@pytest.mark.parametrize("days", [0, -1, 3651, "x", 1.5])
def test_days_that_are_none_are_refused(rest: httpx.Client, days: object) -> None:
    answer = rest.post("/user/1/tokens/", json={"days": days})
    assert answer.status_code == 400
    assert [error["pointer"] for error in answer.json()["details"]] == ["/days"]


def test_nobody_takes_a_token_of_somebody_else_by_its_number(
    rest: httpx.Client, facade_url: str, ledger: Ledger
) -> None:
    other = fetch_all(ledger, select(Token.id))[0]
    with client(f"{facade_url}/api/v1", user_token(ledger, "eva", ("editor",))) as eva:
        assert eva.delete(f"/user/eva/token/{other}").status_code == 404
        assert eva.delete(f"/user/1/token/{other}").status_code == 404
    assert rest.get("/jobs.json").status_code == 200


def test_an_admin_revokes_none_of_a_super_admin(facade_url: str, ledger: Ledger) -> None:
    user_token(ledger, "root")
    root = user_id_of(ledger, "root")
    token = fetch_one(ledger, select(Token.id).where(Token.user_id == root))
    with client(f"{facade_url}/api/v1", user_token(ledger, "adam", ("admin",))) as admin:
        assert admin.delete(f"/user/{root}/token/{token}").status_code == 403
        assert admin.post(f"/user/{root}/tokens/", json={}).status_code == 403


def test_the_console_shows_a_new_token_once_and_revokes_it(facade_url: str, ledger: Ledger) -> None:
    add_user(ledger, "eva", "editor")
    browser = visitor(facade_url)
    assert submit(browser, "eva").status_code == 303
    address = f"/console/users/{user_id_of(ledger, 'eva')}/tokens"
    browser.event_hooks = {}  # the page is to show a secret

    refused = post(browser, address, {"/days": "0"})
    assert refused.status_code == 400
    assert 'role="alert"' in refused.text
    issued = post(browser, address, {"/days": "7", "/your_password": PASSWORD})
    (text,) = re.findall(r"jobauto_[\w-]+", issued.text)
    assert issued.headers["cache-control"] == "no-store"
    assert text not in browser.get(address).text
    with client(f"{facade_url}/api/v1", text) as program:
        assert program.get("/jobs.json").status_code == 200
        newest = max(int(number) for number in program.get("/user/eva/tokens.json").json())
        revoked = post(browser, f"{address}/{newest}/revoke")
        assert revoked.status_code == 303
        assert "The token was revoked." in browser.get(revoked.headers["location"]).text
        assert program.get("/jobs.json").status_code == 401


def test_who_may_not_change_their_profile_issues_none(facade_url: str, ledger: Ledger) -> None:
    add_user(ledger, "tom", "viewer")
    browser = visitor(facade_url)
    assert submit(browser, "tom").status_code == 303
    address = f"/console/users/{user_id_of(ledger, 'tom')}/tokens"
    page = browser.get(address)
    assert page.status_code == 200
    assert "<form" not in page.text.partition("<main")[2]
    assert post(browser, address, {"/days": "7"}).status_code == 403
    assert browser.get(address).text.count('class="badge good"') == page.text.count("badge good")
