"""Who is not known is not let in, however they say who they are."""

import base64
import json
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from urllib.parse import quote

import httpx
import pytest
from sqlalchemy import select

from jobauto_prefect.facade.app import create_app
from jobauto_prefect.facade.auth.passwords import hash_password
from jobauto_prefect.facade.http.body_sizes import SIGN_IN_BYTES
from jobauto_prefect.ledger.audit.trail import SERVICE, Actor
from jobauto_prefect.ledger.records import User
from jobauto_prefect.ledger.store import Ledger
from jobauto_prefect.settings import Settings
from tests.support.asgi_server import spoken
from tests.support.ledger_rows import entries
from tests.support.secrets import secret
from tests.support.servers import facade, user_token

LOGIN, PASSWORD = "eva", secret("kůň:heslo 1")
GOOD = base64.b64encode(f"{LOGIN}:{PASSWORD}".encode()).decode()


def _encoded(text: str | bytes) -> str:
    return base64.b64encode(text if isinstance(text, bytes) else text.encode()).decode()


@pytest.fixture
def token(ledger: Ledger) -> str:
    """A good token of a user whose password is good, too."""
    token = user_token(ledger, LOGIN)
    with ledger.writing(SERVICE) as session:
        user = session.scalars(select(User)).one()
        user.password_hash = hash_password(PASSWORD)
    return token


def _asked(url: str, *authorization: str, path: str = "/api/v1/apps.json") -> int:
    """The status for a request with these Authorization headers, written by hand."""
    lines = [f"Authorization: {value}" for value in authorization]
    port = int(url.rpartition(":")[2])
    status, headers, body = spoken(port, f"GET {path} HTTP/1.1", "Host: localhost", *lines)
    if status == 401:
        assert "www-authenticate" in headers
        assert not [value for value in authorization if len(value) > 8 and value.encode() in body]
    return status


WRONG = {
    "nothing": (),
    "empty": ("",),
    "only a scheme": ("Bearer",),
    "a scheme and blanks": ("Bearer    ",),
    "unknown token": ("Bearer unknown",),
    "token and more": ("Bearer {token}x",),
    "a token less its end": ("Bearer {cut}",),
    "two tokens": ("Bearer {token} {token}",),
    "token after a comma": ("Bearer x, {token}",),
    "token in quotes": ('Bearer "{token}"',),
    "token without a scheme": ("{token}",),
    "token under another scheme": ("Token {token}",),
    "token as Digest": ("Digest {token}",),
    "scheme without a blank": ("Bearer:{token}",),
    "good Basic as bearer": ("Bearer {good}",),
    "letters that are no ASCII": ("Bearer \xe9\xff",),
    "a very long token": ("Bearer " + "a" * 8000,),
    "a bad token, then a good Basic": ("Bearer bad", "Basic {good}"),
    "a good Basic, then a bad token": ("Basic {good}", "Bearer bad"),
    "a bad token and a good Basic in one": ("Bearer bad, Basic {good}",),
    "a good Basic and a bad token in one": ("Basic {good}, Bearer bad",),
    "two good Basics": ("Basic {good}", "Basic {good}"),
    "Basic without anything": ("Basic",),
    "Basic that is no base64": ("Basic !!!!",),
    "Basic with rubbish inside": ("Basic {good}!!",),
    "Basic without padding": ("Basic " + _encoded("eva:wrong1").rstrip("="),),
    "Basic without a colon": ("Basic " + _encoded("eva"),),
    "Basic without a login": ("Basic " + _encoded(f":{PASSWORD}"),),
    "Basic without a password": ("Basic " + _encoded("eva:"),),
    "Basic with a wrong password": ("Basic " + _encoded("eva:wrong"),),
    "Basic in Latin-2": ("Basic " + _encoded(f"{LOGIN}:{PASSWORD}".encode("iso8859-2")),),
    "Basic with a login nobody has": ("Basic " + _encoded(f"tom:{PASSWORD}"),),
    "Basic with a NUL byte": ("Basic " + _encoded(f"eva\0:{PASSWORD}"),),
    "Basic with a NUL byte behind": ("Basic " + _encoded(f"{LOGIN}:{PASSWORD}\0"),),
    "Basic with a line break": ("Basic " + _encoded(f"eva\n:{PASSWORD}"),),
    "Basic with half a character": ("Basic " + _encoded(b"eva:\xed\xa0\x80"),),
    "Basic with a token as login": ("Basic " + _encoded("{token}:x"),),
    "a cookie's words": ("session=1",),
}


