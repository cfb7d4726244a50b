"""Who may sign in, from the command line and over the network."""

import json
from pathlib import Path

import httpx
import pytest

from tests.support.records import ok
from tests.support.secrets import secret
from tests.support.service import EXAMPLES, Service

PASSWORD = secret("Grüße: 12 : Wölfe")


@pytest.fixture(scope="module")
def anna(service: Service) -> str:
    """The login of a user with a password, created from the command line."""
    created = service.jobauto(
        "user", "create", "anna", "--role", "super_admin", "--password-stdin",
        stdin=f"{PASSWORD}\n",
    )  # fmt: skip
    assert created.returncode == 0, created.stderr
    return "anna"


def test_a_user_created_on_the_command_line_signs_in_over_rest(service: Service, anna: str) -> None:
    credentials = {"username": anna, "password": PASSWORD}

    signed_in = ok(httpx.post(f"{service.url}/api/v1/login.json", json=credentials))
    headers = {"Authorization": f"Bearer {signed_in['token']}"}
    listed = httpx.get(f"{service.url}/api/v1/companies.json", headers=headers)
    assert "acme" in [company["slug"] for company in listed.json().values()]


def test_a_login_that_is_taken_is_refused(service: Service, anna: str) -> None:
    again = service.jobauto("user", "create", anna, "--password-stdin", stdin="another password")

    assert (again.returncode, again.stdout) == (1, "")
    assert again.stderr == "error: user anna already exists\n"


@pytest.mark.spec("5.2")
def test_a_token_opens_the_facade_to_the_command_line_elsewhere(
    service: Service, anna: str
) -> None:
    token = service.json("token", "issue", "--user", anna, "--ttl", "1h")
    elsewhere = {"JOBAUTO_HOME": "/nonexistent", "JOBAUTO_TOKEN": token["token"]}

    listed = service.jobauto(
        "company", "list", "--url", service.url, "--json", environment=elsewhere
    )
    planned = service.jobauto(
        "apply", str(EXAMPLES), "--dry-run", "--url", service.url, environment=elsewhere
    )
    ran = service.jobauto(
        "run", "acme/Load each minute", "--wait", "--url", service.url, environment=elsewhere
    )

    assert token["expires_at"]
    assert "acme" in [company["slug"] for company in json.loads(listed.stdout).values()]
    assert planned.stdout.endswith("8 unchanged\n"), planned.stderr
    assert ran.returncode == 0, ran.stderr


@pytest.mark.parametrize(
    ("token", "message"), [("", "JOBAUTO_TOKEN is not set"), ("wrong", "unknown, expired")]
)
def test_without_a_good_token_a_command_fails_in_one_line(
    service: Service, token: str, message: str
) -> None:
    ran = service.jobauto(
        "job", "list", "--url", service.url, "--json", environment={"JOBAUTO_TOKEN": token}
    )

    assert (ran.returncode, ran.stdout) == (1, "")
    assert message in ran.stderr
    assert ran.stderr.count("\n") == 1


def test_no_environment_or_argument_of_the_service_holds_the_workers_token(
    service: Service,
) -> None:
    token = (service.home / "worker.token").read_bytes().strip()

    processes = service.processes()

    assert len(processes) >= 4
    for pid in processes:
        for name in ("environ", "cmdline"):
            assert token not in Path(f"/proc/{pid}/{name}").read_bytes(), processes[pid]
    assert (service.home / "worker.token").stat().st_mode & 0o777 == 0o600
