"""Commands while a facade runs in their home: it answers them, at its socket, and nobody else."""

import contextlib
import getpass
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from jobauto_prefect.local_socket import NAME
from tests.support.homes import COMPANY, Served
from tests.support.waits import eventually

NOBODY = 65534
HEAVY = ("sqlalchemy", "fastapi", "prefect", "httpx", "jobauto_prefect.settings", "cryptography")


@pytest.fixture
def served(tmp_path: Path, prepared_home: Path) -> Iterator[Served]:
    shutil.copytree(prepared_home, tmp_path / "home")
    home = Served(tmp_path)
    yield home
    with contextlib.suppress(ProcessLookupError):
        home.end(signal.SIGKILL)


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory, prepared_home: Path) -> Iterator[Served]:
    """The same for tests that leave it as it is; one of them makes the company."""
    path = tmp_path_factory.mktemp("served")
    shutil.copytree(prepared_home, path / "home")
    home = Served(path)
    yield home
    home.end()


@contextlib.contextmanager
def raw(served: Served) -> Iterator[httpx.Client]:
    """A client at the socket that is no command."""
    folder = os.open(served.folder, os.O_RDONLY)
    transport = httpx.HTTPTransport(uds=f"/proc/self/fd/{folder}/{NAME}")
    with httpx.Client(transport=transport, base_url="http://localhost", timeout=60) as client:
        yield client
    os.close(folder)


def audited(served: Served) -> list[dict[str, Any]]:
    entries: dict[str, dict[str, Any]] = json.loads(served.run("audit", "list", "--json").stdout)
    return list(entries.values())


def test_the_service_of_the_home_does_what_a_command_asks_as_the_person_at_it(
    served: Served,
) -> None:
    made = served.run("company", "create", "acme", "name=Acme")
    listed = served.run("company", "list", "--json")

    assert made.returncode == 0, made.stderr
    assert json.loads(listed.stdout)["1"]["slug"] == "acme"
    eventually(lambda: served.has_asked("POST /api/v1/company/ 201"))
    (entry,) = [one for one in audited(served) if one["entity_type"] == "Company"]
    assert (entry["actor"], entry["door"]) == (f"os:{getpass.getuser()}", "cli")


def test_its_errors_and_exit_codes_are_those_of_a_command_alone(shared: Served) -> None:
    missing = shared.run("job", "show", "99", "--json")
    shared.write(rest_yaml=COMPANY)
    applied = shared.run("apply", "files", "--yes")
    again = shared.run("plan", "files")

    assert (missing.returncode, missing.stderr) == (1, "error: there is no job 99\n")
    assert (applied.returncode, again.returncode) == (0, 0)
    assert applied.stdout.endswith("1 created\n")


def test_a_command_loads_nothing_heavy(shared: Served) -> None:
    ran = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "jobauto_prefect.cli", "company", "list"],
        env=shared.environment,
        capture_output=True,
        text=True,
        check=True,
    )

    loaded = {line.rpartition("|")[2].strip() for line in ran.stderr.splitlines()}
    assert "jobauto_prefect.cli.connection.client" in loaded
    assert loaded.isdisjoint(HEAVY)


def test_what_a_killed_service_left_is_no_hindrance(served: Served) -> None:
    served.end(signal.SIGKILL)
    assert (served.folder / NAME).exists()

    alone = served.run("company", "create", "acme", "name=Acme")
    served.start()
    answered = served.run("company", "show", "acme")

    assert alone.returncode == 0, alone.stderr
    assert not served.has_asked("POST /api/v1/company/ 201")
    assert answered.returncode == 0
    eventually(lambda: served.has_asked("GET /api/v1/company/acme.json 200"))


def test_a_service_that_ends_takes_its_socket_with_it(served: Served) -> None:
    served.end()

    assert served.service.returncode in (0, -signal.SIGTERM)
    assert not (served.folder / NAME).exists()
    assert served.run("company", "list").returncode == 0


def test_credentials_that_are_given_count_at_the_socket_too(shared: Served) -> None:
    with raw(shared) as client:
        trusted = client.get("/api/v1/companies.json")
        bad_token = client.get("/api/v1/companies.json", headers={"Authorization": "Bearer x"})
        for_workers = client.post("/internal/v1/claims", json={})

    assert (trusted.status_code, bad_token.status_code) == (200, 401)
    assert for_workers.status_code == 403


def test_nobody_is_taken_for_the_person_at_the_command_line_at_the_port(shared: Served) -> None:
    port = shared.environment["JOBAUTO_API_PORT"]

    answer = httpx.get(f"http://127.0.0.1:{port}/api/v1/companies.json")

    assert answer.status_code == 401


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be somebody else")
def test_another_user_is_cut_off_even_where_the_files_are_open(served: Served) -> None:
    served.folder.chmod(0o777)
    (served.folder / NAME).chmod(0o666)
    before = len(audited(served))

    assert asked_as(0, served.folder) == b"HTTP/1.1 200"
    assert asked_as(NOBODY, served.folder) == b""
    assert f"user {NOBODY} was refused" in served.log.read_text()
    assert len(audited(served)) == before


def asked_as(user_id: int, folder: Path) -> bytes:
    """The beginning of what a process of that user is answered at the socket."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.chdir(folder)
            os.setgroups([])
            os.setgid(user_id)
            os.setuid(user_id)
            os.write(writing, _asked())
        finally:
            os._exit(0)
    os.close(writing)
    os.waitpid(child, 0)
    with os.fdopen(reading, "rb") as answered:
        return answered.read(12)


def _asked() -> bytes:
    with socket.socket(socket.AF_UNIX) as client:
        client.connect(NAME)
        with contextlib.suppress(ConnectionError, BrokenPipeError):
            client.sendall(b"GET /api/v1/companies.json HTTP/1.1\r\nHost: localhost\r\n\r\n")
            return client.recv(4096)
    return b""


def test_an_edit_sends_a_name_and_fields_and_fetches_no_list(served: Served) -> None:
    assert served.run("company", "create", "acme", "name=Acme").returncode == 0
    changed = served.run("company", "set", "acme", "email=it@acme.example", "--json")
    twice = served.run("company", "create", "acme", "name=Other")

    assert json.loads(changed.stdout)["email"] == "it@acme.example"
    assert (twice.returncode, "such a company already exists" in twice.stderr) == (1, True)
    eventually(lambda: served.has_asked("POST /api/v1/company/acme.json 201"))
    eventually(lambda: served.has_asked("POST /api/v1/company/ 412"))
    for collection in ("companies", "apps", "runtemplates", "topics"):
        assert not served.has_asked(f"GET /api/v1/{collection}.json 200")