@pytest.mark.spec("5.5", "7.1")
def test_a_wrong_authorization_header_is_a_401(facade_url: str, token: str) -> None:
    """The throttle is another test's: a right header in between forgets the failures."""
    let_in = {}
    for kind, values in WRONG.items():
        filled = [
            value.replace("{token}", token).replace("{cut}", token[:-1]).replace("{good}", GOOD)
            for value in values
        ]
        status = _asked(facade_url, *filled)
        if status != 401:
            let_in[kind] = status
        assert _asked(facade_url, f"Basic {GOOD}") == 200, kind
    assert len(WRONG) >= 20
    assert let_in == {}


@pytest.mark.spec("5.1", "5.6")
def test_a_right_authorization_header_is_let_in(facade_url: str, token: str) -> None:
    for value in (f"Bearer {token}", f"bearer  {token}", f"Basic {GOOD}", f"bAsIc {GOOD}"):
        assert _asked(facade_url, value) == 200


@pytest.mark.spec("5.7")
def test_credentials_in_the_address_are_not_read(facade_url: str, token: str) -> None:
    port = facade_url.rpartition(":")[2]
    query = f"/api/v1/apps.json?access_token={token}&token={token}"
    userinfo = f"http://{LOGIN}:{quote(PASSWORD)}@localhost:{port}/api/v1/apps.json"
    assert _asked(facade_url, path=query) == 401
    assert _asked(facade_url, path=userinfo) in (400, 401, 404)


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({"login": "eva\0", "password": PASSWORD}, 400),
        ({"login": "\ud800", "password": PASSWORD}, 400),
        ({"login": LOGIN, "password": "\ud800"}, 400),
        ({"login": "x" * 7_000, "password": PASSWORD}, 401),
        ({"login": LOGIN, "password": "x" * 7_000}, 401),
        ({"login": LOGIN, "password": "x" * SIGN_IN_BYTES}, 413),
    ],
    ids=[
        "nul",
        "half a character",
        "half a character in the password",
        "long",
        "long password",
        "long body",
    ],
)
def test_a_login_that_can_not_be_is_refused(
    facade_url: str, token: str, body: dict[str, str], status: int
) -> None:
    # httpx refuses to write half a character itself.
    answer = httpx.post(f"{facade_url}/api/v1/login.json", content=json.dumps(body))
    assert answer.status_code == status
    assert body["password"] not in answer.text


def test_an_account_that_failed_too_often_is_refused_by_password_not_by_token(
    facade_url: str, token: str
) -> None:
    """Basic and the login are counted together; the gateway's test is test_writes."""
    url = f"{facade_url}/api/v1/login.json"
    for number in range(5):
        if number % 2:
            assert _asked(facade_url, "Basic " + _encoded(f"eva:wrong {number}")) == 401
        else:
            answer = httpx.post(url, json={"login": "EVA", "password": f"wrong {number}"})
            assert answer.status_code == 401
    refused = httpx.get(f"{facade_url}/api/v1/apps.json", auth=(LOGIN, PASSWORD.encode()))
    assert refused.status_code == 429
    assert 1 <= int(refused.headers["Retry-After"]) <= 300
    assert httpx.post(url, json={"login": LOGIN, "password": PASSWORD}).status_code == 429
    assert _asked(facade_url, f"Bearer {token}") == 200


def test_a_forgotten_page_with_an_old_password_locks_nobody_out(
    facade_url: str, token: str, ledger: Ledger
) -> None:
    """The gateway and its sockets are another test's: test_writes."""
    with httpx.Client(base_url=facade_url) as page:
        for _ in range(8):
            basic = page.get("/api/v1/apps.json", auth=(LOGIN, "old"))
            json_body = page.post("/api/v1/login.json", json={"login": LOGIN, "password": "old"})
            form = page.post("/login.html", data={"login": LOGIN, "password": "old"})
            query = page.get("/api/v1/login.json", params={"login": LOGIN, "password": "old"})
            assert {one.status_code for one in (basic, json_body, form, query)} == {401}
    assert _asked(facade_url, f"Basic {GOOD}") == 200
    refused = entries(ledger, "Login")
    assert [entry.action for entry in refused] == ["refuse"]


