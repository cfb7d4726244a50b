"""What a stolen session or token can't do without the password of its user."""

from collections.abc import Callable
from typing import Any

import httpx
import pytest
from sqlalchemy import select

from jobauto_prefect.ledger.records import Token
from jobauto_prefect.ledger.store import Ledger
from tests.support.console import PASSWORD, add_user, form_fields, post, submit, visitor
from tests.support.databases import on_sqlite
from tests.support.ledger_rows import entries, fetch_all, user_id_of
from tests.support.records import ok
from tests.support.secrets import secret
from tests.support.servers import client, user_token

pytestmark = on_sqlite

NEW = secret("another kůň 2")


def _opens(url: str, password: str) -> bool:
    answer = httpx.get(f"{url}/api/v1/apps.json", auth=httpx.BasicAuth("eva", password))
    return answer.status_code == 200


def _signed_in(url: str) -> str:
    named = {"login": "eva", "password": PASSWORD}
    token: str = ok(httpx.post(f"{url}/api/v1/login.json", json=named))["token"]
    return token


def _issued(url: str) -> str:
    body = {"days": 30}
    auth = httpx.BasicAuth("eva", PASSWORD)
    answer = httpx.post(f"{url}/api/v1/user/eva/tokens/", json=body, auth=auth)
    token: str = ok(answer, 201)["token"]
    return token


@pytest.mark.parametrize("role", ["editor", "super_admin"])
@pytest.mark.parametrize("obtain", [_signed_in, _issued])
def test_no_token_changes_its_users_own_password(
    facade_url: str, ledger: Ledger, role: str, obtain: Callable[[str], str]
) -> None:
    add_user(ledger, "eva", role)
    eva = user_id_of(ledger)
    ways: list[tuple[str, dict[str, Any]]] = [
        ("/user/", {"id": eva}),
        ("/user/", {"login": "eva"}),
        (f"/user/{eva}.json", {}),
        ("/user/eva.json", {"firstname": "Eva"}),
    ]
    with client(f"{facade_url}/api/v1", obtain(facade_url)) as thief:
        for path, body in ways:
            answer = thief.post(path, json={**body, "password": NEW})
            assert answer.status_code == 403, path
            assert "send login and password (Basic)" in answer.json()["message"]
        ok(thief.post("/user/", json={"id": eva, "email": "eva@example.org"}), 201)
    assert _opens(facade_url, PASSWORD)


def test_the_present_password_changes_it_and_ends_what_it_gave(
    facade_url: str, ledger: Ledger
) -> None:
    add_user(ledger, "eva", "editor")
    browser, sign_in = visitor(facade_url), _signed_in(facade_url)
    submit(browser)
    with httpx.Client(base_url=f"{facade_url}/api/v1") as http:
        for password, status in (("wrong", 401), (PASSWORD, 201)):
            auth = httpx.BasicAuth("eva", password)
            assert http.post("/user/eva.json", json={"password": NEW}, auth=auth).status_code == (
                status
            )
    assert not _opens(facade_url, PASSWORD)
    assert _opens(facade_url, NEW)
    assert browser.get("/").status_code == 401
    with client(f"{facade_url}/api/v1", sign_in) as http:
        assert http.get("/apps.json").status_code == 401


def test_an_administrator_resets_anothers_and_ends_what_it_gave(
    facade_url: str, ledger: Ledger, rest: httpx.Client
) -> None:
    add_user(ledger, "eva", "editor")
    browser, sign_in = visitor(facade_url), _signed_in(facade_url)
    submit(browser)
    ok(rest.post("/user/", json={"login": "eva", "password": NEW}), 201)
    assert browser.get("/").status_code == 401
    with client(f"{facade_url}/api/v1", sign_in) as http:
        assert http.get("/apps.json").status_code == 401


@pytest.mark.parametrize("days", [None, 3650, 1])
def test_a_session_gives_itself_no_token(facade_url: str, ledger: Ledger, days: int | None) -> None:
    add_user(ledger, "eva")
    user_token(ledger, "other", ("super_admin",))
    with client(f"{facade_url}/api/v1", _signed_in(facade_url)) as thief:
        for login in ("eva", "other"):
            answer = thief.post(f"/user/{login}/tokens/", json={"days": days})
            assert answer.status_code == 403
    kinds = fetch_all(ledger, select(Token.kind).where(Token.user_id == user_id_of(ledger)))
    assert sorted(kinds) == ["sign-in", "user"]


