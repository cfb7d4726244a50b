"""What the tutorial, README, definition page and how-to pages tell people to do, done."""

import json
import re
import socket
import ssl
import time
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from psycopg import sql
from sqlalchemy import make_url
from websockets.sync.client import ClientConnection, connect
from websockets.typing import Subprotocol

from tests.support.databases import MARIADB, POSTGRESQL, mariadb, postgresql
from tests.support.guides import (
    HOW_TO,
    PAGES,
    File,
    Shell,
    environment_of,
    follow,
    make_acme,
    prose,
    real_addresses,
    steps,
    unused_blocks,
)
from tests.support.nginx import nginx
from tests.support.paths import ROOT
from tests.support.ports import free_port
from tests.support.service import Service
from tests.support.waits import eventually

DOCUMENTS = ("docs/tutorial.md", "README.md", "docs/definition-format.md")
HOUR, READING = 3600.0, 180.0  # seconds; in the second all documents are followed


@pytest.fixture(scope="module")
def own_service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """A service in which nothing has happened yet."""
    person = tmp_path_factory.mktemp("first")
    service = Service(
        person / ".jobauto",
        HOME=str(person),
        JOBAUTO_TRUSTED_PROXIES="127.0.0.1",
        JOBAUTO_GRACE_SECONDS="2",
        LANG="C.UTF-8",
        TZ="UTC",
    )
    service.start()
    try:
        yield service
    finally:
        service.stop()


def await_an_hour_that_lasts() -> None:
    """Wait for the next hour where this one is nearly over.

    What readers make runs hourly: in the midst of the documents that job would be the last one.
    """
    left = HOUR - time.time() % HOUR
    if left < READING:
        time.sleep(left + 1)


def test_the_documents_do_what_they_say(own_service: Service) -> None:
    await_an_hour_that_lasts()
    real = real_addresses(own_service)
    with Shell(own_service.home.parent, environment_of(own_service)) as shell:
        for name in DOCUMENTS:
            for step in steps((ROOT / name).read_text()):
                follow(name, step, shell, real)


ENVIRONMENT = """
kind: company
slug: seen
name: Seen
---
kind: runtemplate
company: seen
app: Environment
name: first
success: {ChainRuntemplate: {runtemplate: seen/second}}
---
kind: runtemplate
company: seen
app: Environment
name: second
"""
TRACE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


def test_a_job_has_the_variables_that_the_page_lists(own_service: Service) -> None:
    page = (ROOT / "docs/environment.md").read_text()
    listed = dict(re.findall(r"^\| `([A-Z_]+)` \| ([^|]+) \|", page, re.MULTILINE))
    of_events = {name for name, who in listed.items() if who == "jobs that an event started"}
    twins = {name.replace("JOBAUTO_", "MULTIFLEXI_") for name in listed} - {"MULTIFLEXI_JOB_DIR"}
    expected = listed.keys() | twins | {"MULTIFLEXI_TMP"}

    definition = {"$schema": "https://example.org/application.json", "description": ""}
    definition |= {"name": "Environment", "executable": "env"}
    folder = own_service.home.parent
    (folder / "env.app.json").write_text(json.dumps({**definition, "environment": {}}))
    (folder / "env.yaml").write_text(ENVIRONMENT)
    files = str(folder / "env.app.json"), str(folder / "env.yaml")
    applied = own_service.jobauto("apply", *files, "--yes")
    assert applied.returncode == 0, applied.stderr
    rest = own_service.rest()
    rest.post(
        "/api/v1/job/", json={"runtemplate_id": "seen/first"}, headers={"traceparent": TRACE}
    ).raise_for_status()

    assert seen_by(own_service, "seen/first") == expected - of_events
    assert seen_by(own_service, "seen/second") == expected


def seen_by(service: Service, template: str) -> set[str]:
    """The names of the variables of a run template's only job."""

    def ended() -> str | None:
        jobs = service.rest().get("/api/v1/jobs.json", params={"runtemplate_id": template}).json()
        return next((key for key, job in jobs.items() if job["state"] == "succeeded"), None)

    output = service.rest().get(f"/api/v1/job/{eventually(ended, 60)}/output.txt").text
    return set(re.findall(r"^(\w+)=", output, re.MULTILINE))