def test_a_page_that_asks_for_ten_things_at_once_fails_once(
    facade_url: str, token: str, ledger: Ledger
) -> None:
    at_once = Barrier(10)

    def ask(_number: int) -> int:
        at_once.wait()
        return _asked(facade_url, "Basic " + _encoded("eva:old"))

    with ThreadPoolExecutor(10) as page:
        assert set(page.map(ask, range(10))) == {401}
    assert _asked(facade_url, f"Basic {GOOD}") == 200
    refused = entries(ledger, "Login")
    assert [entry.action for entry in refused] == ["refuse"]


def test_strangers_lock_nobody_out_where_they_signed_in_before(
    facade_settings: Settings, ledger: Ledger, token: str
) -> None:
    """All networks come through a proxy that is trusted; nobody else names another one."""
    proxied = facade_settings.model_copy(
        update={"trusted_proxies": Settings(trusted_proxies="127.0.0.1").trusted_proxies}  # type: ignore[arg-type]
    )

    def asked(network: str, password: str) -> int:
        headers = {"X-Forwarded-For": network, "X-Forwarded-Proto": "https"}
        auth = (LOGIN, password.encode())
        return httpx.get(f"{url}/api/v1/apps.json", headers=headers, auth=auth).status_code

    with facade(proxied, ledger) as url:
        assert asked("192.0.2.1", PASSWORD) == 200
        guesses = [asked(f"203.0.113.{number % 5}", f"wrong {number}") for number in range(21)]
        assert guesses == [401] * 20 + [429]
        assert asked("198.51.100.1", PASSWORD) == 429
        assert asked("192.0.2.1", PASSWORD) == 200
        assert asked("192.0.2.1", "wrong") == 401


def test_a_network_that_no_trusted_proxy_names_is_not_believed(facade_url: str, token: str) -> None:
    for number in range(5):
        named = {"X-Forwarded-For": f"203.0.113.{number}"}
        answer = httpx.get(f"{facade_url}/api/v1/apps.json", headers=named, auth=(LOGIN, "wrong"))
        assert answer.status_code == 403  # over plain HTTP: somebody forwards what is not private
    for number in range(5):
        assert _asked(facade_url, "Basic " + _encoded(f"eva:wrong {number}")) == 401
    assert _asked(facade_url, f"Basic {GOOD}") == 429


async def test_the_local_operator_needs_no_password_and_is_never_refused(
    facade_settings: Settings, ledger: Ledger, token: str
) -> None:
    operator = Actor(name="os:root", door="cli")
    transport = httpx.ASGITransport(create_app(facade_settings, ledger, operator))
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as local:
        for number in range(6):
            guess = {"login": LOGIN, "password": f"x{number}"}
            wrong = await local.post("/api/v1/login.json", json=guess)
        assert wrong.status_code == 429
        assert (await local.get("/api/v1/apps.json")).status_code == 200


def test_a_forged_host_is_refused_before_credentials_are_looked_at(facade_url: str) -> None:
    port = int(facade_url.rpartition(":")[2])
    for path in ("/api/v1/apps.json", "/api/v1/ping.json", "/internal/v1/claims"):
        for forged in ("Host: jobauto.example", "Host: localhost\r\nX-Forwarded-Proto: https"):
            lines = (f"GET {path} HTTP/1.1", forged, "Authorization: Bearer bad")
            assert spoken(port, *lines)[0] == 403


def test_a_password_that_is_changed_and_a_user_who_is_disabled_count_at_once(
    facade_url: str, token: str, ledger: Ledger
) -> None:
    good = f"Basic {GOOD}"
    assert _asked(facade_url, good) == 200
    with ledger.writing(SERVICE) as session:
        session.scalars(select(User)).one().password_hash = hash_password("another one")
    assert _asked(facade_url, good) == 401
    changed = "Basic " + _encoded("eva:another one")
    assert _asked(facade_url, changed) == 200
    with ledger.writing(SERVICE) as session:
        session.scalars(select(User)).one().enabled = False
    assert _asked(facade_url, changed) == 401
    assert _asked(facade_url, f"Bearer {token}") == 401
