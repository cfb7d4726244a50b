"""Secrets stay with the address that they were given for."""

import re
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from jobauto_prefect.facade.writes.memberships import set_roles
from jobauto_prefect.ledger.access.tokens import issue_user_token
from jobauto_prefect.ledger.audit.trail import SERVICE
from jobauto_prefect.ledger.records import CompanyUser, Credential, EventSource, RunTemplate, User
from jobauto_prefect.ledger.store import Ledger
from jobauto_prefect.settings import Settings
from tests.support.adapters import adapter_database
from tests.support.ledger_rows import fetch
from tests.support.ports import free_port
from tests.support.records import make_template, post
from tests.support.secrets import secret
from tests.support.servers import OPERATOR, client, facade

PASSWORD = secret("stored-password")
OTHER = secret("another-password")
ERP: dict[str, Any] = {
    "code": "Erp",
    "name": "ERP",
    "fields": [
        {"keyword": "ERP_SERVER", "type": "string", "default_value": "erp.example"},
        {"keyword": "ERP_API", "type": "url"},
        {"keyword": "ERP_LOGIN"},
        {"keyword": "ERP_PASSWORD", "type": "password"},
        {"keyword": "ERP_TOKEN", "type": "secret"},
    ],
}


def asked(rest: httpx.Client, path: str, **body: Any) -> dict[str, str]:
    """Pointer -> message of the secrets that a write asks for."""
    details = post(rest, path, 400, **body)["details"]
    assert {one["rule"] for one in details} == {"secret"}
    return {one["pointer"]: one["message"] for one in details}


@contextmanager
def listening() -> Iterator[tuple[int, list[bytes]]]:
    """The port of somebody's own server, and what it has heard."""
    heard: list[bytes] = []

    def listen() -> None:
        while True:
            try:
                connection, _ = server.accept()
            except OSError:
                return
            with connection:
                connection.settimeout(30)
                heard.append(connection.recv(1000))

    with socket.create_server(("127.0.0.1", 0)) as server:
        threading.Thread(target=listen, daemon=True).start()
        yield server.getsockname()[1], heard
        server.shutdown(socket.SHUT_RDWR)


@pytest.fixture
def source(rest: httpx.Client) -> dict[str, Any]:
    """An event source with a password."""
    made = post(
        rest, "/eventsource/", name="erp", db_connection="pgsql", db_host="db.example",
        db_port=5432, db_database="d", db_username="reader", db_password=PASSWORD,
    )  # fmt: skip
    found: dict[str, Any] = rest.get(f"/eventsource/{made['id']}.json").json()
    return found


MOVES: dict[str, Any] = {
    "db_connection": "mysql",
    "db_host": "evil.example",
    "db_port": 5433,
    "db_database": "other",
    "db_username": "someone",
}


def stored(ledger: Ledger, source: dict[str, Any]) -> str | None:
    sealed = fetch(ledger, EventSource, source["id"]).db_password
    return ledger.box.open({"p": sealed})["p"] if sealed else None


def test_a_source_that_moves_asks_for_its_password_and_one_that_stays_does_not(
    rest: httpx.Client, ledger: Ledger, source: dict[str, Any]
) -> None:
    own = f"/eventsource/{source['id']}.json"
    for member, value in MOVES.items():
        for kept in ({}, {"db_password": "********"}, {"db_password": ""}):
            message = asked(rest, own, **{member: value}, **kept)["/db_password"]
            assert re.search(rf"\b{member}\b.* changed\)", message), message
        asked(rest, "/eventsource/", name="erp", **{member: value})  # known by its name
    assert rest.get(own).json() == source
    whole = {name: source[name] for name in source if name.startswith("db_")}
    post(rest, own, **whole, poll_interval=30)
    post(rest, own, db_port="5432", db_host="db.example", db_password="")
    assert stored(ledger, source) == PASSWORD
    post(rest, own, **MOVES, db_password=OTHER)
    assert stored(ledger, source) == OTHER
    assert post(rest, own, db_host="third.example", db_password=None)["db_password"] is None
    post(rest, own, db_host="fourth.example")
    assert stored(ledger, source) is None


def test_a_manager_does_not_get_the_password_of_a_source_at_a_server_of_his_own(
    facade_url: str, rest: httpx.Client, ledger: Ledger, tmp_path: Path
) -> None:
    company = post(rest, "/company/", slug="acme", name="Acme")["id"]
    with ledger.writing(SERVICE) as session:
        manager = User(login="manager")
        manager.memberships.append(CompanyUser(company_id=company, role="manager"))
        session.add(manager)
        token = issue_user_token(session, manager, None)[0]
    with (
        adapter_database("pgsql", tmp_path) as adapter,
        listening() as (port, heard),
        client(f"{facade_url}/api/v1", token) as his,
    ):
        members = adapter.as_source("erp", company_id=company) | {"db_password": PASSWORD}
        source = post(rest, "/eventsource/", **members)
        own = f"/eventsource/{source['id']}"
        asked(his, f"{own}.json", db_host="127.0.0.1", db_port=port)
        assert his.post(f"{own}/test.json").json()["reachable"] is True
        assert heard == []
        post(his, f"{own}.json", db_port=port, db_password=OTHER)
        assert his.post(f"{own}/test.json").json()["reachable"] is False
        assert heard
        assert PASSWORD.encode() not in b"".join(heard)


@pytest.fixture
def credential(rest: httpx.Client) -> dict[str, Any]:
    """A credential with two secrets."""
    post(rest, "/company/", slug="acme", name="Acme")
    post(rest, "/credential_type/", **ERP)
    values = {"ERP_API": "https://erp.example/", "ERP_LOGIN": "anna", "ERP_PASSWORD": PASSWORD}
    values |= {"ERP_TOKEN": OTHER}
    made = post(
        rest, "/credential/", company="acme", credential_type="Erp", name="Main", values=values
    )
    found: dict[str, Any] = rest.get(f"/credential/{made['id']}.json").json()
    return found