WORDS = 400
NOT_RUN = {
    "nginx -t && systemctl reload nginx": "the test starts an nginx of its own",
    "createdb check_ledger && createdb check_prefect": "tests/integration/backup restores there",
    "systemctl disable --now jobauto-facade jobauto-services jobauto-prefect "
    "'jobauto-worker@*'": "needs systemd",
    "CRON_TZ=Europe/Prague": "a crontab",
    "vault kv put secret/acme/bank BANK_PIN=0815-4711": "the vault of the test has it",
    "systemctl enable --now podman.socket      # or install Docker": "the test starts Podman",
    "pip install --upgrade -c constraints.txt .": "needs a second release",
    "scp -p /etc/jobauto/database.env /etc/jobauto/jobauto.env node2:/etc/jobauto/": (
        "needs another machine"
    ),
    "systemctl enable --now jobauto-prefect jobauto-facade jobauto-services "
    "jobauto-worker@jobauto": "needs systemd",
    "export JOBAUTO_URL=https://jobauto.acme.example "
    "PREFECT_API_URL=https://prefect.acme.example/api": "needs another machine",
}
"""The blocks of how-to pages that nobody runs, by their first lines, and why."""
WITH_STAND_INS = {
    "mail-and-chat-on-failure",
    "secrets-from-vault",
    "run-in-a-container",
    "run-in-a-pod-with-helm",
    "sqlite-to-postgresql",
}
"""Pages that test_docs_with_stand_ins.py follows."""
WITH_MORE = {"behind-nginx", "start-on-a-database-row", "remove-it"} | WITH_STAND_INS
"""Pages with tests of their own."""
PREFECT_HOST = "prefect.acme.example"


def test_how_to_pages_are_short_and_all_their_blocks_are_run() -> None:
    index = (HOW_TO / "README.md").read_text()
    for name, page in PAGES.items():
        assert len(prose(page).split()) <= WORDS, name
        assert f"({name}.md)" in index
    unused = [first for page in PAGES.values() for first in unused_blocks(page)]
    assert sorted(unused) == sorted(NOT_RUN)


@pytest.fixture(scope="module")
def acme(own_service: Service) -> Service:
    """The service with the company and the run template that README makes."""
    make_acme(own_service)
    return own_service


@pytest.mark.parametrize("name", sorted(PAGES.keys() - WITH_MORE))
def test_a_how_to_page_does_what_it_says(acme: Service, name: str) -> None:
    with Shell(acme.home.parent, environment_of(acme)) as shell:
        for step in steps(PAGES[name]):
            follow(name, step, shell, real_addresses(acme))


def test_a_crontab_of_thirty_lines_is_converted_as_its_page_says(acme: Service) -> None:
    """Twenty-six commands of the kinds that crontabs have; four lines are no such commands."""
    page = steps(PAGES["from-a-crontab"])
    folder = acme.home.parent / "thirty"
    folder.mkdir()
    program = next(one for one in page if isinstance(one, File) and one.name.endswith(".py"))
    lines = [
        "# of the shop",
        "MAILTO=ops@acme.example",
        "CRON_TZ = America/New_York",
        'GREETING="good morning"',
        *(f'{n} 3 * * * test {n} -eq {n} && echo "$GREETING {n}"' for n in range(22)),
        "@hourly N=5 sh -c 'exit $N'",
        "*/5 8-17 * jan-mar 1-5 cd /tmp; pwd | tr / :",
        "0 0 1,15 * * date +\\%Y > /dev/null",
        "0 4 * * 7\t/bin/true",
    ]
    assert len(lines) == 30
    with Shell(folder, environment_of(acme)) as shell:
        shell.write(program)
        shell.write(File("crontab", "\n".join(lines)))
        assert shell.type(f"python3 {program.name} acme < crontab").strip() == ""
        assert "52 created" in shell.type("jobauto apply cron-jobs --yes")
        forecast = shell.type('jobauto forecast --template "acme/22 test" --limit 1')
        assert re.search(r"03:21.*America/New_York", forecast), forecast
        for name, said in (("22 test", "good morning 21"), ("24 cd", ":tmp")):
            assert said in shell.type(f'jobauto run "acme/{name}" --wait')
        assert "exit code 5" in shell.type('jobauto run "acme/23 sh" --wait')


