"""New logins read like no other; who has one that does keeps it."""

import httpx
import pytest

from jobauto_prefect.cli.checks.examination import login_findings
from jobauto_prefect.ledger.store import Ledger
from tests.support.console import PASSWORD, add_user
from tests.support.databases import on_sqlite
from tests.support.records import ok, pointers
from tests.support.servers import user_token

pytestmark = on_sqlite

UNREADABLE = ("service", "Worker", "eva\u200b", "\u202eave", "\u0435va", "ev\uff41")


def test_a_new_login_reads_like_no_other(rest: httpx.Client) -> None:
    eva = ok(rest.post("/user/", json={"login": "eva"}), 201)
    for login in UNREADABLE:
        for body in ({"login": login}, {"id": eva["id"], "login": login}):
            assert set(pointers(rest.post("/user/", json=body))) == {"/login"}, ascii(login)
    both = rest.post("/user/", json={"login": "service", "password": "x"})
    assert set(pointers(both)) == {"/login", "/password"}
    ok(rest.post("/user/", json={"login": "ji\u0159\u00ed"}), 201)


@pytest.mark.parametrize("login", UNREADABLE, ids=ascii)
def test_who_has_such_a_login_keeps_it_and_the_doctor_says_so(
    rest: httpx.Client, facade_url: str, ledger: Ledger, login: str
) -> None:
    assert login_findings(ledger) == []
    add_user(ledger, login, "editor")
    with httpx.Client(base_url=f"{facade_url}/api/v1", auth=httpx.BasicAuth(login, PASSWORD)) as me:
        (user,) = ok(me.get("/users.json")).values()
        ok(me.post("/user/", json={"id": user["id"], "login": login, "firstname": "Eva"}), 201)
    ok(rest.post("/user/", json={"login": login, "roles": ["viewer"]}), 201)
    (finding,) = login_findings(ledger)
    assert (finding.status, ascii(login) in finding.message) == ("warning", True)


def test_a_user_called_worker_is_no_worker(facade_url: str, ledger: Ledger) -> None:
    token = user_token(ledger, "worker", ("editor",))
    headers = {"Authorization": f"Bearer {token}"}
    with httpx.Client(base_url=facade_url, headers=headers) as http:
        assert http.post("/internal/v1/claims", json={}).status_code == 403
        assert http.get("/api/v1/apps.json").status_code == 200