def test_a_token_gives_none_that_outlives_it(facade_url: str, ledger: Ledger) -> None:
    add_user(ledger, "eva")
    with client(f"{facade_url}/api/v1", _issued(facade_url)) as program:
        for days, status in ((None, 403), (31, 403), (29, 201)):
            assert program.post("/user/eva/tokens/", json={"days": days}).status_code == status
    with client(f"{facade_url}/api/v1", user_token(ledger, "lasting")) as program:
        ok(program.post("/user/eva/tokens/", json={}), 201)


@pytest.fixture
def eva(facade_url: str, ledger: Ledger) -> httpx.Client:
    """A browser of somebody who has signed in."""
    add_user(ledger, "eva", "editor")
    browser = visitor(facade_url)
    assert submit(browser).status_code == 303
    return browser


def test_the_console_asks_for_the_present_password(
    eva: httpx.Client, facade_url: str, ledger: Ledger
) -> None:
    number = user_id_of(ledger)
    address = f"/console/users/{number}/password"
    assert address in eva.get(f"/console/users/{number}").text
    assert "/password" not in form_fields(eva.get(f"/console/users/{number}/edit").text)
    around = post(eva, f"/console/users/{number}/edit", {"/password": NEW})
    assert around.status_code in (303, 403)
    for present, new in (("", NEW), ("wrong", NEW), (PASSWORD, ""), (PASSWORD, "short")):
        fields = {"/your_password": present, "/password": new}
        refused = post(eva, address, fields)
        assert refused.status_code == 400
        assert 'role="alert"' in refused.text
        assert new == "" or new not in refused.text
    assert _opens(facade_url, PASSWORD)

    elsewhere = visitor(facade_url)
    submit(elsewhere)
    stolen = dict(eva.cookies)
    changed = post(eva, address, {"/your_password": PASSWORD, "/password": NEW})
    assert changed.status_code == 303
    assert "Saved." in eva.get(changed.headers["location"]).text
    assert elsewhere.get("/").status_code == 401
    with visitor(facade_url) as thief:
        thief.cookies.update(stolen)
        assert thief.get("/").status_code == 401
    assert _opens(facade_url, NEW)


def test_nobody_changes_anothers_there(eva: httpx.Client, ledger: Ledger) -> None:
    add_user(ledger, "tom", "viewer")
    address = f"/console/users/{user_id_of(ledger, 'tom')}/password"
    assert eva.get(address).status_code == 403
    sent = {"/your_password": PASSWORD, "/password": NEW}
    assert post(eva, address, sent).status_code == 403


def test_guesses_at_the_present_password_are_failed_sign_ins(
    eva: httpx.Client, ledger: Ledger
) -> None:
    address = f"/console/users/{user_id_of(ledger)}/password"
    for number in range(5):
        guess = {"/your_password": f"wrong {number}", "/password": NEW}
        assert post(eva, address, guess).status_code == 400
    refused = post(eva, address, {"/your_password": PASSWORD, "/password": NEW})
    assert refused.status_code == 400
    assert "too many failed sign-ins" in refused.text
    refusals = entries(ledger, "Login")
    doors = [entry.door for entry in refusals if entry.action == "refuse"]
    assert doors == ["console"] * 5


def test_the_console_gives_a_token_for_the_password_alone(
    eva: httpx.Client, ledger: Ledger
) -> None:
    address = f"/console/users/{user_id_of(ledger)}/tokens"
    for password in ({}, {"/your_password": ""}, {"/your_password": "wrong"}):
        refused = post(eva, address, {"/days": "7", **password})
        assert refused.status_code == 400
        assert "login or password is wrong" in refused.text
    with ledger.reading() as session:
        mine = select(Token.id).where(Token.user_id == user_id_of(ledger), Token.kind == "user")
        assert len(session.scalars(mine).all()) == 1  # of the fixture


def test_who_has_no_password_yet_gets_the_first_one_from_an_administrator(
    facade_url: str, ledger: Ledger, rest: httpx.Client
) -> None:
    with client(f"{facade_url}/api/v1", user_token(ledger, "eva", ("editor",))) as program:
        assert program.post("/user/eva.json", json={"password": PASSWORD}).status_code == 403
    ok(rest.post("/user/", json={"login": "eva", "password": PASSWORD}), 201)
    assert _opens(facade_url, PASSWORD)