def test_a_row_of_a_database_starts_a_job_as_its_page_says(acme: Service) -> None:
    name, mine = "start-on-a-database-row", f"jobauto_test_{uuid.uuid4().hex}"
    server, other = make_url(POSTGRESQL), make_url(MARIADB)
    real = {"webshop": mine, "jobauto_reader": f"{mine}_reader"}
    real |= {"127.0.0.1": str(server.host), "5432": str(server.port), "3306": str(other.port)}
    login = {"PGHOST": server.host, "PGPORT": server.port, "PGUSER": server.username}
    login |= {"PGPASSWORD": server.password}
    environment = {key: str(value) for key, value in login.items() if value is not None}
    client = {"host": other.host, "port": other.port, "user": other.username}
    client |= {"password": other.password or ""}
    my_cnf = acme.home.parent / ".my.cnf"
    my_cnf.write_text("\n".join(["[client]", *(f"{key}={client[key]}" for key in client)]))
    with (
        postgresql() as connection,
        mariadb(),
        Shell(acme.home.parent, environment_of(acme) | environment) as shell,
    ):
        try:
            for step in steps(PAGES[name]):
                follow(name, step, shell, real)
        finally:
            drop = "DROP DATABASE IF EXISTS {} WITH (FORCE)", "DROP ROLE IF EXISTS {}"
            for statement, what in zip(drop, (mine, f"{mine}_reader"), strict=True):
                connection.execute(sql.SQL(statement).format(sql.Identifier(what)))
            dropped = f"DROP DATABASE IF EXISTS {mine}; DROP USER IF EXISTS {mine}_reader"
            assert shell.type(f'mariadb --execute "{dropped}"').strip() == ""
            my_cnf.unlink()


def test_others_reach_it_through_nginx_as_its_page_says(acme: Service, tmp_path: Path) -> None:
    port, person = free_port(), acme.home.parent
    real = {"/etc/nginx": str(tmp_path), "listen 443": f"listen {port}"}
    for written, actual in real_addresses(acme).items():
        real[f".example {written.rpartition(':')[2]};"] = f".example {actual.rpartition(':')[2]};"
    (tmp_path / "conf.d").mkdir()
    hosts = ("jobauto.acme.example", PREFECT_HOST)
    curlrc = [f'connect-to = "{host}:443:127.0.0.1:{port}"' for host in hosts]
    (person / ".curlrc").write_text("\n".join([*curlrc, f'cacert = "{tmp_path}/jobauto.crt"']))
    own, *rest = steps(PAGES["behind-nginx"])
    with Shell(person, environment_of(acme)) as shell:
        follow("behind-nginx", own, shell, real)
        follow("behind-nginx", rest[0], shell, real)
        configuration = (tmp_path / "conf.d" / "jobauto.conf").read_text()
        with nginx(tmp_path, configuration, port):
            for step in rest[1:]:
                follow("behind-nginx", step, shell, real)
            with websocket_through(port, tmp_path / "jobauto.crt"):
                pass
    (person / ".curlrc").unlink()


def websocket_through(port: int, certificate: Path) -> ClientConnection:
    return connect(
        f"wss://{PREFECT_HOST}/api/events/out",
        sock=socket.create_connection(("127.0.0.1", port)),
        ssl=ssl.create_default_context(cafile=certificate),
        subprotocols=[Subprotocol("prefect")],
    )


def test_nothing_is_left_of_it_as_its_page_says(acme: Service) -> None:
    """The last test: it ends the service."""
    person = acme.home.parent
    *before, removal = steps(PAGES["remove-it"])
    with Shell(person, environment_of(acme)) as shell:
        for step in before:
            follow("remove-it", step, shell, {})
        acme.stop()
        follow("remove-it", removal, shell, {})
    assert acme.processes() == {}
    assert {path.name for path in person.glob(".*")} <= {".prefect"}
