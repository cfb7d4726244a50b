"""`jobauto user`, `token` and `audit` against this machine's own ledger."""

import json
import shutil
from pathlib import Path

import httpx
import pytest

from jobauto_prefect.ledger.store import Ledger
from tests.support.console import PASSWORD, add_user
from tests.support.homes import Home, InProcessHome
from tests.support.secrets import secret


@pytest.fixture
def home(tmp_path: Path, prepared_home: Path) -> Home:
    """A home with a key, tables and one super_admin."""
    shutil.copytree(prepared_home, tmp_path / "home")
    home = InProcessHome(tmp_path)
    create = ("user", "create", "anna", "--role", "super_admin", "--password-stdin")
    assert home.run(*create, stdin=secret("Dlouhe.heslo-77")).returncode == 0
    return home


def test_users_are_listed_changed_and_kept_out(home: Home) -> None:
    home.told("user", "create", "eva", "--password-stdin", stdin=secret("Jine.heslo-88"))
    assert home.told("user", "roles", "eva", "editor", "viewer")["roles"] == ["editor", "viewer"]
    assert home.told("user", "roles", "eva")["roles"] == []
    assert home.told("user", "disable", "eva")["enabled"] is False
    assert {one["login"] for one in home.told("user", "list").values()} == {"anna", "eva"}
    weak = home.run("user", "passwd", "eva", "--password-stdin", stdin="password1")
    assert weak.returncode == 1
    assert "password" in weak.stderr
    last = home.run("user", "disable", "anna")
    assert (last.returncode, last.stdout) == (1, "")
    assert "last super_admin" in last.stderr
    nobody = home.run("user", "disable", "nobody")
    assert "jobauto user list" in nobody.stderr


def test_ones_own_password_is_changed_elsewhere_with_the_present_one(
    home: Home, facade_url: str, ledger: Ledger
) -> None:
    add_user(ledger, "eva", "editor")
    command = ("user", "passwd", "eva", "--password-stdin", "--url", facade_url)
    new = secret("Nove.heslo-99")
    with httpx.Client(base_url=f"{facade_url}/api/v1") as http:
        named = {"login": "eva", "password": PASSWORD}
        session = http.post("/login.json", json=named).json()["token"]
        by_token = home.run(*command, stdin=new, JOBAUTO_TOKEN=session)
        assert by_token.returncode == 1
        assert "login and password" in by_token.stderr
        wrong = home.run(*command, "--own", stdin=f"wrong\n{new}\n")
        assert wrong.returncode == 1
        changed = home.run(*command, "--own", stdin=f"{PASSWORD}\n{new}\n")
        assert changed.returncode == 0, changed.stderr
        assert http.get("/apps.json", auth=httpx.BasicAuth("eva", new)).status_code == 200
    here = home.run("user", "passwd", "anna", "--own", "--password-stdin", stdin=f"x\n{new}")
    assert here.returncode == 2
    assert "--url" in here.stderr


@pytest.mark.spec("5.2", "5.3")
def test_tokens_are_listed_without_their_text_and_revoked(home: Home) -> None:
    token = home.told("token", "issue", "--user", "anna", "--ttl", "1d")["token"]
    listed = home.run("token", "list", "--json").stdout
    assert token not in listed
    assert json.loads(listed)["1"]["state"] == "valid"
    assert home.told("token", "revoke", "1")["state"] == "revoked"
    assert "revoked" in home.run("token", "list").stdout


@pytest.mark.spec("1.10")
def test_the_trail_is_listed_and_exported_whole(home: Home) -> None:
    home.told("user", "roles", "anna", "super_admin", "viewer")
    assert home.told("audit", "list", "--user", "anna") == {}
    listed = home.told("audit", "list", "--entity", "UserRole")
    assert {one["action"] for one in listed.values()} == {"create"}
    assert all(one["actor"].startswith("os:") and one["door"] == "cli" for one in listed.values())
    exported = [json.loads(line) for line in home.run("audit", "export").stdout.splitlines()]
    assert [one["id"] for one in exported] == list(range(1, len(exported) + 1))
    assert home.run("audit", "export", "-o", "trail.jsonl").returncode == 0
    assert len((home.path / "trail.jsonl").read_text().splitlines()) == len(exported)
    assert home.run("audit", "export", "-o", "trail.jsonl").returncode == 2
    assert home.run("audit", "list", "--action", "dance").returncode == 1