def opened(ledger: Ledger, credential: dict[str, Any]) -> dict[str, str]:
    return ledger.box.open(fetch(ledger, Credential, credential["id"]).secrets)


@pytest.mark.parametrize(
    "moved", [{"ERP_API": "https://evil.example/"}, {"ERP_SERVER": "evil.example"}]
)
def test_a_credential_whose_provider_moves_asks_for_each_of_its_secrets(
    rest: httpx.Client, ledger: Ledger, credential: dict[str, Any], moved: dict[str, str]
) -> None:
    own = f"/credential/{credential['id']}.json"
    secrets = {"ERP_PASSWORD": PASSWORD, "ERP_TOKEN": OTHER}
    both = {"/values/ERP_PASSWORD", "/values/ERP_TOKEN"}
    assert asked(rest, own, values=moved).keys() == both
    assert asked(rest, own, values=moved | dict.fromkeys(secrets, "********")).keys() == both
    assert asked(rest, own, values=moved | {"ERP_TOKEN": OTHER}).keys() == {"/values/ERP_PASSWORD"}
    assert rest.get(own).json() == credential
    post(rest, own, values=credential["values"] | {"ERP_LOGIN": "eva"})
    assert opened(ledger, credential) == secrets
    post(rest, own, values=moved | {"ERP_TOKEN": None, "ERP_PASSWORD": "mine-alone"})
    assert opened(ledger, credential) == {"ERP_PASSWORD": "mine-alone"}


def test_a_value_that_says_what_the_default_says_moves_nothing(
    rest: httpx.Client, ledger: Ledger, credential: dict[str, Any]
) -> None:
    post(rest, f"/credential/{credential['id']}.json", values={"ERP_SERVER": "erp.example"})
    assert len(opened(ledger, credential)) == 2


def test_another_type_with_other_addresses_asks_for_the_secrets(
    rest: httpx.Client, credential: dict[str, Any]
) -> None:
    fields = [
        one if one["keyword"] != "ERP_API" else {"keyword": "ERP_PLACE"} for one in ERP["fields"]
    ]
    post(rest, "/credential_type/", **ERP | {"code": "Mine", "fields": fields})
    own = f"/credential/{credential['id']}.json"
    assert len(asked(rest, own, credential_type="Mine")) == 2


def test_who_may_not_read_the_secrets_of_a_type_sends_them_nowhere_else_by_changing_it(
    facade_settings: Settings, ledger: Ledger, rest: httpx.Client, credential: dict[str, Any]
) -> None:
    check = {"command": ["/opt/checks/erp", "{ERP_SERVER}"], "timeout_seconds": 5}
    limited = facade_settings.model_copy(
        update={
            "availability_commands": ("/opt/checks",), "url": f"http://127.0.0.1:{free_port()}"
        }
    )  # fmt: skip
    with ledger.writing(SERVICE) as session:
        editor = User(login="editor")
        set_roles(session, OPERATOR, editor, ["editor"], replace=True)
        session.add(editor)
        session.flush()
        company = credential["company_id"]
        session.add(CompanyUser(company_id=company, user_id=editor.id, role="manager"))
        token = issue_user_token(session, editor, None)[0]
    own = f"/credential_type/{credential['credential_type_id']}.json"
    post(rest, own, company_id=company)
    with facade(limited, ledger) as url, client(f"{url}/api/v1", token) as his:
        evil = [one | {"default_value": "evil.example"} for one in ERP["fields"][:1]]
        evil += ERP["fields"][1:]
        assert asked(his, own, availability=check).keys() == {"/availability/command"}
        assert asked(his, own, fields=evil).keys() == {"/fields"}
        with client(f"{url}/api/v1", rest.headers["Authorization"].split()[1]) as hers:
            post(hers, own, availability=check)  # she may read them anyway
        post(his, own, availability=check | {"timeout_seconds": 3}, fields=ERP["fields"])
        elsewhere = {"command": ["/opt/checks/erp", "evil.example"]}
        message = asked(his, own, availability=elsewhere)["/availability/command"]
        assert f": {credential['id']};" in message


def test_a_webhook_that_moves_asks_for_its_secret(rest: httpx.Client, ledger: Ledger) -> None:
    template = make_template(rest, name="told")
    own = f"/runtemplate/{template['id']}.json"
    hook = {"uri": "https://hooks.example/a", "secret": PASSWORD}
    shown = post(rest, own, success={"WebHook": hook}, fail={"WebHook": hook})["success"]
    post(rest, own, success=shown, fail={"WebHook": {"uri": hook["uri"]}})
    moved = {"uri": "https://evil.example/"}
    pointers = {"/success/WebHook/secret", "/fail/WebHook/secret"}
    for kept in ({}, {"secret": "********"}):
        modes = {mode: {"WebHook": moved | kept} for mode in ("success", "fail")}
        assert asked(rest, own, **modes).keys() == pointers
    sealed = fetch(ledger, RunTemplate, template["id"]).action_secrets
    assert set(ledger.box.open(sealed).values()) == {PASSWORD}
    modes = {
        "success": {"WebHook": moved | {"secret": None}},
        "fail": {"WebHook": moved | {"secret": OTHER}},
    }
    post(rest, own, **modes)
    sealed = fetch(ledger, RunTemplate, template["id"]).action_secrets
    assert ledger.box.open(sealed) == {"fail": OTHER}
